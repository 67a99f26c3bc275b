//! All objects of a node, and their values.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::ops::{Range, RangeInclusive};

use super::array::Array;
use super::{Abort, Object, ObjectId, PdoMapping, id};

/// The reason why an object cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddError {
    /// The object already exists.
    Exists(ObjectId),
    /// The default does not fit type or range.
    Default(ObjectId, Abort),
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddError::Exists(id) => write!(f, "object {id} already exists"),
            AddError::Default(id, abort) => write!(f, "invalid default of object {id}, {abort}"),
        }
    }
}

impl core::error::Error for AddError {}

#[derive(Debug, Clone, PartialEq)]
enum ValueStorage {
    /// In [`Dictionary::fixed`].
    Fixed(Range<usize>),
    Variable(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    object: Object,
    place: ValueStorage,
}

/// All objects of a node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Dictionary {
    /// Objects with their own description. They have precedence over elements of arrays.
    entries: BTreeMap<ObjectId, Entry>,
    arrays: BTreeMap<u16, Array>,
    fixed: Vec<u8>,
}

impl Dictionary {
    /// A dictionary without objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an object with its default as value.
    ///
    /// # Errors
    /// It already exists, or its default does not fit its type and range.
    pub fn add(&mut self, id: ObjectId, object: Object) -> Result<(), AddError> {
        if self.object(id).is_ok() {
            return Err(AddError::Exists(id));
        }
        check(&object, &object.default).map_err(|abort| AddError::Default(id, abort))?;
        self.insert(id, object);
        Ok(())
    }

    fn insert(&mut self, id: ObjectId, object: Object) {
        let place = match object.data_type.fixed_len() {
            Some(len) => {
                let start = self.fixed.len();
                self.fixed.extend(&object.default);
                ValueStorage::Fixed(start..start + len)
            }
            None => ValueStorage::Variable(object.default.clone()),
        };
        self.entries.insert(id, Entry { object, place });
    }

    /// Adds the elements of an array, the sub-indices from 1 to `count`, with one description.
    ///
    /// # Errors
    /// An element already exists, or the default does not fit type and range.
    pub fn add_array(&mut self, index: u16, count: u8, element: Object) -> Result<(), AddError> {
        if element.mappable != PdoMapping::No {
            // Values of process data have fixed places.
            return (1..=count).try_for_each(|sub| self.add(id(index, sub), element.clone()));
        }
        if let Some(sub) = (1..=count).find(|sub| self.object(id(index, *sub)).is_ok()) {
            return Err(AddError::Exists(id(index, sub)));
        }
        check(&element, &element.default)
            .map_err(|abort| AddError::Default(id(index, 1), abort))?;
        self.arrays.insert(index, Array::new(count, element));
        Ok(())
    }

    /// The arrays: index, number of elements, and the description of each element without its own.
    pub fn arrays(&self) -> impl Iterator<Item = (u16, u8, &Object)> {
        self.arrays.iter().map(|(index, array)| (*index, array.count, &array.element))
    }

    /// Replaces the description of an object by one of the same length, and sets its default.
    ///
    /// # Errors
    /// The object does not exist, it has another length, or the default does not fit type and limits.
    pub fn describe(&mut self, id: ObjectId, object: Object) -> Result<(), Abort> {
        check(&object, &object.default)?;
        let there = self.object(id)?;
        if there.data_type.fixed_len() != object.data_type.fixed_len() {
            return Err(Abort::TYPE);
        }
        let (unchanged, default) = (*there == object, object.default.clone());
        match self.entries.get_mut(&id) {
            Some(entry) => entry.object = object,
            None if unchanged => {}
            None => self.insert(id, object),
        }
        let same = self.get(id) == Ok(&default[..]) && self.default_of(id) == Ok(&default[..]);
        if same { Ok(()) } else { self.set_default(id, &default) }
    }

    /// Every object, in order.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        let mut entries = self.entries.iter().map(|(id, entry)| (*id, &entry.object)).peekable();
        let elements = self.arrays.iter().flat_map(|(index, array)| {
            (1..=array.count).map(|sub| (id(*index, sub), &array.element))
        });
        let mut elements = elements.peekable();
        core::iter::from_fn(move || {
            let (Some((entry, _)), Some((element, _))) = (entries.peek(), elements.peek()) else {
                return entries.next().or_else(|| elements.next());
            };
            match entry.cmp(element) {
                Ordering::Less => entries.next(),
                Ordering::Greater => elements.next(),
                Ordering::Equal => {
                    elements.next();
                    entries.next()
                }
            }
        })
    }

    /// The description of an object.
    ///
    /// # Errors
    /// The object does not exist.
    pub fn object(&self, id: ObjectId) -> Result<&Object, Abort> {
        match self.entries.get(&id) {
            Some(entry) => Ok(&entry.object),
            None => self.array(id).map(|array| &array.element),
        }
    }

    /// The sub-indices of an index, in order.
    pub fn subs(&self, index: u16) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(move |sub| self.object(id(index, *sub)).is_ok())
    }

    /// Reads an object for a peer.
    ///
    /// # Errors
    /// The object does not exist, or is not readable.
    pub fn read(&self, id: ObjectId) -> Result<&[u8], Abort> {
        if self.object(id)?.access.reads() { self.get(id) } else { Err(Abort::WRITE_ONLY) }
    }

    /// Writes an object for a peer.
    ///
    /// # Errors
    /// The object does not exist, is not writable, or the value is invalid.
    pub fn write(&mut self, id: ObjectId, value: &[u8]) -> Result<(), Abort> {
        self.check_write(id, value.len())?;
        self.set(id, value)
    }

    /// Checks whether a peer can write a value of `len` octets to an object.
    ///
    /// # Errors
    /// The object does not exist, is not writable, or refuses the length.
    pub fn check_write(&self, id: ObjectId, len: usize) -> Result<(), Abort> {
        let object = self.object(id)?;
        if !object.access.writes() {
            return Err(Abort::READ_ONLY);
        }
        check_len(object, len)
    }

    /// Reads an object for the node itself.
    ///
    /// # Errors
    /// The object does not exist.
    pub fn get(&self, id: ObjectId) -> Result<&[u8], Abort> {
        match self.entries.get(&id) {
            Some(entry) => Ok(self.value(entry)),
            None => self.array(id).map(|array| array.get(id.sub)),
        }
    }

    /// Writes an object for the node itself, whatever the access of peers.
    ///
    /// # Errors
    /// The object does not exist, or the value does not fit its type and range.
    pub fn set(&mut self, id: ObjectId, value: &[u8]) -> Result<(), Abort> {
        check(self.object(id)?, value)?;
        let Dictionary { entries, arrays, fixed } = self;
        match entries.get_mut(&id).map(|entry| &mut entry.place) {
            Some(ValueStorage::Fixed(place)) => fixed[place.clone()].copy_from_slice(value),
            Some(ValueStorage::Variable(place)) => value.clone_into(place),
            None => {
                if let Some(array) = arrays.get_mut(&id.index) {
                    array.set(id.sub, value);
                }
            }
        }
        Ok(())
    }

    /// Sets the default of an object, and its value: from a device description or stored parameters.
    ///
    /// # Errors
    /// The object does not exist, or the value does not fit its type and range.
    pub fn set_default(&mut self, id: ObjectId, value: &[u8]) -> Result<(), Abort> {
        self.set(id, value)?;
        self.set_power_on(id, value)
    }

    /// The default of an object.
    ///
    /// # Errors
    /// The object does not exist.
    pub fn default_of(&self, id: ObjectId) -> Result<&[u8], Abort> {
        match self.entries.get(&id) {
            Some(entry) => Ok(&entry.object.default),
            None => self.array(id).map(|array| array.default_of(id.sub)),
        }
    }

    /// Makes the current values the defaults.
    pub(crate) fn keep(&mut self) {
        let Dictionary { entries, arrays, fixed } = self;
        for Entry { object, place } in entries.values_mut() {
            match place {
                ValueStorage::Fixed(place) => fixed[place.clone()].clone_into(&mut object.default),
                ValueStorage::Variable(value) => object.default.clone_from(value),
            }
        }
        arrays.values_mut().for_each(Array::keep);
    }

    /// Checks whether a value fits an object.
    ///
    /// # Errors
    /// It does not, or the object does not exist.
    pub fn check(&self, id: ObjectId, value: &[u8]) -> Result<(), Abort> {
        check(self.object(id)?, value)
    }

    /// Sets the value that an object has after the next reset that restores it.
    ///
    /// # Errors
    /// The object does not exist, or the value does not fit its type and range.
    pub fn set_power_on(&mut self, id: ObjectId, value: &[u8]) -> Result<(), Abort> {
        self.check(id, value)?;
        match self.entries.get_mut(&id) {
            Some(entry) => value.clone_into(&mut entry.object.default),
            None => {
                if let Some(array) = self.arrays.get_mut(&id.index) {
                    array.set_default(id.sub, value);
                }
            }
        }
        Ok(())
    }

    /// An unsigned number; 0 if the object does not exist or has more than 8 octets.
    pub fn number(&self, id: ObjectId) -> u64 {
        let value = self.get(id).unwrap_or_default();
        let mut octets = [0; 8];
        match octets.get_mut(..value.len()) {
            Some(low) => low.copy_from_slice(value),
            None => return 0,
        }
        u64::from_le_bytes(octets)
    }

    /// Sets an unsigned number.
    ///
    /// # Errors
    /// The object does not exist, or the number does not fit its type and range.
    pub fn set_number(&mut self, id: ObjectId, value: u64) -> Result<(), Abort> {
        let len = self.object(id)?.data_type.fixed_len().ok_or(Abort::TYPE)?;
        let octets = value.to_le_bytes();
        let (low, high) = octets.split_at(len.min(octets.len()));
        if high.iter().any(|octet| *octet != 0) {
            return Err(Abort::TOO_GREAT);
        }
        self.set(id, low)
    }

    /// Restores the defaults of the objects in a range of indices.
    pub fn restore(&mut self, indices: RangeInclusive<u16>) {
        let Dictionary { entries, arrays, fixed } = self;
        arrays.range_mut(indices.clone()).for_each(|(_, array)| array.restore());
        let ids = id(*indices.start(), 0)..=id(*indices.end(), u8::MAX);
        for (_, Entry { object, place }) in entries.range_mut(ids) {
            match place {
                ValueStorage::Fixed(place) => fixed[place.clone()].copy_from_slice(&object.default),
                ValueStorage::Variable(place) => place.clone_from(&object.default),
            }
        }
    }

    /// The range of a value of fixed length in [`Dictionary::memory`].
    ///
    /// # Errors
    /// The object does not exist, is the element of an array, or its length is not fixed.
    pub fn place(&self, id: ObjectId) -> Result<Range<usize>, Abort> {
        match self.entries.get(&id).map(|entry| &entry.place) {
            Some(ValueStorage::Fixed(place)) => Ok(place.clone()),
            Some(ValueStorage::Variable(_)) => Err(Abort::NOT_MAPPABLE),
            None => self.array(id).and(Err(Abort::NOT_MAPPABLE)),
        }
    }

    /// All values of fixed length.
    pub fn memory(&self) -> &[u8] {
        &self.fixed
    }

    pub(crate) fn memory_mut(&mut self) -> &mut [u8] {
        &mut self.fixed
    }

    /// The array of an element.
    fn array(&self, ObjectId { index, sub }: ObjectId) -> Result<&Array, Abort> {
        match self.arrays.get(&index) {
            Some(array) if array.has(sub) => Ok(array),
            Some(_) => Err(Abort::NO_SUB_INDEX),
            None => {
                let mut entries = self.entries.range(id(index, 0)..=id(index, u8::MAX));
                Err(entries.next().map_or(Abort::NO_OBJECT, |_| Abort::NO_SUB_INDEX))
            }
        }
    }

    fn value<'a>(&'a self, entry: &'a Entry) -> &'a [u8] {
        match &entry.place {
            ValueStorage::Fixed(place) => &self.fixed[place.clone()],
            ValueStorage::Variable(value) => value,
        }
    }
}

/// Whether a length fits an object.
fn check_len(object: &Object, len: usize) -> Result<(), Abort> {
    match object.data_type.fixed_len() {
        Some(fixed) if len < fixed => Err(Abort::TOO_SHORT),
        _ if len > object.data_type.max_len() => Err(Abort::TOO_LONG),
        _ => Ok(()),
    }
}

/// Whether a value fits an object.
fn check(object: &Object, value: &[u8]) -> Result<(), Abort> {
    check_len(object, value.len())?;
    object.limits.as_ref().map_or(Ok(()), |limits| limits.check(object.data_type, value))
}

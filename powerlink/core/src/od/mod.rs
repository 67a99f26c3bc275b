//! The object dictionary: all parameters of a node, and its process data.
//!
//! Values of fixed length are consecutive in one buffer. A PDO is copied by offsets that are computed once,
//! when its mapping is activated.

mod object;
pub mod profile;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Range, RangeInclusive};

pub use object::{Access, DataType, Limits, Mappable, Object, ObjectId, id};
pub use onbeat_wire::powerlink::Abort;

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
    entries: BTreeMap<ObjectId, Entry>,
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
        if self.entries.contains_key(&id) {
            return Err(AddError::Exists(id));
        }
        check(&object, &object.default).map_err(|abort| AddError::Default(id, abort))?;
        let place = match object.data_type.fixed_len() {
            Some(len) => {
                let start = self.fixed.len();
                self.fixed.extend(&object.default);
                ValueStorage::Fixed(start..start + len)
            }
            None => ValueStorage::Variable(object.default.clone()),
        };
        self.entries.insert(id, Entry { object, place });
        Ok(())
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
        let default = object.default.clone();
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.object = object;
        }
        self.set(id, &default)
    }

    /// Every object, in order.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.entries.iter().map(|(id, entry)| (*id, &entry.object))
    }

    /// The description of an object.
    ///
    /// # Errors
    /// The object does not exist.
    pub fn object(&self, id: ObjectId) -> Result<&Object, Abort> {
        self.entry(id).map(|entry| &entry.object)
    }

    /// The sub-indices of an index, in order.
    pub fn subs(&self, index: u16) -> impl Iterator<Item = u8> + '_ {
        self.entries.range(id(index, 0)..=id(index, u8::MAX)).map(|(id, _)| id.sub)
    }

    /// Reads an object for a peer.
    ///
    /// # Errors
    /// The object does not exist, or is not readable.
    pub fn read(&self, id: ObjectId) -> Result<&[u8], Abort> {
        let entry = self.entry(id)?;
        if entry.object.access.reads() { Ok(self.value(entry)) } else { Err(Abort::WRITE_ONLY) }
    }

    /// Writes an object for a peer.
    ///
    /// # Errors
    /// The object does not exist, is not writable, or refuses the value.
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
        self.entry(id).map(|entry| self.value(entry))
    }

    /// Writes an object for the node itself, whatever the access of peers.
    ///
    /// # Errors
    /// The object does not exist, or the value does not fit its type and range.
    pub fn set(&mut self, id: ObjectId, value: &[u8]) -> Result<(), Abort> {
        let Dictionary { entries, fixed } = self;
        let entry = match entries.get_mut(&id) {
            Some(entry) => entry,
            None => return Err(self.missing(id)),
        };
        check(&entry.object, value)?;
        match &mut entry.place {
            ValueStorage::Fixed(place) => fixed[place.clone()].copy_from_slice(value),
            ValueStorage::Variable(place) => {
                place.clear();
                place.extend_from_slice(value);
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
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.object.default = value.to_vec();
        }
        Ok(())
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
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.object.default = value.to_vec();
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
        let Dictionary { entries, fixed } = self;
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
    /// The object does not exist, or its length is not fixed.
    pub fn place(&self, id: ObjectId) -> Result<Range<usize>, Abort> {
        match &self.entry(id)?.place {
            ValueStorage::Fixed(place) => Ok(place.clone()),
            ValueStorage::Variable(_) => Err(Abort::NOT_MAPPABLE),
        }
    }

    /// All values of fixed length.
    pub fn memory(&self) -> &[u8] {
        &self.fixed
    }

    pub(crate) fn memory_mut(&mut self) -> &mut [u8] {
        &mut self.fixed
    }

    fn entry(&self, id: ObjectId) -> Result<&Entry, Abort> {
        self.entries.get(&id).ok_or_else(|| self.missing(id))
    }

    fn missing(&self, id: ObjectId) -> Abort {
        match self.subs(id.index).next() {
            Some(_) => Abort::NO_SUB_INDEX,
            None => Abort::NO_OBJECT,
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const SPEED: ObjectId = id(0x6040, 1);
    const NAME: ObjectId = id(0x1008, 0);

    fn dictionary() -> Dictionary {
        let mut od = Dictionary::new();
        let speed = Object::unsigned(2, Access::ReadWrite, 100).within(10..=3000);
        od.add(SPEED, speed).unwrap();
        let name = Object::new(DataType::VisibleString(8), Access::Constant, b"drive".to_vec());
        od.add(NAME, name).unwrap();
        od.add(id(0x6041, 0), Object::unsigned(1, Access::WriteOnly, 7)).unwrap();
        od
    }

    #[test]
    fn access_is_refused_with_the_reason() {
        let mut od = dictionary();
        for (id, value, abort) in [
            (id(0x6042, 0), &[0][..], Abort::NO_OBJECT),
            (id(0x6040, 0), &[0], Abort::NO_SUB_INDEX),
            (NAME, b"x", Abort::READ_ONLY),
            (SPEED, &[1], Abort::TOO_SHORT),
            (SPEED, &[1, 0, 0], Abort::TOO_LONG),
            (SPEED, &[9, 0], Abort::TOO_SMALL),
            (SPEED, &[0xb9, 0x0b], Abort::TOO_GREAT),
        ] {
            assert_eq!(od.write(id, value), Err(abort), "{id}");
        }
        assert_eq!(od.read(id(0x6041, 0)), Err(Abort::WRITE_ONLY));
        assert_eq!(od.number(SPEED), 100, "nothing was written");
        assert_eq!(od.set(NAME, b"far too long"), Err(Abort::TOO_LONG));
        assert_eq!(od.set_number(SPEED, 0x1_0000), Err(Abort::TOO_GREAT));
        assert_eq!(od.set_number(NAME, 1), Err(Abort::TYPE));
        assert_eq!(od.place(NAME), Err(Abort::NOT_MAPPABLE));
    }

    #[test]
    fn an_object_is_added_once_and_with_a_default_that_fits() {
        let mut od = dictionary();
        let object = Object::unsigned(1, Access::ReadOnly, 0);
        assert_eq!(od.add(SPEED, object.clone()), Err(AddError::Exists(SPEED)));
        let bad = id(0x7000, 0);
        let refused = AddError::Default(bad, Abort::TOO_SMALL);
        assert_eq!(od.add(bad, object.within(1..=2)), Err(refused));
        let short = Object::new(DataType::Real(4), Access::ReadOnly, vec![0; 3]);
        assert_eq!(od.add(bad, short), Err(AddError::Default(bad, Abort::TOO_SHORT)));
    }

    #[test]
    fn a_reset_restores_its_range() {
        let mut od = dictionary();
        od.set_number(SPEED, 2000).unwrap();
        od.set(NAME, b"other").unwrap();
        od.restore(0x1000..=0x1fff);
        assert_eq!((od.get(NAME), od.number(SPEED)), (Ok(&b"drive"[..]), 2000));
        od.restore(0x1000..=0xffff);
        assert_eq!(od.number(SPEED), 100);
    }

    #[test]
    fn sub_indices_of_an_index() {
        let od = dictionary();
        assert!(od.subs(0x6040).eq([1]));
        assert_eq!(od.subs(0x1234).count(), 0);
    }

    #[test]
    fn limits_are_those_of_the_type() {
        use Limits::{Real, Signed};
        let real = |value: f32| value.to_le_bytes().to_vec();
        let cases = [
            (DataType::Integer(2), Signed(-5..=5), vec![0xfb, 0xff], Ok(())),
            (DataType::Integer(2), Signed(-5..=5), vec![0xfa, 0xff], Err(Abort::TOO_SMALL)),
            (DataType::Integer(3), Signed(-5..=5), vec![6, 0, 0], Err(Abort::TOO_GREAT)),
            (DataType::Integer(8), Signed(-5..=5), vec![0xff; 8], Ok(())),
            (DataType::Real(4), Real(-0.5..=0.5), real(0.5), Ok(())),
            (DataType::Real(4), Real(-0.5..=0.5), real(-0.75), Err(Abort::TOO_SMALL)),
            (DataType::Real(4), Real(-0.5..=0.5), real(f32::NAN), Err(Abort::TOO_GREAT)),
            (
                DataType::Real(8),
                Real(0.0..=1.0),
                2.0_f64.to_le_bytes().to_vec(),
                Err(Abort::TOO_GREAT),
            ),
        ];
        for (data_type, limits, value, expected) in cases {
            let default = vec![0; value.len()];
            let object = Object::new(data_type, Access::ReadWrite, default);
            let mut od = Dictionary::new();
            od.add(SPEED, Object { limits: Some(limits), ..object }).unwrap();
            assert_eq!(od.write(SPEED, &value), expected, "{data_type:?} {value:?}");
        }
    }

    #[test]
    fn an_object_is_described_again() {
        let mut od = dictionary();
        od.set_number(SPEED, 200).unwrap();
        let slow = Object::unsigned(2, Access::ReadOnly, 5).within(0..=9);
        assert_eq!(od.describe(SPEED, slow.clone()), Ok(()));
        assert_eq!((od.number(SPEED), od.write(SPEED, &[1, 0])), (5, Err(Abort::READ_ONLY)));
        let long = Object::unsigned(4, Access::ReadOnly, 5);
        assert_eq!(od.describe(SPEED, long), Err(Abort::TYPE));
        assert_eq!(od.describe(SPEED, slow.clone().within(6..=9)), Err(Abort::TOO_SMALL));
        assert_eq!(od.describe(id(0x7000, 0), slow), Err(Abort::NO_OBJECT));
        assert_eq!(od.objects().count(), 3);
    }

    proptest! {
        /// Adjacent values do not overlap.
        #[test]
        fn written_values_are_read_back(writes in prop::collection::vec((0..6u8, any::<u64>()), 0..40)) {
            let lens = [1, 2, 4, 8, 1, 4];
            let mut od = Dictionary::new();
            for (sub, len) in (0..).zip(lens) {
                od.add(id(0x2000, sub), Object::unsigned(len, Access::ReadWrite, 0)).unwrap();
            }
            let mut expected = [0u64; 6];
            for (sub, value) in writes {
                let value = value.to_le_bytes();
                let value = &value[..usize::from(lens[usize::from(sub)])];
                od.write(id(0x2000, sub), value).unwrap();
                let mut octets = [0; 8];
                octets[..value.len()].copy_from_slice(value);
                expected[usize::from(sub)] = u64::from_le_bytes(octets);
            }
            for (sub, value) in (0..).zip(expected) {
                prop_assert_eq!(od.number(id(0x2000, sub)), value);
            }
        }
    }
}

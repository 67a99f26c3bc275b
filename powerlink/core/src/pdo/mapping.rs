//! Mappings: the position of each object in a payload (0x16xx, 0x1Axx).

use alloc::vec::Vec;
use core::ops::Range;

use onbeat_wire::powerlink::{MAX_PAYLOAD, PdoVersion};

use super::bits;
use crate::od::{Abort, Dictionary, ObjectId, PdoMapping, id, profile};

/// The direction of a PDO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// This node receives it.
    Receive,
    /// This node sends it.
    Transmit,
}

/// An entry of a mapping in the dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MappingEntry {
    /// The object.
    pub object: ObjectId,
    /// Its first bit in the payload.
    pub offset: u16,
    /// Its bits.
    pub len: u16,
}

impl MappingEntry {
    /// Decodes an entry.
    pub const fn from_number(number: u64) -> Self {
        let [low, high, sub, _, offset_low, offset_high, len_low, len_high] = number.to_le_bytes();
        MappingEntry {
            object: id(u16::from_le_bytes([low, high]), sub),
            offset: u16::from_le_bytes([offset_low, offset_high]),
            len: u16::from_le_bytes([len_low, len_high]),
        }
    }

    /// Encodes the entry.
    pub const fn number(self) -> u64 {
        let [low, high] = self.object.index.to_le_bytes();
        let ([o0, o1], [l0, l1]) = (self.offset.to_le_bytes(), self.len.to_le_bytes());
        u64::from_le_bytes([low, high, self.object.sub, 0, o0, o1, l0, l1])
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct BitCopy {
    /// Bits of the payload.
    payload: Range<usize>,
    /// First bit in the dictionary's memory.
    memory: usize,
}

/// A resolved mapping: a payload is copied without an object look-up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Channel {
    copies: Vec<BitCopy>,
    len: usize,
    /// Version of the mapping.
    pub version: PdoVersion,
}

impl Channel {
    /// Resolves the mapping at an index.
    ///
    /// # Errors
    /// An object does not exist, may not be mapped to this PDO, or has another length; or the payload exceeds
    /// `limit` octets.
    pub fn new(
        od: &Dictionary,
        mapping: u16,
        version: PdoVersion,
        direction: Direction,
        limit: usize,
    ) -> Result<Self, Abort> {
        Self::with_entries(od, mapping, od.number(id(mapping, 0)), direction, limit)
            .map(|channel| Channel { version, ..channel })
    }

    fn with_entries(
        od: &Dictionary,
        mapping: u16,
        entries: u64,
        direction: Direction,
        limit: usize,
    ) -> Result<Self, Abort> {
        let mut channel = Channel::default();
        for sub in 1..=entries.min(profile::MAX_MAPPED.into()) {
            let entry = MappingEntry::from_number(od.number(id(mapping, sub as u8)));
            let object = od.object(entry.object)?;
            let mappable = match direction {
                Direction::Receive => PdoMapping::Receive,
                Direction::Transmit => PdoMapping::Transmit,
            };
            if !object.mappable.allows(mappable) {
                return Err(Abort::NOT_MAPPABLE);
            }
            if object.data_type.bits() != Some(entry.len) {
                return Err(Abort::INCOMPATIBLE);
            }
            let start = usize::from(entry.offset);
            let payload = start..start + usize::from(entry.len);
            channel.len = channel.len.max(payload.end.div_ceil(8));
            channel.copies.push(BitCopy { payload, memory: od.place(entry.object)?.start * 8 });
        }
        if channel.len > limit.min(MAX_PAYLOAD) {
            return Err(Abort::PDO_TOO_LONG);
        }
        Ok(channel)
    }

    /// Octets of the payload.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is mapped.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a payload is readable: its main version matches, and it is long enough.
    pub fn reads(&self, version: PdoVersion, payload: &[u8]) -> bool {
        version.main() == self.version.main() && payload.len() >= self.len
    }

    /// Copies a readable payload to its objects.
    pub(crate) fn receive(&self, payload: &[u8], od: &mut Dictionary) {
        debug_assert!(payload.len() >= self.len, "the caller checks `reads`");
        let memory = od.memory_mut();
        for BitCopy { payload: from, memory: to } in &self.copies {
            bits::copy(payload, from.clone(), memory, *to);
        }
    }

    /// Copies objects to a payload of the mapping's length.
    pub(crate) fn transmit(&self, od: &Dictionary, payload: &mut Vec<u8>) {
        payload.clear();
        payload.resize(self.len, 0);
        for BitCopy { payload: to, memory: from } in &self.copies {
            bits::copy(od.memory(), *from..*from + to.len(), payload, to.start);
        }
    }
}

/// Checks a peer's write to an object of a mapping; other objects pass. An entry can change while the mapping
/// has none in use, and all entries are activated at once.
///
/// # Errors
/// The mapping is in use, or is invalid with these entries.
pub fn check_write(od: &Dictionary, object: ObjectId, value: &[u8]) -> Result<(), Abort> {
    check_mapping(od, object, value, od.number(profile::PRES_LIMIT) as usize)
}

/// The same for a node whose sent payloads have up to `transmit_limit` octets.
///
/// # Errors
/// As [`check_write`].
pub fn check_mapping(
    od: &Dictionary,
    object: ObjectId,
    value: &[u8],
    transmit_limit: usize,
) -> Result<(), Abort> {
    let direction = match object.index & 0xff00 {
        profile::RPDO_MAPPING => Direction::Receive,
        profile::TPDO_MAPPING => Direction::Transmit,
        _ => return Ok(()),
    };
    let in_use = od.number(id(object.index, 0)) != 0;
    let limit = match direction {
        Direction::Receive => MAX_PAYLOAD,
        Direction::Transmit => transmit_limit,
    };
    match (object.sub, value) {
        (0, [entries]) => {
            Channel::with_entries(od, object.index, (*entries).into(), direction, limit).map(drop)
        }
        (0, _) => Ok(()),
        _ if in_use => Err(Abort::STATE),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::od::{Access, DataType, Object};
    use alloc::vec;

    const OUTPUT: ObjectId = id(0x6200, 1);
    const INPUT: ObjectId = id(0x6000, 1);
    const WORD: ObjectId = id(0x6001, 0);

    fn dictionary() -> Dictionary {
        let mut od = Dictionary::new();
        for mapping in [0x1600, 0x1a00] {
            for sub in 0..=4 {
                let len = if sub == 0 { 1 } else { 8 };
                od.add(id(mapping, sub), Object::unsigned(len, Access::ReadWrite, 0)).unwrap();
            }
        }
        od.add(profile::PRES_LIMIT, Object::unsigned(2, Access::ReadWrite, 4)).unwrap();
        let bit = Object::new(DataType::Boolean, Access::ReadWrite, vec![0]);
        od.add(OUTPUT, bit.clone().mapped(PdoMapping::Receive)).unwrap();
        od.add(INPUT, bit.mapped(PdoMapping::Transmit)).unwrap();
        let word = Object::unsigned(2, Access::ReadOnly, 0x1234).mapped(PdoMapping::Transmit);
        od.add(WORD, word).unwrap();
        od
    }

    fn write(od: &mut Dictionary, object: ObjectId, value: u64) -> Result<(), Abort> {
        let octets = value.to_le_bytes();
        let value = &octets[..od.object(object)?.data_type.max_len()];
        check_write(od, object, value)?;
        od.write(object, value)
    }

    fn entry(object: ObjectId, offset: u16, len: u16) -> u64 {
        MappingEntry { object, offset, len }.number()
    }

    #[test]
    fn an_entry_has_the_encoding_of_the_specification() {
        let mapped = MappingEntry { object: id(0xa040, 1), offset: 0, len: 8 };
        assert_eq!(mapped.number(), 0x0008_0000_0001_a040);
        assert_eq!(MappingEntry::from_number(0x0008_0000_0001_a040), mapped);
    }

    #[test]
    fn a_mapping_is_checked_as_a_whole() {
        let mut od = dictionary();
        for (object, offset, len, abort) in [
            (id(0x7000, 0), 0, 8, Abort::NO_OBJECT),
            (OUTPUT, 0, 1, Abort::NOT_MAPPABLE),
            (id(0x1a00, 1), 0, 64, Abort::NOT_MAPPABLE),
            (WORD, 0, 8, Abort::INCOMPATIBLE),
            (WORD, 24, 16, Abort::PDO_TOO_LONG),
        ] {
            write(&mut od, id(0x1a00, 1), entry(object, offset, len)).unwrap();
            assert_eq!(write(&mut od, id(0x1a00, 0), 1), Err(abort), "{object}");
            assert_eq!(od.number(id(0x1a00, 0)), 0, "not in use");
        }
        write(&mut od, id(0x1a00, 1), entry(WORD, 16, 16)).unwrap();
        write(&mut od, id(0x1a00, 0), 1).unwrap();
        assert_eq!(write(&mut od, id(0x1a00, 1), 0), Err(Abort::STATE));
        write(&mut od, id(0x1a00, 0), 0).unwrap();
        write(&mut od, id(0x1a00, 1), 0).unwrap();
    }

    #[test]
    fn objects_are_copied_to_their_bits_and_back() {
        let mut od = dictionary();
        for (sub, number) in [(1, entry(WORD, 8, 16)), (2, entry(INPUT, 3, 1))] {
            write(&mut od, id(0x1a00, sub), number).unwrap();
        }
        write(&mut od, id(0x1a00, 0), 2).unwrap();
        od.set(INPUT, &[1]).unwrap();
        let version = PdoVersion(0x12);
        let channel = Channel::new(&od, 0x1a00, version, Direction::Transmit, 4).unwrap();
        let mut payload = vec![0xff; 9];
        channel.transmit(&od, &mut payload);
        assert_eq!(payload, [0x08, 0x34, 0x12]);

        write(&mut od, id(0x1600, 1), entry(OUTPUT, 10, 1)).unwrap();
        write(&mut od, id(0x1600, 0), 1).unwrap();
        let channel = Channel::new(&od, 0x1600, version, Direction::Receive, 4).unwrap();
        assert!(channel.reads(PdoVersion(0x1f), &[0; 2]));
        assert!(!channel.reads(PdoVersion(0x22), &[0; 2]), "another main version");
        assert!(!channel.reads(version, &[0; 1]), "too short");
        channel.receive(&[0, 0x04, 0], &mut od);
        assert_eq!(od.get(OUTPUT), Ok(&[1][..]));
    }
}

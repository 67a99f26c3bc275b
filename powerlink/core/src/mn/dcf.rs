//! Concise DCF: the configuration of a node as a list of objects and values (0x1F22).

use alloc::vec::Vec;

use crate::od::{ObjectId, id, profile};

/// Restores default parameters; optional for a node.
pub(super) const RESTORE: ObjectId = id(profile::RESTORE, 1);
/// Stores parameters; optional for a node.
pub(super) const STORE: ObjectId = id(profile::STORE, 1);

/// Octets of an entry before its value: index, sub-index and length.
const ENTRY_HEADER: usize = 7;

/// Whether a controlled node may lack an object of the communication profile (category O or conditional in EPSG
/// DS 301): it then runs without this part of its configuration. Mappings and their parameters are conditional
/// too, but process data depends on them.
pub const fn is_optional(object: ObjectId) -> bool {
    match object.index {
        0x1000 | 0x1001 | 0x1006 | 0x1018 | 0x1020 | 0x1030 | 0x1300 => false,
        0x1400..=0x1bff | 0x1c0b | 0x1c0f | 0x1c14 => false,
        0x1f82 | 0x1f83 | 0x1f8c | 0x1f93 | 0x1f99 => false,
        // The multiplexed cycle is mandatory, but each poll states its slot (MS) as well.
        0x1f98 => !matches!(object.sub, 1 | 2 | 4 | 5 | 8),
        0x1000..=0x1fff => true,
        _ => false,
    }
}

/// Parses the entries: a count, then index, sub-index, length and value of each. Truncated entries at the end
/// are omitted.
pub fn entries(octets: &[u8]) -> impl Iterator<Item = (ObjectId, &[u8])> {
    let (count, mut rest) = match octets.split_first_chunk() {
        Some((count, rest)) => (u32::from_le_bytes(*count), rest),
        None => (0, octets),
    };
    (0..count).map_while(move |_| {
        let (entry, behind) = split_entry(rest)?;
        rest = behind;
        Some(entry)
    })
}

/// An object and its value.
type Entry<'a> = (ObjectId, &'a [u8]);

/// Splits the first entry off; `None`: it is truncated.
pub(crate) fn split_entry(octets: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let ([low, high, sub, len @ ..], behind) = octets.split_first_chunk::<ENTRY_HEADER>()?;
    let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
    let (value, behind) = behind.split_at_checked(len)?;
    Some(((id(u16::from_le_bytes([*low, *high]), *sub), value), behind))
}

/// Whether octets are a complete concise DCF: the number of entries is its count, none is truncated, and nothing follows them.
pub fn is_concise(octets: &[u8]) -> bool {
    let Some((count, rest)) = octets.split_first_chunk() else { return false };
    let lengths = entries(octets).map(|(_, value)| ENTRY_HEADER + value.len());
    let (found, len) = lengths.fold((0, 0), |(found, sum), len| (found + 1, sum + len));
    u32::from_le_bytes(*count) == found && len == rest.len()
}

/// Writes entries in the format that [`entries`] parses.
pub fn concise<'a>(entries: impl IntoIterator<Item = (ObjectId, &'a [u8])>) -> Vec<u8> {
    let (mut octets, mut count) = (Vec::from([0; 4]), 0_u32);
    for (object, value) in entries {
        count += 1;
        octets.extend(object.index.to_le_bytes());
        octets.push(object.sub);
        octets.extend((value.len() as u32).to_le_bytes());
        octets.extend(value);
    }
    octets[..4].copy_from_slice(&count.to_le_bytes());
    octets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_a_node_needs_are_not_optional() {
        for (index, sub) in [(0x1c0c, 3), (0x1c0e, 3), (0x1c13, 0), (0x1f8d, 1), (0x1f81, 1)] {
            assert!(is_optional(id(index, sub)), "{index:04x}");
        }
        for (sub, optional) in [(4, false), (5, false), (7, true), (8, false), (9, true)] {
            assert_eq!(is_optional(id(0x1f98, sub)), optional, "1F98/{sub}");
        }
        for object in [
            profile::CYCLE_LENGTH_US,
            profile::CONFIGURATION_DATE,
            profile::SOC_TOLERANCE_NS,
            id(profile::LOSS_OF_SOC, 3),
            id(profile::RPDO_MAPPING, 0),
            id(0x6000, 1),
        ] {
            assert!(!is_optional(object), "{object}");
        }
    }

    #[test]
    fn entries_end_with_their_number_or_their_octets() {
        let mut octets = Vec::from(2u32.to_le_bytes());
        octets.extend([0x06, 0x10, 0, 4, 0, 0, 0, 0x50, 0xc3, 0, 0]);
        octets.extend([0x00, 0x16, 1, 0, 0, 0, 0]);
        let all = [(id(0x1006, 0), &[0x50, 0xc3, 0, 0][..]), (id(0x1600, 1), &[])];
        assert_eq!(entries(&octets).collect::<Vec<_>>(), all);
        assert!(is_concise(&octets) && is_concise(&[0; 4]));
        assert!((0..octets.len()).all(|len| !is_concise(&octets[..len])));
        assert!(!is_concise(&[&octets[..], &[0]].concat()));
        for len in 0..octets.len() {
            let whole = usize::from(len >= 15);
            assert_eq!(entries(&octets[..len]).collect::<Vec<_>>(), all[..whole], "{len}");
        }
        octets[0] = 1;
        assert_eq!(entries(&octets).count(), 1);
        octets[0] = 9;
        assert_eq!(entries(&octets).count(), 2);
    }
}

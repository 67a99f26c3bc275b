//! Concise DCF: the configuration of a node as a list of objects and values (0x1F22).

use alloc::vec::Vec;

use crate::od::{ObjectId, id, profile};

/// Restores default parameters; optional for a node.
pub(super) const RESTORE: ObjectId = id(profile::RESTORE, 1);
/// Stores parameters; optional for a node.
pub(super) const STORE: ObjectId = id(profile::STORE, 1);

/// Parses the entries: a count, then index, sub-index, length and value of each. Truncated entries at the end
/// are omitted.
pub fn entries(octets: &[u8]) -> impl Iterator<Item = (ObjectId, &[u8])> {
    let (count, mut rest) = match octets.split_first_chunk() {
        Some((count, rest)) => (u32::from_le_bytes(*count), rest),
        None => (0, octets),
    };
    (0..count).map_while(move |_| {
        let ([low, high, sub, len @ ..], behind) = rest.split_first_chunk::<7>()?;
        let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
        let value = behind.get(..len)?;
        rest = &behind[len..];
        Some((id(u16::from_le_bytes([*low, *high]), *sub), value))
    })
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
    fn entries_end_with_their_number_or_their_octets() {
        let mut octets = Vec::from(2u32.to_le_bytes());
        octets.extend([0x06, 0x10, 0, 4, 0, 0, 0, 0x50, 0xc3, 0, 0]);
        octets.extend([0x00, 0x16, 1, 0, 0, 0, 0]);
        let all = [(id(0x1006, 0), &[0x50, 0xc3, 0, 0][..]), (id(0x1600, 1), &[])];
        assert_eq!(entries(&octets).collect::<Vec<_>>(), all);
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

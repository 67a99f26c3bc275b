//! Members of Mask-and-match identification with the same masks.

use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};
use core::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};
use onbeat_wire::MacAddress;

use super::Fields;
use super::masked;
use super::shape::{MemberRef, PackedMember};
use crate::spec::MaskAndMatch;

/// Members with the same masks, indexed by a hash over the masked octets.
#[derive(Debug, Clone)]
pub(super) struct MaskGroup {
    bits: u32,
    destination: MacAddress,
    source: MacAddress,
    msdu: Vec<u8>,
    hasher: DefaultHashBuilder,
    members: HashTable<(Values, PackedMember)>,
}

/// Required values of the masked octets.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Values {
    destination: MacAddress,
    source: MacAddress,
    msdu: Vec<u8>,
}

impl Values {
    fn of(mask: &MaskAndMatch) -> Self {
        Self {
            destination: mask.destination_match,
            source: mask.source_match,
            msdu: mask.msdu_match.clone(),
        }
    }
}

impl MaskGroup {
    pub(super) fn new(mask: &MaskAndMatch) -> Self {
        Self {
            bits: bits(mask),
            destination: mask.destination_mask,
            source: mask.source_mask,
            msdu: mask.msdu_mask.clone(),
            hasher: DefaultHashBuilder::default(),
            members: HashTable::new(),
        }
    }

    /// Compares the precedence of this group with that of `mask`.
    pub(super) fn order(&self, mask: &MaskAndMatch) -> Ordering {
        let own = Reverse((self.bits, self.destination, self.source, self.msdu.as_slice()));
        let (destination, source) = (mask.destination_mask, mask.source_mask);
        own.cmp(&Reverse((bits(mask), destination, source, mask.msdu_mask.as_slice())))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn insert(&mut self, mask: &MaskAndMatch, at: MemberRef) -> Result<(), MemberRef> {
        let values = Values::of(mask);
        let hash = self.hash(values.destination, values.source, &values.msdu);
        if let Some((_, earlier)) = self.members.find(hash, |(known, _)| *known == values) {
            return Err((*earlier).into());
        }
        let Self { hasher, destination, source, msdu, members, .. } = self;
        members.insert_unique(hash, (values, at.into()), |(known, _)| {
            let octets =
                [(&known.destination.0[..], &destination.0[..]), (&known.source.0, &source.0)];
            hash_of(hasher, octets.into_iter().chain([(&known.msdu[..], &msdu[..])]))
        });
        Ok(())
    }

    pub(super) fn remove(&mut self, mask: &MaskAndMatch) -> Option<MemberRef> {
        let values = Values::of(mask);
        let hash = self.hash(values.destination, values.source, &values.msdu);
        let found = self.members.find_entry(hash, |(known, _)| *known == values).ok()?;
        Some(found.remove().0.1.into())
    }

    pub(super) fn lookup(&self, fields: &Fields<'_>) -> Option<MemberRef> {
        // An MSDU shorter than the mask does not match (6.8).
        let msdu = fields.msdu.get(..self.msdu.len())?;
        let hash = self.hash(fields.destination, fields.source, msdu);
        let found = self.members.find(hash, |(values, _)| {
            masked(&fields.destination.0, &self.destination.0, &values.destination.0)
                && masked(&fields.source.0, &self.source.0, &values.source.0)
                && masked(msdu, &self.msdu, &values.msdu)
        });
        found.map(|(_, at)| (*at).into())
    }

    fn hash(&self, destination: MacAddress, source: MacAddress, msdu: &[u8]) -> u64 {
        let octets = [(&destination.0[..], &self.destination.0[..]), (&source.0, &self.source.0)];
        hash_of(&self.hasher, octets.into_iter().chain([(msdu, &self.msdu[..])]))
    }
}

/// Returns a hash over the masked octets.
fn hash_of<'a>(
    hasher: &DefaultHashBuilder,
    masked: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> u64 {
    let mut hasher = hasher.build_hasher();
    for (octets, mask) in masked {
        for (octets, mask) in octets.chunks(8).zip(mask.chunks(8)) {
            let word = |part: &[u8]| {
                let mut word = [0; 8];
                word[..part.len()].copy_from_slice(part);
                u64::from_ne_bytes(word)
            };
            hasher.write_u64(word(octets) & word(mask));
        }
    }
    hasher.finish()
}

/// Returns the number of bits in the masks.
fn bits(mask: &MaskAndMatch) -> u32 {
    let octets = mask.destination_mask.0.iter().chain(&mask.source_mask.0).chain(&mask.msdu_mask);
    octets.map(|octet| octet.count_ones()).sum()
}

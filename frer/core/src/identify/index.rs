//! An index of members by key. The position of a key is known before the search, so that it can be
//! prefetched, which library hash maps do not offer.

use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;

use super::shape::PackedMember;
use crate::prefetch;

/// Minimum number of entries.
const FEWEST: usize = 8;

/// An open-addressing table: a key is at the position of its hash, or after it without a gap.
#[derive(Debug, Clone)]
pub(super) struct Index<K> {
    /// A power of two, of which at least a third is free.
    entries: Vec<Option<(K, PackedMember)>>,
    used: usize,
    hasher: DefaultHashBuilder,
}

impl<K: Copy + Eq + Hash> Index<K> {
    pub(super) fn new() -> Self {
        let hasher = DefaultHashBuilder::default();
        Self { entries: alloc::vec![None; FEWEST], used: 0, hasher }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Prefetches the entry of a key.
    pub(super) fn prefetch(&self, key: &K) {
        prefetch::lines(&self.entries[self.home(key)], 1);
    }

    pub(super) fn get(&self, key: &K) -> Option<PackedMember> {
        self.entries[self.find(key)].map(|(_, at)| at)
    }

    /// Inserts a key, or replaces its value.
    pub(super) fn insert(&mut self, key: K, at: PackedMember) {
        if 3 * (self.used + 1) > 2 * self.entries.len() {
            self.grow();
        }
        let place = self.find(&key);
        let before = self.entries[place].replace((key, at));
        self.used += usize::from(before.is_none());
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<PackedMember> {
        let mut gap = self.find(key);
        let (_, removed) = self.entries[gap].take()?;
        self.used -= 1;
        // Entries after the gap that belong before or into it move there.
        let mut place = gap;
        loop {
            place = self.behind(place);
            let Some((key, _)) = &self.entries[place] else { return Some(removed) };
            let from_home = |to: usize| to.wrapping_sub(self.home(key)) & self.mask();
            if from_home(gap) < from_home(place) {
                self.entries.swap(gap, place);
                gap = place;
            }
        }
    }

    /// Returns the position of a key, or the position at which to insert it.
    fn find(&self, key: &K) -> usize {
        let mut place = self.home(key);
        while self.entries[place].as_ref().is_some_and(|(other, _)| other != key) {
            place = self.behind(place);
        }
        place
    }

    fn home(&self, key: &K) -> usize {
        self.hasher.hash_one(key) as usize & self.mask()
    }

    fn behind(&self, place: usize) -> usize {
        (place + 1) & self.mask()
    }

    fn mask(&self) -> usize {
        self.entries.len() - 1
    }

    fn grow(&mut self) {
        let entries = alloc::vec![None; 2 * self.entries.len()];
        for (key, at) in core::mem::replace(&mut self.entries, entries).into_iter().flatten() {
            let place = self.find(&key);
            self.entries[place] = Some((key, at));
        }
    }
}

#[cfg(test)]
mod tests {
    use hashbrown::HashMap;

    use super::super::shape::{Layer2Key, MemberRef};
    use super::*;

    #[test]
    fn an_index_equals_a_map() {
        const KEYS: u64 = 80;
        let (mut index, mut map) = (Index::new(), HashMap::new());
        let mut random = 1u64;
        for stream in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = (random >> 32) % KEYS;
            // Nearly full and nearly empty in turn.
            let of_four = if stream / 1_000 % 2 == 0 { 3 } else { 1 };
            if random >> 62 < of_four {
                let at = PackedMember::from(MemberRef { stream, member: 0 });
                index.insert(key, at);
                map.insert(key, at);
            } else {
                assert_eq!(index.remove(&key), map.remove(&key), "step {stream}, key {key}");
            }
            assert_eq!(index.is_empty(), map.is_empty());
            for key in 0..KEYS {
                let expected = map.get(&key).copied();
                assert_eq!(index.get(&key), expected, "step {stream}, key {key}");
            }
        }
    }

    #[test]
    fn an_entry_fits_in_one_cache_line() {
        assert_eq!(size_of::<Option<(Layer2Key, PackedMember)>>(), 16);
    }
}

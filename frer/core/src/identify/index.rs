//! Members by key, in a table of which it is known where a key would be before it is looked for: so
//! that the place can be fetched ahead, which a hash map of a library does not offer.

use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;

use super::shape::Packed;
use crate::prefetch;

/// Entries of an empty table.
const FEWEST: usize = 8;

/// Open addressing: a key stands where its hash says, or behind that without a gap.
#[derive(Debug, Clone)]
pub(super) struct Index<K> {
    /// As many as a power of two, a third of which at least is free.
    entries: Vec<Option<(K, Packed)>>,
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

    /// Has the processor fetch where a key would be.
    pub(super) fn prefetch(&self, key: &K) {
        prefetch::lines(&self.entries[self.home(key)], 1);
    }

    pub(super) fn get(&self, key: &K) -> Option<Packed> {
        self.entries[self.find(key)].map(|(_, at)| at)
    }

    /// Enters a key, or has it mean something else.
    pub(super) fn insert(&mut self, key: K, at: Packed) {
        if 3 * (self.used + 1) > 2 * self.entries.len() {
            self.grow();
        }
        let place = self.find(&key);
        let before = self.entries[place].replace((key, at));
        self.used += usize::from(before.is_none());
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<Packed> {
        let mut gap = self.find(key);
        let (_, removed) = self.entries[gap].take()?;
        self.used -= 1;
        // What stands behind the gap and belongs in front of it, or into it, moves there.
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

    /// Where a key is, or else where it would go.
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
    fn it_holds_what_a_map_holds() {
        const KEYS: u64 = 80;
        let (mut index, mut map) = (Index::new(), HashMap::new());
        let mut random = 1u64;
        for stream in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = (random >> 32) % KEYS;
            // Nearly full and nearly empty in turn.
            let of_four = if stream / 1_000 % 2 == 0 { 3 } else { 1 };
            if random >> 62 < of_four {
                let at = Packed::from(MemberRef { stream, member: 0 });
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
    fn no_entry_stands_in_two_cache_lines() {
        assert_eq!(size_of::<Option<(Layer2Key, Packed)>>(), 16);
    }
}

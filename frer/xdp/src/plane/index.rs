//! The index of layer 2 keys (abi/frer.h: l2_index).
//!
//! The value of a key is one word, written atomically: a program finds it or does not, independent of
//! concurrent changes. Entries are never moved.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi::constants as c;
use crate::abi::frer_l2_key;
use crate::compile::found_key;

const ENTRIES: usize = c::INDEX_ENTRIES as usize;

/// Words of a line.
const WORDS: usize = 2 * ENTRIES;

/// Number of an entry.
pub(super) type IndexSlot = u32;

/// Returns the line of an entry.
pub(super) fn line(place: IndexSlot) -> u32 {
    place / c::INDEX_ENTRIES
}

/// Returns the possible lines of a key, computed as in bpf/identify.h.
fn lines(key: &frer_l2_key, mask: usize) -> [usize; 3] {
    let number = (key.address.swap_bytes() >> 16) & 0xff_ffff;
    let rest = (key.address & 0xff_ffff) | key.address >> 48 << 24;
    let first = (number >> 1).wrapping_add(rest.wrapping_mul(c::INDEX_FACTOR) >> 32);
    let mix = |hash: u64| (hash ^ hash >> 32).wrapping_mul(c::INDEX_FACTOR);
    let hash = mix(mix(key.address ^ found_key(key).wrapping_mul(c::INDEX_FACTOR)));
    let behind = |hash: u64| mask + 1 + (hash as usize & (2 * mask + 1));
    [first as usize & mask, behind(hash >> 32), behind(hash & 0xffff_ffff)]
}

/// The index, in memory shared with programs.
#[derive(Debug)]
pub(super) struct Index<'a> {
    words: &'a [AtomicU64],
    /// Number of lines in the first third, less one.
    mask: usize,
}

impl<'a> Index<'a> {
    /// Wraps `words`: three times a power of two of lines.
    pub(super) fn new(words: &'a [AtomicU64]) -> Self {
        let third = words.len() / WORDS / 3;
        assert!(third.is_power_of_two() && words.len() == 3 * third * WORDS, "{}", words.len());
        Self { words, mask: third - 1 }
    }

    fn address(&self, place: IndexSlot) -> &'a AtomicU64 {
        &self.words[2 * place as usize]
    }

    fn found(&self, place: IndexSlot) -> &'a AtomicU64 {
        &self.words[2 * place as usize + 1]
    }

    fn line(line: usize) -> impl Iterator<Item = IndexSlot> {
        (0..ENTRIES).map(move |entry| (line * ENTRIES + entry) as IndexSlot)
    }

    fn is_free(&self, place: IndexSlot) -> bool {
        self.address(place).load(Ordering::Relaxed) == 0
    }

    /// Reserves a free entry for a key, without a value for programs yet; `None`: no room.
    ///
    /// The second and third line take keys that do not fit into the first. With one key per line on average,
    /// no key among millions finds both full.
    pub(super) fn insert(&self, key: &frer_l2_key) -> Option<IndexSlot> {
        let [first, others @ ..] = lines(key, self.mask);
        let free = |line| Self::line(line).filter(|place| self.is_free(*place));
        let emptier = others.into_iter().max_by_key(|line| free(*line).count());
        let place = free(first).chain(emptier.into_iter().flat_map(free)).next()?;
        self.address(place).store(key.address, Ordering::Release);
        Some(place)
    }

    /// Returns the entry of a key that has a value.
    pub(super) fn find(&self, key: &frer_l2_key) -> Option<IndexSlot> {
        let places = lines(key, self.mask).into_iter().flat_map(Self::line);
        let mut places = places.filter(|place| {
            self.found(*place).load(Ordering::Relaxed) >> c::FOUND_KEY == found_key(key)
        });
        places.find(|place| self.address(*place).load(Ordering::Relaxed) == key.address)
    }

    /// Sets the value of a key.
    pub(super) fn set(&self, place: IndexSlot, found: u64) {
        // The data that it refers to were written before.
        self.found(place).store(found, Ordering::Release);
    }

    /// Removes the value of an entry.
    pub(super) fn leave(&self, place: IndexSlot) {
        self.found(place).store(0, Ordering::Release);
        self.address(place).store(c::LEAVING.into(), Ordering::Release);
    }

    /// Frees an entry after removal: no program can still have read its address.
    pub(super) fn free(&self, place: IndexSlot) {
        debug_assert_eq!(self.found(place).load(Ordering::Relaxed), 0);
        self.address(place).store(0, Ordering::Release);
    }

    /// Returns all entries that are not free, with address and value.
    pub(super) fn entries(&self) -> impl Iterator<Item = (IndexSlot, u64, u64)> + use<'a> {
        let entries = self.words.chunks_exact(2).zip(0..);
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let entries = entries.map(move |(entry, place)| (place, read(&entry[0]), read(&entry[1])));
        entries.filter(|(_, address, _)| *address != 0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Consecutive group addresses, on several ports each.
    fn key(number: u64, ports: u64) -> frer_l2_key {
        let [low, high, more, ..] = (number / ports).to_le_bytes();
        let address = u64::from_le_bytes([0x01, 0, 0x5e, more, high, low, 10, 0x80]);
        frer_l2_key { address, shape_port: ((number % ports) as u16) << 8, zero: [0; 3] }
    }

    fn words(third: usize) -> Vec<AtomicU64> {
        (0..3 * third * WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    fn word(key: &frer_l2_key) -> u64 {
        found_key(key) << c::FOUND_KEY | 1
    }

    #[test]
    fn a_key_is_in_a_line_that_programs_search() {
        const THIRD: usize = 1 << 14;
        // The maximum number of keys of the loader, for streams with few members; and with many members, the
        // maximum outside of a change.
        for (ports, to_a_line) in [(1, 4), (2, 4), (3, 4), (64, 2)] {
            let words = words(THIRD);
            let index = Index::new(&words);
            let keys = to_a_line * THIRD;
            for number in 0..keys as u64 {
                let key = key(number, ports);
                let place = index.insert(&key).unwrap_or_else(|| panic!("{number} of {ports}"));
                assert_eq!(index.find(&key), None);
                index.set(place, word(&key));
                assert_eq!(index.find(&key), Some(place));
                assert!(lines(&key, index.mask).contains(&(place as usize / ENTRIES)));
            }
            let places: HashSet<IndexSlot> = index.entries().map(|(place, ..)| place).collect();
            assert_eq!(places.len(), keys);
        }
    }

    #[test]
    fn consecutive_addresses_fill_lines() {
        let words = words(1 << 10);
        let index = Index::new(&words);
        for number in 0..64 {
            index.insert(&key(number, 2)).unwrap();
        }
        let lines: HashSet<usize> =
            index.entries().map(|(place, ..)| place as usize / ENTRIES).collect();
        assert_eq!(lines.len(), 64 / ENTRIES);
    }

    #[test]
    fn a_removed_entry_is_reused_only_once_it_is_free() {
        let words = words(1);
        let index = Index::new(&words);
        let mut taken = Vec::new();
        while let Some(place) = index.insert(&key(taken.len() as u64, 1)) {
            index.set(place, word(&key(taken.len() as u64, 1)));
            taken.push(place);
        }
        assert!(taken.len() >= 2 * ENTRIES, "{}", taken.len());
        let full = key(taken.len() as u64, 1);
        index.leave(taken[0]);
        assert_eq!(index.find(&key(0, 1)), None);
        assert_eq!(index.insert(&full), None);
        index.free(taken[0]);
        assert_eq!(index.insert(&full), Some(taken[0]));
    }
}

//! The index of layer 2 keys (abi/frer.h: l2_index).
//!
//! What frames with a key find is one word, written at once: a program finds it or does not,
//! whatever else changes at that moment. Entries are never moved.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi::constants as c;
use crate::abi::frer_l2_key;
use crate::compile::found_key;

const ENTRIES: usize = c::INDEX_ENTRIES as usize;

/// Words of a line.
const WORDS: usize = 2 * ENTRIES;

/// Number of an entry.
pub(super) type Place = u32;

/// Where a key may stand, as bpf/identify.h computes it.
fn lines(key: &frer_l2_key, mask: usize) -> [usize; 3] {
    let number = (key.address.swap_bytes() >> 16) & 0xff_ffff;
    let rest = (key.address & 0xff_ffff) | key.address >> 48 << 24;
    let first = (number >> 1).wrapping_add(rest.wrapping_mul(c::INDEX_FACTOR) >> 32);
    let mix = |hash: u64| (hash ^ hash >> 32).wrapping_mul(c::INDEX_FACTOR);
    let hash = mix(mix(key.address ^ found_key(key).wrapping_mul(c::INDEX_FACTOR)));
    let behind = |hash: u64| mask + 1 + (hash as usize & (2 * mask + 1));
    [first as usize & mask, behind(hash >> 32), behind(hash & 0xffff_ffff)]
}

/// The index, in memory that programs read.
#[derive(Debug)]
pub(super) struct Index<'a> {
    words: &'a [AtomicU64],
    /// Lines of the first third less one.
    mask: usize,
}

impl<'a> Index<'a> {
    /// `words`: of three times as many lines as a power of two.
    pub(super) fn new(words: &'a [AtomicU64]) -> Self {
        let third = words.len() / WORDS / 3;
        assert!(third.is_power_of_two() && words.len() == 3 * third * WORDS, "{}", words.len());
        Self { words, mask: third - 1 }
    }

    fn address(&self, place: Place) -> &'a AtomicU64 {
        &self.words[2 * place as usize]
    }

    fn found(&self, place: Place) -> &'a AtomicU64 {
        &self.words[2 * place as usize + 1]
    }

    fn line(line: usize) -> impl Iterator<Item = Place> {
        (0..ENTRIES).map(move |entry| (line * ENTRIES + entry) as Place)
    }

    fn is_free(&self, place: Place) -> bool {
        self.address(place).load(Ordering::Relaxed) == 0
    }

    /// Takes a free entry for a key, under which programs do not find anything yet; `None`: there
    /// is no room.
    ///
    /// The second and third line take what the first has no room for. With one key to a line on
    /// average, of millions none finds both full.
    pub(super) fn insert(&self, key: &frer_l2_key) -> Option<Place> {
        let [first, others @ ..] = lines(key, self.mask);
        let free = |line| Self::line(line).filter(|place| self.is_free(*place));
        let emptier = others.into_iter().max_by_key(|line| free(*line).count());
        let place = free(first).chain(emptier.into_iter().flat_map(free)).next()?;
        self.address(place).store(key.address, Ordering::Release);
        Some(place)
    }

    /// Where frames with this key find something.
    pub(super) fn find(&self, key: &frer_l2_key) -> Option<Place> {
        let places = lines(key, self.mask).into_iter().flat_map(Self::line);
        let mut places = places.filter(|place| {
            self.found(*place).load(Ordering::Relaxed) >> c::FOUND_KEY == found_key(key)
        });
        places.find(|place| self.address(*place).load(Ordering::Relaxed) == key.address)
    }

    /// What frames with the key of an entry find from now on.
    pub(super) fn set(&self, place: Place, found: u64) {
        // What it refers to was written before.
        self.found(place).store(found, Ordering::Release);
    }

    /// From now on no frame finds an entry.
    pub(super) fn leave(&self, place: Place) {
        self.found(place).store(0, Ordering::Release);
        self.address(place).store(c::LEAVING.into(), Ordering::Release);
    }

    /// An entry that left can be taken: no program can have read its address before it did.
    pub(super) fn free(&self, place: Place) {
        debug_assert_eq!(self.found(place).load(Ordering::Relaxed), 0);
        self.address(place).store(0, Ordering::Release);
    }

    /// All that are not free, with address and what frames find.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Place, u64, u64)> + use<'a> {
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

    /// Group addresses that count up, on some ports each.
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
    fn a_key_is_where_programs_look_for_it() {
        const THIRD: usize = 1 << 14;
        // As many keys as the loader may have, of streams with few members; and with many, as many as
        // it has but in the midst of a change.
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
            let places: HashSet<Place> = index.entries().map(|(place, ..)| place).collect();
            assert_eq!(places.len(), keys);
        }
    }

    #[test]
    fn addresses_that_count_up_fill_lines() {
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
    fn an_entry_that_left_is_taken_only_once_it_is_free() {
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

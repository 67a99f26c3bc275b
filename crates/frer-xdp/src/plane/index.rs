//! The hash table of layer 2 keys that programs look members up in (abi/frer.h: l2_index).
//!
//! An entry is one word, written at once: a program finds a key or does not, whatever else changes
//! at that moment. Entries are never moved.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi::constants as c;
use crate::abi::frer_l2_key;

const ENTRIES: usize = c::INDEX_ENTRIES as usize;

/// Where a key may stand, and how its entries are told from others.
#[derive(Debug, Clone, Copy)]
struct Place {
    lines: [usize; 2],
    fingerprint: u32,
}

impl Place {
    /// As bpf/identify.h computes it.
    fn of(key: &frer_l2_key, mask: usize) -> Self {
        let mix = |hash: u64| (hash ^ hash >> 32).wrapping_mul(c::INDEX_FACTOR);
        let port = u64::from(key.shape_port).wrapping_mul(c::INDEX_FACTOR);
        let hash = mix(mix(key.address ^ port)) | 1;
        let fingerprint = hash as u32;
        let second = fingerprint >> c::INDEX_SECOND;
        Self { lines: [(hash >> 32) as usize & mask, second as usize & mask], fingerprint }
    }

    fn entry(&self, slot: u32) -> u64 {
        u64::from(self.fingerprint) << 32 | u64::from(slot + 1)
    }
}

/// The slot that an entry refers to.
fn slot(entry: u64) -> Option<u32> {
    (entry as u32).checked_sub(1)
}

/// The index, in memory that programs read.
#[derive(Debug)]
pub(super) struct Index<'a> {
    lines: &'a [AtomicU64],
    mask: usize,
}

impl<'a> Index<'a> {
    /// `words`: of all lines, a power of two of them.
    pub(super) fn new(words: &'a [AtomicU64]) -> Self {
        let lines = words.len() / ENTRIES;
        assert!(lines.is_power_of_two() && words.len() % ENTRIES == 0, "{} words", words.len());
        Self { lines: words, mask: lines - 1 }
    }

    fn line(&self, line: usize) -> &'a [AtomicU64] {
        &self.lines[line * ENTRIES..][..ENTRIES]
    }

    fn candidates(&self, place: &Place) -> impl Iterator<Item = &'a AtomicU64> {
        let [first, second] = place.lines;
        self.line(first).iter().chain(if second == first { &[] } else { self.line(second) })
    }

    fn swap(&self, key: &frer_l2_key, from: impl Fn(&Place) -> u64, to: impl Fn(&Place) -> u64) {
        let place = Place::of(key, self.mask);
        let wanted = from(&place);
        let found = self.candidates(&place).find(|entry| entry.load(Ordering::Relaxed) == wanted);
        if let Some(entry) = found {
            // What the entry refers to was written before.
            entry.store(to(&place), Ordering::Release);
        }
    }

    /// Makes programs find `slot` under `key`; false: there is no room.
    ///
    /// The first of its lines is the one that programs look at first. It takes what comes until it
    /// is rather full; with four keys to a line, of hundreds of thousands none finds both full.
    pub(super) fn insert(&self, key: &frer_l2_key, slot: u32) -> bool {
        const RATHER_FULL: usize = 5;
        let place = Place::of(key, self.mask);
        let [first, second] = place.lines.map(|line| self.line(line));
        let entries = |line: &'a [AtomicU64]| line.iter().map(|e| e.load(Ordering::Relaxed));
        let used = |line| entries(line).filter(|entry| *entry != 0).count();
        let full = |line| {
            // Programs take the first entry with the fingerprint they look for.
            used(line) == ENTRIES || entries(line).any(|e| (e >> 32) as u32 == place.fingerprint)
        };
        let roomy = used(first) < RATHER_FULL || used(first) <= used(second);
        let line = if !full(first) && (roomy || full(second)) { first } else { second };
        if full(line) {
            return false;
        }
        let free = line.iter().find(|entry| entry.load(Ordering::Relaxed) == 0);
        if let Some(entry) = free {
            entry.store(place.entry(slot), Ordering::Release);
        }
        free.is_some()
    }

    /// Makes programs find `slot` under `key` where they found `before`.
    pub(super) fn replace(&self, key: &frer_l2_key, before: u32, slot: u32) {
        self.swap(key, |place| place.entry(before), |place| place.entry(slot));
    }

    /// Makes programs no longer find `slot` under `key`.
    pub(super) fn remove(&self, key: &frer_l2_key, slot: u32) {
        self.swap(key, |place| place.entry(slot), |_| 0);
    }

    /// Removes the entry of `slot`, whatever its key.
    pub(super) fn release(&self, slot: u32) {
        let of_slot = |entry: &&AtomicU64| self::slot(entry.load(Ordering::Relaxed)) == Some(slot);
        if let Some(entry) = self.lines.iter().find(of_slot) {
            entry.store(0, Ordering::Release);
        }
    }

    /// Slots of all keys.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        self.lines.iter().filter_map(|entry| slot(entry.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Group addresses that count up, of two kinds, on several ports: what real configurations have.
    fn key(number: u64) -> frer_l2_key {
        let [low, high, port, ..] = (number / 2).to_le_bytes();
        frer_l2_key {
            address: u64::from_le_bytes([0x01, 0, 0x5e, 0, high, low, 10, 0]),
            shape_port: (u32::from(port) << 16) | ((number % 2) as u32 * c::SHAPE_SOURCE),
            zero: 0,
        }
    }

    fn words(lines: usize) -> Vec<AtomicU64> {
        (0..lines * ENTRIES).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn a_key_is_where_programs_look_for_it() {
        // As full as the loader may make it: four keys to a line.
        const LINES: usize = 1 << 16;
        let words = words(LINES);
        let index = Index::new(&words);
        let mut expected = BTreeMap::new();
        for number in 0..4 * LINES as u64 {
            assert!(index.insert(&key(number), number as u32), "key {number} finds room");
            expected.insert(number, number as u32);
        }
        for number in (0..4 * LINES as u64).step_by(3) {
            index.remove(&key(number), number as u32);
            expected.remove(&number);
        }
        for number in (1..4 * LINES as u64).step_by(3) {
            index.replace(&key(number), number as u32, 1_000_000 + number as u32);
            expected.insert(number, 1_000_000 + number as u32);
        }
        let slots: BTreeSet<u32> = index.slots().collect();
        assert_eq!(slots, expected.values().copied().collect());
        for (number, slot) in expected {
            let place = Place::of(&key(number), index.mask);
            let wanted = place.entry(slot);
            let found = index.candidates(&place).any(|e| e.load(Ordering::Relaxed) == wanted);
            assert!(found, "key {number}");
        }
    }

    #[test]
    fn no_line_has_a_fingerprint_twice() {
        let words = words(2);
        let index = Index::new(&words);
        let wanted = key(1);
        // The same key again stands for another one with the same hash.
        let lines = Place::of(&wanted, index.mask).lines;
        let room = if lines[0] == lines[1] { 1 } else { 2 };
        for slot in 0..room {
            assert!(index.insert(&wanted, slot));
        }
        assert!(!index.insert(&wanted, room));
        for line in lines {
            let entries = index.line(line).iter().map(|entry| entry.load(Ordering::Relaxed));
            assert_eq!(entries.filter(|entry| *entry != 0).count(), 1);
        }
    }

    #[test]
    fn a_full_line_is_told() {
        let words = words(1);
        let index = Index::new(&words);
        assert!((0..8).all(|number| index.insert(&key(number), number as u32)));
        assert!(!index.insert(&key(8), 8));
        index.release(3);
        assert!(index.insert(&key(8), 8));
    }
}

//! Rings of recovery functions with a long history: blocks of lines of one table.
//!
//! Lengths are powers of two, and a block starts at a multiple of its length (buddy allocation).

use std::collections::{BTreeMap, BTreeSet};

use crate::abi::constants as c;
use crate::abi::frer_recovery_config;

/// A block of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ring {
    pub(super) first: u32,
    pub(super) lines: u32,
}

/// Returns the number of lines that a function needs; 0 if its ring is in its own entry.
pub(super) fn lines(config: &frer_recovery_config) -> u32 {
    lines_of(config.ring_mask)
}

fn lines_of(mask: u16) -> u32 {
    let words = u32::from(mask) + 1;
    if words > c::INLINE_WORDS { words / c::INLINE_WORDS } else { 0 }
}

/// Returns the ring of a function, unless it is in its own entry.
pub(super) fn of(config: &frer_recovery_config) -> Option<Ring> {
    block(config.ring, config.ring_mask)
}

/// Returns the ring from which a function moves, unless that is in its own entry.
pub(super) fn former(config: &frer_recovery_config) -> Option<Ring> {
    block(config.former_ring, config.former_mask)
}

fn block(first: u32, mask: u16) -> Option<Ring> {
    let lines = lines_of(mask);
    (lines > 0).then_some(Ring { first, lines })
}

/// Free blocks.
#[derive(Debug, Default)]
pub(super) struct Rings {
    capacity: u32,
    /// First lines by length.
    free: BTreeMap<u32, BTreeSet<u32>>,
}

impl Rings {
    /// Creates an allocator in which all lines but those of `used` are free.
    pub(super) fn new(capacity: u32, used: impl Iterator<Item = Ring>) -> Self {
        let mut rings = Self { capacity, free: BTreeMap::new() };
        let mut first = 0;
        while first < capacity {
            let most = (capacity - first).ilog2();
            let lines = 1 << if first == 0 { most } else { most.min(first.trailing_zeros()) };
            rings.free.entry(lines).or_default().insert(first);
            first += lines;
        }
        used.for_each(|ring| rings.reserve(ring));
        rings
    }

    /// Returns the number of lines, free or not.
    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Allocates a block of a length that is a power of two.
    pub(super) fn take(&mut self, lines: u32) -> Option<Ring> {
        let (&longer, blocks) = self.free.range(lines..).find(|(_, blocks)| !blocks.is_empty())?;
        let ring = Ring { first: *blocks.first()?, lines };
        self.split(Ring { lines: longer, ..ring }, ring);
        Some(ring)
    }

    /// Frees a block, and joins it with free neighbors.
    pub(super) fn free(&mut self, ring: Ring) {
        let Ring { mut first, mut lines } = ring;
        while self.free.get_mut(&lines).is_some_and(|blocks| blocks.remove(&(first ^ lines))) {
            first &= !lines;
            lines *= 2;
        }
        let new = self.free.entry(lines).or_default().insert(first);
        debug_assert!(new, "ring at line {first} freed twice");
    }

    /// Allocates this block.
    fn reserve(&mut self, ring: Ring) {
        let around = |lines: u32| Ring { first: ring.first & !(lines - 1), lines };
        let free =
            |ring: &Ring| self.free.get(&ring.lines).is_some_and(|b| b.contains(&ring.first));
        let block = self.free.range(ring.lines..).map(|(lines, _)| around(*lines)).find(free);
        debug_assert!(block.is_some(), "ring at line {} is used twice", ring.first);
        if let Some(block) = block {
            self.split(block, ring);
        }
    }

    /// Removes a free block, and frees all of it but a part.
    fn split(&mut self, block: Ring, part: Ring) {
        self.free.entry(block.lines).or_default().remove(&block.first);
        let Ring { mut first, mut lines } = block;
        while lines > part.lines {
            lines /= 2;
            let upper = part.first & lines != 0;
            self.free.entry(lines).or_default().insert(if upper { first } else { first + lines });
            first += if upper { lines } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_disjoint_and_join_again() {
        let mut rings = Rings::new(24, std::iter::empty());
        let sizes = [2, 16, 1, 4, 1];
        let taken = sizes.map(|lines| rings.take(lines).unwrap());
        let mut lines: Vec<u32> = taken.iter().flat_map(|r| r.first..r.first + r.lines).collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines, (0..24).collect::<Vec<_>>());
        assert!(taken.iter().all(|ring| ring.first % ring.lines == 0));
        assert_eq!(rings.take(1), None);

        let again = Rings::new(24, taken.iter().copied().skip(1));
        assert_eq!(again.free.values().flatten().copied().collect::<Vec<_>>(), [taken[0].first]);
        taken.into_iter().for_each(|ring| rings.free(ring));
        assert_eq!(rings.take(16).map(|ring| ring.first), Some(0));
        assert_eq!(rings.take(8).map(|ring| ring.first), Some(16));
    }
}

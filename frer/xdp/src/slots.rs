//! Which slots of a table are in use.

use std::collections::BTreeSet;

/// Slots `0..capacity`, given out lowest first.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    capacity: u32,
    /// Slots below `next` that are free.
    free: BTreeSet<u32>,
    next: u32,
}

impl Slots {
    /// All but `used` are free.
    pub(crate) fn new(capacity: u32, used: &BTreeSet<u32>) -> Self {
        let next = used.last().map_or(0, |last| last + 1);
        Self { capacity, free: (0..next).filter(|slot| !used.contains(slot)).collect(), next }
    }

    /// How many there are in all.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// A free slot.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop_first().or_else(|| {
            let slot = self.next;
            (slot < self.capacity).then(|| {
                self.next += 1;
                slot
            })
        })
    }

    /// Gives a slot back.
    pub(crate) fn give(&mut self, slot: u32) {
        debug_assert!(slot < self.next && !self.free.contains(&slot), "slot {slot} given twice");
        self.free.insert(slot);
    }

    /// One past the highest slot in use.
    pub(crate) fn bound(&self) -> u32 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_first_and_given_back() {
        let mut slots = Slots::new(4, &BTreeSet::from([0, 2]));
        assert_eq!(slots.take(), Some(1));
        assert_eq!(slots.take(), Some(3));
        assert_eq!(slots.take(), None);
        slots.give(2);
        assert_eq!(slots.take(), Some(2));
    }
}

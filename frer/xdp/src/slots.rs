//! Allocation of table slots.

use std::collections::BTreeSet;

/// Slots `0..capacity`, allocated lowest first.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    capacity: u32,
    /// Free slots below `next`.
    free: BTreeSet<u32>,
    next: u32,
}

impl Slots {
    /// Creates an allocator in which all slots but `used` are free.
    pub(crate) fn new(capacity: u32, used: &BTreeSet<u32>) -> Self {
        let next = used.last().map_or(0, |last| last + 1);
        Self { capacity, free: (0..next).filter(|slot| !used.contains(slot)).collect(), next }
    }

    /// Returns the number of slots.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Allocates a free slot.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop_first().or_else(|| {
            let slot = self.next;
            (slot < self.capacity).then(|| {
                self.next += 1;
                slot
            })
        })
    }

    /// Frees a slot.
    pub(crate) fn free_slot(&mut self, slot: u32) {
        debug_assert!(slot < self.next && !self.free.contains(&slot), "slot {slot} freed twice");
        self.free.insert(slot);
    }

    /// Returns one past the highest slot in use.
    pub(crate) fn bound(&self) -> u32 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_allocated_lowest_first_and_reused() {
        let mut slots = Slots::new(4, &BTreeSet::from([0, 2]));
        assert_eq!(slots.take(), Some(1));
        assert_eq!(slots.take(), Some(3));
        assert_eq!(slots.take(), None);
        slots.free_slot(2);
        assert_eq!(slots.take(), Some(2));
    }
}

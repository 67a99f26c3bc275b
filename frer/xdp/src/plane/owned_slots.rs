//! Slots of functions that keep their state as long as their stream exists, across reloads and restarts.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::slots::Slots;

/// Slots of one table by owner.
#[derive(Debug)]
pub(super) struct OwnedSlots {
    slots: Slots,
    by_owner: HashMap<u64, u32>,
    /// Maximum number for streams; the table has more slots, for retired ones that are not free yet.
    most: usize,
}

impl OwnedSlots {
    /// `owners`: owner and slot of each slot in use.
    pub(super) fn new(capacity: u32, most: u32, owners: impl Iterator<Item = (u64, u32)>) -> Self {
        let by_owner: HashMap<u64, u32> = owners.collect();
        let used: BTreeSet<u32> = by_owner.values().copied().collect();
        Self { slots: Slots::new(capacity, &used), by_owner, most: most as usize }
    }

    /// Returns the slot of an owner.
    pub(super) fn get(&self, owner: u64) -> Option<u32> {
        self.by_owner.get(&owner).copied()
    }

    /// Returns whether the maximum would be exceeded.
    pub(super) fn too_many(&self, gone: usize, new: usize) -> bool {
        self.by_owner.len() + new > self.most + gone
    }

    /// Allocates a slot for an owner without one; `None`: all are in use.
    pub(super) fn take(&mut self, owner: u64) -> Option<u32> {
        let slot = self.slots.take()?;
        let before = self.by_owner.insert(owner, slot);
        debug_assert_eq!(before, None, "owner {owner:#x} has a slot");
        Some(slot)
    }

    /// Removes the slot of an owner; the slot is not free yet.
    pub(super) fn leave(&mut self, owner: u64) -> Option<u32> {
        self.by_owner.remove(&owner)
    }

    /// Frees a retired slot.
    pub(super) fn free(&mut self, slot: u32) {
        self.slots.free_slot(slot);
    }

    /// Returns owners that are not in `owners`.
    pub(super) fn others(&self, owners: &HashSet<u64>) -> Vec<u64> {
        self.by_owner.keys().copied().filter(|owner| !owners.contains(owner)).collect()
    }

    /// Returns one past the highest slot that was ever in use.
    pub(super) fn bound(&self) -> u32 {
        self.slots.bound()
    }

    /// Returns the maximum number for streams.
    pub(super) fn most(&self) -> u32 {
        self.most as u32
    }
}

//! Slots of functions that keep their state while their stream stays, over reloads and restarts.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::slots::Slots;

/// Slots of one table by who owns them.
#[derive(Debug)]
pub(super) struct Owned {
    slots: Slots,
    by_owner: HashMap<u64, u32>,
    /// Most that streams may have; the table has more slots, for those that were left and are not
    /// free yet.
    most: usize,
}

impl Owned {
    /// `owners`: of each slot of the table that is not free.
    pub(super) fn new(capacity: u32, most: u32, owners: impl Iterator<Item = (u64, u32)>) -> Self {
        let by_owner: HashMap<u64, u32> = owners.collect();
        let used: BTreeSet<u32> = by_owner.values().copied().collect();
        Self { slots: Slots::new(capacity, &used), by_owner, most: most as usize }
    }

    /// The slot that an owner has.
    pub(super) fn get(&self, owner: u64) -> Option<u32> {
        self.by_owner.get(&owner).copied()
    }

    /// Whether there would be more than streams may have.
    pub(super) fn too_many(&self, gone: usize, new: usize) -> bool {
        self.by_owner.len() + new > self.most + gone
    }

    /// A slot for an owner that has none; `None`: all are in use.
    pub(super) fn take(&mut self, owner: u64) -> Option<u32> {
        let slot = self.slots.take()?;
        let before = self.by_owner.insert(owner, slot);
        debug_assert_eq!(before, None, "owner {owner:#x} has a slot");
        Some(slot)
    }

    /// From now on an owner has no slot; the one it had is not free yet.
    pub(super) fn leave(&mut self, owner: u64) -> Option<u32> {
        self.by_owner.remove(&owner)
    }

    /// A slot that was left is free.
    pub(super) fn free(&mut self, slot: u32) {
        self.slots.give(slot);
    }

    /// Owners that are not among these.
    pub(super) fn others(&self, owners: &HashSet<u64>) -> Vec<u64> {
        self.by_owner.keys().copied().filter(|owner| !owners.contains(owner)).collect()
    }

    /// One past the highest slot that was ever in use.
    pub(super) fn bound(&self) -> u32 {
        self.slots.bound()
    }

    /// Most that streams may have.
    pub(super) fn most(&self) -> u32 {
        self.most as u32
    }
}

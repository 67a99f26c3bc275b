//! Slots of functions that keep their state while their stream stays, over reloads and restarts.

use std::collections::{BTreeMap, BTreeSet};

use crate::abi::Plain;
use crate::error::Result;
use crate::slots::Slots;
use crate::table::Table;

/// Slots of one table by who owns them.
#[derive(Debug)]
pub(super) struct Owned {
    slots: Slots,
    by_owner: BTreeMap<u64, u32>,
}

impl Owned {
    /// Reads from a table who owns what; a table of a fresh node is known to be empty.
    pub(super) fn read<V: Plain>(
        table: &Table<u32, V>,
        fresh: bool,
        owner: impl Fn(&V) -> u64,
    ) -> Result<Self> {
        let mut by_owner = BTreeMap::new();
        for slot in 0..if fresh { 0 } else { table.capacity() } {
            match table.get(&slot)?.map(|value| owner(&value)) {
                Some(0) | None => {}
                Some(owner) => {
                    by_owner.insert(owner, slot);
                }
            }
        }
        let used: BTreeSet<u32> = by_owner.values().copied().collect();
        Ok(Self { slots: Slots::new(table.capacity(), &used), by_owner })
    }

    /// How many owners have no slot yet, against how many slots are free.
    pub(super) fn missing(&self, owners: impl Iterator<Item = u64>) -> (usize, usize) {
        let missing = owners.filter(|owner| !self.by_owner.contains_key(owner)).count();
        (missing, self.slots.capacity() as usize - self.by_owner.len())
    }

    /// The slot of `owner`, and whether it was just given to it. `None`: the table is full.
    pub(super) fn slot(&mut self, owner: u64) -> Option<(u32, bool)> {
        if let Some(&slot) = self.by_owner.get(&owner) {
            return Some((slot, false));
        }
        let slot = self.slots.take()?;
        self.by_owner.insert(owner, slot);
        Some((slot, true))
    }

    /// Who owns a slot.
    pub(super) fn owners(&self) -> impl Iterator<Item = u64> {
        self.by_owner.keys().copied()
    }

    /// Frees the slots of all others; tells them.
    pub(super) fn retain(&mut self, owners: &BTreeSet<u64>) -> Vec<u32> {
        let gone: Vec<_> = self
            .by_owner
            .iter()
            .filter(|(owner, _)| !owners.contains(owner))
            .map(|(o, s)| (*o, *s))
            .collect();
        gone.into_iter()
            .map(|(owner, slot)| {
                self.by_owner.remove(&owner);
                self.slots.give(slot);
                slot
            })
            .collect()
    }

    /// One past the highest slot in use.
    pub(super) fn bound(&self) -> u32 {
        self.slots.bound()
    }

    /// Slots there are in all.
    pub(super) fn capacity(&self) -> u32 {
        self.slots.capacity()
    }
}

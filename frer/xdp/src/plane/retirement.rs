//! Deferred release of entries that are no longer referenced but may still be in use by running programs.

use super::Plane;
use super::history;
use super::index::IndexSlot;
use super::rings::Ring;
use crate::error::Result;

/// An item to free once no program can still use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetiredItem {
    /// A member's slot, with the owner of its stream.
    Member {
        slot: u32,
        stream: u64,
    },
    IndexSlot(IndexSlot),
    Generator(u32),
    Recovery(u32),
    Ring(Ring),
    Split(u32),
    Group(u32),
}

/// Maximum number of items freed per change: releasing those of a change of thousands of streams must not
/// delay the next one.
const AT_ONCE: usize = 256;

impl Plane {
    /// Retires the items of a change, after all of its stores.
    pub(super) fn retire(&mut self, left: Vec<RetiredItem>) {
        if left.is_empty() {
            return;
        }
        let moment = self.grace.now();
        self.retired.extend(left.into_iter().map(|retiree| (moment, retiree)));
    }

    /// Frees some of the items that no program can use any more.
    pub(super) fn reclaim(&mut self) {
        self.reclaim_some(AT_ONCE);
    }

    fn reclaim_some(&mut self, most: usize) {
        for _ in 0..most {
            match self.retired.front() {
                Some((moment, _)) if self.grace.is_over(*moment) => {}
                _ => return,
            }
            if let Some((_, retiree)) = self.retired.pop_front() {
                self.free(retiree);
            }
        }
    }

    /// Allocates an item; if none is free, waits for retired ones. It waits only if more was changed within
    /// one grace period than the tables can hold.
    pub(super) fn take<T>(&mut self, take: impl Fn(&mut Self) -> Option<T>) -> Result<Option<T>> {
        if let Some(taken) = take(self) {
            return Ok(Some(taken));
        }
        let Some((last, _)) = self.retired.back() else { return Ok(None) };
        self.grace.wait(*last)?;
        self.reclaim_some(usize::MAX);
        Ok(take(self))
    }

    fn free(&mut self, retiree: RetiredItem) {
        match retiree {
            RetiredItem::Member { slot, stream } => self.free_member(slot, stream),
            RetiredItem::IndexSlot(place) => self.tables.l2().free(place),
            RetiredItem::Generator(slot) => self.generators.free(slot),
            RetiredItem::Recovery(slot) => {
                if let Some(ring) = history::ring_in_use(&self.tables.recoveries.get(slot).config) {
                    self.rings.free(ring);
                }
                self.recoveries.free(slot);
            }
            RetiredItem::Ring(ring) => self.rings.free(ring),
            RetiredItem::Split(slot) => self.splits.free(slot),
            RetiredItem::Group(slot) => self.groups.free(slot),
        }
    }
}

//! What nothing refers to any more, and programs that looked earlier may still use.

use super::Plane;
use super::index::Place;
use crate::error::Result;

/// Something that is free once no program can still use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retiree {
    /// A member's slot, with the owner of its stream.
    Member {
        slot: u32,
        stream: u64,
    },
    Place(Place),
    Generator(u32),
    Recovery(u32),
    Split(u32),
    Group(u32),
}

/// How many are freed within one change at most: to free what a change of thousands of streams left
/// must not make the next one late.
const AT_ONCE: usize = 256;

impl Plane {
    /// Notes what a change left, after all of its stores.
    pub(super) fn retire(&mut self, left: Vec<Retiree>) {
        if left.is_empty() {
            return;
        }
        let moment = self.grace.now();
        self.retired.extend(left.into_iter().map(|retiree| (moment, retiree)));
    }

    /// Frees some of what no program can use any more.
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

    /// Takes something of which there may be none free before what was left is: only where more was
    /// changed within one grace period than the tables have room for, this waits.
    pub(super) fn take<T>(&mut self, take: impl Fn(&mut Self) -> Option<T>) -> Result<Option<T>> {
        if let Some(taken) = take(self) {
            return Ok(Some(taken));
        }
        let Some((last, _)) = self.retired.back() else { return Ok(None) };
        self.grace.wait(*last)?;
        self.reclaim_some(usize::MAX);
        Ok(take(self))
    }

    fn free(&mut self, retiree: Retiree) {
        match retiree {
            Retiree::Member { slot, stream } => self.free_member(slot, stream),
            Retiree::Place(place) => self.tables.l2().free(place),
            Retiree::Generator(slot) => self.generators.free(slot),
            Retiree::Recovery(slot) => self.recoveries.free(slot),
            Retiree::Split(slot) => self.splits.free(slot),
            Retiree::Group(slot) => self.groups.free(slot),
        }
    }
}

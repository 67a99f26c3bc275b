//! Changes of the history length that keep the state of recovery functions: the steps of bpf/history.h.

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use super::recovery::newest_head;
use super::rings::{self, Ring};
use super::{Plane, RetiredItem, Tables};
use crate::abi::constants as c;
use crate::abi::{frer_recovery, frer_recovery_config, frer_request};
use crate::error::{Error, Result};

const CONFIG: usize = offset_of!(frer_recovery, config) / 8;
const RING: usize = offset_of!(frer_recovery, ring) / 8;
/// The words of the parameters: flags, history length and the lengths of rings; the first lines of rings.
const LENGTHS: usize = CONFIG + offset_of!(frer_recovery_config, flags) / 8;
const LINES: usize = CONFIG + offset_of!(frer_recovery_config, ring) / 8;

/// Tries of a step that packets hinder; a try fails only if packets change one word several times during it.
const TRIES: usize = 10_000;

/// A function that continues with another history.
#[derive(Debug, Clone, Copy)]
pub(super) struct HistoryChange {
    pub(super) slot: u32,
    pub(super) config: frer_recovery_config,
}

/// Whether a function with these parameters can continue with the other ones.
pub(super) fn continues(before: &frer_recovery_config, config: &frer_recovery_config) -> bool {
    let changed = u32::from(before.flags ^ config.flags);
    changed & !c::RECOVERY_TAKE_NOSEQ == 0 && u32::from(config.flags) & c::RECOVERY_MATCH == 0
}

/// Returns the ring of a function, also of one that another process left between two steps.
pub(super) fn ring_in_use(config: &frer_recovery_config) -> Option<Ring> {
    let (ring, former) = (rings::of(config), rings::former(config));
    match step(config) {
        Step::Settled | Step::Copied => ring,
        // Those steps are reverted.
        Step::Moving | Step::Both => former,
    }
}

/// The last step that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Settled,
    /// The former ring decides; packets do not use the other one.
    Moving,
    /// Packets use both rings.
    Both,
    /// Packets of a former step may use the former ring.
    Copied,
}

fn step(config: &frer_recovery_config) -> Step {
    let flags = u32::from(config.flags);
    match (flags & c::RECOVERY_MOVING != 0, flags & c::RECOVERY_BOTH != 0) {
        (true, true) => Step::Both,
        (true, false) => Step::Moving,
        _ if (config.former_mask, config.former_ring) == (config.ring_mask, config.ring) => {
            Step::Settled
        }
        _ => Step::Copied,
    }
}

fn set_history(change: &HistoryChange, head: u64) -> frer_request {
    let HistoryChange { slot, config } = *change;
    frer_request { op: c::OP_SET_HISTORY, slot, head, config, ..Default::default() }
}

impl Tables {
    fn parameters(&self, slot: u32) -> frer_recovery_config {
        self.recoveries.get(slot).config
    }

    /// Changes flags and lengths by one store.
    fn set_lengths(&self, slot: u32, change: impl FnOnce(&mut frer_recovery_config)) {
        let mut config = self.parameters(slot);
        change(&mut config);
        let word = [config.flags, config.history_length, config.ring_mask, config.former_mask];
        let word = word.iter().rev().fold(0, |word, part| word << 16 | u64::from(*part));
        self.recoveries.entry(slot)[LENGTHS].store(word, Ordering::Release);
    }

    fn set_lines(&self, slot: u32, ring: u32, former: u32) {
        let word = u64::from(former) << 32 | u64::from(ring);
        self.recoveries.entry(slot)[LINES].store(word, Ordering::Release);
    }

    /// Sets the ring that packets do not use at present.
    fn set_ring(&self, slot: u32, mask: u16, ring: u32) {
        self.set_lines(slot, ring, self.parameters(slot).former_ring);
        self.set_lengths(slot, |config| config.ring_mask = mask);
    }

    /// The former ring is the present one, from now on.
    fn settle_ring(&self, slot: u32) {
        let config = self.parameters(slot);
        self.set_lines(slot, config.ring, config.ring);
        self.set_lengths(slot, |config| config.former_mask = config.ring_mask);
    }
}

impl Plane {
    /// Waits for all program runs in progress.
    fn wait_for_programs(&self) -> Result<()> {
        self.grace.wait(self.grace.now())
    }

    /// Runs a request until packets do not hinder it.
    fn repeat(&self, request: &frer_request) -> Result<()> {
        for _ in 0..TRIES {
            if self.control.run(request)? {
                return Ok(());
            }
        }
        Err(Error::Contended { slot: request.slot })
    }

    /// Changes history lengths, for all functions at once: it waits for programs some times.
    pub(super) fn change_histories(
        &mut self,
        changes: &[HistoryChange],
        left: &mut Vec<RetiredItem>,
    ) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let length = |change: &HistoryChange| change.config.history_length;
        let before = |change: &HistoryChange| self.tables.parameters(change.slot);
        let shorter =
            changes.iter().filter(|change| length(change) < before(change).history_length);
        let longer = changes.iter().filter(|change| length(change) > before(change).history_length);
        let longer: Vec<HistoryChange> = longer.copied().collect();
        for change in shorter {
            self.repeat(&set_history(change, 0))?;
        }
        let moves = changes.iter().filter(|c| before(c).ring_mask != c.config.ring_mask);
        let moves: Vec<HistoryChange> = moves.copied().collect();
        self.set_extending(&longer, true);
        let outcome = self.change_in_steps(longer.clone(), &moves, left);
        self.set_extending(&longer, false);
        outcome?;
        changes.iter().try_for_each(|change| self.repeat(&set_history(change, 0)))
    }

    /// Marks functions whose history becomes longer.
    fn set_extending(&self, longer: &[HistoryChange], extending: bool) {
        let flag = c::RECOVERY_EXTENDING as u16;
        for HistoryChange { slot, .. } in longer {
            self.tables.set_lengths(*slot, |config| {
                config.flags = config.flags & !flag | if extending { flag } else { 0 };
            });
        }
    }

    /// Moves functions to other rings, and extends histories.
    fn change_in_steps(
        &mut self,
        longer: Vec<HistoryChange>,
        moves: &[HistoryChange],
        left: &mut Vec<RetiredItem>,
    ) -> Result<()> {
        if !moves.is_empty() {
            self.moving = moves.iter().map(|change| change.slot).collect();
            self.move_rings(moves)?;
        } else if !longer.is_empty() {
            // Until all programs read the mark.
            self.wait_for_programs()?;
        }
        let mut settling = std::mem::take(&mut self.moving);
        let outcome = self.extend(longer, &mut settling, left);
        self.moving = settling;
        outcome?;
        // Of packets with the former length.
        self.wait_for_programs()
    }

    /// Moves functions to other rings, up to the step before the last.
    fn move_rings(&self, moves: &[HistoryChange]) -> Result<()> {
        let flag = |flag: u32| {
            let set = |change: &HistoryChange| {
                self.tables.set_lengths(change.slot, |config| config.flags |= flag as u16);
            };
            moves.iter().for_each(set);
        };
        flag(c::RECOVERY_MOVING);
        self.wait_for_programs()?;
        for HistoryChange { slot, config } in moves {
            if rings::of(config).is_none() {
                let ring = &self.tables.recoveries.entry(*slot)[RING..];
                ring.iter().take(c::INLINE_WORDS as usize).for_each(|word| {
                    word.store(0, Ordering::Relaxed);
                });
            }
            self.tables.set_ring(*slot, config.ring_mask, config.ring);
        }
        self.wait_for_programs()?;
        flag(c::RECOVERY_BOTH);
        self.wait_for_programs()?;
        self.copy_rings(moves.iter().map(|change| change.slot))
    }

    /// Copies former rings, and ends the decision by these.
    fn copy_rings(&self, slots: impl Iterator<Item = u32> + Clone) -> Result<()> {
        for slot in slots.clone() {
            self.repeat(&frer_request { op: c::OP_COPY_RING, slot, ..Default::default() })?;
        }
        self.wait_for_programs()?;
        let flags = (c::RECOVERY_MOVING | c::RECOVERY_BOTH) as u16;
        for slot in slots {
            self.tables.set_lengths(slot, |config| config.flags &= !flags);
        }
        Ok(())
    }

    /// Extends histories within their rings, and takes the last step of functions that moved.
    fn extend(
        &self,
        mut longer: Vec<HistoryChange>,
        settling: &mut Vec<u32>,
        left: &mut Vec<RetiredItem>,
    ) -> Result<()> {
        for _ in 0..TRIES {
            if longer.is_empty() && settling.is_empty() {
                return Ok(());
            }
            let heads = longer.iter().map(|change| newest_head(&self.tables, change.slot));
            let heads: Vec<u64> = heads.collect();
            self.wait_for_programs()?;
            for slot in settling.drain(..) {
                left.extend(rings::former(&self.tables.parameters(slot)).map(RetiredItem::Ring));
                self.tables.settle_ring(slot);
            }
            let mut again = Vec::new();
            for (change, head) in longer.into_iter().zip(heads) {
                if !self.control.run(&set_history(&change, head))? {
                    again.push(change);
                }
            }
            longer = again;
        }
        Err(Error::Contended { slot: longer.first().map_or(0, |change| change.slot) })
    }

    /// Reverts moves that failed, or that another process did not complete: the former ring has all numbers
    /// until the last step. No program that was running when it stopped is running any more.
    pub(super) fn settle_moves(&mut self) -> Result<()> {
        if self.moving.is_empty() {
            return Ok(());
        }
        let steps: Vec<(u32, Step)> =
            self.moving.iter().map(|slot| (*slot, step(&self.tables.parameters(*slot)))).collect();
        let unfinished =
            || steps.iter().filter(|(_, step)| *step != Step::Copied).map(|(slot, _)| *slot);
        for slot in unfinished() {
            let both = c::RECOVERY_BOTH as u16;
            self.tables.set_lengths(slot, |config| config.flags &= !both);
        }
        self.wait_for_programs()?;
        for slot in unfinished() {
            let config = self.tables.parameters(slot);
            self.tables.set_ring(slot, config.former_mask, config.former_ring);
        }
        self.wait_for_programs()?;
        for (slot, _) in &steps {
            let moving = c::RECOVERY_MOVING as u16;
            self.tables.set_lengths(*slot, |config| config.flags &= !moving);
            self.tables.settle_ring(*slot);
        }
        self.moving.clear();
        Ok(())
    }

    /// Notes the functions of `slots` that another process left between two steps.
    pub(super) fn note_moves(&mut self, slots: impl IntoIterator<Item = u32>) {
        for slot in slots {
            let config = self.tables.parameters(slot);
            if u32::from(config.flags) & c::RECOVERY_EXTENDING != 0 {
                let extending = c::RECOVERY_EXTENDING as u16;
                self.tables.set_lengths(slot, |config| config.flags &= !extending);
            }
            if step(&config) != Step::Settled {
                self.moving.push(slot);
            }
        }
    }
}

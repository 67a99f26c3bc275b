//! Stream splitting: splits, shared by all streams with equal egress.

use std::collections::HashMap;

use onbeat_bpf::PlainData;
use onbeat_frer::spec::{MAX_EGRESS, Rewrite};

use super::groups::EgressSet;
use super::{Plane, RetiredItem};
use crate::abi::constants as c;
use crate::abi::*;
use crate::compile::{self, Replication};
use crate::error::{Error, Result};
use crate::slots::Slots;

/// Splits that entries refer to.
#[derive(Debug)]
pub(super) struct Splits {
    slots: Slots,
    /// Splits written by this process, by content.
    by_content: HashMap<Vec<u8>, u32>,
    in_use: HashMap<u32, Split>,
}

#[derive(Debug)]
struct Split {
    /// Number of entries that refer to it.
    entries: usize,
    /// The set of its egress ports.
    ports: u64,
    /// Slot of its group.
    group: Option<u32>,
    content: Option<Vec<u8>>,
}

impl Splits {
    /// `found`: slots that entries refer to, once per reference, with their content.
    pub(super) fn new(capacity: u32, found: impl Iterator<Item = (u32, frer_split)>) -> Self {
        let mut in_use: HashMap<u32, Split> = HashMap::new();
        for (slot, split) in found {
            let group = (split.count > 1).then_some(split.group);
            let new = || Split { entries: 0, ports: split.ports, group, content: None };
            in_use.entry(slot).or_insert_with(new).entries += 1;
        }
        let used = in_use.keys().copied().collect();
        Self { slots: Slots::new(capacity, &used), by_content: HashMap::new(), in_use }
    }

    /// Returns the groups of the splits.
    pub(super) fn groups(&self) -> impl Iterator<Item = u32> {
        self.in_use.values().filter_map(|split| split.group)
    }

    /// Adds a reference to a split.
    pub(super) fn refer(&mut self, slot: u32) {
        if let Some(split) = self.in_use.get_mut(&slot) {
            split.entries += 1;
        }
    }

    /// Frees a retired slot.
    pub(super) fn free(&mut self, slot: u32) {
        self.slots.free_slot(slot);
    }

    /// Excludes splits with this port from reuse: later streams get new ones.
    pub(super) fn exclude_port(&mut self, port: u8) {
        let Self { by_content, in_use, .. } = self;
        by_content.retain(|_, slot| in_use[slot].ports & (1 << port) == 0);
    }
}

/// Returns where the frames of a split are sent: whether to a group, and its slot or that of the only port.
pub(super) fn target(split: &frer_split) -> (bool, u32) {
    match split.count {
        1 => (false, split.port.into()),
        _ => (true, split.group),
    }
}

fn full(stream: &str, what: &'static str, capacity: u32) -> Error {
    Error::Full { stream: stream.to_string(), what, capacity }
}

/// Returns the slot of a split; writes it if there is none yet. A new slot is added to `new`, and no entry
/// refers to it.
pub(super) fn split(
    plane: &mut Plane,
    stream: &str,
    replication: &Replication,
    up: &Rewrite,
    new: &mut Vec<u32>,
) -> Result<u32> {
    let mut split = frer_split {
        ports: replication.ports.iter().fold(0, |set, port| set | 1 << port),
        count: replication.ports.len() as u8,
        port: replication.ports[0],
        tag: replication.tag,
        up: compile::rewrite(up),
        rewrite: compile::rewrite(&replication.rewrite),
        ..Default::default()
    };
    let mut flags = 0;
    if [*up, replication.rewrite] != [Rewrite::default(); 2] {
        flags |= c::SPLIT_REWRITE;
    }
    if !replication.egresses.is_empty() {
        flags |= c::SPLIT_EGRESSES;
    }
    split.flags = flags as u8;
    let egresses: Vec<frer_egress> =
        (0..replication.egresses.len()).map(|index| replication.egress(index)).collect();
    let mut content = split.octets().to_vec();
    content.extend(egresses.iter().flat_map(|egress| egress.octets().to_vec()));
    if let Some(slot) = plane.splits.by_content.get(&content) {
        return Ok(*slot);
    }

    let capacity = plane.splits.slots.capacity();
    let slot = plane.take(|plane| plane.splits.slots.take())?;
    let slot = slot.ok_or_else(|| full(stream, "splits", capacity))?;
    // From here on the slot is in use, so that undoing the change releases it.
    let note = Split { entries: 0, ports: split.ports, group: None, content: None };
    plane.splits.in_use.insert(slot, note);
    new.push(slot);
    if !egresses.is_empty() {
        split.egress = slot * MAX_EGRESS as u32;
        for (slot, egress) in (split.egress..).zip(&egresses) {
            plane.tables.egresses.set(&slot, egress)?;
        }
    }
    if split.count > 1 {
        let set = EgressSet { ports: split.ports, egresses: !egresses.is_empty() };
        let capacity = plane.groups.capacity();
        let group = plane.group(set)?;
        let group = group.ok_or_else(|| full(stream, "sets of egress ports", capacity))?;
        split.group = group;
        plane.groups.refer(group);
        plane.splits.in_use.get_mut(&slot).expect("recorded above").group = Some(group);
    }
    plane.tables.splits.set(slot, &split);
    plane.splits.by_content.insert(content.clone(), slot);
    plane.splits.in_use.get_mut(&slot).expect("recorded above").content = Some(content);
    Ok(slot)
}

impl Plane {
    /// Removes a reference to a split; retires it if none remains.
    pub(super) fn unrefer_split(&mut self, slot: u32, left: &mut Vec<RetiredItem>) {
        let Some(split) = self.splits.in_use.get_mut(&slot) else { return };
        split.entries -= 1;
        if split.entries == 0 {
            self.retire_split(slot, left);
        }
    }

    /// Retires those of these splits that no entry refers to.
    pub(super) fn retire_unused_splits(&mut self, slots: &[u32], left: &mut Vec<RetiredItem>) {
        for &slot in slots {
            if self.splits.in_use.get(&slot).is_some_and(|split| split.entries == 0) {
                self.retire_split(slot, left);
            }
        }
    }

    fn retire_split(&mut self, slot: u32, left: &mut Vec<RetiredItem>) {
        let Some(split) = self.splits.in_use.remove(&slot) else { return };
        if let Some(content) = split.content {
            // It may have been excluded from reuse, and another one written for the same content.
            if self.splits.by_content.get(&content) == Some(&slot) {
                self.splits.by_content.remove(&content);
            }
        }
        left.push(RetiredItem::Split(slot));
        if let Some(group) = split.group {
            if self.groups.unrefer(group) {
                left.push(RetiredItem::Group(group));
            }
        }
    }
}

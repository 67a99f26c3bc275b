//! How frames leave: splits, shared by all streams that leave alike, and the groups of ports that
//! they send by.

use std::collections::BTreeSet;

use onbeat_frer::spec::{MAX_EGRESS, Rewrite};

use super::Plane;
use crate::abi::constants as c;
use crate::abi::*;
use crate::compile::{self, Replication};
use crate::error::{Error, Result};
use crate::slots::Slots;

/// A split that was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Split {
    pub(super) slot: u32,
    /// The set of its egress ports.
    ports: u64,
    group: Option<(u64, bool)>,
}

/// Slots that the entries in use leave free.
#[derive(Debug)]
pub(super) struct Free {
    splits: Slots,
    groups: Slots,
}

impl Free {
    pub(super) fn read(plane: &Plane) -> Result<Self> {
        let splits: BTreeSet<u32> = used(plane);
        let mut groups: BTreeSet<u32> = plane.groups.values().copied().collect();
        for slot in &splits {
            let split = plane.tables.splits.get(slot)?.unwrap_or_default();
            if split.count > 1 {
                groups.insert(split.group);
            }
        }
        Ok(Self {
            splits: Slots::new(plane.tables.splits.capacity(), &splits),
            groups: Slots::new(plane.group_capacity(), &groups),
        })
    }
}

/// Splits that live entries refer to.
fn used(plane: &Plane) -> BTreeSet<u32> {
    plane.live.values().map(|live| live.functions.split).collect()
}

/// The split that does this, written where there is none yet. Nothing refers to a new one: where it
/// is not used after all, the next change finds its slot free.
pub(super) fn split(
    plane: &mut Plane,
    stream: &str,
    replication: &Replication,
    up: &Rewrite,
    free: &mut Free,
) -> Result<u32> {
    let full = |what, capacity| Error::Full { stream: stream.to_string(), what, capacity };
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
    let mut content = split.as_bytes().to_vec();
    content.extend(egresses.iter().flat_map(|egress| egress.as_bytes().to_vec()));
    if let Some(split) = plane.splits.get(&content) {
        return Ok(split.slot);
    }

    let slot = free.splits.take().ok_or_else(|| full("splits", free.splits.capacity()))?;
    if !egresses.is_empty() {
        split.egress = slot * MAX_EGRESS as u32;
        for (slot, egress) in (split.egress..).zip(&egresses) {
            plane.tables.egresses.set(&slot, egress)?;
        }
    }
    let group = (split.count > 1).then_some((split.ports, !egresses.is_empty()));
    if let Some(key) = group {
        split.group = match plane.groups.get(&key) {
            Some(&group) => group,
            None => {
                let capacity = free.groups.capacity();
                let group =
                    free.groups.take().ok_or_else(|| full("sets of egress ports", capacity))?;
                plane.write_group(key, group)?;
                plane.groups.insert(key, group);
                group
            }
        };
    }
    plane.tables.splits.set(&slot, &split)?;
    plane.splits.insert(content, Split { slot, ports: split.ports, group });
    Ok(slot)
}

impl Plane {
    /// Forgets splits and groups that no live entry refers to.
    pub(super) fn forget_unused_splits(&mut self) {
        let used = used(self);
        self.splits.retain(|_, split| used.contains(&split.slot));
        let groups: BTreeSet<_> = self.splits.values().filter_map(|split| split.group).collect();
        self.groups.retain(|key, _| groups.contains(key));
    }

    /// Forgets splits and groups with a port that is gone.
    pub(super) fn forget_splits_by(&mut self, port: u8) {
        self.splits.retain(|_, split| split.ports & (1 << port) == 0);
        self.groups.retain(|(ports, _), _| ports & (1 << port) == 0);
    }
}

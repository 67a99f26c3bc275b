//! Groups: the sets of egress ports of splits.
//!
//! A group is a device map in a map of maps. Replacing one makes the kernel, and with it the caller, wait for
//! running programs; filling an existing one does not. Therefore a few empty groups of each size are kept
//! ready (grace.rs), and further ones of a change are inserted together.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use onbeat_bpf::PlainData;
use onbeat_frer::dataplane::Mode;
use onbeat_frer::spec::MAX_EGRESS;

use super::{Plane, Port};
use crate::abi::bpf_devmap_val;
use crate::error::{Context, Result};
use crate::slots::Slots;

/// A set of egress ports, by slot; with or without a program on each replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct EgressSet {
    pub(super) ports: u64,
    pub(super) egresses: bool,
}

/// A group with its slot.
pub(super) type GroupSlot = (u32, MapHandle);

/// Groups used by splits.
#[derive(Debug)]
pub(super) struct Groups {
    slots: Slots,
    /// Groups used by the programs of this process.
    by_set: HashMap<EgressSet, u32>,
    /// Number of splits that use each group.
    splits: HashMap<u32, usize>,
    /// Empty groups in their slots, by capacity.
    ready: BTreeMap<usize, Vec<GroupSlot>>,
    /// Number of empty groups being inserted.
    coming: usize,
    /// Filled groups not yet in their slots.
    waiting: Vec<GroupSlot>,
    /// Ports whose replicas are edited: all frames that leave by them pass the program.
    edited: u64,
}

/// Number of empty groups of each size to keep ready.
const READY: usize = 2;

/// Returns the size of a ready group for `ports` ports: a frame reads each entry of it.
fn ready_size(ports: usize) -> usize {
    if ports <= 8 { ports } else { MAX_EGRESS }
}

impl Groups {
    /// `found`: slots used by splits, once per use.
    /// `edited`: ports whose replicas are edited.
    pub(super) fn new(capacity: u32, found: impl Iterator<Item = u32>, edited: u64) -> Self {
        let mut splits = HashMap::new();
        found.for_each(|group| *splits.entry(group).or_insert(0) += 1);
        let used = splits.keys().copied().collect();
        let slots = Slots::new(capacity, &used);
        let (by_set, ready) = (HashMap::new(), BTreeMap::new());
        Self { slots, by_set, splits, ready, coming: 0, waiting: Vec::new(), edited }
    }

    pub(super) fn capacity(&self) -> u32 {
        self.slots.capacity()
    }

    /// Adds a use of a group.
    pub(super) fn refer(&mut self, group: u32) {
        *self.splits.entry(group).or_insert(0) += 1;
    }

    /// Removes a use of a group; returns true if it was the last.
    pub(super) fn unrefer(&mut self, group: u32) -> bool {
        let Some(splits) = self.splits.get_mut(&group) else { return false };
        *splits -= 1;
        if *splits > 0 {
            return false;
        }
        self.splits.remove(&group);
        self.by_set.retain(|_, slot| *slot != group);
        self.waiting.retain(|(slot, _)| *slot != group);
        true
    }

    /// Frees a retired slot.
    pub(super) fn free(&mut self, group: u32) {
        self.slots.free_slot(group);
    }

    /// Returns the slot of a ready group that is no longer kept.
    fn evict_ready(&mut self) -> Option<u32> {
        self.ready.values_mut().find_map(Vec::pop).map(|(slot, _)| slot)
    }

    /// Excludes groups with this port from reuse: later streams get new ones.
    pub(super) fn exclude_port(&mut self, port: u8) {
        self.by_set.retain(|set, _| set.ports & (1 << port) == 0);
    }

    /// Returns the groups of this process with a port.
    pub(super) fn with_port(&self, port: u8) -> Vec<(EgressSet, u32)> {
        let groups = self.by_set.iter().filter(|(set, _)| set.ports & (1 << port) != 0);
        groups.map(|(set, slot)| (*set, *slot)).collect()
    }
}

impl Plane {
    /// Returns the slot of the group with these ports; `None`: no room. [`Plane::put_groups`] must insert a
    /// new group before use.
    pub(super) fn group(&mut self, set: EgressSet) -> Result<Option<u32>> {
        if let Some(&group) = self.groups.by_set.get(&set) {
            return Ok(Some(group));
        }
        if set.egresses {
            self.edit_at(set.ports)?;
        }
        let size = self.members_of(set).len();
        let ready = self.groups.ready.get_mut(&ready_size(size)).and_then(Vec::pop);
        let slot = match ready {
            Some((slot, map)) => {
                self.fill(&map, set)?;
                slot
            }
            None => {
                let map = new_group(size)?;
                self.fill(&map, set)?;
                let slot = self.take(|plane| plane.groups.slots.take())?;
                let Some(slot) = slot.or_else(|| self.groups.evict_ready()) else {
                    return Ok(None);
                };
                self.groups.waiting.push((slot, map));
                slot
            }
        };
        self.groups.by_set.insert(set, slot);
        Ok(Some(slot))
    }

    /// Inserts new groups into their slots.
    pub(super) fn put_groups(&mut self) -> Result<()> {
        match std::mem::take(&mut self.groups.waiting) {
            waiting if waiting.is_empty() => Ok(()),
            waiting => put(&self.tables.groups, &waiting),
        }
    }

    /// Keeps empty groups ready for later changes.
    pub(super) fn keep_groups_ready(&mut self) -> Result<()> {
        let placed = self.grace.placed();
        self.groups.coming -= placed.len();
        for (slot, map) in placed {
            let size = map.max_entries() as usize;
            self.groups.ready.entry(size).or_default().push((slot, map));
        }
        if self.groups.coming > 0 || self.groups.by_set.is_empty() {
            return Ok(());
        }
        let mut new = Vec::new();
        let most = ready_size(self.ports.len().min(MAX_EGRESS));
        for size in (2..=most).filter(|size| ready_size(*size) == *size) {
            let there = self.groups.ready.get(&size).map_or(0, Vec::len);
            for _ in there..READY {
                // Without room, none is kept.
                let Some(slot) = self.groups.slots.take() else { break };
                new.push((slot, new_group(size)?));
            }
        }
        if !new.is_empty() {
            self.groups.coming = new.len();
            self.grace.put(new);
        }
        Ok(())
    }

    /// Writes the ports of a group that may be in use: a new map replaces the current one atomically.
    pub(super) fn write_group(&self, set: EgressSet, slot: u32) -> Result<()> {
        let map = new_group(self.members_of(set).len())?;
        self.fill(&map, set)?;
        self.tables
            .groups
            .update(slot.octets(), map.as_fd().as_raw_fd().octets(), MapFlags::ANY)
            .context(|| "write a group of egress ports".to_string())
    }

    fn members_of(&self, set: EgressSet) -> Vec<&Port> {
        // Native mode skips a port that is down and uses it again as soon as it is up, without this process.
        let leaves_out = self.ports.values().all(|port| port.mode == Mode::Native);
        let of_group = |port: &&Port| (port.up || leaves_out) && set.ports & (1 << port.slot) != 0;
        self.ports.values().filter(of_group).collect()
    }

    /// Lets all frames that leave by these ports pass the program for replicas, before the first one is edited. The kernel
    /// sends the frames of a poll to an interface together, and runs the program of the first one for all of them.
    fn edit_at(&mut self, ports: u64) -> Result<()> {
        let new = ports & !self.groups.edited;
        self.groups.edited |= ports;
        for slot in (0..u64::BITS as u8).filter(|slot| new & (1 << slot) != 0) {
            let port = self.ports.values().find(|port| port.slot == slot);
            if let Some(port) = port {
                self.tables.egress_ports.set(&slot.into(), &self.egress_entry(port))?;
            }
            self.rewrite_groups(slot)?;
        }
        if new == 0 { Ok(()) } else { self.write_paths() }
    }

    /// Whether all frames that leave by a port pass the program for replicas.
    pub(super) fn is_edited(&self, slot: u8) -> bool {
        self.groups.edited & (1 << slot) != 0 || self.lre.is_lan_b(slot)
    }

    /// Returns the entry of a port in device maps.
    pub(super) fn egress_entry(&self, port: &Port) -> bpf_devmap_val {
        let program = self.is_edited(port.slot).then(|| port.programs.egress());
        egress_port(port.ifindex, program.as_ref().map(|program| program.as_fd().as_raw_fd()))
    }

    fn fill(&self, map: &MapHandle, set: EgressSet) -> Result<()> {
        for (index, port) in self.members_of(set).into_iter().enumerate() {
            let value = self.egress_entry(port);
            map.update((index as u32).octets(), value.octets(), MapFlags::ANY)
                .context(|| "fill a group of egress ports".to_string())?;
        }
        Ok(())
    }
}

/// Inserts groups into their slots, with a single wait for programs.
pub(super) fn put(table: &MapHandle, groups: &[GroupSlot]) -> Result<()> {
    let slots: Vec<u8> = groups.iter().flat_map(|(slot, _)| slot.to_ne_bytes()).collect();
    let maps = groups.iter().flat_map(|(_, map)| map.as_fd().as_raw_fd().to_ne_bytes());
    let maps: Vec<u8> = maps.collect();
    let count = groups.len() as u32;
    table
        .update_batch(&slots, &maps, count, MapFlags::ANY, MapFlags::ANY)
        .context(|| format!("write {count} groups of egress ports"))
}

/// Creates an empty group for `ports` ports.
pub(super) fn new_group(ports: usize) -> Result<MapHandle> {
    let options = sys::bpf_map_create_opts {
        sz: size_of::<sys::bpf_map_create_opts>() as sys::size_t,
        ..Default::default()
    };
    let value_size = size_of::<bpf_devmap_val>() as u32;
    let entries = ports.max(1) as u32;
    MapHandle::create(MapType::Devmap, Some("frer_group"), 4, value_size, entries, &options)
        .context(|| "create a group of egress ports".to_string())
}

/// Returns an entry of a device map: an interface, and a program for frames sent there.
pub(super) fn egress_port(ifindex: u32, program: Option<i32>) -> bpf_devmap_val {
    let mut value = bpf_devmap_val { ifindex, ..Default::default() };
    value.bpf_prog.fd = program.unwrap_or(-1);
    value
}

//! What frames are found by: one entry for each key of a member stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use super::{Plane, Tables};
use crate::abi::*;
use crate::compile::{Key, Kind};
use crate::error::{Error, Result};
use crate::slots::Slots;

/// Words of entries that are changed by themselves.
const RETIRED_WORD: usize = std::mem::offset_of!(frer_member_record, retired) / 8;
const LAST_WORD: usize = std::mem::offset_of!(frer_member, shape_port) / 8;

/// An entry that frames are found by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Live {
    key: Key,
    pub(super) slot: u32,
    /// The member whose frames these are.
    pub(super) owner: u64,
    pub(super) functions: frer_functions,
}

impl Live {
    pub(super) fn kind(&self) -> Kind {
        self.key.kind()
    }
}

/// An entry that is to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) key: Key,
    /// What its member asks for.
    pub(super) vid: u16,
    pub(super) owner: u64,
    pub(super) stream: u64,
    /// As told by a stream of the configuration.
    pub(super) place: (usize, usize),
}

/// Entries that are to be, by the octets of their keys.
pub(super) type Targets = BTreeMap<Vec<u8>, Target>;

/// In the order of configuration, in which what there is no room for is told.
pub(super) fn in_order(targets: &Targets) -> Vec<(&Vec<u8>, &Target)> {
    let mut ordered: Vec<_> = targets.iter().collect();
    ordered.sort_by_key(|(_, target)| target.place);
    ordered
}

/// What nothing refers to any more, but a program that looked earlier may still use.
#[derive(Debug, Default)]
pub(super) struct Retired {
    pub(super) members: Vec<u32>,
    /// Owners that keep what they have; all others' slots are free.
    pub(super) generators: BTreeSet<u64>,
    pub(super) recoveries: BTreeSet<u64>,
}

/// What a node that runs already has.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) live: BTreeMap<Vec<u8>, Live>,
    /// Which slots those leave free.
    pub(super) slots: Slots,
    /// Slots whose entries were taken away, and not yet freed when the process ended.
    pub(super) retired: Vec<u32>,
}

/// Reads the entries that frames are found by.
pub(super) fn read(tables: &Tables) -> Result<Found> {
    let mut live = BTreeMap::new();
    let mut used = BTreeSet::new();
    let mut take = |key: Key, slot: u32| {
        let member = tables.members.get(slot);
        let functions = member.functions[member.active as usize & 1];
        let owner = tables.records.get(slot).owner;
        used.insert(slot);
        live.insert(key.octets(), Live { key, slot, owner, functions });
    };
    for slot in tables.l2().slots().collect::<Vec<_>>() {
        let frer_member { address, shape_port, .. } = tables.members.get(slot);
        if address == 0 && shape_port == 0 {
            // Its place was reserved when the process ended.
            tables.l2().release(slot);
        } else {
            take(Key::L2(frer_l2_key { address, shape_port, zero: 0 }), slot);
        }
    }
    for key in tables.ip.keys() {
        if let Some(slot) = tables.ip.get(&key)? {
            take(Key::Ip(key), slot);
        }
    }
    for key in tables.masks.keys() {
        if let Some(slot) = tables.masks.get(&key)? {
            take(Key::Mask(key), slot);
        }
    }
    let owned = |slot: &u32| tables.records.get(*slot).owner != 0;
    let retired: Vec<u32> =
        (0..tables.members.capacity()).filter(|slot| !used.contains(slot)).filter(owned).collect();
    used.extend(&retired);
    Ok(Found { live, slots: Slots::new(tables.members.capacity(), &used), retired })
}

/// Slots for the entries that are not there yet; those of layer 2 keys have their place in the
/// index, where programs find them as soon as their last word is written.
///
/// # Errors
/// No room; nothing is reserved then.
pub(super) fn reserve(
    plane: &mut Plane,
    targets: &Targets,
    name: impl Fn(&Target) -> String,
) -> Result<BTreeMap<Vec<u8>, u32>> {
    let mut reserved = BTreeMap::new();
    for (octets, target) in in_order(targets) {
        let live = plane.live.get(octets);
        if live.is_some_and(|live| live.owner == target.owner) {
            continue;
        }
        let slot = plane.members.take().filter(|slot| {
            let indexed = match target.key {
                Key::L2(key) if live.is_none() => plane.tables.l2().insert(&key, *slot),
                _ => true,
            };
            if !indexed {
                plane.members.give(*slot);
            }
            indexed
        });
        let Some(slot) = slot else {
            unreserve(plane, targets, &reserved);
            let what = "identification entries";
            let capacity = plane.members.capacity();
            return Err(Error::Full { stream: name(target), what, capacity });
        };
        reserved.insert(octets.clone(), slot);
    }
    Ok(reserved)
}

/// Gives back what was reserved and is not to be used.
pub(super) fn unreserve(plane: &mut Plane, targets: &Targets, reserved: &BTreeMap<Vec<u8>, u32>) {
    for (octets, slot) in reserved {
        if let Key::L2(key) = targets[octets].key {
            plane.tables.l2().remove(&key, *slot);
        }
        plane.members.give(*slot);
    }
}

/// Makes programs find what is to be, and no longer what is not; tells the slots that are no longer
/// found, and whether functions of an entry were exchanged.
pub(super) fn switch(
    plane: &mut Plane,
    targets: &Targets,
    reserved: &BTreeMap<Vec<u8>, u32>,
    functions: impl Fn(&Target) -> frer_functions,
) -> Result<(Vec<u32>, bool)> {
    let mut retired = Vec::new();
    let mut exchanged = false;
    for (octets, target) in targets {
        let functions = functions(target);
        let live = plane.live.get(octets).copied();
        let Some(&slot) = reserved.get(octets) else {
            let live = live.expect("an entry that is not there yet has a slot reserved");
            if live.functions.as_bytes() != functions.as_bytes() {
                exchange(&plane.tables, live.slot, &functions);
                exchanged = true;
            }
            plane.live.insert(octets.clone(), Live { functions, ..live });
            continue;
        };
        write(&plane.tables, slot, target, functions);
        match (&target.key, live) {
            (Key::L2(key), Some(live)) => plane.tables.l2().replace(key, live.slot, slot),
            (Key::L2(_), None) => {}
            (Key::Ip(key), _) => plane.tables.ip.set(key, &slot)?,
            (Key::Mask(key), _) => plane.tables.masks.set(key, &slot)?,
        }
        retired.extend(live.map(|live| live.slot));
        let Target { key, owner, .. } = *target;
        plane.live.insert(octets.clone(), Live { key, slot, owner, functions });
    }
    let gone: Vec<_> =
        plane.live.keys().filter(|key| !targets.contains_key(*key)).cloned().collect();
    for octets in gone {
        let live = plane.live.remove(&octets).expect("its key was just read");
        match &live.key {
            Key::L2(key) => plane.tables.l2().remove(key, live.slot),
            Key::Ip(key) => plane.tables.ip.remove(key)?,
            Key::Mask(key) => plane.tables.masks.remove(key)?,
        }
        retired.push(live.slot);
    }
    Ok((retired, exchanged))
}

/// Writes an entry that no program finds yet; of a layer 2 key, one that is indexed, programs find
/// it from its last word on.
fn write(tables: &Tables, slot: u32, target: &Target, functions: frer_functions) {
    let record =
        frer_member_record { owner: target.owner, stream: target.stream, ..Default::default() };
    tables.records.set(slot, &record);
    let mut member = frer_member { functions: [functions; 2], ..Default::default() };
    if let Key::L2(key) = target.key {
        (member.address, member.shape_port) = (key.address, key.shape_port);
    }
    tables.members.set(slot, &member);
}

/// Gives an entry that programs use other functions: those that are not active are written, then
/// made the active ones.
fn exchange(tables: &Tables, slot: u32, functions: &frer_functions) {
    let words = tables.members.entry(slot);
    let member = tables.members.get(slot);
    let active = 1 - (member.active & 1);
    let first = active as usize * size_of::<frer_functions>() / 8;
    for (word, octets) in words[first..].iter().zip(functions.as_bytes().chunks_exact(8)) {
        let octets = octets.first_chunk().expect("a word");
        word.store(u64::from_ne_bytes(*octets), Ordering::Release);
    }
    let last = u64::from(active) << 32 | u64::from(member.shape_port);
    words[LAST_WORD].store(last, Ordering::Release);
}

impl Tables {
    /// Frames of an entry that were sent, and those that its stream sent before.
    pub(super) fn output(&self, slot: u32) -> u64 {
        let member = self.members.get(slot);
        // The programs count a frame as received before they drop it.
        member.input.saturating_sub(member.dropped) + self.records.get(slot).retired
    }
}

impl Plane {
    /// Slots of a member's entries.
    pub(super) fn slots_of(&self, owner: u64, keys: &[Key]) -> Vec<u32> {
        let live = keys.iter().filter_map(|key| self.live.get(&key.octets()));
        live.filter(|live| live.owner == owner).map(|live| live.slot).collect()
    }

    /// Frames sent of members that a stream no longer has, and that no entry of it tells yet.
    pub(super) fn retired_output(&self, stream: u64) -> u64 {
        let retired = self.retired.iter().flat_map(|retired| &retired.members);
        retired
            .filter(|slot| self.tables.records.get(**slot).stream == stream)
            .map(|slot| self.tables.output(*slot))
            .sum()
    }

    /// Waits until no program uses what the last change left, and frees it.
    pub(super) fn settle(&mut self) -> Result<()> {
        if self.retired.is_none() {
            return Ok(());
        }
        self.wait_for_programs()?;
        let retired = self.retired.take().unwrap_or_default();
        let mut heirs = BTreeMap::new();
        if !retired.members.is_empty() {
            let slots = self.live.values().map(|live| live.slot);
            heirs.extend(slots.map(|slot| (self.tables.records.get(slot).stream, slot)));
        }
        for slot in retired.members {
            let output = self.tables.output(slot);
            if let Some(heir) = heirs.get(&self.tables.records.get(slot).stream) {
                self.tables.records.entry(*heir)[RETIRED_WORD].fetch_add(output, Ordering::Relaxed);
            }
            self.tables.members.set(slot, &Default::default());
            self.tables.records.set(slot, &Default::default());
            self.members.give(slot);
        }
        for slot in self.generators.retain(&retired.generators) {
            self.tables.generators.set(&slot, &Default::default())?;
        }
        for slot in self.recoveries.retain(&retired.recoveries) {
            self.tables.recoveries.set(&slot, &Default::default())?;
        }
        Ok(())
    }
}

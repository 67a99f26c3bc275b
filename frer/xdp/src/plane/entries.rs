//! What frames are found by: one entry for each key of a member stream.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;

use super::index::Place;
use super::{Plane, Retiree, Tables};
use crate::abi::*;
use crate::compile::{Found, Key, State};
use crate::error::Result;
use crate::slots::Slots;

/// Words of entries that are changed by themselves.
const INPUT: usize = std::mem::offset_of!(frer_member, input) / 8;
const DROPPED: usize = std::mem::offset_of!(frer_member, dropped) / 8;
const FUNCTIONS: usize = std::mem::offset_of!(frer_member, functions) / 8;
const OWNER: usize = std::mem::offset_of!(frer_member, owner) / 8;
const ENC_ERRORED: usize = std::mem::offset_of!(frer_member_record, enc_errored) / 8;
const RETIRED: usize = std::mem::offset_of!(frer_member_record, retired) / 8;

/// What frames with a key are found to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) slot: u32,
    /// The member whose frames these are, and its stream.
    pub(super) owner: u64,
    pub(super) stream: u64,
    pub(super) does: Does,
}

/// What becomes of these frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Does {
    pub(super) state: State,
    pub(super) individual: u32,
    pub(super) split: u32,
}

impl Does {
    fn functions(&self) -> u64 {
        u64::from(self.individual) << 32 | u64::from(self.split)
    }
}

/// A slot with counters of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) slot: u32,
    /// The member that it counts for.
    pub(super) owner: u64,
    /// Frames are found by it. What others counted is added to one of these before they are free.
    pub(super) live: bool,
}

/// What a node that runs already has.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) entries: HashMap<Key, Entry>,
    pub(super) slots: Slots,
    /// By owner of their stream.
    pub(super) held: HashMap<u64, Vec<Held>>,
    /// What was left, and not yet free when the process ended.
    pub(super) left: Vec<Retiree>,
}

/// Reads the entries that frames are found by; none where the node is `fresh`.
pub(super) fn read(tables: &Tables, fresh: bool) -> Result<Read> {
    let mut read = Read::default();
    let mut used = BTreeSet::new();
    if !fresh {
        let index = tables.l2();
        for (place, address, word) in index.entries() {
            let shape_port = (word >> constants::FOUND_KEY) as u16 & !(constants::FOUND as u16);
            match Found::read(word) {
                Some(found) => {
                    let key = frer_l2_key { address, shape_port, zero: [0; 3] };
                    read.take(tables, Key::L2(key), found);
                }
                // It was leaving, or not yet there, when the process ended.
                None => read.left.push(Retiree::Place(place)),
            }
        }
        for key in tables.ip.keys() {
            if let Some(found) = tables.ip.get(&key)?.and_then(Found::read) {
                read.take(tables, Key::Ip(key), found);
            }
        }
        for key in tables.masks.keys() {
            if let Some(found) = tables.masks.get(&key)?.and_then(Found::read) {
                read.take(tables, Key::Mask(key), found);
            }
        }
        used.extend(read.entries.values().map(|entry| entry.slot));
        for slot in (0..tables.members.capacity()).filter(|slot| !used.contains(slot)) {
            let owner = tables.members.entry(slot)[OWNER].load(Ordering::Relaxed);
            if owner != 0 {
                let stream = tables.records.get(slot).stream;
                read.held.entry(stream).or_default().push(Held { slot, owner, live: false });
                read.left.push(Retiree::Member { slot, stream });
            }
        }
        let left = read.left.iter().filter_map(|left| match left {
            Retiree::Member { slot, .. } => Some(*slot),
            _ => None,
        });
        used.extend(left);
    }
    read.slots = Slots::new(tables.members.capacity(), &used);
    Ok(read)
}

impl Read {
    fn take(&mut self, tables: &Tables, key: Key, found: Found) {
        let slot = found.member;
        let frer_member { functions, owner, .. } = tables.members.get(slot);
        let stream = tables.records.get(slot).stream;
        let does = Does {
            state: found.state,
            individual: (functions >> 32) as u32,
            split: functions as u32,
        };
        self.held.entry(stream).or_default().push(Held { slot, owner, live: true });
        self.entries.insert(key, Entry { slot, owner, stream, does });
    }
}

/// Room for an entry that is not there yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) slot: u32,
    /// Of a layer 2 key that nothing is found by yet.
    pub(super) place: Option<Place>,
}

impl Tables {
    /// Writes a member that nothing refers to yet.
    pub(super) fn write_member(&self, entry: &Entry) {
        let record = frer_member_record { stream: entry.stream, ..Default::default() };
        self.records.set(entry.slot, &record);
        let functions = entry.does.functions();
        let member = frer_member { functions, owner: entry.owner, ..Default::default() };
        self.members.set(entry.slot, &member);
    }

    /// Gives a member that programs use other functions beside its state.
    pub(super) fn exchange(&self, slot: u32, does: &Does) {
        self.members.entry(slot)[FUNCTIONS].store(does.functions(), Ordering::Release);
    }

    /// What frames with this key are found to be, from now on: where they are found to be something,
    /// or at a new place.
    pub(super) fn find(&self, key: &Key, place: Option<Place>, found: Found) -> Result<()> {
        let word = found.word(key);
        match key {
            Key::L2(l2) => {
                let place = place.or_else(|| self.l2().find(l2));
                self.l2().set(place.expect("a key that is found has a place"), word);
                Ok(())
            }
            Key::Ip(key) => self.ip.set(key, &word),
            Key::Mask(key) => self.masks.set(key, &word),
        }
    }

    /// From now on nothing is found by this key; tells the place it leaves in the index.
    pub(super) fn lose(&self, key: &Key) -> Result<Option<Place>> {
        match key {
            Key::L2(key) => {
                let place = self.l2().find(key);
                place.into_iter().for_each(|place| self.l2().leave(place));
                Ok(place)
            }
            Key::Ip(key) => self.ip.remove(key).map(|()| None),
            Key::Mask(key) => self.masks.remove(key).map(|()| None),
        }
    }

    /// Frames of an entry that were sent, and those that its stream sent before.
    pub(super) fn output(&self, slot: u32) -> u64 {
        let member = self.members.get(slot);
        // The programs count a frame as received before they drop it.
        member.input.saturating_sub(member.dropped) + self.records.get(slot).retired
    }

    /// Adds what a slot counted to another one of the same member.
    fn merge(&self, slot: u32, heir: u32) {
        for word in [INPUT, DROPPED] {
            let counted = self.members.entry(slot)[word].swap(0, Ordering::Relaxed);
            self.members.entry(heir)[word].fetch_add(counted, Ordering::Relaxed);
        }
        for word in [ENC_ERRORED, RETIRED] {
            let counted = self.records.entry(slot)[word].swap(0, Ordering::Relaxed);
            self.records.entry(heir)[word].fetch_add(counted, Ordering::Relaxed);
        }
    }
}

impl Plane {
    /// Notes an entry of a stream.
    pub(super) fn hold(&mut self, entry: &Entry) {
        let held = Held { slot: entry.slot, owner: entry.owner, live: true };
        self.held.entry(entry.stream).or_default().push(held);
    }

    /// Notes that no frame finds a slot any more.
    pub(super) fn unhold(&mut self, entry: &Entry, left: &mut Vec<Retiree>) {
        let held = self.held.get_mut(&entry.stream);
        let mut held = held.into_iter().flatten();
        if let Some(held) = held.find(|held| held.slot == entry.slot) {
            held.live = false;
        }
        left.push(Retiree::Member { slot: entry.slot, stream: entry.stream });
    }

    /// A stream is no more: should it come again, what it counted is not its own.
    pub(super) fn disown(&mut self, stream: u64) {
        for held in self.held.remove(&stream).unwrap_or_default() {
            self.tables.members.entry(held.slot)[OWNER].store(0, Ordering::Relaxed);
        }
    }

    /// Members that a stream no longer has: should one come again, what it counted is not its own,
    /// but what it sent stays the stream's.
    pub(super) fn disown_members(&mut self, number: usize) {
        let Some(stream) = &self.streams[number] else { return };
        for held in self.held.get_mut(&stream.owner).into_iter().flatten() {
            if stream.members.iter().all(|member| member.owner != held.owner) {
                held.owner = stream.owner;
                self.tables.members.entry(held.slot)[OWNER].store(held.owner, Ordering::Relaxed);
            }
        }
    }

    /// A member's slot is free: what it counted goes to one of the same member, or, as far as it
    /// was sent, to one of the same stream.
    pub(super) fn free_member(&mut self, slot: u32, stream: u64) {
        if let Some(held) = self.held.get_mut(&stream) {
            if let Some(place) = held.iter().position(|held| held.slot == slot && !held.live) {
                let freed = held.swap_remove(place);
                let mut heirs = held.iter().filter(|held| held.live);
                let same = heirs.clone().find(|heir| heir.owner == freed.owner);
                if let Some(heir) = same {
                    self.tables.merge(slot, heir.slot);
                } else if let Some(heir) = heirs.next() {
                    let output = self.tables.output(slot);
                    self.tables.records.entry(heir.slot)[RETIRED]
                        .fetch_add(output, Ordering::Relaxed);
                }
                if held.is_empty() {
                    self.held.remove(&stream);
                }
            }
        }
        self.tables.members.set(slot, &Default::default());
        self.tables.records.set(slot, &Default::default());
        self.members.give(slot);
    }
}

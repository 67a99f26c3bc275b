//! Lookup entries: one per key of a member stream.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;

use super::index::IndexSlot;
use super::{Plane, RetiredItem, Tables, splits};
use crate::abi::*;
use crate::compile::{Key, MatchedMember, State};
use crate::error::Result;
use crate::slots::Slots;

/// Words of entries that are modified individually.
const PASSED_BEFORE: usize = std::mem::offset_of!(frer_recovery, passed) / 8;
const DISCARDED_BEFORE: usize = std::mem::offset_of!(frer_recovery, discarded) / 8;
const PASSED: usize = std::mem::offset_of!(frer_member, passed) / 8;
const DROPPED: usize = std::mem::offset_of!(frer_member, dropped) / 8;
const FUNCTIONS: usize = std::mem::offset_of!(frer_member, functions) / 8;
const OWNER: usize = std::mem::offset_of!(frer_member, owner) / 8;
const ENC_ERRORED: usize = std::mem::offset_of!(frer_member_record, enc_errored) / 8;
const FORMER_INPUT: usize = std::mem::offset_of!(frer_member_record, former_input) / 8;
const RETIRED: usize = std::mem::offset_of!(frer_member_record, retired) / 8;

/// The lookup entry of a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) slot: u32,
    /// The member that the frames match, and its stream.
    pub(super) owner: u64,
    pub(super) stream: u64,
    pub(super) does: MemberActions,
}

/// The processing of these frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemberActions {
    pub(super) state: State,
    pub(super) individual: u32,
    pub(super) split: u32,
}

impl MemberActions {
    /// The word of a member; `split`: the content of its split.
    fn word(&self, split: &frer_split) -> u64 {
        let individual = match self.individual {
            constants::NONE => constants::FUNCTIONS_SLOT,
            slot => slot,
        };
        debug_assert!(
            self.split <= constants::FUNCTIONS_SLOT && individual <= constants::FUNCTIONS_SLOT
        );
        let word = u64::from(individual) << constants::FUNCTIONS_INDIVIDUAL | u64::from(self.split);
        let (is_group, target) = splits::target(split);
        match u16::try_from(target) {
            Ok(target) if split.flags == 0 => {
                word | constants::FUNCTIONS_DIRECT
                    | if is_group { constants::FUNCTIONS_GROUP } else { 0 }
                    | u64::from(split.tag) << constants::FUNCTIONS_TAG
                    | u64::from(target) << constants::FUNCTIONS_TARGET
            }
            _ => word,
        }
    }

    /// Individual recovery and split of a member with this word.
    fn read(functions: u64) -> (u32, u32) {
        let slot = |shift: u32| (functions >> shift) as u32 & constants::FUNCTIONS_SLOT;
        let individual = match slot(constants::FUNCTIONS_INDIVIDUAL) {
            constants::FUNCTIONS_SLOT => constants::NONE,
            slot => slot,
        };
        (individual, slot(0))
    }
}

/// A slot with counters of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct CounterSlot {
    pub(super) slot: u32,
    /// The member that it counts for.
    pub(super) owner: u64,
    /// Frames are counted here. Counters of other slots are added to one of these before they are freed.
    pub(super) live: bool,
}

/// Counters of the frames of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotCounters {
    passed: u64,
    dropped: u64,
    pub(super) record: frer_member_record,
}

impl SlotCounters {
    /// Returns the frames that were sent, including those that the stream sent before.
    pub(super) fn output(&self) -> u64 {
        self.passed + self.record.retired
    }

    /// Returns the frames that were received, including those of former slots of the member.
    pub(super) fn input(&self) -> u64 {
        self.passed + self.dropped + self.record.former_input
    }

    /// Returns the frames that sequence recovery passed, and those that it discarded, with or without a number.
    pub(super) fn judged(&self) -> (u64, u64) {
        (self.passed, self.dropped.saturating_sub(self.record.unjudged))
    }
}

/// Entries that exist when a node is opened.
#[derive(Debug, Default)]
pub(super) struct StoredEntries {
    pub(super) entries: HashMap<Key, Entry>,
    pub(super) slots: Slots,
    /// By owner of the stream.
    pub(super) held: HashMap<u64, Vec<CounterSlot>>,
    /// Entries that were retired but not yet freed when the process ended.
    pub(super) left: Vec<RetiredItem>,
}

/// Reads the lookup entries; none if the node is `fresh`.
pub(super) fn read(tables: &Tables, fresh: bool) -> Result<StoredEntries> {
    let mut read = StoredEntries::default();
    let mut used = BTreeSet::new();
    if !fresh {
        let index = tables.l2();
        for (place, address, word) in index.entries() {
            let shape_port = (word >> constants::FOUND_KEY) as u16 & !(constants::FOUND as u16);
            match MatchedMember::read(word) {
                Some(found) => {
                    let key = frer_l2_key { address, shape_port, zero: [0; 3] };
                    read.take(tables, Key::L2(key), found);
                }
                // It was being removed or added when the process ended.
                None => read.left.push(RetiredItem::IndexSlot(place)),
            }
        }
        for key in tables.ip.keys() {
            if let Some(found) = tables.ip.get(&key)?.and_then(MatchedMember::read) {
                read.take(tables, Key::Ip(key), found);
            }
        }
        for key in tables.masks.keys() {
            if let Some(found) = tables.masks.get(&key)?.and_then(MatchedMember::read) {
                read.take(tables, Key::Mask(key), found);
            }
        }
        used.extend(read.entries.values().map(|entry| entry.slot));
        for slot in (0..tables.members.capacity()).filter(|slot| !used.contains(slot)) {
            let owner = tables.members.entry(slot)[OWNER].load(Ordering::Relaxed);
            if owner != 0 {
                let stream = tables.records.get(slot).stream;
                read.held.entry(stream).or_default().push(CounterSlot { slot, owner, live: false });
                read.left.push(RetiredItem::Member { slot, stream });
            }
        }
        let left = read.left.iter().filter_map(|left| match left {
            RetiredItem::Member { slot, .. } => Some(*slot),
            _ => None,
        });
        used.extend(left);
    }
    read.slots = Slots::new(tables.members.capacity(), &used);
    Ok(read)
}

impl StoredEntries {
    fn take(&mut self, tables: &Tables, key: Key, found: MatchedMember) {
        let slot = found.member;
        let frer_member { functions, owner, .. } = tables.members.get(slot);
        let stream = tables.records.get(slot).stream;
        let (individual, split) = MemberActions::read(functions);
        let does = MemberActions { state: found.state, individual, split };
        self.held.entry(stream).or_default().push(CounterSlot { slot, owner, live: true });
        self.entries.insert(key, Entry { slot, owner, stream, does });
    }
}

/// A reserved entry that is not yet in the tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReservedEntry {
    pub(super) slot: u32,
    /// Slot of a layer 2 key without a value yet.
    pub(super) place: Option<IndexSlot>,
}

impl Tables {
    /// Writes a member that is not yet referenced.
    pub(super) fn write_member(&self, entry: &Entry) {
        let recovery = match entry.does.state {
            State::Recovery(slot) => slot,
            State::None | State::Generator(_) => constants::NONE,
        };
        let (stream, recovery) = (entry.stream, recovery.into());
        let record = frer_member_record { stream, recovery, ..Default::default() };
        self.records.set(entry.slot, &record);
        // Programs that steer have none.
        if entry.slot < self.skews.capacity() {
            self.skews.set(entry.slot, &Default::default());
        }
        let functions = self.functions(&entry.does);
        let member = frer_member { functions, owner: entry.owner, ..Default::default() };
        self.members.set(entry.slot, &member);
    }

    /// Replaces the functions of a member in use, except its state.
    pub(super) fn exchange(&self, slot: u32, does: &MemberActions) {
        self.members.entry(slot)[FUNCTIONS].store(self.functions(does), Ordering::Release);
    }

    fn functions(&self, does: &MemberActions) -> u64 {
        does.word(&self.splits.get(does.split))
    }

    /// Sets the value of a key, in its present entry or in a new slot.
    pub(super) fn find(
        &self,
        key: &Key,
        place: Option<IndexSlot>,
        found: MatchedMember,
    ) -> Result<()> {
        let word = found.word(key);
        match key {
            Key::L2(l2) => {
                let place = place.or_else(|| self.l2().find(l2));
                self.l2().set(place.expect("a key with a value has a slot"), word);
                Ok(())
            }
            Key::Ip(key) => self.ip.set(key, &word),
            Key::Mask(key) => self.masks.set(key, &word),
        }
    }

    /// Removes the value of a key; returns the slot to free in the index.
    pub(super) fn lose(&self, key: &Key) -> Result<Option<IndexSlot>> {
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

    /// Returns the counters of a slot.
    pub(super) fn counted(&self, slot: u32) -> SlotCounters {
        let member = self.members.entry(slot);
        let [passed, dropped] = [PASSED, DROPPED].map(|word| member[word].load(Ordering::Acquire));
        // After them: of the dropped frames those that were not judged are subtracted.
        let record = self.records.get(slot);
        SlotCounters { passed: passed + record.passed, dropped: dropped + record.dropped, record }
    }

    /// Adds what a slot counted for its stream's sequence recovery to that function.
    fn settle(&self, slot: u32) {
        let recovery = self.records.get(slot).recovery as u32;
        let is_used = |slot| self.recovery_records.get(slot).owner != 0;
        if recovery == constants::NONE || !is_used(recovery) {
            return;
        }
        let (passed, discarded) = self.counted(slot).judged();
        let function = self.recoveries.entry(recovery);
        function[PASSED_BEFORE].fetch_add(passed, Ordering::Relaxed);
        function[DISCARDED_BEFORE].fetch_add(discarded, Ordering::Relaxed);
    }

    /// Adds the counters of a slot to another slot of the same member.
    fn merge(&self, slot: u32, new_owner: u32) {
        let (counted, record) = (self.counted(slot), self.records.entry(new_owner));
        for (word, count) in [
            (FORMER_INPUT, counted.input()),
            (RETIRED, counted.output()),
            (ENC_ERRORED, counted.record.enc_errored),
        ] {
            record[word].fetch_add(count, Ordering::Relaxed);
        }
    }
}

impl Plane {
    /// Records an entry of a stream.
    pub(super) fn hold(&mut self, entry: &Entry) {
        let held = CounterSlot { slot: entry.slot, owner: entry.owner, live: true };
        self.held.entry(entry.stream).or_default().push(held);
    }

    /// Records that no key refers to a slot any more.
    pub(super) fn release_slot(&mut self, entry: &Entry, left: &mut Vec<RetiredItem>) {
        let held = self.held.get_mut(&entry.stream);
        let mut held = held.into_iter().flatten();
        if let Some(held) = held.find(|held| held.slot == entry.slot) {
            held.live = false;
        }
        left.push(RetiredItem::Member { slot: entry.slot, stream: entry.stream });
    }

    /// Clears the owner of a removed stream: a later stream of that name does not inherit its counters.
    pub(super) fn disown(&mut self, stream: u64) {
        for held in self.held.remove(&stream).unwrap_or_default() {
            self.tables.members.entry(held.slot)[OWNER].store(0, Ordering::Relaxed);
        }
    }

    /// Clears the owner of removed members: a later equal member does not inherit their counters, but frames
    /// sent remain those of the stream.
    pub(super) fn clear_owners_of_members(&mut self, number: usize) {
        let Some(stream) = &self.streams[number] else { return };
        for held in self.held.get_mut(&stream.owner).into_iter().flatten() {
            if stream.members.iter().all(|member| member.owner != held.owner) {
                held.owner = stream.owner;
                self.tables.members.entry(held.slot)[OWNER].store(held.owner, Ordering::Relaxed);
            }
        }
    }

    /// Frees the slot of a member: its counters are added to a slot of the same member, or, as far as frames
    /// were sent, to a slot of the same stream.
    pub(super) fn free_member(&mut self, slot: u32, stream: u64) {
        if let Some(held) = self.held.get_mut(&stream) {
            if let Some(place) = held.iter().position(|held| held.slot == slot && !held.live) {
                let freed = held.swap_remove(place);
                self.tables.settle(slot);
                let mut live = held.iter().filter(|held| held.live);
                let same = live.clone().find(|new_owner| new_owner.owner == freed.owner);
                if let Some(new_owner) = same {
                    self.tables.merge(slot, new_owner.slot);
                } else if let Some(new_owner) = live.next() {
                    let output = self.tables.counted(slot).output();
                    self.tables.records.entry(new_owner.slot)[RETIRED]
                        .fetch_add(output, Ordering::Relaxed);
                }
                if held.is_empty() {
                    self.held.remove(&stream);
                }
            }
        }
        self.tables.members.set(slot, &Default::default());
        self.tables.records.set(slot, &Default::default());
        self.members.free_slot(slot);
    }
}

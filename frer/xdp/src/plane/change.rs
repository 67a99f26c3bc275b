//! From the streams that come, change and go, to the table entries that make it so.
//!
//! All that can be refused is refused before anything is changed: `plan` thinks the change through,
//! `prepare` takes slots and writes what nothing refers to yet, and can be undone. `commit` then
//! switches one entry after the other.

use std::collections::{HashMap, HashSet};

use onbeat_bpf::Plain;
use onbeat_frer::dataplane::Changes;
use onbeat_frer::identify::Conflict;
use onbeat_frer::spec::{Recovery, Stream};

use super::claims::{Heir, Member, Step};
use super::entries::{Does, Entry, Room};
use super::owned::Owned;
use super::wanted::{Wanted, WantedMember, port_slots};
use super::{Applied, AppliedMember, Plane, Retiree, splits};
use crate::abi::constants as c;
use crate::abi::*;
use crate::compile::{self, Found, Key, Kind, State};
use crate::error::{Error, Result};

/// A change that can be made, as far as streams among themselves are concerned.
struct Plan<'a> {
    wanted: Vec<Wanted<'a>>,
    /// Numbers of streams that go, those that are to change among them.
    leaving: HashSet<usize>,
    steps: Vec<Step>,
    changes: Changes,
}

/// A step with the room taken for it.
struct PreparedStep {
    key: Key,
    heir: Option<Heir>,
    room: Option<Room>,
}

/// What was taken for a change.
#[derive(Default)]
struct Prepared {
    /// In the order of `Plan::wanted`.
    applied: Vec<Applied>,
    steps: Vec<PreparedStep>,
    generators: Vec<u64>,
    recoveries: Vec<u64>,
    /// Recovery functions that go on with other parameters.
    configure: Vec<(u32, frer_recovery_config)>,
    splits: Vec<u32>,
}

fn full(stream: &str, what: &'static str, capacity: u32) -> Error {
    Error::Full { stream: stream.to_string(), what, capacity }
}

pub(super) fn change(
    plane: &mut Plane,
    names: &[String],
    gone: &[&str],
    streams: &[Stream],
) -> Result<Changes> {
    plane.reclaim();
    plane.unlist_kinds()?;
    plane.keep_groups_ready()?;
    let plan = plan(plane, names, gone, streams)?;
    if plan.steps.is_empty() && plan.wanted.is_empty() && plan.leaving.is_empty() {
        return Ok(plan.changes);
    }
    check_room(plane, &plan)?;
    check_kinds(plane, &plan)?;
    let mut prepared = Prepared::default();
    if let Err(error) = prepare(plane, &plan, &mut prepared) {
        undo(plane, prepared);
        return Err(error);
    }
    let changes = plan.changes;
    commit(plane, plan, prepared)?;
    Ok(changes)
}

fn plan<'a>(
    plane: &Plane,
    names: &[String],
    gone: &[&str],
    streams: &'a [Stream],
) -> Result<Plan<'a>> {
    let mut changes = Changes::default();
    let mut wanted = Vec::new();
    let mut leaving: HashSet<usize> =
        gone.iter().filter_map(|name| plane.names.get(*name)).copied().collect();
    changes.removed = leaving.len();
    for stream in streams {
        let slots = port_slots(plane, names, stream)?;
        match plane.names.get(&stream.name) {
            Some(number) => {
                let removed = leaving.contains(number);
                let before = plane.stream(*number);
                if !removed && before.stream == *stream && before.port_slots == slots {
                    changes.kept += 1;
                    continue;
                }
                leaving.insert(*number);
                changes.removed -= usize::from(removed);
                changes.changed += 1;
            }
            None => changes.added += 1,
        }
        wanted.push(Wanted::of(plane, names, stream, slots)?);
    }
    let before = leaving.iter().flat_map(|number| &plane.stream(*number).members);
    let new = wanted.iter().enumerate().flat_map(|(stream, w)| {
        let members = w.members.iter().enumerate();
        members.map(move |(member, m)| (Member { stream, member }, m.keys.as_slice()))
    });
    let steps = plane.claims.plan(&leaving, before.map(|m| m.keys.as_slice()), new);
    let steps = steps.map_err(|clash| conflict(plane, &wanted, clash.first, clash.second))?;
    Ok(Plan { wanted, leaving, steps, changes })
}

fn conflict(plane: &Plane, wanted: &[Wanted<'_>], first: Heir, second: Heir) -> Error {
    let stream = |heir| match heir {
        Heir::There(member) => &plane.stream(member.stream).stream,
        Heir::New(member) => wanted[member.stream].stream,
    };
    let port = match second {
        Heir::There(member) | Heir::New(member) => stream(second).members[member.member].port,
    };
    let [first, second] = [first, second].map(|heir| stream(heir).name.clone());
    Conflict { port, first, second }.into()
}

/// Refuses what there are not enough functions for.
fn check_room(plane: &Plane, plan: &Plan<'_>) -> Result<()> {
    let Some(last) = plan.wanted.last() else { return Ok(()) };
    if !plane.swept {
        // What an earlier process left counts among what streams have.
        return Ok(());
    }
    let check = |owned: &Owned, what, before: HashSet<u64>, after: HashSet<u64>| {
        let gone = before.difference(&after).count();
        let new = after.iter().filter(|owner| owned.get(**owner).is_none()).count();
        match owned.too_many(gone, new) {
            true => Err(full(&last.stream.name, what, owned.most())),
            false => Ok(()),
        }
    };
    let leaving = || plan.leaving.iter().map(|number| plane.stream(*number));
    let wanted = plan.wanted.iter();
    check(
        &plane.generators,
        "sequence generators",
        leaving().filter_map(|applied| applied.generator).collect(),
        wanted.clone().filter_map(|w| w.generator).collect(),
    )?;
    check(
        &plane.recoveries,
        "recovery functions",
        leaving().flat_map(Applied::recoveries).collect(),
        wanted.flat_map(Wanted::recoveries).collect(),
    )
}

/// Refuses what the lists of shapes and the kernel's tables have no room for: while streams are
/// switched, they hold what was and what will be.
fn check_kinds(plane: &Plane, plan: &Plan<'_>) -> Result<()> {
    type Class = fn(Kind) -> bool;
    const KINDS: &str = "kinds of identification";
    let classes: [(Class, u32, &str, u32); 3] = [
        (|kind| matches!(kind, Kind::L2(_)), c::MAX_SHAPES, KINDS, u32::MAX),
        (|kind| matches!(kind, Kind::Ip(_)), c::MAX_SHAPES, KINDS, plane.tables.ip.capacity()),
        (
            |kind| matches!(kind, Kind::Mask(_)),
            c::MAX_MASKS,
            "sets of masks",
            plane.tables.masks.capacity(),
        ),
    ];
    for (is, most_kinds, what, capacity) in classes {
        let mut kinds: HashSet<Kind> = plane.shapes.kinds().filter(|kind| is(*kind)).collect();
        let mut entries = plane.shapes.count(is);
        let new = plan.steps.iter().filter(|step| is(step.key.kind()));
        for step in new.filter(|step| !plane.entries.contains_key(&step.key)) {
            let Some(Heir::New(member)) = step.heir else { continue };
            let name = &plan.wanted[member.stream].stream.name;
            entries += 1;
            kinds.insert(step.key.kind());
            if entries > capacity as usize {
                return Err(full(name, "identification entries", capacity));
            }
            if kinds.len() > most_kinds as usize {
                let what = format!(
                    "more than {most_kinds} {what}, those of the streams before this change among \
                     them; use fewer, or remove those streams first"
                );
                return Err(Error::Unsupported { stream: name.clone(), what });
            }
        }
    }
    Ok(())
}

/// Takes slots, and writes what nothing refers to yet.
fn prepare(plane: &mut Plane, plan: &Plan<'_>, prepared: &mut Prepared) -> Result<()> {
    for w in &plan.wanted {
        let applied = prepare_stream(plane, w, prepared)?;
        prepared.applied.push(applied);
    }
    plane.put_groups()?;
    for step in &plan.steps {
        let room = match step.heir {
            None => None,
            Some(heir) => prepare_entry(plane, plan, prepared, &step.key, heir)?,
        };
        prepared.steps.push(PreparedStep { key: step.key, heir: step.heir, room });
    }
    let kinds = plan.steps.iter().filter(|step| step.heir.is_some()).map(|s| s.key.kind());
    plane.list_kinds(kinds, plan.wanted.iter().flat_map(Wanted::masks))
}

/// Room for an entry where what is there cannot become what is to be.
fn prepare_entry(
    plane: &mut Plane,
    plan: &Plan<'_>,
    prepared: &Prepared,
    key: &Key,
    heir: Heir,
) -> Result<Option<Room>> {
    let there = plane.entries.get(key).copied();
    let (owner, _, does) = heir_of(plane, prepared, heir);
    if there.is_some_and(|entry| entry.owner == owner && entry.does.state == does.state) {
        return Ok(None);
    }
    let name = || match heir {
        Heir::There(member) => plane.stream(member.stream).stream.name.clone(),
        Heir::New(member) => plan.wanted[member.stream].stream.name.clone(),
    };
    let name = name();
    let capacity = plane.tables.members.capacity();
    let none = || full(&name, "identification entries", capacity);
    let slot = plane.take(|plane| plane.members.take())?.ok_or_else(none)?;
    let place = match key {
        Key::L2(key) if there.is_none() => {
            let place = plane.take(|plane| plane.tables.l2().insert(key));
            match place {
                Ok(Some(place)) => Some(place),
                other => {
                    plane.members.give(slot);
                    return Err(other.err().unwrap_or_else(none));
                }
            }
        }
        _ => None,
    };
    Ok(Some(Room { slot, place }))
}

/// What an heir is to have: owners of member and stream, and what becomes of its frames.
fn heir_of(plane: &Plane, prepared: &Prepared, heir: Heir) -> (u64, u64, Does) {
    let (applied, member) = match heir {
        Heir::There(member) => (plane.stream(member.stream), member.member),
        Heir::New(member) => (&prepared.applied[member.stream], member.member),
    };
    let member = &applied.members[member];
    (member.owner, applied.owner, member.does)
}

/// Takes and writes the functions of a stream.
fn prepare_stream(plane: &mut Plane, w: &Wanted<'_>, prepared: &mut Prepared) -> Result<Applied> {
    let name = &w.stream.name;
    let replication = w.replication();
    let mut splits = Vec::new();
    for up in w.ups() {
        splits.push(splits::split(plane, name, &replication, &up, &mut prepared.splits)?);
    }
    let state = match (w.generator, w.recovery, &w.stream.recover) {
        (Some(owner), ..) => State::Generator(prepare_generator(plane, name, owner, prepared)?),
        (None, Some(owner), Some(config)) => {
            State::Recovery(prepare_recovery(plane, name, owner, config, false, prepared)?)
        }
        _ => State::None,
    };
    let mut members = Vec::new();
    for ((wanted, member), split) in w.members.iter().zip(&w.stream.members).zip(splits) {
        let individual = match (wanted.individual, &member.individual) {
            (Some(owner), Some(config)) => {
                prepare_recovery(plane, name, owner, config, true, prepared)?
            }
            _ => c::NONE,
        };
        let does = Does { state, individual, split };
        let WantedMember { owner, individual, keys } = wanted;
        members.push(AppliedMember {
            owner: *owner,
            individual: *individual,
            keys: keys.clone(),
            does,
        });
    }
    Ok(Applied {
        stream: w.stream.clone(),
        port_slots: w.port_slots.clone(),
        owner: w.owner,
        generator: w.generator,
        recovery: w.recovery,
        state,
        members,
    })
}

fn prepare_generator(
    plane: &mut Plane,
    name: &str,
    owner: u64,
    prepared: &mut Prepared,
) -> Result<u32> {
    if let Some(slot) = plane.generators.get(owner) {
        return Ok(slot);
    }
    let most = plane.generators.most();
    let slot = plane.take(|plane| plane.generators.take(owner))?;
    let slot = slot.ok_or_else(|| full(name, "sequence generators", most))?;
    prepared.generators.push(owner);
    plane.tables.generators.set(slot, &frer_generator::default());
    // BEGIN counts as a reset.
    plane.tables.generator_records.set(slot, &frer_generator_record { owner, resets: 1 });
    Ok(slot)
}

fn prepare_recovery(
    plane: &mut Plane,
    name: &str,
    owner: u64,
    config: &Recovery,
    individual: bool,
    prepared: &mut Prepared,
) -> Result<u32> {
    let config = compile::recovery(config, individual, plane.tick_ns);
    if let Some(slot) = plane.recoveries.get(owner) {
        // A function that goes on as it was keeps its history; one that changes begins anew.
        let before = plane.tables.recoveries.get(&slot)?.unwrap_or_default().config;
        if before.octets() != config.octets() {
            prepared.configure.push((slot, config));
        }
        return Ok(slot);
    }
    let most = plane.recoveries.most();
    let slot = plane.take(|plane| plane.recoveries.take(owner))?;
    let slot = slot.ok_or_else(|| full(name, "recovery functions", most))?;
    prepared.recoveries.push(owner);
    // At BEGIN (7.4.3.3).
    let begin = frer_recovery { recov_seq_num: 0xffff, take_any: 1, config, ..Default::default() };
    plane.tables.recoveries.set(&slot, &begin)?;
    let record = frer_recovery_record { owner, resets: 1, ..Default::default() };
    plane.tables.recovery_records.set(slot, &record);
    Ok(slot)
}

/// Gives back what was taken: no program has seen any of it.
fn undo(plane: &mut Plane, prepared: Prepared) {
    let mut left = Vec::new();
    for step in &prepared.steps {
        let Some(room) = step.room else { continue };
        plane.members.give(room.slot);
        if let (Some(place), Key::L2(_)) = (room.place, step.key) {
            plane.tables.l2().leave(place);
            left.push(Retiree::Place(place));
        }
    }
    plane.leave_functions(prepared.generators, prepared.recoveries, &mut left);
    plane.leave_unused_splits(&prepared.splits, &mut left);
    plane.retire(left);
}

/// Makes the change. Keys that are new come first and those that go last, so that each frame of a
/// stream that is told otherwise finds it at all times.
fn commit(plane: &mut Plane, plan: Plan<'_>, prepared: Prepared) -> Result<()> {
    let mut left = Vec::new();
    // Where the kernel fails, the rest is done all the same: the next change does the part anew.
    let mut outcome = Ok(());
    for &(slot, config) in &prepared.configure {
        let op = c::OP_CONFIGURE;
        let configured = plane.control.run(&frer_request { op, slot, config, ..<_>::default() });
        outcome = outcome.and(configured);
    }
    let switched = prepared.steps.iter().filter_map(|step| Some((step, step.heir?)));
    let (new, there): (Vec<_>, Vec<_>) =
        switched.partition(|(step, _)| !plane.entries.contains_key(&step.key));
    for (PreparedStep { key, room, .. }, heir) in new.into_iter().chain(there) {
        outcome = outcome.and(switch(plane, &prepared, key, heir, *room, &mut left));
    }
    for step in prepared.steps.iter().filter(|step| step.heir.is_none()) {
        outcome = outcome.and(plane.lose(&step.key, &mut left));
    }
    let numbers = note(plane, plan, prepared.applied, &mut left);
    plane.leave_unused_splits(&prepared.splits, &mut left);
    plane.retire(left);
    if outcome.is_err() {
        for number in numbers {
            let applied = plane.streams[number].as_mut().expect("it was just noted");
            applied.port_slots.clear();
        }
        plane.swept = false;
    }
    outcome
}

/// Has frames with a key find its heir.
fn switch(
    plane: &mut Plane,
    prepared: &Prepared,
    key: &Key,
    heir: Heir,
    room: Option<Room>,
    left: &mut Vec<Retiree>,
) -> Result<()> {
    let (owner, stream, does) = heir_of(plane, prepared, heir);
    let there = plane.entries.get(key).copied();
    let slot = match (room, there) {
        (None, Some(entry)) if entry.does == does => return Ok(()),
        (None, Some(entry)) => {
            plane.tables.exchange(entry.slot, &does);
            entry.slot
        }
        (Some(Room { slot, place }), there) => {
            let entry = Entry { slot, owner, stream, does };
            plane.tables.write_member(&entry);
            let found = Found { member: slot, state: does.state };
            if let Err(error) = plane.tables.find(key, place, found) {
                left.push(Retiree::Member { slot, stream });
                return Err(error);
            }
            plane.hold(&entry);
            match &there {
                Some(before) => plane.unhold(before, left),
                None => plane.shapes.add(key.kind()),
            }
            slot
        }
        (None, None) => unreachable!("an entry that is not there has room taken"),
    };
    plane.splits.refer(does.split);
    if let Some(before) = there {
        plane.unrefer_split(before.does.split, left);
    }
    plane.entries.insert(*key, Entry { slot, owner, stream, does });
    Ok(())
}

impl Plane {
    /// From now on nothing is found by a key.
    pub(super) fn lose(&mut self, key: &Key, left: &mut Vec<Retiree>) -> Result<()> {
        let Some(entry) = self.entries.get(key).copied() else { return Ok(()) };
        left.extend(self.tables.lose(key)?.map(Retiree::Place));
        self.entries.remove(key);
        self.unhold(&entry, left);
        self.unrefer_split(entry.does.split, left);
        self.shapes.remove(key.kind());
        Ok(())
    }

    /// Leaves the functions of these owners.
    pub(super) fn leave_functions(
        &mut self,
        generators: impl IntoIterator<Item = u64>,
        recoveries: impl IntoIterator<Item = u64>,
        left: &mut Vec<Retiree>,
    ) {
        for slot in generators.into_iter().filter_map(|owner| self.generators.leave(owner)) {
            self.tables.generator_records.set(slot, &Default::default());
            left.push(Retiree::Generator(slot));
        }
        for slot in recoveries.into_iter().filter_map(|owner| self.recoveries.leave(owner)) {
            self.tables.disown_recovery(slot);
            left.push(Retiree::Recovery(slot));
        }
    }
}

/// Notes what is in the tables now, and leaves what streams no longer have; the numbers of those that
/// came or changed.
fn note(
    plane: &mut Plane,
    plan: Plan<'_>,
    applied: Vec<Applied>,
    left: &mut Vec<Retiree>,
) -> Vec<usize> {
    let (mut before, mut numbers) = (HashMap::new(), Vec::new());
    for number in plan.leaving {
        let stream = plane.streams[number].take().expect("a stream that leaves was there");
        stream.members.iter().for_each(|member| plane.claims.remove(&member.keys));
        plane.names.remove(&stream.stream.name);
        plane.free_numbers.push(number);
        before.insert(stream.owner, stream);
    }
    for applied in applied {
        if let Some(before) = before.remove(&applied.owner) {
            let stays: HashSet<u64> = applied.recoveries().collect();
            let generator = before.generator.filter(|_| applied.generator.is_none());
            let recoveries = before.recoveries().filter(|owner| !stays.contains(owner));
            plane.leave_functions(generator, recoveries, left);
        }
        let number = plane.free_numbers.pop().unwrap_or_else(|| {
            plane.streams.push(None);
            plane.streams.len() - 1
        });
        for (member, m) in applied.members.iter().enumerate() {
            plane.claims.add(&m.keys, Member { stream: number, member });
        }
        plane.names.insert(applied.stream.name.clone(), number);
        plane.streams[number] = Some(applied);
        plane.disown_members(number);
        numbers.push(number);
    }
    for gone in before.into_values() {
        plane.leave_functions(gone.generator, gone.recoveries(), left);
        plane.disown(gone.owner);
    }
    numbers
}

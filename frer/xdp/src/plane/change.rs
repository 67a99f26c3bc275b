//! Changes of streams: from streams to add, change and remove to table entries.
//!
//! All refusals come before any change: `plan` determines the change, `prepare` allocates slots and writes
//! entries that are not yet referenced, and can be undone. `commit` then switches one entry after the other.

use std::collections::{HashMap, HashSet};

use onbeat_bpf::PlainData;
use onbeat_frer::dataplane::Changes;
use onbeat_frer::identify::Conflict;
use onbeat_frer::spec::{Recovery, Stream};

use super::claims::{KeyChange, KeyOwner, Member};
use super::entries::{Entry, MemberActions, ReservedEntry};
use super::history::{HistoryChange, continues};
use super::owned_slots::OwnedSlots;
use super::requested_stream::{RequestedMember, RequestedStream, port_slots};
use super::rings::{self, Ring};
use super::specialize::{GeneratorPorts, PortFeatures};
use super::{AppliedMember, AppliedStream, Plane, RetiredItem, recovery, splits};
use crate::abi::constants as c;
use crate::abi::*;
use crate::compile::{self, Key, KeyKind, MatchedMember, State};
use crate::error::{Error, Result};

/// A change without conflicts between streams.
struct ChangePlan<'a> {
    wanted: Vec<RequestedStream<'a>>,
    /// Numbers of streams to remove, including those to change.
    leaving: HashSet<usize>,
    steps: Vec<KeyChange>,
    changes: Changes,
}

/// A key change with the entry reserved for it.
struct PreparedKeyChange {
    key: Key,
    new_owner: Option<KeyOwner>,
    room: Option<ReservedEntry>,
}

/// Slots and entries allocated for a change.
#[derive(Default)]
struct PreparedChange {
    /// In the order of `ChangePlan::wanted`.
    applied: Vec<AppliedStream>,
    steps: Vec<PreparedKeyChange>,
    generators: Vec<u64>,
    recoveries: Vec<u64>,
    /// Recovery functions that continue with another history.
    histories: Vec<HistoryChange>,
    /// Recovery functions with new parameters.
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
    plane.settle_moves()?;
    plane.remove_unused_kinds()?;
    plane.keep_groups_ready()?;
    let plan = plan(plane, names, gone, streams)?;
    if plan.steps.is_empty() && plan.wanted.is_empty() && plan.leaving.is_empty() {
        return Ok(plan.changes);
    }
    check_room(plane, &plan)?;
    check_kinds(plane, &plan)?;
    let mut prepared = PreparedChange::default();
    if let Err(error) = prepare(plane, &plan, &mut prepared) {
        undo(plane, prepared);
        return Err(error);
    }
    if let Err(error) = plane.widen(&features(plane, &plan, &prepared)) {
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
) -> Result<ChangePlan<'a>> {
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
        wanted.push(RequestedStream::of(plane, names, stream, slots)?);
    }
    let before = leaving.iter().flat_map(|number| &plane.stream(*number).members);
    let new = wanted.iter().enumerate().flat_map(|(stream, w)| {
        let members = w.members.iter().enumerate();
        members.map(move |(member, m)| (Member { stream, member }, m.keys.as_slice()))
    });
    let steps = plane.claims.plan(&leaving, before.map(|m| m.keys.as_slice()), new);
    let steps = steps.map_err(|clash| conflict(plane, &wanted, clash.first, clash.second))?;
    Ok(ChangePlan { wanted, leaving, steps, changes })
}

fn conflict(
    plane: &Plane,
    wanted: &[RequestedStream<'_>],
    first: KeyOwner,
    second: KeyOwner,
) -> Error {
    let stream = |new_owner| match new_owner {
        KeyOwner::Existing(member) => &plane.stream(member.stream).stream,
        KeyOwner::New(member) => wanted[member.stream].stream,
    };
    let port = match second {
        KeyOwner::Existing(member) | KeyOwner::New(member) => {
            stream(second).members[member.member].port
        }
    };
    let [first, second] = [first, second].map(|new_owner| stream(new_owner).name.clone());
    Conflict { port, first, second }.into()
}

/// Refuses a change that needs more functions than are free.
fn check_room(plane: &Plane, plan: &ChangePlan<'_>) -> Result<()> {
    let Some(last) = plan.wanted.last() else { return Ok(()) };
    if !plane.swept {
        // Functions left by an earlier process count as those of streams.
        return Ok(());
    }
    let check = |owned: &OwnedSlots, what, before: HashSet<u64>, after: HashSet<u64>| {
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
        leaving().flat_map(AppliedStream::recoveries).collect(),
        wanted.flat_map(RequestedStream::recoveries).collect(),
    )
}

/// Refuses a change that exceeds the lists of shapes and the kernel's tables: while streams are switched,
/// these hold the old and the new entries.
fn check_kinds(plane: &Plane, plan: &ChangePlan<'_>) -> Result<()> {
    type Class = fn(KeyKind) -> bool;
    const KINDS: &str = "kinds of identification";
    let classes: [(Class, u32, &str, u32); 3] = [
        (|kind| matches!(kind, KeyKind::L2(_)), c::MAX_SHAPES, KINDS, u32::MAX),
        (|kind| matches!(kind, KeyKind::Ip(_)), c::MAX_SHAPES, KINDS, plane.tables.ip.capacity()),
        (
            |kind| matches!(kind, KeyKind::Mask(_)),
            c::MAX_MASKS,
            "sets of masks",
            plane.tables.masks.capacity(),
        ),
    ];
    for (is, most_kinds, what, capacity) in classes {
        let mut kinds: HashSet<KeyKind> = plane.shapes.kinds().filter(|kind| is(*kind)).collect();
        let mut entries = plane.shapes.count(is);
        let new = plan.steps.iter().filter(|step| is(step.key.kind()));
        for step in new.filter(|step| !plane.entries.contains_key(&step.key)) {
            let Some(KeyOwner::New(member)) = step.new_owner else { continue };
            let name = &plan.wanted[member.stream].stream.name;
            entries += 1;
            kinds.insert(step.key.kind());
            if entries > capacity as usize {
                return Err(full(name, "identification entries", capacity));
            }
            if kinds.len() > most_kinds as usize {
                let what = format!(
                    "more than {most_kinds} {what}, including those of streams that this change replaces; \
                     use fewer, or remove those streams first"
                );
                return Err(Error::Unsupported { stream: name.clone(), what });
            }
        }
    }
    Ok(())
}

/// Allocates slots and writes entries that are not yet referenced.
fn prepare(plane: &mut Plane, plan: &ChangePlan<'_>, prepared: &mut PreparedChange) -> Result<()> {
    for w in &plan.wanted {
        let applied = prepare_stream(plane, w, prepared)?;
        prepared.applied.push(applied);
    }
    plane.put_groups()?;
    for step in &plan.steps {
        let room = match step.new_owner {
            None => None,
            Some(new_owner) => prepare_entry(plane, plan, prepared, &step.key, new_owner)?,
        };
        prepared.steps.push(PreparedKeyChange { key: step.key, new_owner: step.new_owner, room });
    }
    let kinds = plan.steps.iter().filter(|step| step.new_owner.is_some()).map(|s| s.key.kind());
    plane.add_kinds(kinds, plan.wanted.iter().flat_map(RequestedStream::masks))
}

/// Returns what a change requires of the programs.
fn features(plane: &Plane, plan: &ChangePlan<'_>, prepared: &PreparedChange) -> PortFeatures {
    let mut ports = PortFeatures::new();
    // Entries of before and after may be in use at a time.
    let mut generators = GeneratorPorts::default();
    let mut draws = |stream: &AppliedStream| {
        let keys = stream.members.iter().flat_map(|member| &member.keys);
        keys.for_each(|key| generators.add(stream.state, key.port()));
    };
    plan.leaving.iter().for_each(|number| draws(plane.stream(*number)));
    for step in &prepared.steps {
        let does = step.new_owner.map(|new_owner| owner_entry(plane, prepared, new_owner).2);
        plane.require_change(&mut ports, &step.key, does.as_ref());
        if let Some(new_owner) = step.new_owner {
            draws(owner_stream(plane, prepared, new_owner));
        }
    }
    generators.require(&mut ports);
    if !plane.swept {
        plane.require_unknown(&mut ports);
    }
    ports
}

fn owner_stream<'a>(
    plane: &'a Plane,
    prepared: &'a PreparedChange,
    new_owner: KeyOwner,
) -> &'a AppliedStream {
    match new_owner {
        KeyOwner::Existing(member) => plane.stream(member.stream),
        KeyOwner::New(member) => &prepared.applied[member.stream],
    }
}

/// Reserves an entry if the current one cannot be modified in place.
fn prepare_entry(
    plane: &mut Plane,
    plan: &ChangePlan<'_>,
    prepared: &PreparedChange,
    key: &Key,
    new_owner: KeyOwner,
) -> Result<Option<ReservedEntry>> {
    let there = plane.entries.get(key).copied();
    let (owner, _, does) = owner_entry(plane, prepared, new_owner);
    if there.is_some_and(|entry| entry.owner == owner && entry.does.state == does.state) {
        return Ok(None);
    }
    let name = || match new_owner {
        KeyOwner::Existing(member) => plane.stream(member.stream).stream.name.clone(),
        KeyOwner::New(member) => plan.wanted[member.stream].stream.name.clone(),
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
                    plane.members.free_slot(slot);
                    return Err(other.err().unwrap_or_else(none));
                }
            }
        }
        _ => None,
    };
    Ok(Some(ReservedEntry { slot, place }))
}

/// Returns the entry of a new owner: owners of member and stream, and the actions on its frames.
fn owner_entry(
    plane: &Plane,
    prepared: &PreparedChange,
    new_owner: KeyOwner,
) -> (u64, u64, MemberActions) {
    let (applied, member) = match new_owner {
        KeyOwner::Existing(member) => (plane.stream(member.stream), member.member),
        KeyOwner::New(member) => (&prepared.applied[member.stream], member.member),
    };
    let member = &applied.members[member];
    (member.owner, applied.owner, member.does)
}

/// Allocates and writes the functions of a stream.
fn prepare_stream(
    plane: &mut Plane,
    w: &RequestedStream<'_>,
    prepared: &mut PreparedChange,
) -> Result<AppliedStream> {
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
        let does = MemberActions { state, individual, split };
        let RequestedMember { owner, individual, keys } = wanted;
        members.push(AppliedMember {
            owner: *owner,
            individual: *individual,
            keys: keys.clone(),
            does,
        });
    }
    Ok(AppliedStream {
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
    prepared: &mut PreparedChange,
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
    prepared: &mut PreparedChange,
) -> Result<u32> {
    let mut config = compile::recovery(config, individual, plane.tick_ns);
    if let Some(slot) = plane.recoveries.get(owner) {
        let before = plane.tables.recoveries.get(slot).config;
        if before.ring_mask == config.ring_mask {
            (config.ring, config.former_ring) = (before.ring, before.ring);
        } else {
            prepare_ring(plane, name, &mut config)?;
        }
        // With another algorithm, it restarts.
        if before.history_length != config.history_length && continues(&before, &config) {
            prepared.histories.push(HistoryChange { slot, config });
        }
        if before.octets() != config.octets() {
            prepared.configure.push((slot, config));
        }
        return Ok(slot);
    }
    let ring = prepare_ring(plane, name, &mut config)?;
    let most = plane.recoveries.most();
    let slot = plane.take(|plane| plane.recoveries.take(owner))?.ok_or_else(|| {
        ring.into_iter().for_each(|ring| plane.rings.free(ring));
        full(name, "recovery functions", most)
    })?;
    prepared.recoveries.push(owner);
    // At BEGIN (7.4.3.3).
    let begin = frer_recovery { head: recovery::BEGIN, config, ..Default::default() };
    plane.tables.recoveries.set(slot, &begin);
    let record = frer_recovery_record { owner, resets: 1, ..Default::default() };
    plane.tables.recovery_records.set(slot, &record);
    plane.tables.arrivals.set(slot, &Default::default());
    Ok(slot)
}

/// Allocates the ring of a function, unless it is in the function's entry.
fn prepare_ring(
    plane: &mut Plane,
    name: &str,
    config: &mut frer_recovery_config,
) -> Result<Option<Ring>> {
    let lines = rings::lines(config);
    if lines == 0 {
        return Ok(None);
    }
    let capacity = plane.rings.capacity();
    let ring = plane.take(|plane| plane.rings.take(lines))?;
    let ring =
        ring.ok_or_else(|| full(name, "lines of 256 numbers for long histories", capacity))?;
    for line in ring.first..ring.first + lines {
        plane.tables.rings.set(line, &Default::default());
    }
    (config.ring, config.former_ring) = (ring.first, ring.first);
    Ok(Some(ring))
}

/// Retires the ring of a configuration that another one of the same function replaces.
fn retire_ring(
    gone: &frer_recovery_config,
    stays: &frer_recovery_config,
    left: &mut Vec<RetiredItem>,
) {
    let ring = rings::of(gone).filter(|ring| rings::of(stays) != Some(*ring));
    left.extend(ring.map(RetiredItem::Ring));
}

/// Releases the allocations: no program has used them.
fn undo(plane: &mut Plane, prepared: PreparedChange) {
    let mut left = Vec::new();
    for step in &prepared.steps {
        let Some(room) = step.room else { continue };
        plane.members.free_slot(room.slot);
        if let (Some(place), Key::L2(_)) = (room.place, step.key) {
            plane.tables.l2().leave(place);
            left.push(RetiredItem::IndexSlot(place));
        }
    }
    for (slot, config) in &prepared.configure {
        retire_ring(config, &plane.tables.recoveries.get(*slot).config, &mut left);
    }
    plane.retire_functions(prepared.generators, prepared.recoveries, &mut left);
    plane.retire_unused_splits(&prepared.splits, &mut left);
    plane.retire(left);
}

/// Applies the change. New keys are added first and old ones removed last, so that each frame of a changed
/// stream matches it at all times.
fn commit(plane: &mut Plane, plan: ChangePlan<'_>, prepared: PreparedChange) -> Result<()> {
    let mut left = Vec::new();
    // If the kernel fails, the remaining steps are still applied: the next change repeats the failed ones.
    let mut outcome = plane.change_histories(&prepared.histories, &mut left);
    // Those keep their parameters if it failed.
    let failed = prepared.histories.iter().filter(|_| outcome.is_err()).map(|change| change.slot);
    let failed: HashSet<u32> = failed.collect();
    for &(slot, config) in prepared.configure.iter().filter(|(slot, _)| !failed.contains(slot)) {
        let op = c::OP_CONFIGURE;
        let before = plane.tables.recoveries.get(slot).config;
        let configured = plane.control.run(&frer_request { op, slot, config, ..<_>::default() });
        match configured {
            Ok(_) => retire_ring(&before, &config, &mut left),
            Err(_) => retire_ring(&config, &before, &mut left),
        }
        outcome = outcome.and(configured.map(|_| ()));
    }
    let switched = prepared.steps.iter().filter_map(|step| Some((step, step.new_owner?)));
    let (new, there): (Vec<_>, Vec<_>) =
        switched.partition(|(step, _)| !plane.entries.contains_key(&step.key));
    for (PreparedKeyChange { key, room, .. }, new_owner) in new.into_iter().chain(there) {
        outcome = outcome.and(switch(plane, &prepared, key, new_owner, *room, &mut left));
    }
    for step in prepared.steps.iter().filter(|step| step.new_owner.is_none()) {
        outcome = outcome.and(plane.lose(&step.key, &mut left));
    }
    let numbers = note(plane, plan, prepared.applied, &mut left);
    plane.retire_unused_splits(&prepared.splits, &mut left);
    plane.retire(left);
    if outcome.is_err() {
        for number in numbers {
            let applied = plane.streams[number].as_mut().expect("recorded above");
            applied.port_slots.clear();
        }
        plane.swept = false;
    }
    outcome
}

/// Points a key at its new owner.
fn switch(
    plane: &mut Plane,
    prepared: &PreparedChange,
    key: &Key,
    new_owner: KeyOwner,
    room: Option<ReservedEntry>,
    left: &mut Vec<RetiredItem>,
) -> Result<()> {
    let (owner, stream, does) = owner_entry(plane, prepared, new_owner);
    let there = plane.entries.get(key).copied();
    let slot = match (room, there) {
        (None, Some(entry)) if entry.does == does => return Ok(()),
        (None, Some(entry)) => {
            plane.tables.exchange(entry.slot, &does);
            entry.slot
        }
        (Some(ReservedEntry { slot, place }), there) => {
            let entry = Entry { slot, owner, stream, does };
            plane.tables.write_member(&entry);
            let found = MatchedMember { member: slot, state: does.state };
            if let Err(error) = plane.tables.find(key, place, found) {
                left.push(RetiredItem::Member { slot, stream });
                return Err(error);
            }
            plane.hold(&entry);
            match &there {
                Some(before) => plane.release_slot(before, left),
                None => plane.shapes.add(key.kind()),
            }
            slot
        }
        (None, None) => unreachable!("a missing entry is reserved"),
    };
    plane.splits.refer(does.split);
    if let Some(before) = there {
        plane.unrefer_split(before.does.split, left);
    }
    plane.entries.insert(*key, Entry { slot, owner, stream, does });
    Ok(())
}

impl Plane {
    /// Removes a key: frames with it match no stream.
    pub(super) fn lose(&mut self, key: &Key, left: &mut Vec<RetiredItem>) -> Result<()> {
        let Some(entry) = self.entries.get(key).copied() else { return Ok(()) };
        left.extend(self.tables.lose(key)?.map(RetiredItem::IndexSlot));
        self.entries.remove(key);
        self.release_slot(&entry, left);
        self.unrefer_split(entry.does.split, left);
        self.shapes.remove(key.kind());
        Ok(())
    }

    /// Retires the functions of these owners.
    pub(super) fn retire_functions(
        &mut self,
        generators: impl IntoIterator<Item = u64>,
        recoveries: impl IntoIterator<Item = u64>,
        left: &mut Vec<RetiredItem>,
    ) {
        for slot in generators.into_iter().filter_map(|owner| self.generators.leave(owner)) {
            self.tables.generator_records.set(slot, &Default::default());
            left.push(RetiredItem::Generator(slot));
        }
        for slot in recoveries.into_iter().filter_map(|owner| self.recoveries.leave(owner)) {
            self.tables.disown_recovery(slot);
            left.push(RetiredItem::Recovery(slot));
        }
    }
}

/// Records the entries now in the tables and retires those that streams no longer use; returns the numbers of
/// added and changed streams.
fn note(
    plane: &mut Plane,
    plan: ChangePlan<'_>,
    applied: Vec<AppliedStream>,
    left: &mut Vec<RetiredItem>,
) -> Vec<usize> {
    let (mut before, mut numbers) = (HashMap::new(), Vec::new());
    for number in plan.leaving {
        let stream = plane.streams[number].take().expect("a removed stream exists");
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
            plane.retire_functions(generator, recoveries, left);
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
        plane.clear_owners_of_members(number);
        numbers.push(number);
    }
    for gone in before.into_values() {
        plane.retire_functions(gone.generator, gone.recoveries(), left);
        plane.disown(gone.owner);
    }
    numbers
}

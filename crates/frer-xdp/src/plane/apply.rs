//! From the streams that are to be, to the table entries that make them so.

use std::collections::{BTreeMap, BTreeSet};

use onbeat_frer::identify;
use onbeat_frer::spec::{
    Egress, Identification, MAX_EGRESS, PortId, Recovery, SequenceTag, Stream,
};

use super::owned::Owned;
use super::{Applied, AppliedMember, Changes, Plane};
use crate::abi::constants as c;
use crate::abi::*;
use crate::compile::{self, Key, Replication};
use crate::error::{Error, Result};
use crate::link::Mode;
use crate::slots::Slots;

/// A stream with the owners of its functions.
struct Wanted<'a> {
    stream: &'a Stream,
    port_slots: Vec<u8>,
    generator: Option<u64>,
    recovery: Option<u64>,
    members: Vec<WantedMember>,
}

struct WantedMember {
    counters: u64,
    individual: Option<u64>,
    keys: Vec<Key>,
}

impl<'a> Wanted<'a> {
    fn of(plane: &Plane, names: &[String], stream: &'a Stream) -> Result<Self> {
        let unsupported =
            |what: &str| Error::Unsupported { stream: stream.name.clone(), what: what.to_string() };
        let slot = |port: PortId| {
            let name = &names[usize::from(port.0)];
            plane.ports.get(name).map(|port| port.slot).ok_or_else(|| Error::Unsupported {
                stream: stream.name.clone(),
                what: format!("port {name:?} is not attached"),
            })
        };
        if stream.generate && stream.egress.iter().any(|e| e.tag == SequenceTag::Keep) {
            return Err(unsupported(
                "generates numbers, so say tag = \"r-tag\" or \"none\" at each egress port",
            ));
        }
        let mut port_slots = Vec::new();
        let mut members = Vec::new();
        for member in &stream.members {
            let slot = slot(member.port)?;
            port_slots.push(slot);
            let keys = compile::keys(&member.identification, slot).ok_or_else(|| {
                unsupported("mask-and-match identification needs the user-space data plane")
            })?;
            let port = &names[usize::from(member.port.0)];
            let identification = format!("{:?}", member.identification);
            let owner = |role| compile::owner(role, &[&stream.name, port, &identification]);
            members.push(WantedMember {
                counters: owner("member"),
                individual: member.individual.map(|_| owner("individual")),
                keys,
            });
        }
        for egress in &stream.egress {
            port_slots.push(slot(egress.port)?);
        }
        let owner = |role| compile::owner(role, &[&stream.name]);
        let wanted = Self {
            stream,
            port_slots,
            generator: stream.generate.then(|| owner("generator")),
            recovery: stream.recover.map(|_| owner("recovery")),
            members,
        };
        // In generic mode the kernel's copies of a frame share one buffer.
        let generic = stream
            .members
            .iter()
            .map(|m| &names[usize::from(m.port.0)])
            .find(|name| plane.ports.get(*name).is_some_and(|port| port.mode == Mode::Generic));
        if let Some(port) = generic {
            if !wanted.replication().egresses.is_empty() {
                return Err(unsupported(&format!(
                    "its port {port:?} runs XDP in generic mode, where all replicas of a frame are \
                     alike: give each egress port the same tag, vlan, priority and destination, or \
                     use an interface whose driver has native XDP"
                )));
            }
        }
        Ok(wanted)
    }

    /// How the stream's replicas are made.
    fn replication(&self) -> Replication {
        Replication::of(self.stream, |egress| self.egress_slot(egress))
    }

    /// Whether the stream is in the tables as it is to be.
    fn is_applied(&self, plane: &Plane) -> bool {
        plane.streams.get(&self.stream.name).is_some_and(|applied| {
            applied.stream == *self.stream && applied.port_slots == self.port_slots
        })
    }

    fn recoveries(&self) -> impl Iterator<Item = u64> {
        self.recovery.into_iter().chain(self.members.iter().filter_map(|m| m.individual))
    }

    fn egress_slot(&self, egress: &Egress) -> u8 {
        let index = self.stream.egress.iter().position(|e| e.port == egress.port);
        self.port_slots[self.members.len() + index.expect("an egress port of this stream")]
    }
}

/// A split that was written, and the group of ports that it sends by.
struct Split {
    slot: u32,
    group: Option<(u64, bool)>,
}

/// Slots that the entries in use leave free.
struct Free {
    splits: Slots,
    groups: Slots,
}

impl Free {
    fn read(plane: &Plane) -> Result<Self> {
        let splits: BTreeSet<u32> = plane.live.values().map(|(_, member)| member.split).collect();
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

fn full(stream: &str, what: &'static str, capacity: u32) -> Error {
    Error::Full { stream: stream.to_string(), what, capacity }
}

/// Refuses, before anything is changed, what the tables have no room for.
fn check_room(plane: &Plane, wanted: &[Wanted<'_>]) -> Result<()> {
    let Some(last) = wanted.last() else { return Ok(()) };
    let check = |owned: &Owned, what, owners: &mut dyn Iterator<Item = u64>| {
        // What goes away is freed only after what comes is in place.
        let (missing, free) = owned.missing(owners);
        if missing > free { Err(full(&last.stream.name, what, owned.capacity())) } else { Ok(()) }
    };
    check(
        &plane.generators,
        "sequence generators",
        &mut wanted.iter().filter_map(|w| w.generator),
    )?;
    check(
        &plane.recoveries,
        "recovery functions",
        &mut wanted.iter().flat_map(Wanted::recoveries),
    )?;
    check(
        &plane.member_counters,
        "member streams",
        &mut wanted.iter().flat_map(|w| w.members.iter().map(|m| m.counters)),
    )
}

/// Refuses what the stream tables and the lists of shapes have no room for: while streams are
/// switched, they hold what was and what will be.
fn check_keys(plane: &Plane, wanted: &[Wanted<'_>]) -> Result<()> {
    let capacity = [plane.tables.l2.capacity(), plane.tables.ip.capacity()];
    let mut new = BTreeSet::new();
    let mut keys = [0, 0];
    let mut shapes = [BTreeSet::new(), BTreeSet::new()];
    for (key, _) in plane.live.values() {
        keys[usize::from(is_ip(key.shape()))] += 1;
        shapes[usize::from(is_ip(key.shape()))].insert(key.shape());
    }
    for w in wanted {
        for key in w.members.iter().flat_map(|member| &member.keys) {
            let octets = key.octets();
            if plane.live.contains_key(&octets) || !new.insert(octets) {
                continue;
            }
            let table = usize::from(is_ip(key.shape()));
            keys[table] += 1;
            shapes[table].insert(key.shape());
            if keys[table] > capacity[table] {
                return Err(full(&w.stream.name, "identification entries", capacity[table]));
            }
            if shapes[table].len() > c::MAX_SHAPES as usize {
                return Err(Error::Unsupported {
                    stream: w.stream.name.clone(),
                    what: format!(
                        "more than {} kinds of identification, those of the streams before this \
                         change among them; use fewer, or remove those streams first",
                        c::MAX_SHAPES
                    ),
                });
            }
        }
    }
    Ok(())
}

pub(super) fn apply(plane: &mut Plane, names: &[String], streams: &[Stream]) -> Result<Changes> {
    for port in 0..names.len() as u8 {
        identify::Table::new(streams, PortId(port))?;
    }
    let wanted = streams
        .iter()
        .map(|stream| Wanted::of(plane, names, stream))
        .collect::<Result<Vec<_>>>()?;
    check_room(plane, &wanted)?;
    check_keys(plane, &wanted)?;
    // Slots that nothing refers to yet may be written and left: the next call finds them free.
    let mut free = Free::read(plane)?;
    let splits = wanted
        .iter()
        .map(|w| {
            if w.is_applied(plane) { Ok(None) } else { write_split(plane, w, &mut free).map(Some) }
        })
        .collect::<Result<Vec<_>>>()?;

    let mut changes = Changes::default();
    let mut applied = BTreeMap::new();
    let mut order = Vec::new();
    for (w, split) in wanted.iter().zip(splits) {
        let name = &w.stream.name;
        let before = plane.streams.remove(name);
        let now = match (before, split) {
            (Some(before), None) => {
                changes.kept += 1;
                before
            }
            (before, split) => {
                *if before.is_some() { &mut changes.changed } else { &mut changes.added } += 1;
                write_stream(plane, w, split.expect("one for each stream that is not kept"))?
            }
        };
        order.push(name);
        applied.insert(name.clone(), now);
    }
    changes.removed = plane.streams.len();
    plane.streams = applied;
    switch(plane, &order)?;
    release(plane, &wanted)?;
    Ok(changes)
}

/// Writes what a stream's member entries will refer to.
fn write_stream(plane: &mut Plane, w: &Wanted<'_>, split: Split) -> Result<Applied> {
    let Split { slot: split, group } = split;
    let name = &w.stream.name;
    let generator = match w.generator {
        Some(owner) => {
            let (slot, new) = plane
                .generators
                .slot(owner)
                .ok_or_else(|| full(name, "sequence generators", plane.generators.capacity()))?;
            if new {
                // BEGIN counts as a reset.
                let value = frer_generator { owner, resets: 1, ..Default::default() };
                plane.tables.generators.set(&slot, &value)?;
            }
            slot
        }
        None => c::NONE,
    };
    let recovery = match (w.recovery, &w.stream.recover) {
        (Some(owner), Some(config)) => write_recovery(plane, name, owner, config, false)?,
        _ => c::NONE,
    };
    let mut members = Vec::new();
    for (wanted, member) in w.members.iter().zip(&w.stream.members) {
        let (counters, new) = plane
            .member_counters
            .slot(wanted.counters)
            .ok_or_else(|| full(name, "member streams", plane.member_counters.capacity()))?;
        if new {
            let value = frer_member_counters { owner: wanted.counters, ..Default::default() };
            plane.tables.member_counters.set(&counters, &value)?;
        }
        let individual = match (wanted.individual, &member.individual) {
            (Some(owner), Some(config)) => write_recovery(plane, name, owner, config, true)?,
            _ => c::NONE,
        };
        let up = match &member.identification {
            Identification::ActiveDestination { up, .. } => compile::rewrite(up),
            _ => frer_rewrite::default(),
        };
        let entry = frer_member { counters, generator, individual, recovery, split, up, zero: 0 };
        members.push(AppliedMember { keys: wanted.keys.clone(), entry });
    }
    let (stream, port_slots) = (w.stream.clone(), w.port_slots.clone());
    Ok(Applied { stream, port_slots, split, group, generator, recovery, members })
}

fn write_recovery(
    plane: &mut Plane,
    name: &str,
    owner: u64,
    config: &Recovery,
    individual: bool,
) -> Result<u32> {
    let config = compile::recovery(config, individual, plane.tick_ns);
    let (slot, new) = plane
        .recoveries
        .slot(owner)
        .ok_or_else(|| full(name, "recovery functions", plane.recoveries.capacity()))?;
    if new {
        plane.tables.recoveries.set(&slot, &frer_recovery { owner, ..Default::default() })?;
    }
    // A function that goes on as it was keeps its history; one that changes begins anew.
    let before = plane.tables.recoveries.get(&slot)?.unwrap_or_default().config;
    if new || before.as_bytes() != config.as_bytes() {
        let op = c::OP_CONFIGURE;
        plane.control.run(&frer_request { op, slot, config, ..Default::default() })?;
    }
    Ok(slot)
}

fn write_split(plane: &mut Plane, w: &Wanted<'_>, free: &mut Free) -> Result<Split> {
    let name = &w.stream.name;
    let replication = w.replication();
    let slot = free.splits.take().ok_or_else(|| full(name, "splits", free.splits.capacity()))?;
    let mut split = frer_split {
        ports: replication.ports.iter().fold(0, |set, port| set | 1 << port),
        count: replication.ports.len() as u8,
        port: replication.ports[0],
        tag: replication.tag,
        rewrite: compile::rewrite(&replication.rewrite),
        ..Default::default()
    };
    let mut flags = 0;
    if replication.touches() {
        flags |= c::SPLIT_TOUCH;
    }
    if !replication.egresses.is_empty() {
        flags |= c::SPLIT_EGRESSES;
        split.egress = slot * MAX_EGRESS as u32;
        for index in 0..replication.egresses.len() {
            let slot = split.egress + index as u32;
            plane.tables.egresses.set(&slot, &replication.egress(index))?;
        }
    }
    split.flags = flags as u8;
    let mut group = None;
    if split.count > 1 {
        let key = (split.ports, !replication.egresses.is_empty());
        split.group = match plane.groups.get(&key) {
            Some(&group) => group,
            None => {
                let group = free
                    .groups
                    .take()
                    .ok_or_else(|| full(name, "sets of egress ports", free.groups.capacity()))?;
                plane.write_group(key, group)?;
                plane.groups.insert(key, group);
                group
            }
        };
        group = Some(key);
    }
    plane.tables.splits.set(&slot, &split)?;
    Ok(Split { slot, group })
}

/// Makes the entries of the streams, in this order of configuration, the ones that frames find,
/// and removes those that nobody wants.
fn switch(plane: &mut Plane, order: &[&String]) -> Result<()> {
    let mut entries: BTreeMap<Vec<u8>, (Key, frer_member)> = BTreeMap::new();
    let mut shapes = Vec::new();
    for member in order.iter().flat_map(|name| &plane.streams[*name].members) {
        for key in &member.keys {
            // Frames without a tag of several members with "all": the first configured has them.
            entries.entry(key.octets()).or_insert((*key, member.entry));
            shapes.push(key.shape());
        }
    }
    // First all shapes that any entry, old or new, is found with; then the entries.
    let mut all = shapes.clone();
    all.extend(plane.live.values().map(|(key, _)| key.shape()));
    write_shapes(plane, all)?;

    let mut carried = BTreeSet::new();
    for (octets, (key, value)) in &entries {
        let old = plane.live.get(octets).map(|(_, old)| *old);
        if old.is_some_and(|old| old.as_bytes() == value.as_bytes()) {
            continue;
        }
        match key {
            Key::L2(key) => plane.tables.l2.set(key, value)?,
            Key::Ip(key) => plane.tables.ip.set(key, value)?,
        }
        plane.live.insert(octets.clone(), (*key, *value));
        let goes_on =
            |old: &frer_member| old.counters == value.counters && old.split != value.split;
        if let Some(old) = old.filter(goes_on) {
            carried.insert((old.split, value.split));
        }
    }
    let gone: Vec<_> =
        plane.live.keys().filter(|key| !entries.contains_key(*key)).cloned().collect();
    for octets in gone {
        match plane.live.remove(&octets) {
            Some((Key::L2(key), _)) => plane.tables.l2.remove(&key)?,
            Some((Key::Ip(key), _)) => plane.tables.ip.remove(&key)?,
            None => {}
        }
    }
    // Nothing is counted in the old splits any more: a stream that goes on counts on.
    for (old, slot) in carried {
        let count = plane.tables.splits.get(&old)?.unwrap_or_default().packets;
        let op = c::OP_ADD_PACKETS;
        plane.control.run(&frer_request { op, slot, count, ..Default::default() })?;
    }
    write_shapes(plane, shapes)
}

/// Shapes in order of precedence; the first configured first among equals.
fn write_shapes(plane: &Plane, shapes: Vec<u16>) -> Result<()> {
    let mut seen = BTreeSet::new();
    let mut ordered: Vec<u16> = shapes.into_iter().filter(|shape| seen.insert(*shape)).collect();
    ordered.sort_by_key(|shape| compile::rank(*shape));
    let mut new = frer_shapes::default();
    for shape in ordered {
        let (list, count) = if is_ip(shape) {
            (&mut new.ip, &mut new.ip_count)
        } else {
            (&mut new.l2, &mut new.l2_count)
        };
        *list.get_mut(*count as usize).expect("check_keys counted them") = shape;
        *count += 1;
    }
    let mut node = plane.tables.node.get(&0)?.unwrap_or_default();
    let inactive = 1 - (node.active & 1);
    node.shapes[inactive as usize] = new;
    plane.tables.node.set(&0, &node)?;
    node.active = inactive;
    plane.tables.node.set(&0, &node)
}

fn is_ip(shape: u16) -> bool {
    u32::from(shape) & c::SHAPE_IP != 0
}

/// Frees what no stream owns any more.
fn release(plane: &mut Plane, wanted: &[Wanted<'_>]) -> Result<()> {
    let generators = wanted.iter().filter_map(|w| w.generator).collect();
    for slot in plane.generators.retain(&generators) {
        plane.tables.generators.set(&slot, &Default::default())?;
    }
    let recoveries = wanted.iter().flat_map(Wanted::recoveries).collect();
    for slot in plane.recoveries.retain(&recoveries) {
        plane.tables.recoveries.set(&slot, &Default::default())?;
    }
    let groups: BTreeSet<_> = plane.streams.values().filter_map(|stream| stream.group).collect();
    plane.groups.retain(|key, _| groups.contains(key));
    let members = wanted.iter().flat_map(|w| w.members.iter().map(|m| m.counters)).collect();
    for slot in plane.member_counters.retain(&members) {
        plane.tables.member_counters.set(&slot, &Default::default())?;
    }
    Ok(())
}

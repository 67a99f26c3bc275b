//! From the streams that are to be, to the table entries that make them so.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use onbeat_frer::identify;
use onbeat_frer::spec::{Egress, Identification, PortId, Recovery, Rewrite, SequenceTag, Stream};

use super::members::{self, Retired, Target, Targets};
use super::owned::Owned;
use super::splits::{self, Free};
use super::{Applied, AppliedMember, Changes, Plane};
use crate::abi::constants as c;
use crate::abi::*;
use crate::compile::{self, Key, Replication};
use crate::error::{Error, Result};
use crate::link::Mode;

/// A stream with the owners of its functions.
struct Wanted<'a> {
    stream: &'a Stream,
    port_slots: Vec<u8>,
    owner: u64,
    generator: Option<u64>,
    recovery: Option<u64>,
    members: Vec<WantedMember>,
}

struct WantedMember {
    owner: u64,
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
                owner: owner("member"),
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
            owner: owner("stream"),
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
    check(&plane.recoveries, "recovery functions", &mut wanted.iter().flat_map(Wanted::recoveries))
}

/// The entries that are to be. Frames without a tag of several members with "all": the one with the
/// lowest VLAN id has them.
fn targets(wanted: &[Wanted<'_>]) -> Targets {
    let mut targets: Targets = BTreeMap::new();
    for (stream, w) in wanted.iter().enumerate() {
        for (index, member) in w.members.iter().enumerate() {
            let (owner, place) = (member.owner, (stream, index));
            let vid = member.keys[0].vid();
            for &key in &member.keys {
                let target = Target { key, vid, owner, stream: w.owner, place };
                match targets.entry(key.octets()) {
                    Entry::Occupied(entry) if entry.get().vid < vid => {}
                    Entry::Occupied(mut entry) => *entry.get_mut() = target,
                    Entry::Vacant(entry) => _ = entry.insert(target),
                }
            }
        }
    }
    targets
}

/// Refuses what the lists of shapes and the table of IP streams have no room for: while streams are
/// switched, they hold what was and what will be.
fn check_keys(plane: &Plane, wanted: &[Wanted<'_>], targets: &Targets) -> Result<()> {
    let capacity = plane.tables.ip.capacity();
    let mut ip_keys = 0;
    let mut shapes = [BTreeSet::new(), BTreeSet::new()];
    for live in plane.live.values() {
        ip_keys += u32::from(is_ip(live.shape()));
        shapes[usize::from(is_ip(live.shape()))].insert(live.shape());
    }
    for (octets, target) in members::in_order(targets) {
        if plane.live.contains_key(octets) {
            continue;
        }
        let name = || wanted[target.place.0].stream.name.clone();
        let shape = target.key.shape();
        let shapes = &mut shapes[usize::from(is_ip(shape))];
        shapes.insert(shape);
        ip_keys += u32::from(is_ip(shape));
        if ip_keys > capacity {
            return Err(full(&name(), "identification entries", capacity));
        }
        if shapes.len() > c::MAX_SHAPES as usize {
            return Err(Error::Unsupported {
                stream: name(),
                what: format!(
                    "more than {} kinds of identification, those of the streams before this \
                     change among them; use fewer, or remove those streams first",
                    c::MAX_SHAPES
                ),
            });
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
    let targets = targets(&wanted);
    plane.settle()?;
    check_room(plane, &wanted)?;
    check_keys(plane, &wanted, &targets)?;
    // Slots that nothing refers to yet may be written and left: the next call finds them free.
    let mut free = Free::read(plane)?;
    let splits =
        wanted.iter().map(|w| write_splits(plane, w, &mut free)).collect::<Result<Vec<_>>>()?;
    let name = |target: &Target| wanted[target.place.0].stream.name.clone();
    let reserved = members::reserve(plane, &targets, name)?;
    let written = write_streams(plane, &wanted, &splits)
        .inspect_err(|_| members::unreserve(plane, &targets, &reserved))?;
    let changes = note(plane, &wanted, written);
    switch(plane, &wanted, &targets, &reserved)?;
    Ok(changes)
}

/// The splits of a stream's members, where it is not in the tables as it is to be.
fn write_splits(plane: &mut Plane, w: &Wanted<'_>, free: &mut Free) -> Result<Option<Vec<u32>>> {
    if w.is_applied(plane) {
        return Ok(None);
    }
    let replication = w.replication();
    let members = w.stream.members.iter().map(|member| {
        let up = match member.identification {
            Identification::ActiveDestination { up, .. } => up,
            _ => Rewrite::default(),
        };
        splits::split(plane, &w.stream.name, &replication, &up, free)
    });
    members.collect::<Result<Vec<_>>>().map(Some)
}

/// Writes what entries will refer to: for each stream that is not in the tables as it is to be, what
/// will be there.
fn write_streams(
    plane: &mut Plane,
    wanted: &[Wanted<'_>],
    splits: &[Option<Vec<u32>>],
) -> Result<Vec<Option<Applied>>> {
    let write = |(w, splits): (&Wanted<'_>, &Option<Vec<u32>>)| {
        splits.as_ref().map(|splits| write_stream(plane, w, splits)).transpose()
    };
    wanted.iter().zip(splits).map(write).collect()
}

/// Notes what is in the tables now.
fn note(plane: &mut Plane, wanted: &[Wanted<'_>], written: Vec<Option<Applied>>) -> Changes {
    let mut changes = Changes::default();
    let mut streams = BTreeMap::new();
    for (w, written) in wanted.iter().zip(written) {
        let name = &w.stream.name;
        let before = plane.streams.remove(name);
        *match (&before, &written) {
            (_, None) => &mut changes.kept,
            (Some(_), Some(_)) => &mut changes.changed,
            (None, Some(_)) => &mut changes.added,
        } += 1;
        let applied = written.or(before).expect("a stream that is kept was there");
        streams.insert(name.clone(), applied);
    }
    changes.removed = plane.streams.len();
    plane.streams = streams;
    changes
}

/// Writes what a stream's member entries will refer to.
fn write_stream(plane: &mut Plane, w: &Wanted<'_>, splits: &[u32]) -> Result<Applied> {
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
    for ((wanted, member), &split) in w.members.iter().zip(&w.stream.members).zip(splits) {
        let individual = match (wanted.individual, &member.individual) {
            (Some(owner), Some(config)) => write_recovery(plane, name, owner, config, true)?,
            _ => c::NONE,
        };
        let functions = frer_functions { generator, individual, recovery, split };
        let (owner, keys) = (wanted.owner, wanted.keys.clone());
        members.push(AppliedMember { owner, keys, functions });
    }
    let (stream, port_slots, owner) = (w.stream.clone(), w.port_slots.clone(), w.owner);
    Ok(Applied { stream, port_slots, owner, generator, recovery, members })
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

/// Makes the entries that are to be the ones that frames find, and leaves the others for later to
/// be freed.
fn switch(
    plane: &mut Plane,
    wanted: &[Wanted<'_>],
    targets: &Targets,
    reserved: &BTreeMap<Vec<u8>, u32>,
) -> Result<()> {
    let members = wanted.iter().flat_map(|w| &w.members);
    let shapes: Vec<u16> = members.flat_map(|m| m.keys.iter().map(Key::shape)).collect();
    // First all shapes that any entry, old or new, is found with; then the entries.
    let mut all = shapes.clone();
    all.extend(plane.live.values().map(|live| live.shape()));
    write_shapes(plane, all)?;

    let functions: Vec<Vec<frer_functions>> = wanted
        .iter()
        .map(|w| &plane.streams[&w.stream.name])
        .map(|applied| applied.members.iter().map(|m| m.functions).collect())
        .collect();
    let of = |target: &Target| functions[target.place.0][target.place.1];
    let (gone, exchanged) = members::switch(plane, targets, reserved, of)?;
    write_shapes(plane, shapes)?;

    plane.forget_unused_splits();
    let retired = Retired {
        members: gone,
        generators: wanted.iter().filter_map(|w| w.generator).collect(),
        recoveries: wanted.iter().flat_map(Wanted::recoveries).collect(),
    };
    let anything = exchanged
        || !retired.members.is_empty()
        || plane.generators.owners().any(|owner| !retired.generators.contains(&owner))
        || plane.recoveries.owners().any(|owner| !retired.recoveries.contains(&owner));
    plane.retired = anything.then_some(retired);
    Ok(())
}

/// Writes shapes in their order of precedence.
fn write_shapes(plane: &Plane, shapes: Vec<u16>) -> Result<()> {
    let mut ordered = shapes;
    ordered.sort_by_key(|shape| (compile::rank(*shape), *shape));
    ordered.dedup();
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

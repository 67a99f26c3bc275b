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
use crate::compile::{self, Key, Kind, Replication};
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
            if let Identification::MaskAndMatch(mask) = &member.identification {
                if mask.msdu_mask.len() > c::MASK_MSDU as usize {
                    return Err(unsupported(&format!(
                        "its msdu-mask has {} octets and XDP looks at {}; a shorter mask may do",
                        mask.msdu_mask.len(),
                        c::MASK_MSDU
                    )));
                }
            }
            let keys = compile::keys(&member.identification, slot);
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

/// What there is of one class of kinds, and of keys in its table.
struct Room {
    kinds: BTreeSet<Kind>,
    most_kinds: u32,
    /// What the user may use fewer of.
    what: &'static str,
    keys: u32,
    most_keys: u32,
}

impl Room {
    fn new(most_kinds: u32, what: &'static str, most_keys: u32) -> Self {
        Self { kinds: BTreeSet::new(), most_kinds, what, keys: 0, most_keys }
    }

    fn take(&mut self, kind: Kind) {
        self.kinds.insert(kind);
        self.keys += 1;
    }
}

/// Refuses what the lists of shapes and the tables have no room for: while streams are switched,
/// they hold what was and what will be.
fn check_keys(plane: &Plane, wanted: &[Wanted<'_>], targets: &Targets) -> Result<()> {
    let kinds = "kinds of identification";
    let mut l2 = Room::new(c::MAX_SHAPES, kinds, plane.members.capacity());
    let mut ip = Room::new(c::MAX_SHAPES, kinds, plane.tables.ip.capacity());
    let mut masks = Room::new(c::MAX_MASKS, "sets of masks", plane.tables.masks.capacity());
    let mut room = |kind: Kind| {
        let room = match kind {
            Kind::L2(_) => &mut l2,
            Kind::Ip(_) => &mut ip,
            Kind::Mask(_) => &mut masks,
        };
        room.take(kind);
        let full = (room.keys > room.most_keys).then_some(room.most_keys);
        let unlike = room.kinds.len() > room.most_kinds as usize;
        (full, unlike.then_some((room.most_kinds, room.what)))
    };
    for live in plane.live.values() {
        room(live.kind());
    }
    for (octets, target) in members::in_order(targets) {
        if plane.live.contains_key(octets) {
            continue;
        }
        let name = || wanted[target.place.0].stream.name.clone();
        match room(target.key.kind()) {
            (Some(capacity), _) => return Err(full(&name(), "identification entries", capacity)),
            (None, Some((most, what))) => {
                let what = format!(
                    "more than {most} {what}, those of the streams before this change among them; \
                     use fewer, or remove those streams first"
                );
                return Err(Error::Unsupported { stream: name(), what });
            }
            (None, None) => {}
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
    let kinds: BTreeSet<Kind> = members.flat_map(|m| m.keys.iter().map(Key::kind)).collect();
    // First all kinds that any entry, old or new, is found by; then the entries.
    plane.masks.extend(masks_of(wanted).map(|mask| (mask.id, mask)));
    let before = plane.live.values().map(|live| live.kind());
    write_shapes(plane, &before.chain(kinds.iter().copied()).collect())?;

    let functions: Vec<Vec<frer_functions>> = wanted
        .iter()
        .map(|w| &plane.streams[&w.stream.name])
        .map(|applied| applied.members.iter().map(|m| m.functions).collect())
        .collect();
    let of = |target: &Target| functions[target.place.0][target.place.1];
    let (gone, exchanged) = members::switch(plane, targets, reserved, of)?;
    write_shapes(plane, &kinds)?;
    plane.masks.retain(|id, _| kinds.contains(&Kind::Mask(*id)));

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

/// The masks of streams that are to be.
fn masks_of<'a>(wanted: &'a [Wanted<'_>]) -> impl Iterator<Item = frer_mask> + use<'a> {
    let members = wanted.iter().flat_map(|w| &w.stream.members);
    members.filter_map(|member| match &member.identification {
        Identification::MaskAndMatch(mask) => Some(compile::mask(mask)),
        _ => None,
    })
}

/// Writes shapes and masks in their order of precedence.
fn write_shapes(plane: &Plane, kinds: &BTreeSet<Kind>) -> Result<()> {
    let (mut ip, mut l2, mut masks) = (Vec::new(), Vec::new(), Vec::new());
    for kind in kinds {
        match kind {
            Kind::Ip(shape) => ip.push(*shape),
            Kind::L2(shape) => l2.push(*shape),
            Kind::Mask(id) => masks.push(plane.masks[id]),
        }
    }
    ip.sort_by_key(|shape| compile::rank(*shape));
    l2.sort_by_key(|shape| compile::rank(*shape));
    masks.sort_by_key(compile::mask_rank);
    let mut new = frer_shapes {
        ip_count: ip.len() as u32,
        l2_count: l2.len() as u32,
        mask_count: masks.len() as u32,
        ..Default::default()
    };
    // That there is room for them, check_keys has seen.
    new.ip[..ip.len()].copy_from_slice(&ip);
    new.l2[..l2.len()].copy_from_slice(&l2);
    new.masks[..masks.len()].copy_from_slice(&masks);
    let mut node = plane.tables.node.get(&0)?.unwrap_or_default();
    let inactive = 1 - (node.active & 1);
    node.shapes[inactive as usize] = new;
    plane.tables.node.set(&0, &node)?;
    node.active = inactive;
    plane.tables.node.set(&0, &node)
}

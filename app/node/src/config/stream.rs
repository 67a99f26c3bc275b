//! The `[[stream]]` tables.

use std::collections::HashSet;

use onbeat_frer::spec::{Egress, MAX_EGRESS, Member, PortId, SequenceTag, Stream};
use onbeat_yang::{MAX_HANDLE, StreamHandles};

use super::block::{Block, Location};
use super::identify::Selection;
use super::reader::{Faults, Table, Value};
use super::recovery::{self, Scope};
use super::wildcard::{self, WildcardTable};
use super::{PortIds, identify, node, repeat, suggestions};

/// The `[[stream]]` tables of a file.
#[derive(Debug, Default)]
pub(super) struct StreamTables {
    /// Named streams.
    pub(super) blocks: Vec<Block>,
    pub(super) wildcards: Vec<WildcardTable>,
}

enum StreamTable {
    Named(Block),
    Wildcard(WildcardTable),
}

/// All streams without faults of their own.
pub(super) fn read_all(values: Vec<Value<'_>>, ports: &PortIds, faults: &Faults) -> StreamTables {
    let sound = |value: &Value<'_>| {
        let before = faults.count();
        let table = read(value, ports, faults)?;
        (faults.count() == before).then_some(table)
    };
    let mut tables = StreamTables::default();
    for value in values {
        match sound(&value) {
            Some(StreamTable::Named(block)) => tables.blocks.push(block),
            Some(StreamTable::Wildcard(wildcard)) => tables.wildcards.push(wildcard),
            None => {}
        }
    }
    tables
}

fn read(value: &Value<'_>, ports: &PortIds, faults: &Faults) -> Option<StreamTable> {
    let mut table = value.table()?;
    let name = table.require("name", "\"axis-1\"");
    let repeat = repeat::read(&mut table, name.as_ref());
    let place = name.as_ref().map(Location::of);
    // A template is checked when it is expanded: {n} is no part of a name.
    let name = name.and_then(|value| match repeat.count {
        1 => node::read_name(&value),
        _ => value.text().map(str::to_owned),
    });
    let generate_value = table.take("generate");
    let generate = generate_value.as_ref().and_then(|value| value.flag()).unwrap_or(false);
    let recover_value = table.take("recover");
    let (members, wildcards) = read_members(&mut table, ports);
    let (egress, egress_sources): (Vec<_>, Vec<_>) =
        read_egress(&mut table, ports).into_iter().unzip();
    if !wildcards.is_empty() {
        for source in egress_sources.iter().filter(|source| source.handle.is_some()) {
            source.fault(faults, "a wildcard has no handles", "remove this key");
        }
        let stream = wildcard::StreamKeys {
            name: name?,
            place: place?,
            is_repeated: repeat.count != 1,
            generate: generate_value.filter(|_| generate),
            recover: recover_value,
            members: members.into_iter().map(|(member, source)| (member, source.place)).collect(),
            wildcards,
            egress,
            egress_places: egress_sources.into_iter().map(|source| source.place).collect(),
        };
        let wildcard = wildcard::read(&table, stream, faults);
        table.finish();
        return Some(StreamTable::Wildcard(wildcard?));
    }
    let recover = recover_value.as_ref().and_then(|value| recovery::read(value, Scope::Sequence));
    if let (Some(value), true, true) = (&generate_value, generate, recover_value.is_some()) {
        value.fault(
            "generate and recover exclude each other in a stream",
            "remove generate or recover; the opposite direction is a separate stream",
        );
    }
    let (members, sources): (Vec<_>, Vec<_>) = members.into_iter().unzip();
    let draining = (0..).zip(&sources).filter(|(_, source)| source.is_draining);
    let draining = draining.map(|(member, _)| member).collect();
    let handles = read_handles(&sources, &egress_sources, repeat.count == 1, faults);
    let numbered = egress.iter().any(|egress| egress.tag == SequenceTag::RTag);
    if let (Some(value), true, false) = (&generate_value, generate, numbered || egress.is_empty()) {
        value.fault(
            "sequence numbers are generated, but no egress port sends them",
            "add tag = \"r-tag\" to the egress ports toward the paths",
        );
    }
    table.finish();
    Some(StreamTable::Named(Block {
        first: Stream { name: name?, members, generate, recover, egress },
        repeat,
        place: place?,
        members: sources.into_iter().map(|source| source.place).collect(),
        draining,
        egress: egress_sources.into_iter().map(|source| source.place).collect(),
        handles,
    }))
}

/// A member or an egress entry in the file.
struct EntrySource {
    place: Location,
    is_draining: bool,
    /// Its handle in YANG documents.
    handle: Option<u32>,
}

impl EntrySource {
    /// Records a fault of the handle.
    fn fault(&self, faults: &Faults, message: &str, help: &str) {
        faults.note(self.place.span.clone(), &format!("{}.handle", self.place.path), message, help);
    }
}

/// The handles of a stream, if its members have such a key.
fn read_handles(
    members: &[EntrySource],
    egress: &[EntrySource],
    is_single: bool,
    faults: &Faults,
) -> Option<StreamHandles> {
    let mut known = HashSet::new();
    let with_key = members.iter().chain(egress).filter(|source| source.handle.is_some());
    for source in with_key {
        if !is_single {
            source.fault(
                faults,
                "several streams cannot have one handle",
                "remove count or this key",
            );
        } else if !source.handle.is_some_and(|handle| known.insert(handle)) {
            source.fault(faults, "the stream has this handle twice", "write another number");
        }
    }
    if known.is_empty() {
        return None;
    }
    for source in members.iter().filter(|source| source.handle.is_none()) {
        let help = "add it to all members of the stream, or remove it everywhere";
        source.fault(faults, "the key is missing", help);
    }
    Some(StreamHandles {
        members: members.iter().filter_map(|source| source.handle).collect(),
        egress: egress.iter().map(|source| source.handle).collect(),
    })
}

/// The members that identify frames of a named stream, and those of wildcards.
type Members<'a> = (Vec<(Member, EntrySource)>, Vec<wildcard::WildcardMember<'a>>);

fn read_members<'a>(table: &mut Table<'a>, ports: &PortIds) -> Members<'a> {
    let example = "[{ port = \"talker\", identify = { type = \"null\", ... } }]";
    let values = table.require("member", example);
    let array = values.as_ref().and_then(|value| value.array()).unwrap_or_default();
    if let (Some(value), true) = (&values, array.is_empty()) {
        value.fault("a stream requires a member", format!("write member = {example}"));
    }
    let mut members = Members::default();
    let mut read = |value: Value<'a>| {
        let mut table = value.table()?;
        let port = port(&mut table, ports);
        let selection = table
            .require("identify", "{ type = \"null\", destination = \"01:00:5e:00:00:01\" }")
            .and_then(|value| identify::read(&value));
        let individual = table.take("individual");
        let draining = table.take("draining");
        let is_draining = draining.as_ref().and_then(|value| value.flag()).unwrap_or(false);
        let place = Location::of(&value);
        match selection {
            Some(Selection::Wildcard(scope)) => {
                if let Some(value) = draining {
                    value.fault("a wildcard has no draining members", "remove this key");
                }
                table.finish();
                let port = port?.0;
                members.1.push(wildcard::WildcardMember { port, scope, individual, value });
            }
            selection => {
                let individual =
                    individual.and_then(|value| recovery::read(&value, Scope::Individual));
                let source = EntrySource { place, is_draining, handle: handle(&mut table) };
                table.finish();
                let Some(Selection::Stream(identification)) = selection else { return None };
                members.0.push((Member { port: port?.0, identification, individual }, source));
            }
        }
        Some(())
    };
    array.into_iter().for_each(|value| _ = read(value));
    members
}

fn read_egress(table: &mut Table<'_>, ports: &PortIds) -> Vec<(Egress, EntrySource)> {
    let example = "[{ port = \"path1\", tag = \"r-tag\" }]";
    let values = table.require("egress", example);
    let array = values.as_ref().and_then(|value| value.array()).unwrap_or_default();
    if let Some(value) = &values {
        if array.is_empty() {
            value.fault("a stream requires an egress port", format!("write egress = {example}"));
        } else if array.len() > MAX_EGRESS {
            value.fault(
                format!("{} egress ports, more than the {MAX_EGRESS} of a stream", array.len()),
                "remove some, or replicate further at the next node",
            );
        }
    }
    let mut seen: Vec<PortId> = Vec::new();
    let read = |value: &Value<'_>| {
        let mut table = value.table()?;
        let port = port(&mut table, ports);
        let tag = table.take("tag").and_then(|value| {
            value.choice(&[
                ("r-tag", SequenceTag::RTag),
                ("none", SequenceTag::Remove),
                ("keep", SequenceTag::Keep),
            ])
        });
        let rewrite = identify::rewrite(&mut table);
        let handle = handle(&mut table);
        table.finish();
        let (port, port_value) = port?;
        if seen.contains(&port) {
            port_value.fault(
                format!("port {:?} is already an egress port of this stream", port_value.text()?),
                "list each egress port once",
            );
        }
        seen.push(port);
        let egress = Egress { port, tag: tag.unwrap_or(SequenceTag::Keep), rewrite };
        let place = Location::of(value);
        Some((egress, EntrySource { place, is_draining: false, handle }))
    };
    array.iter().filter_map(read).collect()
}

/// Reads the key `handle`, the number of a stream in YANG documents.
fn handle(table: &mut Table<'_>) -> Option<u32> {
    table.take("handle").and_then(|value| value.number(1..=MAX_HANDLE))
}

/// Reads the key `port`, the name of a port.
fn port<'a>(table: &mut Table<'a>, ports: &PortIds) -> Option<(PortId, Value<'a>)> {
    let value = table.require("port", "\"path1\"")?;
    let name = value.text()?;
    if let Some(&id) = ports.get(name) {
        return Some((id, value));
    }
    let mut known: Vec<&str> = ports.keys().map(String::as_str).collect();
    known.sort_unstable_by_key(|name| ports[*name]);
    let mut help = match known.as_slice() {
        [] => "add a [[port]] of this name".to_owned(),
        _ => format!("ports here: {}", known.join(", ")),
    };
    if let Some(meant) = suggestions::nearest(name, known) {
        help += &format!("; did you mean {meant:?}?");
    }
    value.fault(format!("no port is named {name:?}"), help);
    None
}

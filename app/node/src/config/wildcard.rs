//! Wildcards: `[[stream]]` tables with `identify = { type = "all" }` or `"vlan"`, and the `[wildcard]` table.

use std::collections::{HashMap, HashSet};

use onbeat_frer::spec::{Egress, Member, PortId, Rewrite, SequenceTag};
use onbeat_frer::wildcard::{MAX_IN_KERNEL, Scope};

use super::block::Location;
use super::prp::LinkTable;
use super::reader::{Faults, Table, Value};
use super::{Backend, LinkConfig, NodeConfig, PortConfig, Protocol};

/// A wildcard: frames that match no named stream, between a host port and two paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WildcardConfig {
    /// Its name, unique among those of streams.
    pub name: String,
    /// Its frames.
    pub scope: Scope,
    /// Its ports, and the limits of its tables.
    pub link: LinkConfig,
}

/// The table of a wildcard, without faults of its own.
#[derive(Debug)]
pub(super) struct WildcardTable {
    name: String,
    scope: Scope,
    host: PortId,
    paths: [PortId; 2],
    /// Of the name.
    place: Location,
    /// Of the member.
    member: Location,
}

impl WildcardTable {
    /// Records a fault of the wildcard as a whole.
    pub(super) fn fault(&self, faults: &Faults, message: impl Into<String>, help: &str) {
        faults.note(self.place.span.clone(), &self.place.path, message, help);
    }
}

/// A member with a wildcard identification.
#[derive(Debug)]
pub(super) struct WildcardMember<'a> {
    pub(super) port: PortId,
    pub(super) scope: Scope,
    pub(super) individual: Option<Value<'a>>,
    pub(super) value: Value<'a>,
}

/// The keys of a `[[stream]]` table with a wildcard identification.
#[derive(Debug)]
pub(super) struct StreamKeys<'a> {
    pub(super) name: String,
    pub(super) place: Location,
    pub(super) is_repeated: bool,
    /// Present if it is true.
    pub(super) generate: Option<Value<'a>>,
    pub(super) recover: Option<Value<'a>>,
    /// Other members.
    pub(super) members: Vec<(Member, Location)>,
    pub(super) wildcards: Vec<WildcardMember<'a>>,
    pub(super) egress: Vec<Egress>,
    pub(super) egress_places: Vec<Location>,
}

/// The form of a wildcard, as a remedy.
const FORM: &str = "write one member, the host port, and egress = [{ port = \"path1\", tag = \"r-tag\" }, { port = \
                    \"path2\", tag = \"r-tag\" }]; the opposite direction is part of it";

/// Reads a wildcard; reports what it cannot have.
pub(super) fn read(
    table: &Table<'_>,
    keys: StreamKeys<'_>,
    faults: &Faults,
) -> Option<WildcardTable> {
    let fault_at = |at: &Location, message: &str, help: &str| {
        faults.note(at.span.clone(), &at.path, message, help);
    };
    let StreamKeys { name, place, is_repeated, generate, recover, .. } = keys;
    let mut wildcards = keys.wildcards.into_iter();
    let WildcardMember { port: host, scope, individual, value: member } = wildcards.next()?;
    let name_of_type = scope.name();
    if is_repeated {
        table.fault(
            format!("type = {name_of_type:?} with count: these are the same frames each time"),
            "remove count and step",
        );
    }
    if generate.is_none() {
        table.fault(
            format!("type = {name_of_type:?} without generate = true: its frames are numbered"),
            "add generate = true",
        );
    }
    if let Some(recover) = &recover {
        recover.fault(
            format!(
                "type = {name_of_type:?} has no recovery function: its numbers have gaps as a rule, and vector recovery \
                 would discard late frames"
            ),
            "remove recover; each number is remembered by itself, for entry-forget-ms of [wildcard]",
        );
    }
    if let Some(individual) = &individual {
        individual.fault(
            format!("type = {name_of_type:?} has no recovery function, and none of a member"),
            "remove individual",
        );
    }
    for other in wildcards {
        other.value.fault("a wildcard has one member", FORM);
    }
    for (_, other) in &keys.members {
        fault_at(
            other,
            "a wildcard has no other members",
            "move it to a stream of its own, which has precedence",
        );
    }
    let [a, b] = keys.egress.as_slice() else {
        table.fault(
            format!("type = {name_of_type:?} has two paths, not {}", keys.egress.len()),
            FORM,
        );
        return None;
    };
    for (egress, at) in [a, b].into_iter().zip(&keys.egress_places) {
        if egress.port == host {
            fault_at(at, "the host port of a wildcard is none of its paths", FORM);
        }
        if egress.tag != SequenceTag::RTag {
            fault_at(at, "a path of a wildcard sends R-TAGs", "write tag = \"r-tag\"");
        }
        if egress.rewrite != Rewrite::default() {
            fault_at(
                at,
                "a path of a wildcard changes no other octets",
                "remove destination, vlan and priority; name a stream for frames to change",
            );
        }
    }
    let paths = [a.port, b.port];
    Some(WildcardTable { name, scope, host, paths, place, member: Location::of(&member) })
}

/// Checks wildcards with each other, with streams and with their ports; returns them by precedence. Merging of received
/// frames is turned off on their host ports.
pub(super) fn check<'a>(
    tables: &[WildcardTable],
    streams: impl Iterator<Item = &'a str>,
    node: &NodeConfig,
    ports: &mut [PortConfig],
    limits: Option<(Location, LinkTable)>,
    faults: &Faults,
) -> Vec<WildcardConfig> {
    // Those with faults of their own are not among them.
    if let (Some((place, _)), true) = (&limits, tables.is_empty() && faults.count() == 0) {
        faults.note(
            place.span.clone(),
            &place.path,
            "the node has no wildcard",
            "add a [[stream]] with identify = { type = \"all\" }, or remove this table",
        );
    }
    let mut names: HashSet<&str> =
        if tables.is_empty() { HashSet::new() } else { streams.collect() };
    let limits = limits.map(|(_, limits)| limits).unwrap_or_default();
    // By port: the role, and the wildcards there with their scopes.
    let mut roles: HashMap<PortId, (bool, &str)> = HashMap::new();
    let mut scopes: HashMap<(PortId, Scope), &str> = HashMap::new();
    let mut reported: HashSet<[&str; 2]> = HashSet::new();
    let mut wildcards = Vec::new();
    if let (Some(table), Backend::Xdp) = (tables.get(MAX_IN_KERNEL), node.backend) {
        let message = format!(
            "the back end \"xdp\" has at most {MAX_IN_KERNEL} wildcards, not {}",
            tables.len()
        );
        table.fault(faults, message, "set backend = \"packet\" in [node]");
    }
    for table in tables {
        let WildcardTable { name, scope, host, paths, .. } = table;
        let type_name = scope.name();
        if !names.insert(name) {
            let message = format!("another stream is named {name:?}");
            table.fault(faults, message, "give each stream its own name");
        }
        if node.protocol == Protocol::Prp {
            table.fault(
                faults,
                format!(
                    "type = {type_name:?} in a node with protocol = \"prp\", which has all frames"
                ),
                "remove the stream, or use protocol = \"frer\"",
            );
            continue;
        }
        let at = &table.member;
        for port in [host, &paths[0], &paths[1]] {
            let port_config = &ports[usize::from(port.0)];
            if port_config.backend == Backend::Xsk {
                faults.note(
                    at.span.clone(),
                    &at.path,
                    format!(
                        "the back end {:?} of port {:?} does not support type = {type_name:?}",
                        port_config.backend.to_string(),
                        port_config.name
                    ),
                    "set backend = \"xdp\" or \"packet\" in [node], and no other one on this port",
                );
            }
            let is_host = port == host;
            let (was_host, other) = *roles.entry(*port).or_insert((is_host, name));
            let port_name = &port_config.name;
            let other_scope = scopes.insert((*port, *scope), name);
            let conflict = if was_host == is_host { other_scope } else { Some(other) };
            let is_new = conflict.is_some_and(|other| reported.insert([name, other]));
            match conflict.filter(|_| is_new) {
                None => {}
                Some(other) if was_host != is_host => faults.note(
                    at.span.clone(),
                    &at.path,
                    format!(
                        "port {port_name:?} is the host port of one wildcard and a path of another: {name:?}, {other:?}"
                    ),
                    "use different ports",
                ),
                Some(other) => faults.note(
                    at.span.clone(),
                    &at.path,
                    format!("{name:?} and {other:?} have the same frames on port {port_name:?}"),
                    "use another VLAN or port, or remove one of them",
                ),
            }
        }
        let host_config = &mut ports[usize::from(host.0)];
        // A merged frame would get one number.
        host_config.whole_frames |= host_config.create.is_none();
        let link = limits.between(*host, *paths);
        wildcards.push(WildcardConfig { name: name.clone(), scope: *scope, link });
    }
    wildcards.sort_by_key(|wildcard| wildcard.scope);
    wildcards
}

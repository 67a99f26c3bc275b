//! The `[[stream]]` tables.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use onbeat_config::reader::{Table, Value};
use onbeat_wire::MacAddress;

use super::{Names, add, name, reference};
use crate::ladder::RecoverAt;
use crate::network::{Network, Stream};
use crate::plan::MAX_STREAMS;

/// Longest name: relays add a number to it.
const LONGEST_NAME: usize = 56;

/// Most paths to a listener.
const MAX_PATHS: u8 = 8;

/// Values of `recover-at`.
const RECOVER_AT: [(&str, RecoverAt); 3] =
    [("listeners", RecoverAt::Listeners), ("relays", RecoverAt::Relays), ("auto", RecoverAt::Auto)];

/// State of the reading: objects that a stream may not share with others.
struct Reader<'n> {
    nodes: &'n Names,
    names: Names,
    /// Streams by address.
    addresses: HashMap<MacAddress, Vec<AddressUser>>,
    /// Streams of each node as talker or listener.
    counts: Vec<u32>,
}

/// A stream with an address: its VLAN, its talker if labels distinguish it from streams of other talkers, and its name.
type AddressUser = (Option<u16>, Option<u32>, String);

/// Reads all streams.
pub(super) fn read(values: Vec<Value<'_>>, nodes: &Names, network: &mut Network) {
    let counts = vec![0; network.nodes.len()];
    let mut reader = Reader { nodes, names: Names::new(), addresses: HashMap::new(), counts };
    for value in values {
        let Some(mut table) = value.table() else { continue };
        let stream = reader.stream(&value, &mut table, network);
        table.finish();
        network.streams.extend(stream);
    }
}

impl Reader<'_> {
    fn stream(
        &mut self,
        value: &Value<'_>,
        table: &mut Table<'_>,
        network: &Network,
    ) -> Option<Stream> {
        let named = table.require("name", "\"axis-1\"");
        let talker = table.require("talker", "\"a\"");
        let listeners = table.require("listeners", "[\"b\"]");
        let addressed = table.require("address", "\"01:00:5e:00:00:01\"");
        let vlan = table.take("vlan").and_then(|value| value.number(1..=4094));
        let interval =
            table.require("interval-us", "1000").and_then(|value| value.number(1..=60_000_000u32));
        let size = table.require("size", "128").and_then(|value| value.number(64..=9018u32));
        let path_value = table.take("paths");
        let paths = path_value.as_ref().and_then(|value| value.number(1..=MAX_PATHS));
        let recover_value = table.take("recover-at");
        let recover_at = recover_value.as_ref().and_then(|value| value.choice(&RECOVER_AT));
        let delay = table.take("max-delay-us").and_then(|value| value.number(1..=60_000_000u32));

        let stream_name = named.as_ref().and_then(name);
        if let (Some(value), Some(name)) = (&named, &stream_name) {
            add(&mut self.names, "stream", value, name, network.streams.len());
            if name.len() > LONGEST_NAME {
                value.fault(
                    format!("{name:?} has {} characters", name.len()),
                    format!("use {LONGEST_NAME} at most: relays add a number"),
                );
            }
        }
        let talker = talker.and_then(|value| self.end_system(&value, network));
        let listeners = listeners.and_then(|value| self.listeners(&value, talker, network));
        let address = addressed.as_ref().and_then(|value| value.mac_address());
        if let (Some(value), Some(address), Some(name)) = (&addressed, address, &stream_name) {
            let source = network.label_vlans.and(talker);
            self.take_address(value, address, (vlan, source, name.clone()));
        }
        let paths = paths.unwrap_or(2);
        let many = listeners.as_ref().is_some_and(|listeners| listeners.len() > 1);
        if let (Some(value), true) = (&path_value, paths > 2 && many) {
            value.fault(
                format!("{paths} paths to each of several listeners are not supported"),
                "use 2, or a stream for each listener",
            );
        }
        let recover_at = recover_at.unwrap_or_default();
        if let (Some(value), true) =
            (&recover_value, recover_at != RecoverAt::Listeners && (many || paths != 2))
        {
            value.fault(
                "recovery in relays requires one listener and two paths",
                "use \"listeners\", or a stream for each listener",
            );
        }
        for &node in talker.iter().chain(listeners.iter().flatten()) {
            let count = &mut self.counts[node as usize];
            *count += 1;
            if *count == MAX_STREAMS + 1 {
                let node = &network.nodes[node as usize].name;
                value.fault(
                    format!(
                        "this is stream {count} of node {node:?}; a node has {MAX_STREAMS} at most"
                    ),
                    "move streams to another node",
                );
            }
        }
        Some(Stream {
            name: stream_name?,
            talker: talker?,
            listeners: listeners?,
            address: address?,
            vlan,
            interval_ns: 1000 * u64::from(interval?),
            size: size?,
            paths,
            max_delay_ns: delay.map(|us| 1000 * u64::from(us)),
            recover_at,
            adds_vlan_tag: network.label_vlans.is_some() && vlan.is_none(),
        })
    }

    /// Reads a talker or listener: a node with a host port.
    fn end_system(&self, value: &Value<'_>, network: &Network) -> Option<u32> {
        let node = reference(self.nodes, "node", value)?;
        let described = network.nodes.get(node as usize)?;
        if described.host.is_none() {
            value.fault(
                format!("node {:?} has no host port for talkers and listeners", described.name),
                "add host = { interface = \"tsn0\", create = \"veth\" } to the node",
            );
            return None;
        }
        Some(node)
    }

    fn listeners(
        &self,
        value: &Value<'_>,
        talker: Option<u32>,
        network: &Network,
    ) -> Option<Vec<u32>> {
        let values = value.array()?;
        if values.is_empty() {
            value.fault("the stream has no listener", "write the name of a node");
        }
        let (mut listeners, mut known) = (Vec::new(), HashSet::new());
        for value in &values {
            let node = self.end_system(value, network)?;
            if Some(node) == talker {
                value.fault("the talker is also a listener", "remove it from listeners");
            }
            if !known.insert(node) {
                value.fault("this listener is listed twice", "list each listener once");
                continue;
            }
            listeners.push(node);
        }
        (!listeners.is_empty()).then_some(listeners)
    }

    /// Reports an address that another stream has in the same VLAN, or in any.
    fn take_address(&mut self, value: &Value<'_>, address: MacAddress, user: AddressUser) {
        let (vlan, talker, _) = user;
        let entry = self.addresses.entry(address);
        let others = match entry {
            Entry::Occupied(others) => others.into_mut(),
            Entry::Vacant(entry) => entry.insert(Vec::new()),
        };
        let same = |other: &&AddressUser| {
            let is_one_vlan = other.0 == vlan || other.0.is_none() || vlan.is_none();
            is_one_vlan && other.1 == talker
        };
        if let Some((.., other)) = others.iter().find(same) {
            value.fault(
                format!("stream {other:?} has the same address {address} in this VLAN, or in any"),
                "use another address or VLAN: nodes identify streams by them",
            );
        }
        if others.len() < 4095 {
            others.push(user);
        }
    }
}

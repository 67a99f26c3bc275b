//! The `[[node]]` tables.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use onbeat_config::interface;
use onbeat_config::reader::Value;

use super::{Names, add, name};
use crate::network::{Host, Network, Node, Port};

/// Ports of a node towards others: 64, one of which is the host's.
const MAX_PORTS: usize = 63;

/// Speeds of ports, in Mbit/s.
pub(crate) const SPEED_MBPS: RangeInclusive<u32> = 1..=800_000;

/// Default of `forwarding-us`.
const FORWARDING_US: u32 = 50;

/// Name of the port of applications in the files of nodes.
pub(crate) const HOST: &str = "host";

/// Reads all nodes; returns their names and places.
pub(super) fn read<'a>(values: Vec<Value<'a>>, network: &mut Network) -> (Names, Vec<Value<'a>>) {
    let mut names = Names::new();
    let mut places = Vec::new();
    for value in values {
        let Some(mut table) = value.table() else { continue };
        let named = table.require("name", "\"a\"");
        let node_name = named.as_ref().and_then(name);
        let relay = table.take("relay").and_then(|value| value.flag());
        let bridge = table.take("bridge");
        let forwarding = table.take("forwarding-us").and_then(|value| value.number(0..=100_000));
        let host = table.take("host").and_then(|value| read_host(&value));
        let mut interfaces: HashSet<String> = HashSet::new();
        interfaces.extend(host.iter().map(|host| host.interface.clone()));
        let ports = read_ports(table.items("port"), &mut interfaces);
        let bridge = bridge.and_then(|value| {
            check_bridge(&value, host.is_some() || relay == Some(false), network);
            interface::read(&value)
        });
        table.finish();
        let Some(node_name) = node_name else { continue };
        add(&mut names, "node", named.as_ref().unwrap_or(&value), &node_name, network.nodes.len());
        network.nodes.push(Node {
            name: node_name,
            host,
            relay: relay.unwrap_or(true),
            bridge,
            forwarding_ns: 1000 * u64::from(forwarding.unwrap_or(FORWARDING_US)),
            ports,
        });
        places.push(value);
    }
    (names, places)
}

/// Reports keys that contradict a foreign bridge.
fn check_bridge(value: &Value<'_>, is_end_system: bool, network: &Network) {
    if is_end_system {
        value.fault("a foreign bridge has no host, and is a relay", "remove host and relay");
    }
    if network.label_vlans.is_none() {
        value.fault(
            "a foreign bridge forwards by VLAN, and the network has no VLANs of labels",
            "add label-vlans = [101, 102] to [network]",
        );
    }
}

fn read_host(value: &Value<'_>) -> Option<Host> {
    let mut table = value.table()?;
    let named = table.require("interface", "\"tsn0\"");
    let create = table.take("create").and_then(|value| value.choice(&[("veth", true)]));
    table.finish();
    let written = named?;
    let interface = interface::read(&written)?;
    let create = create.unwrap_or(false);
    // The node's end of a veth pair has a longer name.
    const LONGEST: usize = 10;
    if create && interface.len() > LONGEST {
        written.fault(
            format!("{interface:?} is too long: the other end is named \"{interface}-frer\""),
            format!("use {LONGEST} characters at most with create = \"veth\""),
        );
    }
    Some(Host { interface, create })
}

fn read_ports(values: Vec<Value<'_>>, interfaces: &mut HashSet<String>) -> Vec<Port> {
    let mut names = Names::new();
    let mut ports = Vec::new();
    for (number, value) in values.into_iter().enumerate() {
        if number == MAX_PORTS {
            value.fault(
                format!(
                    "this is port {}, more than the {MAX_PORTS} towards other nodes",
                    number + 1
                ),
                "remove ports, or use two nodes",
            );
            break;
        }
        let Some(mut table) = value.table() else { continue };
        let named = table.require("name", "\"p1\"");
        let port_name = named.as_ref().and_then(name);
        let written = table.take("interface");
        let speed = table.take("speed-mbps").and_then(|value| value.number(SPEED_MBPS));
        table.finish();
        let Some(port_name) = port_name else { continue };
        let place = named.as_ref().unwrap_or(&value);
        if port_name == HOST {
            place.fault(
                format!("{HOST:?} is the port of applications"),
                "use another name, such as \"p1\"",
            );
        }
        add(&mut names, "port of this node", place, &port_name, ports.len());
        // Without a key of its own, the name of the port names the interface.
        let written = written.as_ref().unwrap_or(place);
        let Some(interface) = interface::read(written) else { continue };
        if !interfaces.insert(interface.clone()) {
            written.fault(
                format!("another port of this node has the interface {interface:?}"),
                "give each port its own interface",
            );
        }
        ports.push(Port { name: port_name, interface, speed_mbps: speed.unwrap_or(1000) });
    }
    ports
}

/// Reports nodes that no links connect with the first one.
pub(super) fn check_connection(network: &Network, places: &[Value<'_>]) {
    if network.nodes.is_empty() {
        return;
    }
    let mut neighbors = vec![Vec::new(); network.nodes.len()];
    for link in &network.links {
        let [a, b] = link.ends.map(|end| end.node);
        neighbors[a as usize].push(b);
        neighbors[b as usize].push(a);
    }
    let mut is_reached = vec![false; neighbors.len()];
    let mut reach = |from: usize| {
        let mut open = vec![from];
        is_reached[from] = true;
        while let Some(node) = open.pop() {
            for &next in &neighbors[node] {
                if !std::mem::replace(&mut is_reached[next as usize], true) {
                    open.push(next as usize);
                }
            }
        }
        is_reached.iter().position(|reached| !reached)
    };
    let mut next = reach(0);
    // One fault for each further piece.
    while let Some(node) = next {
        let names = [node, 0].map(|index| &network.nodes[index].name);
        places[node].fault(
            format!(
                "the network is in pieces: no links lead from node {:?} to node {:?}",
                names[0], names[1]
            ),
            "add [[link]] between the pieces, or plan each piece by a file of its own",
        );
        next = reach(node);
    }
}

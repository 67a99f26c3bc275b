//! The configuration file of each node, which `onbeat run` reads.

use std::collections::HashSet;
use std::fmt::Write;
use std::iter::once;

use crate::bridge;
use crate::input::HOST;
use crate::network::{Network, R_TAG};
use crate::plan::Plan;
use crate::route::StreamPart;

/// MTU that every Ethernet interface has.
const USUAL_MTU: u32 = 1500;

/// Octets of a frame that the MTU does not count: addresses, EtherType, FCS.
const FRAME_OCTETS: u32 = 18;

/// Default of `max-streams` in node files.
const DEFAULT_MAX_STREAMS: usize = 4096;

/// A file of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFile {
    /// Index of the node.
    pub node: u32,
    /// Its streams.
    pub streams: usize,
    /// Its text.
    pub text: String,
}

/// Returns the files of all nodes with streams, in the order of the nodes.
#[must_use]
pub fn all(network: &Network, plan: &Plan) -> Vec<NodeFile> {
    let names: HashSet<&str> = network.streams.iter().map(|stream| stream.name.as_str()).collect();
    let mut bodies = vec![(String::new(), 0usize); network.nodes.len()];
    let mut largest = vec![Vec::new(); network.nodes.len()];
    for (node, sizes) in network.nodes.iter().zip(&mut largest) {
        *sizes = vec![0; node.ports.len()];
    }
    for (index, route) in plan.routed() {
        let stream = &network.streams[index];
        let parts = route.parts(network, stream);
        for (position, part) in parts.iter().enumerate() {
            if network.is_bridge(part.node) {
                continue;
            }
            // A relay can forward each copy on its own.
            let earlier = parts[..position].iter().filter(|other| other.node == part.node).count();
            let is_relay = !part.delivers && !part.ingress.is_empty() && !part.recovers;
            let label = part.ingress.first().and_then(|arc| bridge::label(plan, index, *arc));
            let name = part_name(&names, &stream.name, label.filter(|_| is_relay), earlier);
            let (text, count) = &mut bodies[part.node as usize];
            write_stream(text, network, plan, index, part, &name);
            *count += 1;
            for arc in part.egress.iter().chain(&part.ingress) {
                let end = network.link_ends(*arc).into_iter().find(|end| end.node == part.node);
                let Some(end) = end else { continue };
                let size = &mut largest[end.node as usize][end.port as usize];
                *size = (*size).max(stream.size);
            }
        }
    }
    let bodies = bodies.into_iter().enumerate().filter(|(_, (_, count))| *count > 0);
    bodies
        .map(|(node, (body, streams))| {
            let text = head(network, node, streams, &largest[node]) + &body;
            NodeFile { node: node as u32, streams, text }
        })
        .collect()
}

/// Name of a part: the stream's, at a relay with the VLAN of its label, so that the relay can have those of two plans.
/// Further parts have a number. No other stream has the name.
fn part_name(names: &HashSet<&str>, stream: &str, label: Option<u16>, earlier: usize) -> String {
    let (base, skipped) = match (label, earlier) {
        (None, 0) => return stream.to_owned(),
        (None, _) => (stream.to_owned(), earlier - 1),
        (Some(vlan), _) => (format!("{stream}.v{vlan}"), earlier),
    };
    let numbered = (2..).map(|number| format!("{base}.{number}"));
    let mut free = once(base.clone()).chain(numbered).filter(|name| !names.contains(&name[..]));
    free.nth(skipped).expect("there are more numbers than streams")
}

fn head(network: &Network, index: usize, streams: usize, largest: &[u32]) -> String {
    let node = &network.nodes[index];
    let mut text = format!("# Written by onbeat plan.\n\n[node]\nname = \"{}\"\n", node.name);
    if streams > DEFAULT_MAX_STREAMS {
        let _ = writeln!(text, "max-streams = {}", streams.next_power_of_two().min(65_536));
    }
    for (port, largest) in node.ports.iter().zip(largest) {
        let (name, interface) = (&port.name, &port.interface);
        let _ = write!(text, "\n[[port]]\nname = \"{name}\"\ninterface = \"{interface}\"\n");
        let mtu = largest.saturating_sub(FRAME_OCTETS) + R_TAG;
        if mtu > USUAL_MTU {
            let _ = writeln!(text, "mtu = {mtu}");
        }
    }
    if let Some(host) = &node.host {
        let interface = &host.interface;
        let _ = write!(text, "\n[[port]]\nname = \"{HOST}\"\ninterface = \"{interface}\"\n");
        if host.create {
            let _ = writeln!(text, "create = \"veth\"");
        }
    }
    text
}

fn write_stream(
    text: &mut String,
    network: &Network,
    plan: &Plan,
    index: usize,
    part: &StreamPart,
    name: &str,
) {
    let stream = &network.streams[index];
    let is_labeled = !plan.labels[index].is_empty();
    let is_talker = part.ingress.is_empty();
    let node = &network.nodes[part.node as usize];
    let port = |index: u32| &node.ports[index as usize].name;
    let _ = write!(text, "\n[[stream]]\nname = \"{name}\"\n");
    if is_talker {
        // Also with one path: the MTU of a port is 6 octets more than that of the host for all streams.
        text.push_str("generate = true\n");
    }
    if let (true, Some(window)) = (part.recovers, plan.window_at(index, part.node)) {
        let _ = writeln!(
            text,
            "recover = {{ history-length = {}, reset-timeout-ms = {} }}",
            window.history_length, window.reset_timeout_ms
        );
    }
    text.push_str("member = [\n");
    let address = stream.address;
    let mut member = |port: &str, vlan: &str| {
        let identify = format!("type = \"null\", destination = \"{address}\"{vlan}");
        let _ = writeln!(text, "  {{ port = \"{port}\", identify = {{ {identify} }} }},");
    };
    let numbered = |vlan: u16| format!(", vlan = {vlan}");
    // The label takes the place of a VLAN that frames without a VLAN id do not have.
    let untagged = if is_labeled { ", tagged = \"priority\"" } else { "" };
    let own = stream.vlan.map_or(untagged.to_owned(), numbered);
    if is_talker {
        member(HOST, &own);
    }
    for arc in &part.ingress {
        let vlan = bridge::label(plan, index, *arc).map(numbered);
        member(port(network.link_ends(*arc)[1].port), &vlan.unwrap_or_else(|| own.clone()));
    }
    text.push_str("]\negress = [");
    let tag = if is_talker { ", tag = \"r-tag\"" } else { "" };
    let mut egress: Vec<String> = part
        .egress
        .iter()
        .map(|arc| {
            let label = bridge::label(plan, index, *arc).filter(|_| is_talker);
            let vlan = label.map_or(String::new(), numbered);
            format!("{{ port = \"{}\"{tag}{vlan} }}", port(network.link_ends(*arc)[0].port))
        })
        .collect();
    if part.delivers {
        let restored = stream.vlan.map_or(", vlan = \"remove\"".to_owned(), numbered);
        let vlan = if is_labeled { restored.as_str() } else { "" };
        egress.push(format!("{{ port = \"{HOST}\", tag = \"none\"{vlan} }}"));
    }
    let _ = writeln!(text, "{}]", egress.join(", "));
}

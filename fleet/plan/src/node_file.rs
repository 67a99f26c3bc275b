//! The configuration file of each node, which `onbeat run` reads.

use std::collections::HashSet;
use std::fmt::Write;

use crate::input::HOST;
use crate::network::{Network, R_TAG, Stream};
use crate::plan::Plan;
use crate::route::StreamPart;
use crate::window::Window;

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
            // A relay can forward each copy on its own.
            let earlier = parts[..position].iter().filter(|other| other.node == part.node).count();
            let name = part_name(&names, &stream.name, earlier);
            let (text, count) = &mut bodies[part.node as usize];
            write_stream(text, network, stream, part, &name, plan.windows[index]);
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

/// Name of a part: the stream's at the first, with a number at further ones that no other stream has.
fn part_name(names: &HashSet<&str>, stream: &str, earlier: usize) -> String {
    if earlier == 0 {
        return stream.to_owned();
    }
    let numbered = (2..).map(|number| format!("{stream}.{number}"));
    let mut free = numbered.filter(|name| !names.contains(name.as_str()));
    free.nth(earlier - 1).expect("there are more numbers than streams")
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
    stream: &Stream,
    part: &StreamPart,
    name: &str,
    window: Option<Window>,
) {
    let is_talker = part.ingress.is_empty();
    let is_numbered = stream.paths > 1;
    let node = &network.nodes[part.node as usize];
    let port = |index: u32| &node.ports[index as usize].name;
    let _ = write!(text, "\n[[stream]]\nname = \"{name}\"\n");
    if is_talker && is_numbered {
        text.push_str("generate = true\n");
    }
    if let (true, Some(window)) = (part.recovers, window) {
        let _ = writeln!(
            text,
            "recover = {{ history-length = {}, reset-timeout-ms = {} }}",
            window.history_length, window.reset_timeout_ms
        );
    }
    let mut identify = format!("type = \"null\", destination = \"{}\"", stream.address);
    if let Some(vlan) = stream.vlan {
        let _ = write!(identify, ", vlan = {vlan}");
    }
    text.push_str("member = [\n");
    let mut member = |port: &str| {
        let _ = writeln!(text, "  {{ port = \"{port}\", identify = {{ {identify} }} }},");
    };
    if is_talker {
        member(HOST);
    }
    for arc in &part.ingress {
        member(port(network.link_ends(*arc)[1].port));
    }
    text.push_str("]\negress = [");
    let tag = if is_talker && is_numbered { ", tag = \"r-tag\"" } else { "" };
    let mut egress: Vec<String> = part
        .egress
        .iter()
        .map(|arc| format!("{{ port = \"{}\"{tag} }}", port(network.link_ends(*arc)[0].port)))
        .collect();
    if part.delivers {
        let tag = if is_numbered { ", tag = \"none\"" } else { "" };
        egress.push(format!("{{ port = \"{HOST}\"{tag} }}"));
    }
    let _ = writeln!(text, "{}]", egress.join(", "));
}

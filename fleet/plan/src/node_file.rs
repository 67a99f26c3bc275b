//! The configuration file of each node, which `onbeat run` reads.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;
use std::iter::once;

use crate::bridge;
use crate::input::HOST;
use crate::network::{Network, Node, R_TAG};
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
    let mut bodies = vec![NodeBody::default(); network.nodes.len()];
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
            let body = &mut bodies[part.node as usize];
            write_stream(&mut body.text, network, plan, index, part, &name);
            body.streams += 1;
            body.is_talker |= part.ingress.is_empty();
            body.longest = body.longest.max(stream.size - FRAME_OCTETS);
            let ends =
                part.egress.iter().chain(&part.ingress).flat_map(|arc| network.link_ends(*arc));
            body.ports.extend(ends.filter(|end| end.node == part.node).map(|end| end.port));
        }
    }
    // Nodes of a network with labels get other streams while frames flow, and read the MTU of ports at their start only.
    if network.label_vlans.is_some() {
        let longest = network.streams.iter().map(|stream| stream.size - FRAME_OCTETS).max();
        for (node, body) in network.nodes.iter().zip(&mut bodies) {
            body.is_talker = node.host.is_some();
            body.longest = longest.unwrap_or(0);
            body.ports.extend(0..node.ports.len() as u32);
        }
        // Any of them can become a relay of any host.
        let widest = network.nodes.iter().zip(&bodies).map(|(node, body)| body.mtu(node)).max();
        for body in &mut bodies {
            body.longest = widest.unwrap_or(USUAL_MTU) - R_TAG;
        }
    }
    let bodies = bodies.into_iter().enumerate().filter(|(_, body)| body.streams > 0);
    bodies
        .map(|(node, body)| NodeFile {
            node: node as u32,
            streams: body.streams,
            text: head(network, node, &body) + &body.text,
        })
        .collect()
}

/// The streams of a node.
#[derive(Debug, Clone, Default)]
struct NodeBody {
    /// As text.
    text: String,
    /// Their number.
    streams: usize,
    /// Whether the node is the talker of one, or may become it.
    is_talker: bool,
    /// MTU that their longest frames require without R-TAG.
    longest: u32,
    /// Ports that streams use, or may use later.
    ports: BTreeSet<u32>,
}

impl NodeBody {
    /// MTU of all ports with streams: a node refuses ports narrower than those from which they get frames.
    fn mtu(&self, node: &Node) -> u32 {
        let host = node.host.as_ref().filter(|host| self.is_talker && !host.create);
        // An existing interface of a talker sends frames as long as its MTU.
        let of_host = host.map_or(0, |_| USUAL_MTU + R_TAG);
        USUAL_MTU.max(self.longest + R_TAG).max(of_host)
    }
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

fn head(network: &Network, index: usize, body: &NodeBody) -> String {
    let node = &network.nodes[index];
    let mut text = format!("# Written by onbeat plan.\n\n[node]\nname = \"{}\"\n", node.name);
    if body.streams > DEFAULT_MAX_STREAMS {
        let most = body.streams.next_power_of_two().min(65_536);
        let _ = writeln!(text, "max-streams = {most}");
    }
    let mtu = body.mtu(node);
    for (index, port) in (0..).zip(&node.ports) {
        let (name, interface) = (&port.name, &port.interface);
        let _ = write!(text, "\n[[port]]\nname = \"{name}\"\ninterface = \"{interface}\"\n");
        if mtu > USUAL_MTU && body.ports.contains(&index) {
            let _ = writeln!(text, "mtu = {mtu}");
        }
    }
    if let Some(host) = &node.host {
        let interface = &host.interface;
        let _ = write!(text, "\n[[port]]\nname = \"{HOST}\"\ninterface = \"{interface}\"\n");
        if host.create {
            let _ = writeln!(text, "create = \"veth\"");
        }
        let mtu = mtu - R_TAG;
        if host.create || mtu > USUAL_MTU {
            let _ = writeln!(text, "mtu = {mtu}");
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

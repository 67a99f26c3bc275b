//! The topology of a plan, and the configurations of its nodes.

use super::Defect;
use super::judge::{Attachment, Lan};
use super::plan::{Node, Plan};
use crate::Topology;
use crate::fault::Impairment;

/// The interface of a node to a LAN.
pub(super) fn lan_interface(lan: Lan) -> String {
    format!("lan{}", lan.letter())
}

/// The link from a node to a LAN, whose first end is the node.
pub(super) fn link(node: &Node, lan: Lan) -> String {
    format!("{}{}", node.name, lan.letter())
}

/// The name of the bridge between a RedBox and its stations, if there are several.
pub(super) fn segment(plan: &Plan, node: usize) -> Option<String> {
    (plan.behind(node).count() > 1).then(|| format!("{}seg", plan.nodes[node].name))
}

fn bridge(lan: Lan, number: usize) -> String {
    format!("lan{}{number}", lan.letter())
}

/// The topology of a plan.
pub(super) fn topology(plan: &Plan) -> Topology {
    let mut drawn = TopologyDrawing::default();
    for lan in Lan::BOTH {
        drawn.lan(plan, lan);
    }
    if plan.defect == Some(Defect::ConnectedLans) {
        let ends = Lan::BOTH.map(|lan| format!("{}:cable", bridge(lan, 0)));
        drawn.network.link("cable", &ends[0], &ends[1]);
        Lan::BOTH.into_iter().for_each(|lan| drawn.add_interface(&bridge(lan, 0), "cable"));
    }
    for number in 0..plan.nodes.len() {
        drawn.node(plan, number);
    }
    drawn.network
}

#[derive(Default)]
struct TopologyDrawing {
    network: Topology,
    /// The next free column of stations that are attached to a LAN.
    column: u16,
}

impl TopologyDrawing {
    /// Adds an interface to a bridge.
    fn add_interface(&mut self, bridge: &str, interface: &str) {
        if let Some(bridge) = self.network.nodes.iter_mut().find(|node| node.name == bridge) {
            bridge.bridge.push(interface.to_owned());
        }
    }

    /// Draws the bridges of a LAN, and all links to them.
    fn lan(&mut self, plan: &Plan, lan: Lan) {
        let letter = lan.letter();
        for number in 0..plan.bridges[lan as usize] {
            self.network.hub(&bridge(lan, number), 2 * number as u16, lan as u16, &[]);
        }
        for number in 1..plan.bridges[lan as usize] {
            let name = format!("{letter}row{number}");
            let before = bridge(lan, number - 1);
            self.attach(lan, number, &name, &format!("{before}:{name}"));
            self.add_interface(&before, &name);
        }
        for node in &plan.nodes {
            let name = link(node, lan);
            let end = format!("{}:{}", node.name, lan_interface(lan));
            self.attach(lan, node.bridges[lan as usize], &name, &end);
            self.network.tapped().impaired(Impairment::default());
        }
        for station in plan.stations.iter().filter(|s| s.at == Attachment::Lan(lan)) {
            let column = 2 * plan.nodes.len() as u16 + self.column;
            self.column += 1;
            self.network.host(&station.name, column, 2);
            let end = format!("{}:{}", station.name, station.interface);
            self.attach(lan, station.bridge, &station.name, &end);
        }
    }

    /// Links an end to a bridge of a LAN.
    fn attach(&mut self, lan: Lan, number: usize, name: &str, end: &str) {
        let bridge = bridge(lan, number);
        self.network.link(name, end, &format!("{bridge}:{name}"));
        self.add_interface(&bridge, name);
    }

    /// Draws a node and the stations behind it.
    fn node(&mut self, plan: &Plan, number: usize) {
        let (node, column) = (&plan.nodes[number], 2 * number as u16);
        self.network.node(&node.name, column, 2, config(plan, node));
        if !node.is_redbox {
            return;
        }
        let segment = segment(plan, number);
        if let Some(segment) = &segment {
            self.network.hub(segment, column, 3, &["up"]);
            self.network.link(segment, &format!("{}:host", node.name), &format!("{segment}:up"));
        }
        for (place, (_, station)) in plan.behind(number).enumerate() {
            let at = (column + (place % 2) as u16, 4 + (place / 2) as u16);
            self.network.host(&station.name, at.0, at.1);
            let up = match &segment {
                Some(segment) => {
                    self.add_interface(segment, &station.name);
                    format!("{segment}:{}", station.name)
                }
                None => format!("{}:host", node.name),
            };
            self.network.link(&station.name, &format!("{}:eth0", station.name), &up);
        }
    }
}

/// The configuration of a node.
fn config(plan: &Plan, node: &Node) -> String {
    let host = match node.is_redbox {
        true => "interface = \"host\"\nmtu = 1500\npromiscuous = \"yes\"",
        false => "interface = \"red0\"\ncreate = \"veth\"\nmtu = 1500",
    };
    let backend = if node.in_kernel { "xdp" } else { "packet" };
    let mut text = format!(
        "[node]\nprotocol = \"prp\"\nbackend = \"{backend}\"\n\n[[port]]\nname = \"host\"\n{host}\n"
    );
    for lan in Lan::BOTH {
        let (letter, interface) = (lan.letter(), lan_interface(lan));
        text += &format!(
            "\n[[port]]\nname = \"{letter}\"\ninterface = \"{interface}\"\nlan = \"{letter}\"\n"
        );
    }
    if plan.defect == Some(Defect::ShortMemory) {
        text += "\n[prp]\nentry-forget-ms = 2\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use onbeat_node::config::Config;

    use super::*;

    #[test]
    fn every_network_and_its_configurations_are_valid() {
        for seed in 0..200 {
            for defect in [None, Some(Defect::ConnectedLans), Some(Defect::ShortMemory)] {
                let plan = Plan { defect, ..Plan::draw(seed) };
                let network = topology(&plan).checked();
                let network = network.unwrap_or_else(|error| panic!("{seed}: {error}"));
                for node in network.nodes.iter().filter(|node| !node.is_hub()) {
                    let text = node.config_text.as_deref().unwrap();
                    let config = Config::parse(text, "x.toml");
                    let config = config.unwrap_or_else(|error| panic!("{seed}: {error}\n{text}"));
                    assert!(config.prp.is_some());
                }
            }
        }
    }
}

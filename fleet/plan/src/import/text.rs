//! A draft as text of net.toml.

use std::collections::HashMap;
use std::fmt::{self, Display, Write};

use super::{Draft, DraftNode, DraftStream, is_interface, merge};

/// Remarks of one object that are written.
const REMARKS: usize = 8;

impl Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# Written by onbeat plan discover. Complete it: hosts, forwarding-us, speeds, delays, groups, streams."
        )?;
        for remark in self.remarks.iter().take(REMARKS) {
            writeln!(f, "# {}", one_line(remark))?;
        }
        if let Some(further @ 1..) = self.remarks.len().checked_sub(REMARKS) {
            writeln!(f, "# {further} further remarks are not shown")?;
        }
        let cables = merge::cables(&self.links);
        let mut ports = self.ports();
        let ends = cables.iter().map(|cable| {
            let [a, b] = &cable.ports;
            [(cable.nodes[0], a), (cable.nodes[1], b)].map(|(node, port)| {
                let speed = cable.values.speed_mbps;
                let name = ports[node].add(port.as_deref(), speed);
                format!("{}:{name}", self.nodes[node].name)
            })
        });
        let ends: Vec<[String; 2]> = ends.collect();
        for (node, ports) in self.nodes.iter().zip(&ports) {
            write_node(f, node, ports)?;
        }
        for (cable, [a, b]) in cables.iter().zip(ends) {
            writeln!(f)?;
            for remark in &cable.values.remarks {
                writeln!(f, "# {}", one_line(remark))?;
            }
            write!(f, "[[link]]\na = \"{a}\"\nb = \"{b}\"\n")?;
            if let Some(delay) = cable.values.delay_ns {
                writeln!(f, "delay-ns = {delay}")?;
            }
        }
        self.streams.iter().try_for_each(|stream| self.write_stream(f, stream))
    }
}

fn write_node(f: &mut fmt::Formatter<'_>, node: &DraftNode, ports: &NodePorts) -> fmt::Result {
    writeln!(f)?;
    if node.name != node.source {
        writeln!(f, "# {}", one_line(&node.source))?;
    }
    for remark in node.remarks.iter().take(REMARKS) {
        writeln!(f, "# {}", one_line(remark))?;
    }
    writeln!(f, "[[node]]\nname = \"{}\"", node.name)?;
    writeln!(f, "host = {{ interface = \"tsn0\", create = \"veth\" }}\nport = [")?;
    for (interface, speed) in &ports.list {
        let speed = speed.map_or(String::new(), |mbps| format!(", speed-mbps = {mbps}"));
        writeln!(f, "  {{ name = \"{interface}\"{speed} }},")?;
    }
    writeln!(f, "]")
}

/// The ports of a node as net.toml has them.
#[derive(Debug, Default)]
struct NodePorts {
    /// Interfaces and speeds.
    list: Vec<(String, Option<u32>)>,
    /// Positions by the name in the draft.
    index: HashMap<String, usize>,
    /// Number of the next port that gets a name.
    next: usize,
}

impl NodePorts {
    /// Sets the speed of a port, or adds one without a name. Returns its interface.
    fn add(&mut self, port: Option<&str>, speed: Option<u32>) -> &str {
        let position = match port.and_then(|port| self.index.get(port)) {
            Some(position) => *position,
            None => self.add_unnamed(),
        };
        let (interface, of_port) = &mut self.list[position];
        *of_port = speed.or(*of_port);
        interface
    }

    /// Adds a port with the first free name of `p1`, `p2`. Returns its position.
    fn add_unnamed(&mut self) -> usize {
        let name = loop {
            self.next += 1;
            let name = format!("p{}", self.next);
            if !self.index.contains_key(&name) {
                break name;
            }
        };
        self.list.push((name, None));
        self.list.len() - 1
    }
}

impl Draft {
    /// The ports of all nodes without those whose reports name none.
    fn ports(&self) -> Vec<NodePorts> {
        let of_node = |node: &DraftNode| {
            let mut ports = NodePorts::default();
            let (named, others): (Vec<&String>, Vec<_>) =
                node.ports.iter().partition(|port| is_interface(port));
            for port in named {
                ports.index.insert(port.clone(), ports.list.len());
                ports.list.push((port.clone(), None));
            }
            for port in others {
                let position = ports.add_unnamed();
                ports.index.insert(port.clone(), position);
            }
            ports
        };
        self.nodes.iter().map(of_node).collect()
    }

    fn write_stream(&self, f: &mut fmt::Formatter<'_>, stream: &DraftStream) -> fmt::Result {
        let name = |node: &usize| format!("\"{}\"", self.nodes[*node].name);
        let listeners: Vec<String> = stream.listeners.iter().map(name).collect();
        let DraftStream { address, interval_us, size, paths, .. } = stream;
        writeln!(f, "\n[[stream]]\nname = \"{}\"\ntalker = {}", stream.name, name(&stream.talker))?;
        writeln!(f, "listeners = [{}]\naddress = \"{address}\"", listeners.join(", "))?;
        let mut further = format!("interval-us = {interval_us}\nsize = {size}\npaths = {paths}\n");
        if let Some(vlan) = stream.vlan {
            let _ = writeln!(further, "vlan = {vlan}");
        }
        if let Some(us) = stream.max_delay_us {
            let _ = writeln!(further, "max-delay-us = {us}");
        }
        f.write_str(&further)
    }
}

/// A text without line breaks and control characters, as a comment requires.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

//! A draft as text of net.toml.

use std::fmt::{self, Display, Write};

use super::{Draft, DraftNode, DraftStream};

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
        for node in &self.nodes {
            write_node(f, node)?;
        }
        for link in &self.links {
            let [a, b] = link.ends.each_ref().map(|(node, port)| {
                let node = &self.nodes[*node];
                let interface = node.ports.get(port).map_or(port.as_str(), |port| &port.interface);
                format!("{}:{interface}", node.name)
            });
            write!(f, "\n[[link]]\na = \"{a}\"\nb = \"{b}\"\n")?;
            if let Some(delay) = link.delay_ns {
                writeln!(f, "delay-ns = {delay}")?;
            }
        }
        self.streams.iter().try_for_each(|stream| self.write_stream(f, stream))
    }
}

fn write_node(f: &mut fmt::Formatter<'_>, node: &DraftNode) -> fmt::Result {
    writeln!(f)?;
    if node.name != node.source {
        writeln!(f, "# {}", one_line(&node.source))?;
    }
    for remark in node.remarks.iter().take(REMARKS) {
        writeln!(f, "# {}", one_line(remark))?;
    }
    writeln!(f, "[[node]]\nname = \"{}\"", node.name)?;
    writeln!(f, "host = {{ interface = \"tsn0\", create = \"veth\" }}\nport = [")?;
    for port in node.ports.values() {
        let speed = port.speed_mbps.map_or(String::new(), |mbps| format!(", speed-mbps = {mbps}"));
        writeln!(f, "  {{ name = \"{}\"{speed} }},", port.interface)?;
    }
    writeln!(f, "]")
}

impl Draft {
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

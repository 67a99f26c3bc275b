//! The `[[link]]` tables.

use std::collections::HashMap;

use onbeat_config::reader::{Table, Value};

use super::groups::GroupNames;
use super::{Names, add, name, resolve};
use crate::network::{End, Link, Network};

/// Longest propagation delay, in nanoseconds.
pub(crate) const MAX_DELAY_NS: u32 = 1_000_000_000;

/// Reads all links.
pub(super) fn read(
    values: Vec<Value<'_>>,
    nodes: &Names,
    groups: &GroupNames,
    network: &mut Network,
) {
    let mut names = Names::new();
    let mut taken: HashMap<End, String> = HashMap::new();
    let ports: Vec<Names> = network
        .nodes
        .iter()
        .map(|node| {
            (0..).zip(&node.ports).map(|(index, port)| (port.name.clone(), index)).collect()
        })
        .collect();
    for value in values {
        let Some(mut table) = value.table() else { continue };
        let named = table.take("name");
        let ends = ["a", "b"].map(|key| read_end(&mut table, key, nodes, &ports));
        let delay = table.take("delay-ns").and_then(|value| value.number(0..=MAX_DELAY_NS));
        let all = table.take("group").map(|value| groups.of_link(&value)).unwrap_or_default();
        table.finish();
        let [Some((a, at_a)), Some((b, at_b))] = ends else { continue };
        let link_name = match &named {
            Some(value) => name(value),
            None => Some(format!("{}-{}", network.end_name(a), network.end_name(b))),
        };
        let Some(link_name) = link_name else { continue };
        if a.node == b.node {
            at_b.fault("both ends are ports of one node", "write a port of another node");
            continue;
        }
        let mut is_free = true;
        for (end, place) in [(a, &at_a), (b, &at_b)] {
            if let Some(other) = taken.insert(end, link_name.clone()) {
                let port = network.end_name(end);
                let help = "use another port: a port has one link";
                place.fault(format!("port {port:?} already has link {other:?}"), help);
                is_free = false;
            }
        }
        let speed = |end: End| network.nodes[end.node as usize].ports[end.port as usize].speed_mbps;
        if speed(a) != speed(b) {
            at_b.fault(
                format!("the ports have different speeds: {} and {} Mbit/s", speed(a), speed(b)),
                "set the same speed-mbps at both ports: that of the slower one",
            );
        }
        if !is_free {
            continue;
        }
        if let Some(value) = &named {
            add(&mut names, "link", value, &link_name, network.links.len());
            if nodes.contains_key(&link_name) || groups.names.contains_key(&link_name) {
                value.fault(
                    format!("{link_name:?} also names a node or a group"),
                    "give links, nodes and groups different names: --fail names one of them",
                );
            }
        }
        for &group in &all {
            network.groups[group as usize].links.push(network.links.len() as u32);
        }
        network.links.push(Link {
            name: link_name,
            ends: [a, b],
            speed_mbps: speed(a),
            delay_ns: u64::from(delay.unwrap_or(0)),
            groups: all,
        });
    }
}

/// Reads an end, `NODE:PORT`.
fn read_end<'a>(
    table: &mut Table<'a>,
    key: &'static str,
    nodes: &Names,
    ports: &[Names],
) -> Option<(End, Value<'a>)> {
    let value = table.require(key, "\"a:p1\"")?;
    let written = value.text()?;
    let Some((node, port)) = written.split_once(':') else {
        value.fault(
            format!("{written:?} is not an end of a link"),
            "write node and port, such as \"a:p1\"",
        );
        return None;
    };
    let node = resolve(nodes, "node", &value, node)?;
    let names = ports.get(node as usize)?;
    let Some(&port) = names.get(port) else {
        let mut known: Vec<&str> = names.keys().map(String::as_str).collect();
        known.sort_unstable();
        value.fault(
            format!("the node has no port {port:?}"),
            match known.is_empty() {
                true => "add the port to its node".to_owned(),
                false => format!("ports of the node: {}", known.join(", ")),
            },
        );
        return None;
    };
    Some((End { node, port }, value))
}

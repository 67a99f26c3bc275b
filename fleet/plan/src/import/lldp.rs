//! Neighbors by LLDP, as `lldpcli -f json show neighbors` of lldpd prints them.

use std::collections::{BTreeMap, BTreeSet};

use onbeat_config::text::mac_address;
use serde_json::Value;

use super::{Draft, Fault, LinkValues, fault, text};
use crate::input::SPEED_MBPS;

/// Reads the neighbors of one node.
pub(super) fn read(draft: &mut Draft, lldp: &Value, owner: &str) -> Result<(), Fault> {
    let node = draft.node(owner);
    draft.nodes[node].remarks.retain(|remark| remark != SILENT);
    draft.speakers.insert(node);
    let interfaces: Vec<(&String, &Value)> = match lldp.get("interface") {
        // One neighbor is an object, several are a list.
        Some(Value::Object(one)) => one.iter().collect(),
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_object).flatten().collect(),
        _ => Vec::new(),
    };
    let mut seen = BTreeSet::new();
    for (interface, neighbor) in interfaces {
        if !seen.insert(interface) {
            return Err(fault(
                format!("lldp.interface.{interface}"),
                "the port has several neighbors",
                "a device between them speaks no LLDP: write its links by hand",
            ));
        }
        let (source, chassis) = chassis(neighbor).ok_or_else(|| {
            fault(
                format!("lldp.interface.{interface}.chassis"),
                "the neighbor has no name",
                "set its system name, for example `configure system hostname` of lldpcli",
            )
        })?;
        let port = neighbor.get("port").unwrap_or(&Value::Null);
        let id = port.get("id").unwrap_or(&Value::Null);
        let is_name = matches!(text(id, "type"), Some("ifname" | "local"));
        let name = if is_name { text(id, "value") } else { text(port, "descr") };
        let name = name.or_else(|| text(id, "value")).ok_or_else(|| {
            fault(
                format!("lldp.interface.{interface}.port"),
                "the port of the neighbor has no name",
                "let it send its interface name: `configure lldp portidsubtype ifname` of lldpcli",
            )
        })?;
        let current = port.get("auto-negotiation").and_then(|value| text(value, "current"));
        let speed = current.and_then(speed_mbps);
        let is_known = draft.index.contains_key(source);
        let peer = draft.node(source);
        if !is_known {
            draft.nodes[peer].remarks.push(SILENT.into());
        }
        let addresses = [chassis.get("id"), Some(id)].into_iter().flatten();
        let addresses = addresses.filter_map(|id| mac_address(text(id, "value")?));
        draft.nodes[peer].addresses.extend(addresses);
        let values = LinkValues { speed_mbps: speed, ..LinkValues::default() };
        let own = draft.port(node, interface);
        // A MAC address is no name that the other node has for the port.
        let other = if mac_address(name).is_some() { (peer, None) } else { draft.port(peer, name) };
        draft.neighbors.insert((node, interface.clone()), other.clone());
        draft.link(own, other, true, values);
    }
    Ok(())
}

/// Joins nodes that have one name by their file, and another in the reports of their neighbors. A cable has two ends: if the
/// neighbor at the other end of a port reports a node without LLDP output there, this node is the one with the port.
pub(super) fn join(draft: &mut Draft) {
    let mut same: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    let mut files: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for ((node, port), (peer, at_peer)) in &draft.neighbors {
        let Some(at_peer) = at_peer else { continue };
        let Some((other, of_other)) = draft.neighbors.get(&(*peer, at_peer.clone())) else {
            continue;
        };
        let agrees = of_other.as_ref().is_none_or(|of_other| of_other == port);
        if agrees && other != node && !draft.speakers.contains(other) {
            same.entry(*node).or_default().insert(*other);
            files.entry(*other).or_default().insert(*node);
        }
    }
    let is_only = |others: &BTreeSet<usize>| others.len() == 1;
    let source = |node: usize| draft.nodes[node].source.clone();
    let pairs: Vec<[String; 2]> = same
        .iter()
        .filter(|(_, others)| is_only(others) && others.iter().all(|other| is_only(&files[other])))
        .flat_map(|(node, others)| others.iter().map(|other| [source(*node), source(*other)]))
        .collect();
    // Each join changes the positions of nodes.
    for [node, other] in pairs {
        draft.join(draft.index[&node], draft.index[&other]);
    }
}

pub(super) const SILENT: &str = "no LLDP output of its own: if it runs no onbeat, remove host, add bridge = \"br0\" and label-vlans";

/// The name and the chassis of a neighbor. Without a name, its properties take the place of the name.
fn chassis(neighbor: &Value) -> Option<(&str, &Value)> {
    let (name, chassis) = neighbor.get("chassis")?.as_object()?.iter().next()?;
    (chassis.get("id").is_some()).then_some((name.as_str(), chassis))
}

/// The speed of an MAU type such as `1000BaseTFD` or `10GbaseT`.
fn speed_mbps(mau: &str) -> Option<u32> {
    let end = mau.to_lowercase().find("base")?;
    let written = &mau[..end];
    let (digits, factor) = match written.strip_suffix(['G', 'g']) {
        Some(digits) => (digits, 1000.0),
        None => (written, 1.0),
    };
    let number: f64 = digits.trim().replace('p', ".").parse().ok()?;
    Some((number * factor) as u32).filter(|mbps| SPEED_MBPS.contains(mbps))
}

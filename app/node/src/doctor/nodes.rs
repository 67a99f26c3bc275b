//! Nodes that run, by their summaries.

use onbeat_netdev::shell_word;
use onbeat_report::format::count;

use super::root::HostRoot;
use super::{Finding, Level, manager};
use crate::control::{ClientError, LinkState, NodeSummary, PortMode, PortStatus};
use crate::metrics::NodeReading;

/// The findings on nodes, and on managers that configure interfaces of their ports.
pub fn examine_nodes(root: &HostRoot<'_>, nodes: &[NodeReading]) -> Vec<Finding> {
    let of_node = |(name, reading): &NodeReading| match reading {
        Ok(node) => [
            vec![streams(node)],
            node.guard.iter().filter_map(|guard| armed(&node.node, guard.armed)).collect(),
            node.ports.iter().flat_map(|port| examine_port(root, &node.node, port)).collect(),
        ]
        .concat(),
        Err(error) => {
            // This user lacks permission; the node may have no defect.
            let is_forbidden = matches!(error, ClientError::Forbidden { .. });
            let level = if is_forbidden { Level::Info } else { Level::Bad };
            let what = format!("node {name}");
            vec![Finding::new("node", level, &what, error.to_string()).remedy(show(name))]
        }
    };
    nodes.iter().flat_map(of_node).collect()
}

/// The command that shows all of a node.
fn show(node: &str) -> String {
    format!("onbeat show {}", shell_word(node))
}

fn streams(node: &NodeSummary) -> Finding {
    let what = format!("node {}", node.node);
    let value = [count(node.ports.len() as u64, "port"), count(node.streams, "stream")].join(", ");
    let troubles = node.in_trouble.iter().filter(|(_, streams)| **streams > 0);
    let troubles: Vec<_> = troubles
        .map(|(trouble, streams)| format!("{trouble}: {}", count(*streams, "stream")))
        .collect();
    if troubles.is_empty() {
        return Finding::ok("node", &what, value);
    }
    let value = format!("{value}; {}", troubles.join(", "));
    Finding::new("node", Level::Warn, &what, value).remedy(show(&node.node))
}

fn armed(node: &str, is_armed: bool) -> Option<Finding> {
    let what = format!("guard of node {node}");
    let value = "has stopped, or an interface of it is missing";
    (!is_armed).then(|| Finding::new("guard", Level::Warn, &what, value).remedy(show(node)))
}

fn examine_port(root: &HostRoot<'_>, node: &str, port: &PortStatus) -> Vec<Finding> {
    let what = format!("port {} of node {node}", port.name);
    let finding = |level, value: &str| Finding::new("node-port", level, &what, value);
    let interface = shell_word(&port.interface);
    let attachment = match (port.link, port.mode, &port.not_attached) {
        (LinkState::Missing, ..) => {
            Some(finding(Level::Bad, "the interface does not exist").remedy("ip link"))
        }
        (_, _, Some(why)) => Some(finding(Level::Bad, why).remedy(show(node))),
        (_, PortMode::Detached, None) => {
            Some(finding(Level::Bad, "not attached").remedy(show(node)))
        }
        (LinkState::Down, ..) => Some(
            finding(Level::Warn, "down, or without carrier")
                .remedy(format!("ip link set {interface} up, and check the cable")),
        ),
        (LinkState::Up, ..) => None,
    };
    let reported = [&port.not_native, &port.frames_lost, &port.unfinished_checksums];
    let reported = reported.into_iter().flatten();
    let reported = reported.map(|why| finding(Level::Warn, why).remedy(show(node)));
    // Names are those of the node's network namespace, which may be another.
    let index = root.number(&format!("/sys/class/net/{}/ifindex", port.interface));
    let is_here = index.is_some_and(|index| index == i64::from(port.ifindex));
    let managers = is_here.then(|| manager::examine(root, &port.interface));
    let findings = attachment.into_iter().chain(reported).chain(managers.into_iter().flatten());
    let of_interface = |finding| Finding { interface: Some(port.interface.clone()), ..finding };
    findings.map(of_interface).collect()
}

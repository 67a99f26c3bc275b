//! Foreign bridges: their static filtering entries (IEEE 802.1Q 8.8.1), also as commands for the bridge of Linux.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use onbeat_wire::MacAddress;

use crate::network::{Arc, Network, Stream};
use crate::plan::Plan;
use crate::route::Route;

/// Frames of one address and VLAN at a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticEntry {
    /// Index of the bridge's node.
    pub node: u32,
    /// The VLAN.
    pub vlan: u16,
    /// Destination address.
    pub address: MacAddress,
    /// Ports by which the frames arrive.
    pub ingress: BTreeSet<u32>,
    /// Ports to which they are sent.
    pub egress: BTreeSet<u32>,
}

/// The bridge that cannot do what a route requires of it.
pub(crate) fn unable(network: &Network, stream: &Stream, route: &Route) -> Option<u32> {
    let mut nodes = route.paths().flatten().map(|arc| network.ends(*arc).1);
    if !nodes.any(|node| network.is_bridge(node)) {
        return None;
    }
    let parts = route.parts(network, stream);
    let mixes = parts.iter().any(|part| part.recovers && !part.egress.is_empty());
    let mut seen = BTreeSet::new();
    let is_unable = |node: u32, recovers: bool, ports: usize, is_second: bool| {
        // The paths of one address and VLAN are one entry: a second part requires a VLAN of its own.
        network.is_bridge(node)
            && (recovers || is_second && mixes || ports > 1 && !stream.address.is_multicast())
    };
    let unable = parts.iter().find(|part| {
        let is_second = !seen.insert(part.node);
        is_unable(part.node, part.recovers, part.egress.len(), is_second)
    });
    unable.map(|part| part.node)
}

/// The VLAN of a stream's frames on an arc.
pub(crate) fn label(plan: &Plan, index: usize, arc: Arc) -> Option<u16> {
    let labels = &plan.labels[index];
    let route = plan.routes[index].as_ref().filter(|_| labels.len() > 1);
    let of_path = route.and_then(|route| {
        let mut paths =
            route.listeners.iter().flat_map(|listener| listener.paths.iter().enumerate());
        paths.find(|(_, path)| path.contains(&arc)).map(|(number, _)| number)
    });
    labels.get(of_path.unwrap_or(0)).copied()
}

/// The entries of all foreign bridges, in the order of the nodes.
#[must_use]
pub fn entries(network: &Network, plan: &Plan) -> Vec<StaticEntry> {
    if !network.has_bridges() {
        return Vec::new();
    }
    let mut entries: BTreeMap<(u32, u16, MacAddress), StaticEntry> = BTreeMap::new();
    for (index, route) in plan.routed() {
        let stream = &network.streams[index];
        for part in route.parts(network, stream) {
            let vlan = part.ingress.first().and_then(|arc| label(plan, index, *arc));
            let (true, Some(vlan)) = (network.is_bridge(part.node), vlan) else { continue };
            let (node, address) = (part.node, stream.address);
            let empty = || StaticEntry {
                node,
                vlan,
                address,
                ingress: BTreeSet::new(),
                egress: BTreeSet::new(),
            };
            let entry = entries.entry((node, vlan, address)).or_insert_with(empty);
            let port = |arc: &Arc, end: usize| network.link_ends(*arc)[end].port;
            entry.ingress.extend(part.ingress.iter().map(|arc| port(arc, 1)));
            entry.egress.extend(part.egress.iter().map(|arc| port(arc, 0)));
        }
    }
    entries.into_values().collect()
}

/// Commands of `bridge -batch`, for the bridge of Linux, that create these entries of one bridge.
#[must_use]
pub fn batch(network: &Network, node: u32, entries: &[StaticEntry]) -> String {
    let described = &network.nodes[node as usize];
    let bridge = described.bridge.as_deref().unwrap_or_default();
    let interface = |port: u32| &described.ports[port as usize].interface;
    let mut text = format!(
        "# Written by onbeat plan: static entries of {}, for `bridge -batch`.\n",
        described.name
    );
    let mut members = BTreeSet::new();
    for entry in entries {
        members.extend(entry.ingress.union(&entry.egress).map(|port| (*port, entry.vlan)));
    }
    for (port, vlan) in members {
        let _ = writeln!(text, "vlan add dev {} vid {vlan}", interface(port));
    }
    for StaticEntry { vlan, address, egress, .. } in entries {
        for port in egress {
            let interface = interface(*port);
            let _ = match address.is_multicast() {
                true => writeln!(
                    text,
                    "mdb add dev {bridge} port {interface} grp {address} permanent vid {vlan}"
                ),
                false => {
                    writeln!(text, "fdb add {address} dev {interface} master static vlan {vlan}")
                }
            };
        }
    }
    text
}

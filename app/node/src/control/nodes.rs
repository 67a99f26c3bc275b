//! The tables of a PRP node, as `show --nodes` prints them.

use onbeat_frer::prp::{BlockCause, HostCounters, LanCounters, LanRecord, NodeKind, Reading};
use onbeat_report::format::{duration_ns, integer};
use serde::{Deserialize, Serialize};

use super::table::columns;

/// The tables and counters of a PRP node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodesStatus {
    /// Name of the node.
    pub node: String,
    /// Its address, the source of its supervision frames.
    pub mac: String,
    /// The number of its next frame.
    pub next_sequence: u16,
    /// Supervision frames sent.
    pub supervision_sent: u64,
    /// LAN A and LAN B.
    pub lans: Vec<LanStatus>,
    /// The port of the host or of the protected stations.
    pub host: HostStatus,
    /// NodesTable: nodes that are heard on the LANs.
    pub nodes: Vec<RemoteNode>,
    /// Its capacity.
    pub max_nodes: u16,
    /// Entries evicted from the full table.
    pub evicted: u64,
    /// ProxyNodeTable: stations behind the host port.
    pub proxies: Vec<ProxyStatus>,
    /// Frames of stations for which the ProxyNodeTable had no room.
    pub unknown_proxies: u64,
}

/// Frames received from a LAN.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LanStatus {
    /// Its port.
    pub port: String,
    /// Its counters, in one object with the port.
    #[serde(flatten)]
    pub counters: LanCounters,
}

/// Frames received from the host port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStatus {
    /// The port.
    pub port: String,
    /// Of a RedBox that forwards nothing: the one that serves its stations; its own address if a LAN is connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
    /// Its counters, in one object with the port.
    #[serde(flatten)]
    pub counters: HostCounters,
}

/// A node that is heard on the LANs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteNode {
    /// Its address.
    pub mac: String,
    /// Its type.
    pub kind: NodeKind,
    /// Its frames on LAN A.
    pub a: LanFrames,
    /// Its frames on LAN B.
    pub b: LanFrames,
    /// Nanoseconds since its latest supervision frame; none: no such frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervision_age_ns: Option<u64>,
    /// The RedBox that represents it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redbox: Option<String>,
}

/// Frames of a node on a LAN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LanFrames {
    /// Nanoseconds since the last one; none: no frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<u64>,
    /// With a trailer, duplicates included, and supervision frames.
    pub tagged: u64,
    /// Without a trailer.
    pub untagged: u64,
    /// With a trailer of the other LAN.
    pub wrong_lan: u64,
}

/// A station behind the host port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyStatus {
    /// Its address.
    pub mac: String,
    /// Nanoseconds since its last frame.
    pub age_ns: u64,
}

impl NodesStatus {
    pub(crate) fn new(
        now_ns: u64,
        node: &str,
        lans: Vec<LanStatus>,
        host: String,
        reading: &Reading,
    ) -> Self {
        let age = |at_ns: u64| now_ns.saturating_sub(at_ns);
        let frames = |lan: &LanRecord| LanFrames {
            age_ns: lan.last_ns.map(age),
            tagged: lan.tagged,
            untagged: lan.untagged,
            wrong_lan: lan.wrong_lan,
        };
        let nodes = reading.nodes.iter().map(|node| RemoteNode {
            mac: node.mac.to_string(),
            kind: node.kind,
            a: frames(&node.lans[0]),
            b: frames(&node.lans[1]),
            supervision_age_ns: node.supervision.map(|supervision| age(supervision.at_ns)),
            redbox: node.supervision.and_then(|s| s.redbox).map(|mac| mac.to_string()),
        });
        let blocked = reading.host_port.blocked(reading.mac, now_ns).map(|blocked| match blocked {
            BlockCause::ByLan => reading.mac,
            BlockCause::ByRedBox(mac) => mac,
        });
        let proxies = reading.proxies.iter();
        let proxies = proxies
            .map(|proxy| ProxyStatus { mac: proxy.mac.to_string(), age_ns: age(proxy.last_ns) });
        Self {
            node: node.to_owned(),
            mac: reading.mac.to_string(),
            next_sequence: reading.next,
            supervision_sent: reading.supervised,
            lans,
            host: HostStatus {
                port: host,
                blocked_by: blocked.map(|by| by.to_string()),
                counters: reading.host,
            },
            nodes: nodes.collect(),
            max_nodes: reading.max_nodes,
            evicted: reading.evicted,
            proxies: proxies.collect(),
            unknown_proxies: reading.unknown_proxies,
        }
    }
}

/// Tables of the LANs, the nodes and the stations behind the host port.
pub fn nodes_table(status: &NodesStatus) -> String {
    let age = |age: Option<u64>| age.map_or_else(|| "–".to_owned(), |ns| duration_ns(ns as f64));
    let mut lans = columns(&[
        "LAN",
        "#RECEIVED",
        "#ACCEPTED",
        "#DUPLICATES",
        "#UNTAGGED",
        "#SUPERVISION",
        "#OWN",
        "#WRONG LAN",
        "#PASSED",
    ]);
    for lan in &status.lans {
        let c = &lan.counters;
        let counts = [
            c.received,
            c.accepted,
            c.duplicates,
            c.untagged,
            c.supervision,
            c.own,
            c.wrong_lan,
            c.passed,
        ];
        let counts = counts.into_iter().map(integer);
        lans.row([lan.port.clone()].into_iter().chain(counts).collect::<Vec<_>>());
    }
    let mut nodes = columns(&[
        "NODE",
        "TYPE",
        "#A",
        "#A AGE",
        "#B",
        "#B AGE",
        "#WRONG LAN",
        "#SUPERVISED",
        "REDBOX",
    ]);
    for node in &status.nodes {
        nodes.row(vec![
            node.mac.clone(),
            node.kind.name().to_owned(),
            integer(node.a.tagged + node.a.untagged),
            age(node.a.age_ns),
            integer(node.b.tagged + node.b.untagged),
            age(node.b.age_ns),
            integer(node.a.wrong_lan + node.b.wrong_lan),
            age(node.supervision_age_ns),
            node.redbox.clone().unwrap_or_else(|| "–".to_owned()),
        ]);
    }
    let mut text = format!(
        "node {:?}, {}, next number {}\n\n{lans}\n{nodes}",
        status.node, status.mac, status.next_sequence
    );
    match &status.host.blocked_by {
        Some(by) if *by == status.mac => {
            text +=
                &format!("\n{} is connected to a LAN: nothing is forwarded\n", status.host.port);
        }
        Some(by) => {
            text += &format!("\nstandby: RedBox {by} serves the stations at {}\n", status.host.port)
        }
        None => {}
    }
    if !status.proxies.is_empty() {
        let mut proxies = columns(&["STATION", "#AGE"]);
        for proxy in &status.proxies {
            proxies.row(vec![proxy.mac.clone(), age(Some(proxy.age_ns))]);
        }
        text += &format!("\n{proxies}");
    }
    text
}

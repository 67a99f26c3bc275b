//! The tables of a PRP node, as `show --nodes` prints them.

use std::cmp::Reverse;

use onbeat_frer::prp::{BlockCause, HostCounters, LanCounters, LanRecord, NodeKind, Reading};
use onbeat_report::format::{duration_ns, integer};
use serde::{Deserialize, Serialize};

use super::table::{columns, first_rows};

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

/// A counter of a LAN in its table.
struct LanColumn {
    title: &'static str,
    count: fn(&LanCounters) -> u64,
    /// Whether it is left out while it is 0 on all LANs.
    is_optional: bool,
}

impl LanColumn {
    const fn always(title: &'static str, count: fn(&LanCounters) -> u64) -> Self {
        Self { title, count, is_optional: false }
    }

    const fn optional(title: &'static str, count: fn(&LanCounters) -> u64) -> Self {
        Self { title, count, is_optional: true }
    }
}

/// The first one is the sum of those up to "TO STACK".
const LAN_COLUMNS: [LanColumn; 14] = [
    LanColumn::always("#RECEIVED", |lan| lan.received),
    LanColumn::always("#ACCEPTED", |lan| lan.accepted),
    LanColumn::always("#DUPLICATES", |lan| lan.duplicates),
    LanColumn::always("#UNTAGGED", |lan| lan.untagged),
    LanColumn::always("#SUPERVISION", |lan| lan.supervision),
    LanColumn::optional("#INVALID SUPERVISION", |lan| lan.invalid_supervision),
    LanColumn::optional("#UNREAD SUPERVISION", |lan| lan.unread_supervision),
    LanColumn::always("#OWN", |lan| lan.own),
    LanColumn::optional("#BLOCKED", |lan| lan.blocked),
    LanColumn::always("#TO STACK", |lan| lan.passed),
    LanColumn::always("#WRONG LAN", |lan| lan.wrong_lan),
    LanColumn::optional("#OTHER PROTOCOL", |lan| lan.other_protocol),
    LanColumn::optional("#FOREIGN CLAIMS", |lan| lan.foreign_claims),
    LanColumn::optional("#MALFORMED", |lan| lan.malformed),
];

/// Table of the LANs. Counters of rare frames have a column if there is such a frame.
fn lans_table(lans: &[LanStatus]) -> String {
    let is_listed = |column: &&LanColumn| {
        !column.is_optional || lans.iter().any(|lan| (column.count)(&lan.counters) > 0)
    };
    let listed: Vec<_> = LAN_COLUMNS.iter().filter(is_listed).collect();
    let titles = ["LAN"].into_iter().chain(listed.iter().map(|column| column.title));
    let mut table = columns(&titles.collect::<Vec<_>>());
    for lan in lans {
        let counts = listed.iter().map(|column| integer((column.count)(&lan.counters)));
        table.row([lan.port.clone()].into_iter().chain(counts).collect::<Vec<_>>());
    }
    table.to_string()
}

/// Tables of the LANs, the nodes and the stations behind the host port.
pub fn nodes_table(status: &NodesStatus) -> String {
    let age = |age: Option<u64>| age.map_or_else(|| "–".to_owned(), |ns| duration_ns(ns as f64));
    let mut text = format!(
        "node {:?}, {}, next number {}\n\n{}\n",
        status.node,
        status.mac,
        status.next_sequence,
        lans_table(&status.lans)
    );
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
    let heard = |node: &RemoteNode| {
        let is_single = node.a.age_ns.is_none() || node.b.age_ns.is_none();
        let frames = node.a.tagged + node.a.untagged + node.b.tagged + node.b.untagged;
        (node.supervision_age_ns.is_none(), is_single, Reverse(frames))
    };
    let (listed, others) = first_rows(&status.nodes, heard);
    for node in listed {
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
    text += &format!("{nodes}{others}");
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
        let (listed, others) = first_rows(&status.proxies, |proxy| proxy.age_ns);
        for proxy in listed {
            proxies.row(vec![proxy.mac.clone(), age(Some(proxy.age_ns))]);
        }
        text += &format!("\n{proxies}{others}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of the counters between RECEIVED and WRONG LAN, and RECEIVED.
    fn sum_of_row(table: &str, lan: &str) -> (u64, u64) {
        let row = table.lines().find(|line| line.starts_with(lan)).unwrap();
        let count = |cell: &str| cell.replace(',', "").parse::<u64>().unwrap();
        let counts: Vec<_> = row.split_whitespace().skip(1).map(count).collect();
        let parts = table.lines().next().unwrap().split("WRONG LAN").next().unwrap();
        let parts = parts.split("  ").filter(|title| !title.trim().is_empty()).count() - 2;
        (counts[1..=parts].iter().sum(), counts[0])
    }

    #[test]
    fn columns_of_a_lan_add_up() {
        let (accepted, own, passed) = (900, 30, 10);
        let usual = LanCounters { received: 940, accepted, own, passed, ..LanCounters::default() };
        let lan = |port: &str, counters| LanStatus { port: port.into(), counters };
        let table = lans_table(&[lan("a", usual), lan("b", LanCounters::default())]);
        assert_eq!(
            table,
            "\
LAN  RECEIVED  ACCEPTED  DUPLICATES  UNTAGGED  SUPERVISION  OWN  TO STACK  WRONG LAN
a         940       900           0         0            0   30        10          0
b           0         0           0         0            0    0         0          0
"
        );
        assert_eq!(sum_of_row(&table, "a"), (940, 940));
        let rare = LanCounters {
            received: 10_459,
            invalid_supervision: 2836,
            unread_supervision: 6999,
            blocked: 400,
            duplicates: 224,
            malformed: 810,
            ..LanCounters::default()
        };
        let table = lans_table(&[lan("a", usual), lan("b", rare)]);
        for title in ["INVALID SUPERVISION", "UNREAD SUPERVISION", "BLOCKED", "MALFORMED"] {
            assert!(table.contains(title), "{table}");
        }
        assert_eq!(sum_of_row(&table, "a"), (940, 940), "{table}");
        assert_eq!(sum_of_row(&table, "b"), (10_459, 10_459), "{table}");
    }
}

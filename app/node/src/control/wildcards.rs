//! Wildcards, as `show` and `show --nodes` print them.

use std::cmp::Reverse;

use onbeat_frer::prp::{HostCounters, LanRecord, NodeReading};
use onbeat_frer::wildcard::{Scope, WildcardReading};
use onbeat_report::format::{duration_ns, integer};
use serde::{Deserialize, Serialize};

use super::table::{columns, first_rows};
use super::{HostStatus, NodesStatus, ProxyStatus};

/// The tables of a node, by its protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum NodeTables {
    /// Of a PRP node.
    Prp(Box<NodesStatus>),
    /// Of a node with wildcards.
    Wildcards(Box<WildcardTables>),
}

/// The wildcards of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WildcardTables {
    /// Name of the node.
    pub node: String,
    /// Its wildcards, by precedence.
    pub wildcards: Vec<WildcardStatus>,
}

/// Tables and counters of a wildcard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WildcardStatus {
    /// Its name in the configuration.
    pub name: String,
    /// `type` of its identification: `all` or `vlan`.
    pub identification: String,
    /// Its VLAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// The address of the host: frames from a path with this source are its own.
    pub mac: String,
    /// The number of the next frame of the node.
    pub next_sequence: u16,
    /// Rest of the silence after a start, in milliseconds; none: it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence_ms: Option<u32>,
    /// Path A and path B.
    pub paths: Vec<WildcardPath>,
    /// The host port.
    pub host: HostStatus,
    /// Addresses from which frames with R-TAGs arrive.
    pub senders: Vec<SenderStatus>,
    /// Capacity of that table, and of the one of stations.
    pub max_nodes: u16,
    /// Entries evicted from the full table.
    pub evicted: u64,
    /// Stations behind the host port, except the host itself.
    pub stations: Vec<ProxyStatus>,
    /// Frames of stations for which their table had no room.
    pub unknown_stations: u64,
}

/// Frames with R-TAGs received from a path.
///
/// `received` = `passed` + `own` + `accepted` + `duplicates`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WildcardPath {
    /// Its port.
    pub port: String,
    /// Complete frames.
    pub received: u64,
    /// Of link-local protocols, not delivered.
    pub passed: u64,
    /// Sent by this node: the paths are connected, or a path has a loop.
    pub own: u64,
    /// First copies, delivered without R-TAG.
    pub accepted: u64,
    /// Further copies, discarded.
    pub duplicates: u64,
    /// Of senders for which the table has no room: accepted, possibly twice.
    pub without_entry: u64,
}

/// An address from which frames with R-TAGs arrive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderStatus {
    /// The address.
    pub mac: String,
    /// Its frames on path A.
    pub a: SenderFrames,
    /// Its frames on path B.
    pub b: SenderFrames,
}

/// Frames of a sender on a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderFrames {
    /// Nanoseconds since the last one; none: no frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<u64>,
    /// Frames, duplicates included.
    pub tagged: u64,
}

impl WildcardStatus {
    pub(crate) fn new(
        now_ns: u64,
        scope: Scope,
        paths: [String; 2],
        host: String,
        reading: &WildcardReading,
    ) -> Self {
        let vlan = match scope {
            Scope::All => None,
            Scope::Vlan(vlan) => Some(vlan),
        };
        let WildcardReading { name, silence_ms, link } = reading;
        let age = |at_ns: u64| now_ns.saturating_sub(at_ns);
        let frames = |record: &LanRecord| SenderFrames {
            age_ns: record.last_ns.map(age),
            tagged: record.tagged,
        };
        let sender = |node: &NodeReading| SenderStatus {
            mac: node.mac.to_string(),
            a: frames(&node.lans[0]),
            b: frames(&node.lans[1]),
        };
        let paths = paths.into_iter().zip(link.lans).map(|(port, counters)| WildcardPath {
            port,
            received: counters.received,
            passed: counters.passed,
            own: counters.own,
            accepted: counters.accepted,
            duplicates: counters.duplicates,
            without_entry: counters.without_entry,
        });
        let stations = link.proxies.iter();
        let stations = stations
            .map(|proxy| ProxyStatus { mac: proxy.mac.to_string(), age_ns: age(proxy.last_ns) });
        Self {
            name: name.clone(),
            identification: scope.name().to_owned(),
            vlan,
            mac: link.mac.to_string(),
            next_sequence: link.next,
            silence_ms: *silence_ms,
            paths: paths.collect(),
            host: HostStatus { port: host, blocked_by: None, counters: link.host },
            senders: link.nodes.iter().map(sender).collect(),
            max_nodes: link.max_nodes,
            evicted: link.evicted,
            stations: stations.collect(),
            unknown_stations: link.unknown_proxies,
        }
    }

    /// Returns the scope in tables.
    fn scope(&self) -> String {
        match self.vlan {
            Some(vlan) => format!("{} {vlan}", self.identification),
            None => self.identification.clone(),
        }
    }
}

/// Table of wildcards, one per line.
pub(super) fn summary(wildcards: &[WildcardStatus]) -> String {
    let mut table = columns(&[
        "WILDCARD",
        "FRAMES",
        "HOST",
        "#INPUT",
        "#NUMBERED",
        "#ACCEPTED",
        "#DUPLICATES",
        "#OWN",
        "#SENDERS",
    ]);
    for wildcard in wildcards {
        let HostCounters { received, numbered, .. } = wildcard.host.counters;
        let sum = |count: fn(&WildcardPath) -> u64| wildcard.paths.iter().map(count).sum();
        let counts = [
            received,
            numbered,
            sum(|path| path.accepted),
            sum(|path| path.duplicates),
            sum(|path| path.own),
            wildcard.senders.len() as u64,
        ];
        let names = [wildcard.name.clone(), wildcard.scope(), wildcard.host.port.clone()];
        table.row(names.into_iter().chain(counts.map(integer)).collect::<Vec<_>>());
    }
    table.to_string()
}

/// Tables of paths, senders and stations of each wildcard.
pub fn wildcards_table(tables: &WildcardTables) -> String {
    let age = |age: Option<u64>| age.map_or_else(|| "–".to_owned(), |ns| duration_ns(ns as f64));
    let mut text = format!("node {:?}\n", tables.node);
    for wildcard in &tables.wildcards {
        let mut paths =
            columns(&["PATH", "#RECEIVED", "#ACCEPTED", "#DUPLICATES", "#OWN", "#TO STACK"]);
        for path in &wildcard.paths {
            let counts =
                [path.received, path.accepted, path.duplicates, path.own, path.passed].map(integer);
            paths.row([path.port.clone()].into_iter().chain(counts).collect::<Vec<_>>());
        }
        let mut senders = columns(&["SENDER", "#A", "#A AGE", "#B", "#B AGE"]);
        let heard = |sender: &SenderStatus| {
            let is_single = sender.a.age_ns.is_none() || sender.b.age_ns.is_none();
            (is_single, Reverse(sender.a.tagged + sender.b.tagged))
        };
        let (listed, others) = first_rows(&wildcard.senders, heard);
        for sender in listed {
            senders.row(vec![
                sender.mac.clone(),
                integer(sender.a.tagged),
                age(sender.a.age_ns),
                integer(sender.b.tagged),
                age(sender.b.age_ns),
            ]);
        }
        text += &format!(
            "\nwildcard {:?} ({}) of port {:?}, {}, next number {}\n\n{paths}\n{senders}{others}",
            wildcard.name,
            wildcard.scope(),
            wildcard.host.port,
            wildcard.mac,
            wildcard.next_sequence
        );
        if !wildcard.stations.is_empty() {
            let mut stations = columns(&["STATION", "#AGE"]);
            let (listed, others) = first_rows(&wildcard.stations, |station| station.age_ns);
            for station in listed {
                stations.row(vec![station.mac.clone(), age(Some(station.age_ns))]);
            }
            text += &format!("\n{stations}{others}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wildcard(name: &str, vlan: Option<u16>) -> WildcardStatus {
        let path = |port: &str, accepted, duplicates, own| WildcardPath {
            port: port.into(),
            received: accepted + duplicates + own,
            own,
            accepted,
            duplicates,
            ..WildcardPath::default()
        };
        let counters =
            HostCounters { received: 12_345, numbered: 12_340, ..HostCounters::default() };
        let frames = |tagged| SenderFrames { age_ns: Some(1_500_000), tagged };
        WildcardStatus {
            name: name.into(),
            identification: if vlan.is_some() { "vlan" } else { "all" }.into(),
            vlan,
            mac: "02:00:00:00:00:01".into(),
            next_sequence: 12_340,
            paths: vec![path("path1", 700, 300, 0), path("path2", 300, 700, 2)],
            host: HostStatus { port: "host".into(), blocked_by: None, counters },
            senders: vec![SenderStatus {
                mac: "02:00:00:00:00:07".into(),
                a: frames(1000),
                b: SenderFrames { age_ns: None, tagged: 0 },
            }],
            stations: vec![ProxyStatus { mac: "02:00:00:00:00:08".into(), age_ns: 2_000_000 }],
            ..WildcardStatus::default()
        }
    }

    #[test]
    fn wildcards_are_shown_in_aligned_columns() {
        assert_eq!(
            summary(&[wildcard("axes", Some(100)), wildcard("rest", None)]),
            "\
WILDCARD  FRAMES    HOST   INPUT  NUMBERED  ACCEPTED  DUPLICATES  OWN  SENDERS
axes      vlan 100  host  12,345    12,340     1,000       1,000    2        1
rest      all       host  12,345    12,340     1,000       1,000    2        1
"
        );
        let tables = WildcardTables { node: "a".into(), wildcards: vec![wildcard("rest", None)] };
        assert_eq!(
            wildcards_table(&tables),
            "\
node \"a\"

wildcard \"rest\" (all) of port \"host\", 02:00:00:00:00:01, next number 12340

PATH   RECEIVED  ACCEPTED  DUPLICATES  OWN  TO STACK
path1     1,000       700         300    0         0
path2     1,002       300         700    2         0

SENDER                 A    A AGE  B  B AGE
02:00:00:00:00:07  1,000  1.50 ms  0      –

STATION                AGE
02:00:00:00:00:08  2.00 ms
"
        );
    }

    #[test]
    fn both_kinds_of_tables_are_serialized_without_a_wrapper() {
        let nodes = NodesStatus { node: "a".into(), ..NodesStatus::default() };
        let json = |tables| serde_json::to_value::<NodeTables>(tables).unwrap();
        let prp = json(NodeTables::Prp(Box::new(nodes.clone())));
        assert_eq!(serde_json::from_value::<NodesStatus>(prp).unwrap(), nodes);
        let tables = WildcardTables { node: "a".into(), wildcards: vec![wildcard("rest", None)] };
        let wildcards = json(NodeTables::Wildcards(Box::new(tables.clone())));
        assert_eq!(wildcards["wildcards"][0]["identification"], "all");
        assert_eq!(serde_json::from_value::<WildcardTables>(wildcards).unwrap(), tables);
    }
}

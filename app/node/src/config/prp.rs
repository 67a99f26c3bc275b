//! PRP nodes: `protocol` in `[node]`, `lan` in `[[port]]`, and the `[prp]` table.

use std::fmt;

use onbeat_frer::prp::{ENTRY_FORGET_MS, Lan, MAX_NODES, NODE_FORGET_MS};
use onbeat_frer::spec::PortId;
use onbeat_wire::prp::TRAILER_LEN;

use super::reader::{Table, Value};
use super::{Backend, PortConfig};

/// Octets that a PRP trailer adds to a frame.
pub(crate) const TRAILER: u32 = TRAILER_LEN as u32;

/// The redundancy protocol of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// FRER (802.1CB): named streams.
    #[default]
    Frer,
    /// PRP (IEC 62439-3): all frames between a host and two LANs.
    Prp,
}

impl Protocol {
    /// All protocols with their names in files.
    pub(super) const ALL: [(&'static str, Self); 2] = [("frer", Self::Frer), ("prp", Self::Prp)];

    /// The data plane of a node whose file names none.
    pub(super) fn default_backend(self) -> Backend {
        match self {
            Self::Frer => Backend::default(),
            Self::Prp => Backend::Packet,
        }
    }

    /// Whether a data plane supports the protocol.
    pub(super) fn supports(self, backend: Backend) -> bool {
        self == Self::Frer || matches!(backend, Backend::Packet | Backend::Xdp)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL[*self as usize].0)
    }
}

/// A data plane that does not support the protocol of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the back end \"{backend}\" does not support protocol = \"prp\"; use \"packet\" or \"xdp\""
)]
pub struct UnsupportedBackend {
    /// The data plane.
    pub backend: Backend,
}

/// The parameters of a PRP node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrpConfig {
    /// The port of LAN A.
    pub a: PortId,
    /// The port of LAN B.
    pub b: PortId,
    /// The port of the host, or of the stations that a RedBox protects.
    pub host: PortId,
    /// EntryForgetTime, in milliseconds.
    pub entry_forget_ms: u32,
    /// NodeForgetTime, in milliseconds.
    pub node_forget_ms: u32,
    /// Entries of the NodesTable.
    pub max_nodes: u16,
}

/// The `[prp]` table, before its ports are known.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrpTable {
    entry_forget_ms: u32,
    node_forget_ms: u32,
    max_nodes: u16,
}

impl Default for PrpTable {
    fn default() -> Self {
        Self {
            entry_forget_ms: ENTRY_FORGET_MS,
            node_forget_ms: NODE_FORGET_MS,
            max_nodes: MAX_NODES,
        }
    }
}

impl PrpTable {
    pub(super) fn read(value: &Value<'_>) -> Self {
        let mut config = Self::default();
        let Some(mut table) = value.table() else { return config };
        let number = |value: Option<Value<'_>>, range, default| {
            value.and_then(|value| value.number(range)).unwrap_or(default)
        };
        let entry = table.take("entry-forget-ms");
        config.entry_forget_ms = number(entry, 2..=10_000, config.entry_forget_ms);
        let node = table.take("node-forget-ms");
        config.node_forget_ms = number(node, 1000..=86_400_000, config.node_forget_ms);
        let nodes = table.take("max-nodes");
        let nodes = nodes.and_then(|value| value.number(1..=65535));
        config.max_nodes = nodes.unwrap_or(config.max_nodes);
        table.finish();
        config
    }

    /// Finds the ports of a PRP node; reports those that are missing or too many.
    pub(super) fn with_ports(self, table: &Table<'_>, ports: &[PortConfig]) -> Option<PrpConfig> {
        let of = |named: Option<(&str, Lan)>| {
            let lan = named.map(|(_, lan)| lan);
            let ports = (0..).map(PortId).zip(ports).filter(move |(_, port)| port.lan == lan);
            let ports: Vec<_> = ports.map(|(id, _)| id).collect();
            match (ports.as_slice(), named) {
                (&[port], _) => Some(port),
                (found, Some((lan, _))) => {
                    table.fault(
                        format!(
                            "a node with protocol = \"prp\" has one port with lan = \"{lan}\", not {}",
                            found.len()
                        ),
                        format!("set lan = \"{lan}\" in the [[port]] of this LAN, and only there"),
                    );
                    None
                }
                (found, None) => {
                    table.fault(
                        format!(
                            "a node with protocol = \"prp\" has one port without lan, not {}",
                            found.len()
                        ),
                        "use one [[port]] for the host, such as interface = \"red0\" with create = \
                         \"veth\", and lan = \"a\" and lan = \"b\" for the two others",
                    );
                    None
                }
            }
        };
        let (a, b, host) = (of(Some(LANS[0])), of(Some(LANS[1])), of(None));
        let Self { entry_forget_ms, node_forget_ms, max_nodes } = self;
        Some(PrpConfig { a: a?, b: b?, host: host?, entry_forget_ms, node_forget_ms, max_nodes })
    }
}

/// The LANs with their names in files.
pub(super) const LANS: [(&str, Lan); 2] = [("a", Lan::A), ("b", Lan::B)];

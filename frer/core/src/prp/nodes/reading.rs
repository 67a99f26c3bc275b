//! The nodes as reported.

use alloc::vec::Vec;

use hashbrown::HashSet;
use onbeat_wire::MacAddress;

use super::{LanRecord, Node, Nodes, Supervision};

/// Type of a node, from its frames and supervision frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum NodeKind {
    /// Singly attached: sends frames without a trailer.
    San,
    /// Doubly attached: sends frames with a trailer.
    Danp,
    /// A RedBox.
    RedBox,
    /// Represented by a RedBox.
    Vdanp,
}

impl NodeKind {
    /// Returns the name in tables and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::San => "SAN",
            Self::Danp => "DANP",
            Self::RedBox => "RedBox",
            Self::Vdanp => "VDANP",
        }
    }
}

/// A node as reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeReading {
    /// Its address.
    pub mac: MacAddress,
    /// Its type.
    pub kind: NodeKind,
    /// On LAN A and LAN B.
    pub lans: [LanRecord; 2],
    /// Its latest supervision frame.
    pub supervision: Option<Supervision>,
}

impl<N> Nodes<N> {
    /// Returns all nodes in the order of their addresses.
    #[must_use]
    pub fn read(&self) -> Vec<NodeReading> {
        let redboxes: HashSet<MacAddress> =
            self.by_mac.values().filter_map(|node| node.supervision?.redbox).collect();
        let reading = |(mac, node): (MacAddress, &Node<N>)| {
            let redbox = node.supervision.and_then(|supervision| supervision.redbox);
            let kind = match redbox {
                Some(redbox) if redbox != mac => NodeKind::Vdanp,
                Some(_) => NodeKind::RedBox,
                None if redboxes.contains(&mac) => NodeKind::RedBox,
                None if node.numbers.is_some() || node.supervision.is_some() => NodeKind::Danp,
                None => NodeKind::San,
            };
            NodeReading { mac, kind, lans: node.lans(), supervision: node.supervision }
        };
        let mut nodes: Vec<_> = self.iter().map(reading).collect();
        nodes.sort_unstable_by_key(|node| node.mac);
        nodes
    }
}

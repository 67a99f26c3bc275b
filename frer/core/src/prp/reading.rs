//! Tables and counters of a link redundancy entity, as reported.

use alloc::vec::Vec;

use onbeat_wire::MacAddress;

use super::{HostPort, NodeReading, ProxyReading};

/// Frames received from a LAN: all of them, then the reasons of their end.
///
/// `received` = `passed` + `own` + `accepted` + `duplicates` + `untagged` + `blocked` + `supervision` +
/// `invalid_supervision` + `unread_supervision`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LanCounters {
    /// Complete frames.
    pub received: u64,
    /// Left to the network stack of the interface: link-local protocols, and frames to its own address.
    pub passed: u64,
    /// Sent by this node (CntOwnRx): the LANs are connected, or a LAN has a loop.
    pub own: u64,
    /// Those of them that were sent on the other LAN.
    pub own_of_other_lan: u64,
    /// First copies with a trailer, delivered without it.
    pub accepted: u64,
    /// Further copies, discarded.
    pub duplicates: u64,
    /// Without a trailer, delivered whole: of singly attached nodes.
    pub untagged: u64,
    /// Those of them with the tag of another protocol: an R-TAG or HSR tag, or supervision frames of PRP beside R-TAGs.
    #[cfg_attr(feature = "serde", serde(default))]
    pub other_protocol: u64,
    /// Not delivered by a RedBox whose host port is blocked.
    #[cfg_attr(feature = "serde", serde(default))]
    pub blocked: u64,
    /// Supervision frames.
    pub supervision: u64,
    /// Supervision frames of another version, or incomplete.
    pub invalid_supervision: u64,
    /// Supervision frames for which the queue of 256 had no room. The daemon reads it every second.
    #[cfg_attr(feature = "serde", serde(default))]
    pub unread_supervision: u64,
    /// Supervision frames that claim the address of this node or of a station behind it.
    pub foreign_claims: u64,
    /// Frames with the LAN id of the other LAN (CntErrWrongLan), processed like others.
    pub wrong_lan: u64,
    /// Frames with a trailer of sources for which the NodesTable has no room: accepted, possibly twice.
    pub without_entry: u64,
    /// Frames that end within their headers, discarded.
    pub malformed: u64,
}

/// Frames received from the host port: all of them, then the reasons of their end.
///
/// `received` = `numbered` + `silent` + `link_local` + `local` + `blocked` + `too_long` + `tagged`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HostCounters {
    /// Complete frames.
    pub received: u64,
    /// Numbered, and sent on both LANs.
    pub numbered: u64,
    /// Discarded in the silence after a start (NodeRebootInterval).
    pub silent: u64,
    /// Frames of link-local protocols, and hellos of RedBoxes, discarded.
    pub link_local: u64,
    /// Between stations behind the host port, discarded.
    pub local: u64,
    /// To the blocked host port of a RedBox, discarded.
    #[cfg_attr(feature = "serde", serde(default))]
    pub blocked: u64,
    /// Longer than a trailer can state, discarded.
    pub too_long: u64,
    /// With an R-TAG or HSR tag where R-TAGs are sent, discarded: its number is that of another sender.
    #[cfg_attr(feature = "serde", serde(default))]
    pub tagged: u64,
    /// Frames that end within their headers, discarded.
    pub malformed: u64,
}

/// State of a link redundancy entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The address of the node.
    pub mac: MacAddress,
    /// The NodesTable.
    pub nodes: Vec<NodeReading>,
    /// The ProxyNodeTable.
    pub proxies: Vec<ProxyReading>,
    /// Frames from LAN A and LAN B.
    pub lans: [LanCounters; 2],
    /// The last source of a frame from LAN A and LAN B with the tag of another protocol. `None`: no such
    /// frame, or the data plane notes none.
    pub other_protocol: [Option<MacAddress>; 2],
    /// Frames from the host port.
    pub host: HostCounters,
    /// The number of the next frame.
    pub next: u16,
    /// Supervision frames sent.
    pub supervised: u64,
    /// Nodes evicted from the full NodesTable.
    pub evicted: u64,
    /// Frames of stations for which the ProxyNodeTable had no room.
    pub unknown_proxies: u64,
    /// Entries of the NodesTable.
    pub max_nodes: u16,
    /// State of the host port of a RedBox.
    pub host_port: HostPort,
}

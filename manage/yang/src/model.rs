//! A node as plain data.

use onbeat_frer::counters::Counters;

/// An interface of a port; a [`PortId`](onbeat_frer::spec::PortId) is an index of a list of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// Longest mask of the MSDU, in octets.
    pub longest_mask: u16,
}

/// The state of a node: of its interfaces and streams, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeState {
    /// Since when counters are counted, RFC 3339.
    pub counted_since: String,
    /// Its interfaces.
    pub interfaces: Vec<InterfaceState>,
    /// Its streams.
    pub streams: Vec<StreamState>,
}

/// Link of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LinkState {
    /// Frames can go through.
    Up,
    /// Down, or without carrier.
    Down,
    /// The interface does not exist.
    #[default]
    Missing,
}

/// The state of an interface: sums over its streams.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterfaceState {
    /// Its link.
    pub link: LinkState,
    /// Whether it is set up, with or without carrier.
    pub is_enabled: bool,
    /// Index in the kernel; 0: none.
    pub index: u32,
    /// 9.3.1.
    pub input_packets: u64,
    /// 9.3.2.
    pub output_packets: u64,
    /// 10.9.1.
    pub passed: u64,
    /// 10.9.2, each packet once.
    pub discarded: u64,
}

/// The state of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamState {
    /// Its members.
    pub members: Vec<MemberState>,
    /// 10.8.2, of its sequence generation.
    pub generation_resets: Option<u64>,
    /// Counters of its sequence recovery.
    pub recovery: Option<Counters>,
    /// 9.2.2, of its egress ports.
    pub output_packets: Vec<u64>,
}

/// The state of a member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberState {
    /// 9.2.1.
    pub input_packets: u64,
    /// 10.8.11.
    pub errored: u64,
    /// Counters of its individual recovery.
    pub individual: Option<Counters>,
}

//! A network and its streams as plain data.

use onbeat_wire::MacAddress;

use crate::ladder::RecoverAt;

/// One direction of a link: twice the link's index, and 1 more from its second end to the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arc(pub u32);

impl Arc {
    /// The link.
    #[must_use]
    pub fn link(self) -> usize {
        self.0 as usize / 2
    }

    /// As an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The other direction.
    #[must_use]
    pub fn reverse(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// A network and its streams.
#[derive(Debug, Clone, Default)]
pub struct Network {
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// Its links.
    pub links: Vec<Link>,
    /// Its shared-risk groups.
    pub groups: Vec<Group>,
    /// Its streams.
    pub streams: Vec<Stream>,
    /// Share of each link that streams may use, in %.
    pub load_percent: u8,
    /// First and last VLAN of labels; none: frames keep the VLAN of their talker.
    pub label_vlans: Option<[u16; 2]>,
}

/// A node.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its port for talkers and listeners.
    pub host: Option<Host>,
    /// Whether paths may pass through it.
    pub relay: bool,
    /// Name of the bridge device of a foreign bridge, which forwards by static entries and runs no onbeat.
    pub bridge: Option<String>,
    /// Longest time from the reception of a frame to its egress queue, in nanoseconds.
    pub forwarding_ns: u64,
    /// Its ports towards other nodes.
    pub ports: Vec<Port>,
}

/// The port of a node's applications.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its interface.
    pub interface: String,
    /// Whether the node creates it.
    pub create: bool,
}

/// A port towards another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name within the node.
    pub name: String,
    /// Its interface.
    pub interface: String,
    /// Its speed, in Mbit/s.
    pub speed_mbps: u32,
}

/// An end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// Index of the node.
    pub node: u32,
    /// Index of its port.
    pub port: u32,
}

/// A link.
#[derive(Debug, Clone)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its ends.
    pub ends: [End; 2],
    /// Its speed, in Mbit/s.
    pub speed_mbps: u32,
    /// Propagation delay, in nanoseconds.
    pub delay_ns: u64,
    /// Its shared-risk groups, directly or through other groups.
    pub groups: Vec<u32>,
}

/// Links that can fail together.
#[derive(Debug, Clone)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its links, also those of the groups in it.
    pub links: Vec<u32>,
}

/// A stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// Index of the talker's node.
    pub talker: u32,
    /// Indices of the listeners' nodes.
    pub listeners: Vec<u32>,
    /// Destination address.
    pub address: MacAddress,
    /// VLAN of the talker's frames.
    pub vlan: Option<u16>,
    /// Time between two frames, in nanoseconds.
    pub interval_ns: u64,
    /// Octets of a frame, from the destination address to the FCS.
    pub size: u32,
    /// Number of disjoint paths to each listener.
    pub paths: u8,
    /// Longest permitted delay from talker to listener, in nanoseconds.
    pub max_delay_ns: Option<u64>,
    /// Where copies are eliminated.
    pub recover_at: RecoverAt,
    /// Whether the network adds a VLAN tag: a label, and the talker's frames have none.
    pub adds_vlan_tag: bool,
}

/// Octets of an R-TAG.
pub const R_TAG: u32 = 6;

/// Octets of a VLAN tag.
pub const VLAN_TAG: u32 = 4;

/// Octets of preamble, start delimiter and inter-frame gap.
pub const GAP: u32 = 20;

impl Stream {
    /// Octets of line time that one copy of a frame takes.
    #[must_use]
    pub fn octets(&self) -> u64 {
        let vlan = if self.adds_vlan_tag { VLAN_TAG } else { 0 };
        u64::from(self.size + R_TAG + vlan + GAP)
    }

    /// Rate of one copy, in bit/s, rounded up.
    #[must_use]
    pub fn rate(&self) -> u64 {
        (self.octets() * 8 * 1_000_000_000).div_ceil(self.interval_ns)
    }
}

impl Network {
    /// The nodes that an arc leaves and enters.
    #[must_use]
    pub fn ends(&self, arc: Arc) -> (u32, u32) {
        let [a, b] = self.link_ends(arc);
        (a.node, b.node)
    }

    /// The ports that an arc leaves and enters.
    #[must_use]
    pub fn link_ends(&self, arc: Arc) -> [End; 2] {
        let [a, b] = self.links[arc.link()].ends;
        if arc.0 % 2 == 0 { [a, b] } else { [b, a] }
    }

    /// Rate that streams may use on each arc, in bit/s.
    #[must_use]
    pub fn capacity(&self, arc: Arc) -> u64 {
        u64::from(self.links[arc.link()].speed_mbps) * 10_000 * u64::from(self.load_percent)
    }

    /// Line time of a number of octets on an arc, in nanoseconds, rounded up.
    #[must_use]
    pub fn line_time(&self, arc: Arc, octets: u64) -> u64 {
        (octets * 8000).div_ceil(u64::from(self.links[arc.link()].speed_mbps))
    }

    /// Delay of a frame of 512 octets over an arc without other frames, in nanoseconds: the cost of the idle arc.
    #[must_use]
    pub fn idle_cost(&self, arc: Arc) -> u64 {
        let (_, to) = self.ends(arc);
        let node = self.nodes[to as usize].forwarding_ns;
        (self.links[arc.link()].delay_ns + self.line_time(arc, 512) + node).max(1)
    }

    /// The arcs.
    pub fn arcs(&self) -> impl Iterator<Item = Arc> + use<> {
        (0..2 * self.links.len() as u32).map(Arc)
    }

    /// Returns the index of the node with this name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<u32> {
        self.nodes.iter().position(|node| node.name == name).map(|index| index as u32)
    }

    /// Returns the index of the stream with this name.
    #[must_use]
    pub fn stream(&self, name: &str) -> Option<usize> {
        self.streams.iter().position(|stream| stream.name == name)
    }

    /// Whether a node is a foreign bridge.
    #[must_use]
    pub fn is_bridge(&self, node: u32) -> bool {
        self.nodes[node as usize].bridge.is_some()
    }

    /// Whether any node is a foreign bridge.
    #[must_use]
    pub fn has_bridges(&self) -> bool {
        self.nodes.iter().any(|node| node.bridge.is_some())
    }

    /// The name of an end, as in a file.
    #[must_use]
    pub fn end_name(&self, end: End) -> String {
        let node = &self.nodes[end.node as usize];
        format!("{}:{}", node.name, node.ports[end.port as usize].name)
    }
}

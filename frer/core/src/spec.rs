//! What a FRER node is told to do: ports, streams, members, recovery and egress, as plain data.
//!
//! Every data plane (the one in XDP, the one in user space) takes this description, so that a
//! configuration file means the same on each. Nothing here refers to an interface by name: a port
//! is a small number that the assembly maps to an interface.

use alloc::string::String;
use alloc::vec::Vec;

use onbeat_wire::MacAddress;

/// A port of the node, `0..MAX_PORTS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u8);

/// Ports a node may have: the set of a stream's egress ports is one 64-bit mask.
pub const MAX_PORTS: usize = 64;

/// Egress ports a stream may have.
pub const MAX_EGRESS: usize = 16;

/// One compound stream (802.1CB 3.x): its member streams in, its replicas out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Unique within the node.
    pub name: String,
    /// Where frames of the stream come in and what tells them there; at least one.
    pub members: Vec<Member>,
    /// Sequence generation (7.4.1): a frame that carries no sequence number is given one.
    /// A frame that carries one keeps it.
    pub generate: bool,
    /// Sequence recovery (7.4.2) over all members; never together with `generate`.
    pub recover: Option<Recovery>,
    /// Where frames of the stream go; `1..=MAX_EGRESS`, each port at most once.
    pub egress: Vec<Egress>,
}

/// A member stream: one port and the frames on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The port that receives it.
    pub port: PortId,
    /// The identification function (clause 6) that tells it.
    pub identification: Identification,
    /// Individual recovery (7.4.2): weeds out a sender stuck on one number, before members join.
    pub individual: Option<Recovery>,
}

/// Whether a frame must carry a VLAN tag to be of a stream (9.1.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tagged {
    /// A VLAN tag with a VLAN id other than 0.
    Tagged,
    /// No VLAN tag, or one with VLAN id 0.
    Priority,
    /// Either.
    All,
}

/// A VLAN requirement: `tagged` and `vlan`, where VLAN id 0 means "any" (9.1.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VlanMatch {
    /// Whether a tag is required.
    pub tagged: Tagged,
    /// VLAN id `1..=4094`, or 0: not looked at. Only looked at on frames with a tag.
    pub vlan: u16,
}

/// A stream identification function with its parameters (clause 6, managed by 9.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identification {
    /// Type 1, Null Stream identification (6.4).
    Null {
        /// Destination address to match.
        destination: MacAddress,
        /// VLAN to match.
        vlan: VlanMatch,
    },
    /// Type 2, Source MAC and VLAN Stream identification (6.5).
    SourceMacVlan {
        /// Source address to match.
        source: MacAddress,
        /// VLAN to match.
        vlan: VlanMatch,
    },
    /// Type 3, Active Destination MAC and VLAN Stream identification (6.6), on the input side:
    /// matches what the lower layer shows (`down`) and offers `up` to the node.
    ActiveDestination {
        /// Destination address on the wire.
        destination: MacAddress,
        /// VLAN on the wire.
        vlan: VlanMatch,
        /// What the frame is rewritten to on its way in.
        up: Rewrite,
    },
    /// Type 4, IP Stream identification (6.7).
    Ip(IpMatch),
    /// Type 5, Mask-and-match Stream identification (6.8, 802.1CBdb).
    MaskAndMatch(MaskAndMatch),
}

/// Parameters of IP Stream identification (9.1.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpMatch {
    /// Destination MAC address to match.
    pub destination: MacAddress,
    /// VLAN to match.
    pub vlan: VlanMatch,
    /// IP source address; `None` (all zero in the standard): any.
    pub ip_source: Option<core::net::IpAddr>,
    /// IP destination address.
    pub ip_destination: core::net::IpAddr,
    /// DSCP `0..=63`; `None` (64 in the standard): any.
    pub dscp: Option<u8>,
    /// Next protocol and its ports.
    pub next_protocol: NextProtocol,
}

/// Next protocol of IP Stream identification (9.1.5.6 to 9.1.5.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NextProtocol {
    /// Not looked at, and neither are ports.
    None,
    /// UDP with these ports.
    Udp {
        /// Source port; `None`: any.
        source: Option<u16>,
        /// Destination port; `None`: any.
        destination: Option<u16>,
    },
    /// TCP with these ports.
    Tcp {
        /// Source port; `None`: any.
        source: Option<u16>,
        /// Destination port; `None`: any.
        destination: Option<u16>,
    },
    /// SCTP with these ports.
    Sctp {
        /// Source port; `None`: any.
        source: Option<u16>,
        /// Destination port; `None`: any.
        destination: Option<u16>,
    },
}

/// Parameters of Mask-and-match Stream identification (9.1.6, 802.1CBdb).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskAndMatch {
    /// Mask over the destination address.
    pub destination_mask: MacAddress,
    /// Value of the masked destination address.
    pub destination_match: MacAddress,
    /// Mask over the source address.
    pub source_mask: MacAddress,
    /// Value of the masked source address.
    pub source_match: MacAddress,
    /// Mask over the first octets of the MSDU (what follows the addresses and VLAN tags);
    /// empty, or `2..=1984` octets.
    pub msdu_mask: Vec<u8>,
    /// Value of the masked MSDU; as long as `msdu_mask`.
    pub msdu_match: Vec<u8>,
}

/// A recovery function (7.4.2, managed by 10.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// frerSeqRcvyAlgorithm.
    pub algorithm: Algorithm,
    /// frerSeqRcvyResetMSec; 0: never resets by itself.
    pub reset_timeout_ms: u32,
    /// frerSeqRcvyTakeNoSequence: pass frames that carry no sequence number.
    pub take_no_sequence: bool,
    /// frerSeqRcvyLatentErrorDetection; never on an individual recovery function.
    pub latent: Option<LatentErrorDetection>,
}

/// frerSeqRcvyAlgorithm (10.4.1.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Vector recovery (7.4.3.4).
    Vector {
        /// frerSeqRcvyHistoryLength, `2..=MAX_HISTORY`.
        history_length: u16,
    },
    /// Match recovery (7.4.3.5).
    Match,
}

/// Longest history of vector recovery.
pub const MAX_HISTORY: u16 = 1024;

/// Latent error detection (7.4.4, managed by 10.4.1.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatentErrorDetection {
    /// frerSeqRcvyLatentErrorDifference, in packets.
    pub difference: u32,
    /// frerSeqRcvyLatentErrorPeriod, in milliseconds.
    pub period_ms: u32,
    /// frerSeqRcvyLatentErrorPaths.
    pub paths: u16,
    /// frerSeqRcvyLatentResetPeriod, in milliseconds.
    pub reset_period_ms: u32,
}

/// One egress port of a stream, and what a replica looks like there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    /// The port that sends it.
    pub port: PortId,
    /// What becomes of the sequence tag.
    pub tag: SequenceTag,
    /// What becomes of addresses and VLAN tags.
    pub rewrite: Rewrite,
}

/// What becomes of the sequence tag at an egress port (10.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceTag {
    /// As the frame came in: an intermediate node touches nothing.
    Keep,
    /// The frame leaves with an R-TAG (7.8); one that is there stays.
    RTag,
    /// The frame leaves without a sequence tag.
    Remove,
}

/// A change of addresses and VLAN tag. PCP and DEI stay as they are unless `priority` says else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rewrite {
    /// New destination address.
    pub destination: Option<MacAddress>,
    /// What becomes of the outer VLAN tag.
    pub vlan: VlanAction,
    /// New PCP, `0..=7`, of the outer VLAN tag, where there is one.
    pub priority: Option<u8>,
}

/// What becomes of the outer VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VlanAction {
    /// Nothing.
    #[default]
    Keep,
    /// The VLAN id of an existing tag is replaced; an untagged frame gets a tag with PCP 0, DEI 0.
    Set(u16),
    /// The outer tag is removed, where there is one.
    Remove,
}

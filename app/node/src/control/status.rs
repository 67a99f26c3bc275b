//! The state of a node, as `show --json` prints it. Counters have the names of 802.1CB.

use std::fmt;

use onbeat_frer::counters::Counters;
use serde::{Deserialize, Serialize};

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub node: String,
    /// Process id of its daemon.
    pub pid: u32,
    /// Seconds since the daemon started.
    pub uptime_s: u64,
    /// What moves the frames, unless a port says else: `xdp`, `packet` or `xsk`.
    pub data_plane: String,
    /// What its tables for streams take, where they are made for so many from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStatus>,
    /// Its ports, in the order of the configuration.
    pub ports: Vec<PortStatus>,
    /// Its streams, in the order of the configuration.
    pub streams: Vec<StreamStatus>,
}

/// Memory of a data plane in the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// Streams that there is room for.
    pub streams: u32,
    /// Octets of all tables.
    pub octets: u64,
    /// Octets for each stream that there is room for.
    pub octets_per_stream: u64,
}

/// How a data plane is attached to an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortMode {
    /// In the driver.
    Native,
    /// In the kernel's generic hook.
    Generic,
    /// By packet sockets of the daemon.
    Packet,
    /// By AF_XDP sockets of the daemon, into whose memory the driver receives.
    XskZeroCopy,
    /// By AF_XDP sockets of the daemon, to which the driver's program has frames copied.
    XskCopy,
    /// By AF_XDP sockets of the daemon, to which frames are copied in the kernel's generic hook.
    XskGeneric,
    /// Not at all: the interface is gone, or the program was removed.
    #[default]
    Detached,
}

impl fmt::Display for PortMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Packet => "packet",
            Self::XskZeroCopy => "xsk zero-copy",
            Self::XskCopy => "xsk copy",
            Self::XskGeneric => "xsk generic",
            Self::Detached => "detached",
        })
    }
}

/// Whether frames can go through an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// Up, with carrier.
    Up,
    /// Down, or without carrier.
    Down,
    /// No such interface now.
    #[default]
    Missing,
}

impl Link {
    /// Of an interface as the kernel has it, or has not.
    pub(crate) fn of(link: Option<&onbeat_netdev::Link>) -> Link {
        match link {
            Some(link) if link.up && link.carrier => Link::Up,
            Some(_) => Link::Down,
            None => Link::Missing,
        }
    }
}

/// A port: sums over its streams (9.3, 10.9), each packet counted once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortStatus {
    /// What the configuration calls it.
    pub name: String,
    /// The interface its frames go through.
    pub interface: String,
    /// Index of the interface; 0 while it is missing.
    pub ifindex: u32,
    /// How the data plane is attached.
    pub mode: PortMode,
    /// Where it is generic and need not be by the configuration: why, and the way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_native: Option<String>,
    /// Where frames that come in are lost: why, and the way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_lost: Option<String>,
    /// Where checksums of frames that come in are, or may be, unfinished: why, and the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished_checksums: Option<String>,
    /// Whether frames can go through.
    pub link: Link,
    /// 9.3.1: packets of any stream that came in.
    pub input_packets: u64,
    /// 9.3.2: packets of any stream that left.
    pub output_packets: u64,
    /// 10.9.1: packets that recovery accepted.
    pub passed: u64,
    /// 10.9.2: packets that recovery discarded, rogue ones counted once.
    pub discard: u64,
    /// Frames of no stream, passed on to the network stack.
    pub unmatched: u64,
}

/// A compound stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamStatus {
    /// Its name.
    pub name: String,
    /// Where it comes in.
    pub members: Vec<MemberStatus>,
    /// Its sequence generation, where it has one.
    pub generation: Option<GenerationStatus>,
    /// Its sequence recovery, where it has one.
    pub recovery: Option<RecoveryStatus>,
    /// Where it goes.
    pub egress: Vec<EgressStatus>,
    /// 10.8.11: packets whose sequence tag could not be decoded.
    pub seq_enc_errored: u64,
}

/// A member stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Name of the port.
    pub port: String,
    /// `type` of its identification, as the configuration has it.
    pub identification: String,
    /// 9.2.1: packets of the stream that came in at the port.
    pub input_packets: u64,
    /// It does not contribute, while others do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// Its individual recovery, where it has one.
    pub individual: Option<RecoveryStatus>,
}

/// Sequence generation (7.4.1).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationStatus {
    /// GenSeqNum: the number of the next packet.
    pub gen_seq_num: u16,
    /// 10.8.2: resets, BEGIN among them.
    pub seq_gen_resets: u64,
}

/// A recovery function (7.4.2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryStatus {
    /// RecovSeqNum.
    pub recov_seq_num: u16,
    /// TakeAny: the next packet is accepted whatever its number.
    pub take_any: bool,
    /// 10.8.3: accepted packets that did not follow the one before them by 1.
    pub out_of_order: u64,
    /// 10.8.4: discarded packets whose number lies outside the history.
    pub rogue: u64,
    /// 10.8.5: accepted packets.
    pub passed: u64,
    /// 10.8.6: discarded packets, the rogue ones among them.
    pub discarded: u64,
    /// 10.8.7: numbers that left the history unseen, as the standard counts them.
    pub lost: u64,
    /// How many of `lost` are from before the first packet after a reset: nobody lost those.
    pub lost_before_first: u64,
    /// 10.8.8: packets with no sequence number.
    pub tagless: u64,
    /// 10.8.9: resets, BEGIN and time-outs among them.
    pub resets: u64,
    /// 10.8.10: times latent error detection took its base anew.
    pub latent_error_resets: u64,
    /// Latent error signals (7.4.4.1.3) so far.
    pub latent_errors: u64,
}

impl RecoveryStatus {
    /// The state of a recovery function from what it counted.
    pub fn new(
        counters: &Counters,
        recov_seq_num: u16,
        take_any: bool,
        latent_errors: u64,
    ) -> RecoveryStatus {
        RecoveryStatus {
            recov_seq_num,
            take_any,
            out_of_order: counters.out_of_order,
            rogue: counters.rogue,
            passed: counters.passed,
            discarded: counters.discarded,
            lost: counters.lost,
            lost_before_first: counters.lost_before_first,
            tagless: counters.tagless,
            resets: counters.resets,
            latent_error_resets: counters.latent_error_resets,
            latent_errors,
        }
    }

    /// Packets that were sent and never seen on any path.
    pub fn really_lost(&self) -> u64 {
        self.lost.saturating_sub(self.lost_before_first)
    }
}

/// An egress port of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressStatus {
    /// Name of the port.
    pub port: String,
    /// 9.2.2: packets of the stream that left by the port.
    pub output_packets: u64,
}

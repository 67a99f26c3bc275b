//! What a FRER node is told to do: ports, streams, members, recovery and egress, as plain data.
//!
//! Every data plane (the one in XDP, the one in user space) takes this description, so that a
//! configuration file means the same on each. Nothing here refers to an interface by name: a port
//! is a small number that the assembly maps to an interface.

mod identification;
mod rewrite;

use alloc::string::String;
use alloc::vec::Vec;

pub use identification::{
    Identification, IdentificationError, IdentificationKind, IpMatch, LookupKey, MaskAndMatch,
    NextProtocol, Parameters, Tagged, VlanMatch,
};
pub use rewrite::{Rewrite, RewriteError, VlanAction};

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

/// What a recovery function stands behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// All member streams of a compound stream; accepted packets restart the timer.
    Sequence,
    /// One member stream (frerSeqRcvyIndividualRecovery); every packet restarts the timer.
    Individual,
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

impl Recovery {
    /// Vector recovery without a time-out.
    #[must_use]
    pub const fn vector(history_length: u16) -> Self {
        let algorithm = Algorithm::Vector { history_length };
        Self { algorithm, reset_timeout_ms: 0, take_no_sequence: false, latent: None }
    }
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

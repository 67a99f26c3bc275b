//! Configuration of a FRER node as plain data: ports, streams, members, recovery and egress.
//!
//! Every data plane (in XDP, in user space) accepts this configuration, so that a configuration file means
//! the same on each. It refers to no interface by name: a port is a small number that the assembly maps to an
//! interface.

mod identification;
mod rewrite;

use alloc::string::String;
use alloc::vec::Vec;

pub use identification::{
    Identification, IdentificationError, IdentificationKind, IpMatch, LookupKey, MaskAndMatch,
    NextProtocol, Parameters, TagMatch, VlanMatch,
};
pub use rewrite::{Rewrite, RewriteError, VlanAction};

/// A port of the node, `0..MAX_PORTS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u8);

/// Maximum number of ports of a node: the set of a stream's egress ports is one 64-bit mask.
pub const MAX_PORTS: usize = 64;

/// Maximum number of egress ports of a stream.
pub const MAX_EGRESS: usize = 16;

/// A compound stream (802.1CB 3.x): its member streams in, its replicas out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// A name that is unique within the node.
    pub name: String,
    /// Ingress ports of the stream and the identification of its frames there; at least one.
    pub members: Vec<Member>,
    /// Sequence generation (7.4.1): numbers frames without a sequence number. A frame with a number keeps it.
    pub generate: bool,
    /// Sequence recovery (7.4.2) over all members; never combined with `generate`.
    pub recover: Option<Recovery>,
    /// Ports that send frames of the stream; `1..=MAX_EGRESS`, each port at most once.
    pub egress: Vec<Egress>,
}

/// A member stream: one port and the frames on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The receiving port.
    pub port: PortId,
    /// The identification function (clause 6) of its frames.
    pub identification: Identification,
    /// Individual recovery (7.4.2): eliminates packets of a sender stuck on one number, before members join.
    pub individual: Option<Recovery>,
}

/// The packets that a recovery function processes.
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
    /// frerSeqRcvyResetMSec; 0: no timeout.
    pub reset_timeout_ms: u32,
    /// frerSeqRcvyTakeNoSequence: pass frames that carry no sequence number.
    pub take_no_sequence: bool,
    /// frerSeqRcvyLatentErrorDetection; never on an individual recovery function.
    pub latent: Option<LatentErrorDetection>,
    /// The parameters above that follow the measured paths; never on an individual recovery function.
    pub adaptive: Adaptive,
}

impl Recovery {
    /// Returns vector recovery without a timeout.
    #[must_use]
    pub const fn vector(history_length: u16) -> Self {
        let algorithm = Algorithm::Vector { history_length };
        let adaptive = Adaptive { history_length: false, reset_timeout: false };
        Self { algorithm, reset_timeout_ms: 0, take_no_sequence: false, latent: None, adaptive }
    }
}

/// The parameters of a recovery function that follow the measured paths; the others are fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Adaptive {
    /// The history length.
    pub history_length: bool,
    /// The reset timeout.
    pub reset_timeout: bool,
}

impl Adaptive {
    /// Returns whether a parameter follows.
    #[must_use]
    pub fn any(self) -> bool {
        self.history_length || self.reset_timeout
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
pub const MAX_HISTORY: u16 = 32768;

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

/// An egress port of a stream, and the edits of its replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    /// The sending port.
    pub port: PortId,
    /// Handling of the sequence tag.
    pub tag: SequenceTag,
    /// Edits of addresses and VLAN tags.
    pub rewrite: Rewrite,
}

/// Handling of the sequence tag at an egress port (10.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceTag {
    /// Leaves the frame as received: an intermediate node.
    Keep,
    /// Sends the frame with an R-TAG (7.8); keeps an existing one.
    RTag,
    /// Sends the frame without a sequence tag.
    Remove,
}

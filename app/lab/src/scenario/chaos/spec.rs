//! Specification of a node's behavior on a stream: the source of configurations, and the input of the
//! checker.

use onbeat_wire::MacAddress;

/// Headers of a stream's frames at some point, as far as a node may change them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeaders {
    /// Destination address.
    pub destination: MacAddress,
    /// VLAN id of the tag, if there is one.
    pub vlan: Option<u16>,
    /// Whether frames have an R-TAG.
    pub numbered: bool,
}

/// Base recovery function (802.1CB 7.4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Length of the history of vector recovery; `None`: match recovery.
    pub history: Option<u16>,
    /// frerSeqRcvyResetMSec.
    pub timeout_ms: u32,
    /// frerSeqRcvyTakeNoSequence.
    pub take_no_sequence: bool,
}

/// An egress port with the headers of the frames that it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Egress {
    /// Number of the node's port.
    pub port: usize,
    /// Headers of the frames there.
    pub headers: FrameHeaders,
}

/// Function of a node on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Numbers of the ingress ports.
    pub members: Vec<usize>,
    /// Each member has individual recovery, by the match algorithm, with this frerSeqRcvyResetMSec:
    /// copies with the number of the previous one are discarded.
    pub individual_ms: Option<u32>,
    /// Assigns numbers to frames that have none.
    pub generate: bool,
    /// Sequence recovery.
    pub recover: Option<Recovery>,
    /// Egress ports.
    pub egress: Vec<Egress>,
}

/// A span of time: CLOCK_REALTIME in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Start.
    pub from: u64,
    /// End.
    pub to: u64,
}

impl Span {
    /// Whether two spans overlap.
    #[must_use]
    pub fn meets(self, other: Span) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// The function of a stream on a node from a start time until the next era starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Era {
    /// Span in which it starts.
    pub begins: Span,
    /// `None`: the node does not have the stream.
    pub function: Option<Function>,
    /// The step of the schedule that started it.
    pub step: Option<usize>,
}

/// An intentional disturbance of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disturbance {
    /// Number of the node.
    pub node: usize,
    /// Number of its port; `None`: its data plane, all ports, and the state of its functions.
    pub port: Option<usize>,
    /// From before the start of the disturbance until its object is in use again.
    pub span: Span,
    /// The step of the schedule.
    pub step: usize,
}

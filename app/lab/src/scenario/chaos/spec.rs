//! What a node must do with a stream: what configurations are written from, and what the checker
//! holds the captures against.

use onbeat_wire::MacAddress;

/// How frames of a stream look somewhere, as far as a node may change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeaders {
    /// Destination address.
    pub destination: MacAddress,
    /// VLAN id of the one tag that there may be.
    pub vlan: Option<u16>,
    /// Whether they carry an R-TAG.
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

/// An egress port, and how frames leave by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Egress {
    /// Number of the node's port.
    pub port: usize,
    /// How frames look there.
    pub headers: FrameHeaders,
}

/// What a node does with a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Numbers of the ports that it comes in by.
    pub members: Vec<usize>,
    /// Each member has individual recovery, by the match algorithm, with this
    /// frerSeqRcvyResetMSec: copies with the number of the one before them are discarded.
    pub individual_ms: Option<u32>,
    /// Frames without a number get one.
    pub generate: bool,
    /// Sequence recovery.
    pub recover: Option<Recovery>,
    /// Where it leaves.
    pub egress: Vec<Egress>,
}

/// A span of time: CLOCK_REALTIME in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// From here.
    pub from: u64,
    /// To here.
    pub to: u64,
}

impl Span {
    /// Whether two spans have an instant in common.
    #[must_use]
    pub fn meets(self, other: Span) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// What a node does with a stream from some time on, until the next era begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Era {
    /// It begins within this span.
    pub begins: Span,
    /// `None`: the node does not have the stream.
    pub function: Option<Function>,
    /// The step of the schedule that brought it.
    pub step: Option<usize>,
}

/// Something that was taken from a node on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disturbance {
    /// Number of the node.
    pub node: usize,
    /// Number of its port; `None`: its data plane, all ports, and what its functions knew.
    pub port: Option<usize>,
    /// From before it was taken until it was back and in use.
    pub span: Span,
    /// The step of the schedule.
    pub step: usize,
}

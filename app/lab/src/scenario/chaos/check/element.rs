//! What passed a node of one stream: the data that all rules read.

use super::super::spec::Span;
use super::{NodeStream, Sighting};

/// How exactly data planes see time-outs: the coarse clock of the kernel, and the way of a frame.
const TIMEOUT_SLACK_NS: u64 = 30_000_000;

/// A copy of a frame that entered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) sequence: u64,
    pub(super) port: usize,
    pub(super) at: u64,
    /// By then the node had worked on it.
    pub(super) until: u64,
    /// By then what came of it had left.
    pub(super) gone: u64,
    pub(super) number: Option<u16>,
    /// The era that it was surely worked on in.
    pub(super) era: Option<usize>,
    /// It surely came to the stream's functions.
    pub(super) sure: bool,
    pub(super) index: usize,
}

impl Arrival {
    pub(super) fn span(&self) -> Span {
        Span { from: self.at, to: self.until }
    }
}

/// A copy of a frame that left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    pub(super) sequence: u64,
    pub(super) port: usize,
    pub(super) at: u64,
    pub(super) sighting: Sighting,
}

/// Whether a copy goes on to the functions behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acceptance {
    Surely,
    Maybe,
    Not,
}

/// What passed a node of one stream, each by frame and then by time.
pub(super) struct Element {
    /// Copies that came to the functions behind individual recovery.
    pub(super) ins: Vec<Arrival>,
    /// All that came, in the order of their coming, and whether they went on.
    pub(super) came: Vec<(Arrival, Acceptance)>,
    pub(super) outs: Vec<Departure>,
    /// Every frame is worked on within that time.
    pub(super) bound_ns: u64,
    /// Copies that came where the node does not have the stream, by port.
    pub(super) unmatched: Vec<Arrival>,
}

impl Element {
    /// Frame by frame: its copies that entered, and those that left.
    pub(super) fn frames(&self) -> impl Iterator<Item = (u64, &[Arrival], &[Departure])> {
        let (mut ins, mut outs) = (&self.ins[..], &self.outs[..]);
        std::iter::from_fn(move || {
            let next = ins.first().map(|copy| copy.sequence);
            let sequence = next.into_iter().chain(outs.first().map(|out| out.sequence)).min()?;
            let (came, rest) = ins.split_at(ins.partition_point(|i| i.sequence == sequence));
            ins = rest;
            let (left, rest) = outs.split_at(outs.partition_point(|o| o.sequence == sequence));
            outs = rest;
            Some((sequence, came, left))
        })
    }
}

/// How far time-outs may be from where captures have them.
pub(super) fn slack_ns(place: NodeStream<'_>) -> u64 {
    TIMEOUT_SLACK_NS + place.case.clock_late_ns
}

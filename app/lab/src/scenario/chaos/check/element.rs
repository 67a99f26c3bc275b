//! Frames of one stream that passed through a node: the data of all rules.

use super::super::spec::Span;
use super::{NodeStream, Sighting};

/// Precision of timeouts in data planes: the coarse clock of the kernel, and the transit of a frame.
const TIMEOUT_SLACK_NS: u64 = 30_000_000;

/// A copy of a frame that entered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) sequence: u64,
    pub(super) port: usize,
    pub(super) at: u64,
    /// Time by which the node had processed it.
    pub(super) until: u64,
    /// Time by which its copies had left.
    pub(super) gone: u64,
    pub(super) number: Option<u16>,
    /// The era in which it was certainly processed.
    pub(super) era: Option<usize>,
    /// It certainly reached the functions of the stream.
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

/// Decision of individual recovery on a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acceptance {
    Surely,
    Maybe,
    Not,
}

/// Frames of one stream that passed through a node, each by frame and then by time.
pub(super) struct Element {
    /// Copies that reached the functions after individual recovery.
    pub(super) ins: Vec<Arrival>,
    /// All copies that arrived, in order of arrival, each with the decision on it.
    pub(super) came: Vec<(Arrival, Acceptance)>,
    pub(super) outs: Vec<Departure>,
    /// Maximum transit time of a frame.
    pub(super) bound_ns: u64,
    /// Copies that arrived while the node did not have the stream, by port.
    pub(super) unmatched: Vec<Arrival>,
}

impl Element {
    /// Iterates over frames: the copies that entered, and those that left.
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

/// Maximum difference between timeouts of the node and those computed from captures.
pub(super) fn slack_ns(place: NodeStream<'_>) -> u64 {
    TIMEOUT_SLACK_NS + place.case.clock_late_ns
}

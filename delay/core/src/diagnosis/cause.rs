//! The causes of a measurement that is none.

use std::fmt;

use crate::pairing::Side;

/// Why packets do not match, with the evidence. Where a side is `None`, both sides or the one capture
/// of both are meant.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// A capture without a packet.
    Empty {
        /// Whose.
        side: Option<Side>,
    },
    /// Filters, or the criterion that separates the sides, leave no packet.
    NothingSelected {
        /// Of which side.
        side: Option<Side>,
        /// Packets read.
        of: u64,
    },
    /// Packets were captured in part.
    Cut {
        /// In whose capture.
        side: Option<Side>,
        /// Packets in part.
        cut: u64,
        /// All packets of that side.
        of: u64,
        /// Octets, from the IP header on, that all of them hold; `None`: too few to match by.
        octets: Option<usize>,
    },
    /// The same capture was given twice.
    OneCapture {
        /// Packets with the same octets and the same time stamp.
        packets: usize,
        /// Packets compared.
        of: usize,
    },
    /// Time stamps of the same packets do not differ.
    EqualTimes {
        /// Packets whose time stamps do not differ.
        packets: u64,
        /// Packets matched.
        of: u64,
    },
    /// All packets have one time stamp.
    ConstantTimes {
        /// In whose capture.
        side: Option<Side>,
    },
    /// Packets have the contents of others that are under way with them.
    Alike {
        /// Packets whose delay may be another's.
        packets: u64,
        /// Packets matched.
        of: u64,
        /// Octets compared, where that is not all of a packet.
        octets: Option<usize>,
    },
    /// The difference of time stamps changes from one packet on: one of two clocks was set.
    ClockStep {
        /// Packets from the step on.
        packets: u64,
        /// Departure less arrival from the step on, in nanoseconds.
        by_ns: i64,
        /// The longest delay that covers the step, in nanoseconds, where the user's does not.
        longest_ns: Option<i64>,
    },
    /// Arrivals were given as departures.
    Swapped {
        /// Packets that go from departures to arrivals.
        packets: usize,
    },
    /// The hop translates addresses.
    Translated {
        /// Packets in common without their addresses.
        packets: usize,
        /// Packets in common with their addresses.
        untranslated: usize,
    },
    /// Departures are replies to arrivals.
    Replies {
        /// Replies.
        packets: usize,
    },
    /// Departures are arrivals that the hop forwarded, where replies are expected.
    NoReplies {
        /// Packets forwarded.
        packets: usize,
    },
    /// Packets in common are stamped further apart than a packet may take, or in reverse order.
    ClocksApart {
        /// The median of departure less arrival, in nanoseconds; or the most negative delay.
        by_ns: i64,
    },
    /// The captures are of different times.
    NoOverlap {
        /// Between the end of the first and the start of the second, in nanoseconds; negative:
        /// how long they overlap.
        gap_ns: i64,
    },
    /// The captures have no packet in common.
    DifferentTraffic {
        /// Packets of arrivals.
        arrivals: u64,
        /// Packets of departures.
        departures: u64,
        /// Octets compared, where they are too few to find what the hop changed.
        octets: Option<usize>,
    },
    /// Each capture holds both directions.
    BothDirections {
        /// Packets sampled that go from arrivals to departures.
        forward: usize,
        /// Packets sampled that go the other way.
        backward: usize,
    },
    /// A clock was set back.
    ClockSetBack {
        /// Whose; `None`: the one clock of both.
        side: Option<Side>,
        /// Times.
        steps: usize,
        /// The furthest, in nanoseconds.
        size_ns: i64,
        /// Whether the other capture, said to be of the same clock, does not show it.
        alone: bool,
    },
    /// Packets are out of order by more than is ordinary.
    Disorder {
        /// In whose capture.
        side: Option<Side>,
        /// By how much at most, in nanoseconds.
        extent_ns: i64,
    },
    /// Too few packets for a measurement.
    TooFew {
        /// Packets matched.
        matched: u64,
        /// Packets that a measurement takes.
        required: u64,
    },
    /// Most packets of both sides are not on the other.
    FewMatched {
        /// Packets matched.
        matched: u64,
        /// Packets of the side with fewer.
        of: u64,
    },
}

/// What a cause does to a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CauseEffect {
    /// Packets match nevertheless.
    Remedied,
    /// Packets do not match.
    Prevents,
    /// Packets match, and their delays mean nothing.
    Voids,
}

impl Cause {
    /// The name, which stays the same.
    pub fn name(&self) -> &'static str {
        match self {
            Cause::Empty { .. } => "empty capture",
            Cause::NothingSelected { .. } => "nothing selected",
            Cause::Cut { .. } => "cut packets",
            Cause::OneCapture { .. } => "one capture in both roles",
            Cause::EqualTimes { .. } => "equal time stamps",
            Cause::ConstantTimes { .. } => "constant time stamps",
            Cause::Alike { .. } => "packets alike",
            Cause::ClockStep { .. } => "clock step",
            Cause::Swapped { .. } => "swapped captures",
            Cause::Translated { .. } => "translated addresses",
            Cause::Replies { .. } => "replies",
            Cause::NoReplies { .. } => "no replies",
            Cause::ClocksApart { .. } => "clocks apart",
            Cause::NoOverlap { .. } => "no overlap in time",
            Cause::DifferentTraffic { .. } => "different traffic",
            Cause::BothDirections { .. } => "both directions",
            Cause::ClockSetBack { .. } => "clock set back",
            Cause::Disorder { .. } => "disorder",
            Cause::TooFew { .. } => "too few packets",
            Cause::FewMatched { .. } => "most packets unmatched",
        }
    }

    /// What it does to the measurement.
    pub fn effect(&self) -> CauseEffect {
        match self {
            Cause::BothDirections { .. }
            | Cause::Disorder { .. }
            | Cause::ClockSetBack { alone: false, .. } => CauseEffect::Remedied,
            Cause::OneCapture { .. }
            | Cause::EqualTimes { .. }
            | Cause::ConstantTimes { .. }
            | Cause::ClockStep { .. }
            | Cause::ClockSetBack { .. } => CauseEffect::Voids,
            _ => CauseEffect::Prevents,
        }
    }
}

impl fmt::Display for Cause {
    /// The name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

//! Causes of failed measurements.

use std::fmt;

use crate::pairing::Side;

/// A cause of unmatched packets, with the evidence. If a side is `None`, both sides or the one capture of both are
/// meant.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// A capture without a packet.
    Empty {
        /// The side.
        side: Option<Side>,
    },
    /// Filters, or the criterion that separates the sides, leave no packet.
    NothingSelected {
        /// The side.
        side: Option<Side>,
        /// Packets read.
        of: u64,
    },
    /// Packets were captured in part.
    Cut {
        /// The capture.
        side: Option<Side>,
        /// Packets captured in part.
        cut: u64,
        /// All packets of that side.
        of: u64,
        /// Octets, from the IP header on, that all packets have; `None`: too few for matching.
        octets: Option<usize>,
    },
    /// The same capture was given for both sides.
    OneCapture {
        /// Packets with the same octets and time stamp.
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
        /// The capture.
        side: Option<Side>,
    },
    /// Packets have the contents of other packets that are in transit at the same time.
    Alike {
        /// Packets whose delay may belong to another packet.
        packets: u64,
        /// Packets matched.
        of: u64,
        /// Octets compared, if that is less than a packet.
        octets: Option<usize>,
    },
    /// The difference of time stamps changes at one packet: one of two clocks was set.
    ClockStep {
        /// Packets since the step.
        packets: u64,
        /// Departure less arrival since the step, in nanoseconds.
        by_ns: i64,
        /// The longest delay that covers the step, in nanoseconds, if the configured one does not.
        longest_ns: Option<i64>,
    },
    /// Arrivals and departures are exchanged.
    Swapped {
        /// Packets that go from departures to arrivals.
        packets: usize,
    },
    /// The hop translates addresses.
    Translated {
        /// Common packets without their addresses.
        packets: usize,
        /// Common packets with their addresses.
        untranslated: usize,
    },
    /// Departures are replies to arrivals.
    Replies {
        /// Replies.
        packets: usize,
    },
    /// Departures are forwarded arrivals, although replies are expected.
    NoReplies {
        /// Packets forwarded.
        packets: usize,
    },
    /// The time stamps of common packets differ by more than the longest delay, or are in reverse order.
    ClocksApart {
        /// The median of departure less arrival, in nanoseconds; or the most negative delay.
        by_ns: i64,
    },
    /// The captures were taken at different times.
    NoOverlap {
        /// From the end of the first to the start of the second, in nanoseconds; negative: the length of the
        /// overlap.
        gap_ns: i64,
    },
    /// The captures have no packet in common.
    DifferentTraffic {
        /// Packets of arrivals.
        arrivals: u64,
        /// Packets of departures.
        departures: u64,
        /// Octets compared, if they are too few to determine the changes by the hop.
        octets: Option<usize>,
    },
    /// Each capture holds both directions.
    BothDirections {
        /// Packets sampled that go from arrivals to departures.
        forward: usize,
        /// Packets sampled that go in the other direction.
        backward: usize,
    },
    /// A clock was set back.
    ClockSetBack {
        /// The capture; `None`: the one clock of both.
        side: Option<Side>,
        /// The number of steps.
        steps: usize,
        /// The largest step, in nanoseconds.
        size_ns: i64,
        /// True if the other capture, declared to be of the same clock, does not show it.
        alone: bool,
    },
    /// Packets are out of order by more than usual.
    Disorder {
        /// The capture.
        side: Option<Side>,
        /// The maximum, in nanoseconds.
        extent_ns: i64,
    },
    /// Too few packets for a measurement.
    TooFew {
        /// Packets matched.
        matched: u64,
        /// Packets that a measurement requires.
        required: u64,
    },
    /// Most packets of each side are missing on the other.
    FewMatched {
        /// Packets matched.
        matched: u64,
        /// Packets of the smaller side.
        of: u64,
    },
}

/// The effect of a cause on a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CauseEffect {
    /// Packets match nevertheless.
    Remedied,
    /// Packets do not match.
    Prevents,
    /// Packets match, but their delays are meaningless.
    Voids,
}

impl Cause {
    /// The name, which is stable.
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

    /// The effect on the measurement.
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
    /// Formats the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

//! Comparison of two clocks by probes and their replies.
//!
//! No delay is negative: each probe brackets the offset of the remote clock, between the negative of its return
//! delay and its forward delay. A step of a clock is proven if no offset without a step is within all brackets. A
//! path or a host that becomes slower changes delays, too, and proves nothing.

use super::envelope::{Clocks, Envelope, Segment};
use super::hull::{Hull, Point};
use super::offset::Offset;

/// Minimum mean number of delays per bin, so that its fastest packet characterizes the path.
const DELAYS_OF_A_PIECE: u64 = 16;
/// The error of a time stamp that was converted from one clock of a host to another, in nanoseconds.
const READING_NS: f64 = 1_000.0;

/// Collects delays in both directions, by the two clocks, in bounded memory.
#[derive(Debug, Clone, Default)]
pub struct TwoWay {
    there: Envelope,
    back: Envelope,
}

/// The clock difference in a period without a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Its start, in nanoseconds of the local clock.
    pub from_ns: i64,
    /// Its end, exclusive.
    pub to_ns: i64,
    /// The rate of the remote clock less that of the local one: 1e-6 is 1 ppm.
    pub skew: f64,
    /// The offset in its middle.
    pub offset: Offset,
}

/// The offset of the remote clock over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Offsets {
    there: Clocks,
    back: Clocks,
}

impl TwoWay {
    /// Creates a comparison without delays.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a probe: the times of its transmission and of its reply's arrival by the local clock, and its delays in
    /// both directions by the two clocks. Probes are in order of transmission.
    pub fn push(&mut self, sent_ns: i64, there_ns: i64, received_ns: i64, back_ns: i64) {
        self.there.push(Point { time_ns: sent_ns, delay_ns: there_ns });
        self.back.push(Point { time_ns: received_ns, delay_ns: back_ns });
    }

    /// Estimates the offsets.
    pub fn offsets(&self) -> Offsets {
        let [there, back] =
            [&self.there, &self.back].map(|envelope| envelope.coarser(DELAYS_OF_A_PIECE));
        let is_proven = |from_ns, to_ns| {
            !leave_room(&there.hull_between(from_ns, to_ns), &back.hull_between(from_ns, to_ns))
        };
        Offsets { there: there.clocks_with(is_proven), back: back.clocks_with(is_proven) }
    }
}

impl Offsets {
    /// The offset at a time of the local clock, with its error bound: the asymmetry of the path plus the error of
    /// the envelopes. `None` around a step.
    pub fn at(&self, time_ns: i64) -> Option<Offset> {
        let (there, back) =
            (self.there.nearest_segment(time_ns)?, self.back.nearest_segment(time_ns)?);
        between(there, back, time_ns)
    }

    /// The number of clock steps.
    pub fn steps(&self) -> usize {
        self.there.segments().len().max(self.back.segments().len()).saturating_sub(1)
    }

    /// The periods between steps, in order.
    pub fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for there in self.there.segments() {
            for back in self.back.segments() {
                let (from_ns, to_ns) =
                    (there.from_ns.max(back.from_ns), there.to_ns.min(back.to_ns));
                if from_ns >= to_ns {
                    continue;
                }
                let middle_ns = from_ns + (to_ns - from_ns) / 2;
                let skew = (there.line.skew - back.line.skew) / 2.0;
                let known = between(there, back, middle_ns);
                spans.extend(known.map(|offset| Span { from_ns, to_ns, skew, offset }));
            }
        }
        spans
    }
}

/// Returns true if an offset without a step is within the brackets of all delays: if a line exists between the two
/// hulls, one of them inverted.
fn leave_room(there: &Hull, back: &Hull) -> bool {
    let times = there.corners().iter().chain(back.corners()).map(|corner| corner.time_ns);
    let round_trip = |time_ns| Some(there.at(time_ns)? + back.at(time_ns)?);
    times.filter_map(round_trip).all(|round_trip_ns| round_trip_ns >= -READING_NS)
}

/// The offset by the lower envelopes of both directions. Away from its middle, an envelope may be below the fastest
/// packets by more than the round trip: up to its residual, that is no contradiction.
fn between(there: &Segment, back: &Segment, time_ns: i64) -> Option<Offset> {
    let (out_ns, home_ns) = (there.line.at(time_ns), back.line.at(time_ns));
    let half_ns = (out_ns + home_ns) / 2.0;
    let residual_ns = (there.residual_ns + back.residual_ns) / 2.0;
    let bound_ns = half_ns.abs() + residual_ns;
    (half_ns >= -residual_ns - READING_NS)
        .then_some(Offset { offset_ns: (out_ns - home_ns) / 2.0, bound_ns })
}

//! Two clocks compared by probes that go there and come back.
//!
//! No delay is negative: each probe brackets the offset of the remote clock, from its delay back, taken
//! negative, to its delay there. A step of a clock is one that these brackets prove: no clock without
//! a step is within all of them. A path or a host that becomes slower moves delays too, and proves
//! nothing.

use super::envelope::{Clocks, Envelope, Segment};
use super::hull::{Hull, Point};
use super::offset::Offset;

/// Delays that a piece of time has at least in the mean, so that its fastest says something of the path.
const DELAYS_OF_A_PIECE: u64 = 16;
/// The error of a time stamp that was converted from one clock of a host to another, in nanoseconds.
const READING_NS: f64 = 1_000.0;

/// Collects delays in both directions, as two clocks have them; takes the same memory for any number.
#[derive(Debug, Clone, Default)]
pub struct TwoWay {
    there: Envelope,
    back: Envelope,
}

/// What the clocks differ by while neither steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// From here, in nanoseconds of the local clock.
    pub from_ns: i64,
    /// Up to here, not included.
    pub to_ns: i64,
    /// How much faster the remote clock runs: 1e-6 is 1 ppm.
    pub skew: f64,
    /// What they differ by in the middle.
    pub offset: Offset,
}

/// The offset of the remote clock, whenever it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Offsets {
    there: Clocks,
    back: Clocks,
}

impl TwoWay {
    /// Without a delay yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a probe: when it was sent and when its answer was back, by the local clock, and what it took
    /// there and back as the two clocks have it. Probes come in order of sending.
    pub fn push(&mut self, sent_ns: i64, there_ns: i64, received_ns: i64, back_ns: i64) {
        self.there.push(Point { time_ns: sent_ns, delay_ns: there_ns });
        self.back.push(Point { time_ns: received_ns, delay_ns: back_ns });
    }

    /// What the clocks did.
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
    /// The offset at a time of the local clock, and what it may be off by: what the path may hide, and
    /// what the edges may be off by. `None` around a step.
    pub fn at(&self, time_ns: i64) -> Option<Offset> {
        let (there, back) =
            (self.there.nearest_segment(time_ns)?, self.back.nearest_segment(time_ns)?);
        between(there, back, time_ns)
    }

    /// Steps of a clock.
    pub fn steps(&self) -> usize {
        self.there.segments().len().max(self.back.segments().len()).saturating_sub(1)
    }

    /// The times between steps, in order.
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

/// Whether a clock without a step is within the brackets of all delays: a line is between the two
/// hulls, one of them upside down, where these do not cross.
fn leave_room(there: &Hull, back: &Hull) -> bool {
    let times = there.corners().iter().chain(back.corners()).map(|corner| corner.time_ns);
    let round_trip = |time_ns| Some(there.at(time_ns)? + back.at(time_ns)?);
    times.filter_map(round_trip).all(|round_trip_ns| round_trip_ns >= -READING_NS)
}

/// The offset by the lower edges of both directions. Away from its middle, an edge may be further below
/// the fastest packets than the round trip is long: by up to its residual that is no contradiction.
fn between(there: &Segment, back: &Segment, time_ns: i64) -> Option<Offset> {
    let (out_ns, home_ns) = (there.line.at(time_ns), back.line.at(time_ns));
    let half_ns = (out_ns + home_ns) / 2.0;
    let residual_ns = (there.residual_ns + back.residual_ns) / 2.0;
    let bound_ns = half_ns.abs() + residual_ns;
    (half_ns >= -residual_ns - READING_NS)
        .then_some(Offset { offset_ns: (out_ns - home_ns) / 2.0, bound_ns })
}

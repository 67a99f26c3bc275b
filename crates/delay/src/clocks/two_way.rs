//! Two clocks compared by probes that go there and come back.

use super::envelope::{Clocks, Envelope, Segment};
use super::hull::Point;
use super::offset::{Offset, offset};

/// Delays that a piece of time has at least in the mean, so that its fastest says something of the path.
const DELAYS_OF_A_PIECE: u64 = 16;

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
        let clocks = |envelope: &Envelope| envelope.coarser(DELAYS_OF_A_PIECE).clocks();
        Offsets { there: clocks(&self.there), back: clocks(&self.back) }
    }
}

impl Offsets {
    /// The offset at a time of the local clock, and what it may be off by: what the path may hide, and
    /// what the edges may be off by. `None` around a step.
    pub fn at(&self, time_ns: i64) -> Option<Offset> {
        between(self.there.segment(time_ns)?, self.back.segment(time_ns)?, time_ns)
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

fn between(there: &Segment, back: &Segment, time_ns: i64) -> Option<Offset> {
    let found = offset(&there.line, &back.line, time_ns)?;
    let bound_ns = found.bound_ns + (there.residual_ns + back.residual_ns) / 2.0;
    Some(Offset { bound_ns, ..found })
}

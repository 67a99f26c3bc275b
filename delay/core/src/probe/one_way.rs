//! One-way delays between hosts with a clock each.

use super::sender::Sample;
use crate::clocks::{Offsets, Span, TwoWay};

/// Maximum number of probes kept until the clocks are known.
const KEPT: usize = 1 << 20;

/// Collects probes, in bounded memory: all contribute to the clock comparison, the first million have delays.
#[derive(Debug, Clone, Default)]
pub struct OneWayDelays {
    kept: Vec<StoredProbe>,
    clocks: TwoWay,
    left_out: u64,
}

#[derive(Debug, Clone, Copy)]
struct StoredProbe {
    sent_ns: i64,
    there_ns: i64,
    received_ns: i64,
    back_ns: i64,
    /// The delay of the probe in the sending application, and its time in the reflector.
    applications_ns: i64,
}

/// Delays in both directions, converted to one clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DirectionalDelays {
    /// From the sender to the reflector.
    pub there_ns: f64,
    /// From the reflector to the sender.
    pub back_ns: f64,
    /// From the intended transmission until the reflector has handled the probe.
    pub application_there_ns: f64,
}

/// A comparison of the two clocks.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockComparison {
    /// Skew and offset between steps.
    pub spans: Vec<Span>,
    /// The error bound of every delay, in nanoseconds; `None` if there is no delay.
    pub bound_ns: Option<f64>,
    /// The number of clock steps.
    pub steps: usize,
    /// Probes around a clock step, whose delays are unknown.
    pub around_steps: u64,
    /// Probes beyond those that were kept.
    pub left_out: u64,
}

impl OneWayDelays {
    /// Creates a collection without probes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a probe; one without a reply is ignored.
    pub fn push(&mut self, sample: &Sample) {
        let Some(answer) = sample.answer else { return };
        let (Some(there_ns), Some(back_ns)) = (sample.there_ns(), sample.back_ns()) else { return };
        let kept = StoredProbe {
            sent_ns: sample.sent_ns,
            there_ns,
            received_ns: answer.received_ns,
            back_ns,
            applications_ns: sample.sent_ns - sample.intended_ns + answer.in_reflector_ns(),
        };
        self.clocks.push(kept.sent_ns, there_ns, kept.received_ns, back_ns);
        if self.kept.len() < KEPT { self.kept.push(kept) } else { self.left_out += 1 }
    }

    /// Passes the delays of all kept probes, converted to one clock, to a closure.
    ///
    /// The share of the fastest round trip of each direction is unknown: the error bound is half of it and more,
    /// and a delay below the bound is not significant.
    pub fn compare(&self, mut each: impl FnMut(DirectionalDelays)) -> ClockComparison {
        let offsets = self.clocks.offsets();
        let (mut bound_ns, mut around_steps) = (None::<f64>, 0);
        for kept in &self.kept {
            let Some((ways, bound)) = ways(kept, &offsets) else {
                around_steps += 1;
                continue;
            };
            bound_ns = Some(bound_ns.map_or(bound, |most| most.max(bound)));
            each(ways);
        }
        let (spans, steps) = (offsets.spans(), offsets.steps());
        ClockComparison { spans, bound_ns, steps, around_steps, left_out: self.left_out }
    }
}

fn ways(kept: &StoredProbe, offsets: &Offsets) -> Option<(DirectionalDelays, f64)> {
    let (out, home) = (offsets.at(kept.sent_ns)?, offsets.at(kept.received_ns)?);
    let there_ns = kept.there_ns as f64 - out.offset_ns;
    let back_ns = kept.back_ns as f64 + home.offset_ns;
    let application_there_ns = there_ns + kept.applications_ns as f64;
    let delays = DirectionalDelays { there_ns, back_ns, application_there_ns };
    Some((delays, out.bound_ns.max(home.bound_ns)))
}

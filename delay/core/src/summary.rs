//! A summary of the delays of a hop, in bounded memory, as matches arrive in order of arrival.

use crate::matching::Verdict;
use crate::stats::{Distribution, Variation};
use crate::tail::LargestDelays;
use crate::timeline::DelayTimeline;

/// Maximum number of delays kept for the tail.
const LARGEST: usize = 10_000;

/// A summary of delays.
#[derive(Debug, Clone)]
pub struct DelaySummary {
    /// Delays of packets that are matched with certainty, or by order: all reported statistics are of these.
    pub delays: Distribution,
    /// Delays that may belong to another packet, correct in the mean.
    pub ambiguous: Distribution,
    /// The variation from packet to packet.
    pub variation: Variation,
    /// The longest delays.
    pub largest: LargestDelays,
    /// Delays over time.
    pub over_time: DelayTimeline,
    /// The number of matched packets with the same time stamp on both sides.
    pub equal_times: u64,
}

impl Default for DelaySummary {
    fn default() -> Self {
        Self::new()
    }
}

impl DelaySummary {
    /// Creates a summary without delays.
    pub fn new() -> Self {
        Self {
            delays: Distribution::new(),
            ambiguous: Distribution::new(),
            variation: Variation::new(),
            largest: LargestDelays::new(LARGEST),
            over_time: DelayTimeline::new(),
            equal_times: 0,
        }
    }

    /// Records the delay in nanoseconds of a packet that arrived at `time_ns`.
    #[inline]
    pub fn record(&mut self, time_ns: i64, delay_ns: i64, verdict: Verdict) {
        if verdict == Verdict::Ambiguous {
            self.ambiguous.record(delay_ns);
            self.variation.lose();
            return;
        }
        self.delays.record(delay_ns);
        self.variation.record(delay_ns);
        self.largest.record(delay_ns);
        self.over_time.record(time_ns, delay_ns);
    }

    /// Records a lost packet.
    pub fn lose(&mut self) {
        self.delays.record_lost();
        self.variation.lose();
    }

    /// Records a packet with an unknown delay.
    #[inline]
    pub fn skip(&mut self) {
        self.variation.lose();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_delays_are_recorded_separately() {
        let mut collected = DelaySummary::new();
        collected.record(0, 100, Verdict::Certain);
        collected.record(10, 140, Verdict::Ordered);
        collected.record(20, 1000, Verdict::Ambiguous);
        collected.record(30, 100, Verdict::Certain);
        collected.lose();
        assert_eq!(collected.delays.lost(), 1);
        collected.record(50, 100, Verdict::Certain);
        collected.record(60, -10, Verdict::Certain);
        assert_eq!((collected.delays.count(), collected.delays.max_ns()), (4, Some(140)));
        assert_eq!(collected.delays.negative(), 1);
        assert_eq!(collected.ambiguous.max_ns(), Some(1000));
        // The variation of the first two, and of the last two.
        assert_eq!(collected.variation.count(), 2);
        assert_eq!((collected.largest.count(), collected.over_time.bins().count()), (5, 1));
    }
}

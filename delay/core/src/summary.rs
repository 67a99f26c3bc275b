//! What the delays of a hop come to, in bounded memory, as matches come out in order of arrival.

use crate::matching::Verdict;
use crate::over_time::OverTime;
use crate::stats::{Distribution, Variation};
use crate::tail::LargestDelays;

/// Delays kept for the tail.
const LARGEST: usize = 10_000;

/// Delays, collected.
#[derive(Debug, Clone)]
pub struct DelaySummary {
    /// Those of packets that are known to be matched right, or by order: all that is said of delays
    /// is said of these.
    pub delays: Distribution,
    /// Those that may be another packet's, right in the mean.
    pub ambiguous: Distribution,
    /// From packet to packet.
    pub variation: Variation,
    /// The longest.
    pub largest: LargestDelays,
    /// When they were.
    pub over_time: OverTime,
    /// Matched packets with the same time stamp on both sides.
    pub equal_times: u64,
}

impl Default for DelaySummary {
    fn default() -> Self {
        Self::new()
    }
}

impl DelaySummary {
    /// Without a delay yet.
    pub fn new() -> Self {
        Self {
            delays: Distribution::new(),
            ambiguous: Distribution::new(),
            variation: Variation::new(),
            largest: LargestDelays::new(LARGEST),
            over_time: OverTime::new(),
            equal_times: 0,
        }
    }

    /// A delay in nanoseconds of a packet that arrived at `time_ns`.
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

    /// A packet without a delay: it was lost, or its delay is not known.
    #[inline]
    pub fn lose(&mut self) {
        self.variation.lose();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_another_packets_is_kept_apart() {
        let mut collected = DelaySummary::new();
        collected.record(0, 100, Verdict::Certain);
        collected.record(10, 140, Verdict::Ordered);
        collected.record(20, 1000, Verdict::Ambiguous);
        collected.record(30, 100, Verdict::Certain);
        collected.lose();
        collected.record(50, 100, Verdict::Certain);
        collected.record(60, -10, Verdict::Certain);
        assert_eq!((collected.delays.count(), collected.delays.max_ns()), (4, Some(140)));
        assert_eq!(collected.delays.negative(), 1);
        assert_eq!(collected.ambiguous.max_ns(), Some(1000));
        // Of the first two, and of the last two.
        assert_eq!(collected.variation.count(), 2);
        assert_eq!((collected.largest.count(), collected.over_time.stretches().count()), (5, 1));
    }
}

//! What the delays of a hop come to, in bounded memory, as matches come out in order of arrival.

use crate::matching::Verdict;
use crate::over_time::OverTime;
use crate::stats::{Distribution, Variation};
use crate::tail::Largest;

/// Delays kept for the tail.
const LARGEST: usize = 10_000;
/// Resolutions of time stamps: from a nanosecond to a second.
const POWERS: usize = 10;

/// Delays, collected.
#[derive(Debug, Clone)]
pub struct Collected {
    /// Those of packets that are known to be matched right, or by order: all that is said of delays
    /// is said of these.
    pub delays: Distribution,
    /// Those that may be another packet's, right in the mean.
    pub ambiguous: Distribution,
    /// From packet to packet.
    pub variation: Variation,
    /// The longest.
    pub largest: Largest,
    /// When they were.
    pub over_time: OverTime,
    /// Departures less arrivals that are shorter than each power of ten of nanoseconds.
    shorter: [u64; POWERS],
}

impl Default for Collected {
    fn default() -> Self {
        Self::new()
    }
}

impl Collected {
    /// Without a delay yet.
    pub fn new() -> Self {
        Self {
            delays: Distribution::new(),
            ambiguous: Distribution::new(),
            variation: Variation::new(),
            largest: Largest::new(LARGEST),
            over_time: OverTime::new(),
            shorter: [0; POWERS],
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

    /// What the time stamps of a matched packet differ by, in nanoseconds.
    #[inline]
    pub fn differ(&mut self, difference_ns: i64) {
        let digits = difference_ns.unsigned_abs().checked_ilog10().map_or(0, |log| log as usize + 1);
        if let Some(shorter) = self.shorter.get_mut(digits) {
            *shorter += 1;
        }
    }

    /// Matched packets whose time stamps differ by less than their resolution: a power of ten of
    /// nanoseconds.
    pub fn unresolved(&self, resolution_ns: i64) -> u64 {
        let power = resolution_ns.unsigned_abs().checked_ilog10().unwrap_or(0) as usize;
        self.shorter.iter().take(power + 1).sum()
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
    fn differences_below_the_resolution_are_counted() {
        let mut collected = Collected::new();
        for difference_ns in [0, 1, -9, 10, 999, 1000, i64::MIN, i64::MAX] {
            collected.differ(difference_ns);
        }
        let counts = [1, 10, 1000, 10_000].map(|resolution_ns| collected.unresolved(resolution_ns));
        assert_eq!(counts, [1, 3, 5, 6]);
    }

    #[test]
    fn what_may_be_another_packets_is_kept_apart() {
        let mut collected = Collected::new();
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

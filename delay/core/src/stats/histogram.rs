//! Counts of delays by bucket.

use super::buckets::Buckets;
use super::distribution::MAX_DELAY_NS;

/// The buckets: with an error of 0.1 %.
const BUCKETS: Buckets = Buckets { bits: 10 };

/// A distribution of delays in nanoseconds without intervals, in any order.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max: u64,
    sum: u128,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS.of(MAX_DELAY_NS) + 1], count: 0, max: 0, sum: 0 }
    }
}

impl Histogram {
    /// Records a delay.
    #[inline]
    pub fn record(&mut self, delay_ns: u64) {
        self.counts[BUCKETS.of(delay_ns.min(MAX_DELAY_NS))] += 1;
        self.count += 1;
        self.max = self.max.max(delay_ns);
        self.sum += u128::from(delay_ns);
    }

    /// The number of delays.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The sum of all.
    pub fn sum_ns(&self) -> u128 {
        self.sum
    }

    /// Returns the smallest delay that at least a share `quantile` of the delays does not exceed.
    pub fn value_at(&self, quantile: f64) -> Option<u64> {
        let rank = (quantile * self.count as f64).ceil().max(1.0) as u64;
        let mut sum = 0;
        let bucket = self.counts.iter().position(|count| {
            sum += count;
            sum >= rank
        })?;
        Some((BUCKETS.shortest(bucket + 1) - 1).min(self.max))
    }
}

//! Delays, recorded at a fixed cost in time and memory.

use hdrhistogram::Histogram;

use super::interval::{RankInterval, quantile_ranks};

/// Upper end of the range, in nanoseconds: 60 s. A delay above it is counted there.
pub const MAX_DELAY_NS: u64 = 60_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
/// By how much a percentile may be off because delays are put together in buckets.
pub const RELATIVE_ERROR: f64 = 1e-3;

/// A percentile, and between which values it lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentile {
    /// The quantile, `0.0..1.0`.
    pub quantile: f64,
    /// The percentile of the delays seen, in nanoseconds.
    pub value_ns: u64,
    /// Lower end of the interval; `None` where there are too few delays for one.
    pub lower_ns: Option<u64>,
    /// Upper end of the interval; `None` where there are too few delays for one.
    pub upper_ns: Option<u64>,
}

/// Delays in nanoseconds. Takes about 200 KiB, however many it holds; parts that were recorded
/// apart, by thread or by file, merge without loss.
///
/// A negative delay is counted and goes into nothing else.
#[derive(Debug, Clone)]
pub struct Distribution {
    histogram: Histogram<u64>,
    // The histogram rounds; these do not.
    min: u64,
    max: u64,
    sum: u128,
    squares: u128,
    negative: u64,
    most_negative: i64,
    clamped: u64,
    /// All delays are multiples of it: the resolution of their clock, or more.
    step: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self::new()
    }
}

impl Distribution {
    /// Without a delay yet.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_DELAY_NS, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that a histogram takes");
        Self {
            histogram,
            min: u64::MAX,
            max: 0,
            sum: 0,
            squares: 0,
            negative: 0,
            most_negative: 0,
            clamped: 0,
            step: 0,
        }
    }

    /// Records a delay in nanoseconds.
    #[inline]
    pub fn record(&mut self, delay_ns: i64) {
        let Ok(delay) = u64::try_from(delay_ns) else {
            self.negative += 1;
            self.most_negative = self.most_negative.min(delay_ns);
            return;
        };
        self.histogram.saturating_record(delay.min(MAX_DELAY_NS));
        self.clamped += u64::from(delay > MAX_DELAY_NS);
        self.min = self.min.min(delay);
        self.max = self.max.max(delay);
        self.sum += u128::from(delay);
        self.refine(delay);
        // 2^63 squared, 2 times, is all that fits; 60 s squared fits 2^56 times.
        let delay = u128::from(delay.min(MAX_DELAY_NS));
        self.squares += delay * delay;
    }

    /// Adds what another distribution holds.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all distributions have the same bounds");
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.squares += other.squares;
        self.negative += other.negative;
        self.most_negative = self.most_negative.min(other.most_negative);
        self.clamped += other.clamped;
        self.refine(other.step);
    }

    #[inline]
    fn refine(&mut self, delay: u64) {
        if self.step != 1 && (self.step == 0 || delay % self.step != 0) {
            let mut rest = delay;
            while rest != 0 {
                (self.step, rest) = (rest, self.step % rest);
            }
        }
    }

    /// Delays recorded, negative ones not among them.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Delays that were negative: a fault of the clocks or of the capture.
    pub fn negative(&self) -> u64 {
        self.negative
    }

    /// The most negative delay in nanoseconds, 0 where none was.
    pub fn most_negative_ns(&self) -> i64 {
        self.most_negative
    }

    /// Delays beyond [`MAX_DELAY_NS`]: percentiles count them as that; minimum, maximum and mean
    /// as they are.
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// The smallest, in nanoseconds.
    pub fn min_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.min)
    }

    /// The largest, in nanoseconds.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max)
    }

    /// The mean, in nanoseconds.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }

    /// The standard deviation of the sample, in nanoseconds; `None` of fewer than two delays, where
    /// one was beyond [`MAX_DELAY_NS`], and where their sum is beyond 2^64.
    pub fn standard_deviation_ns(&self) -> Option<f64> {
        let n = u128::from(self.count());
        if n < 2 || self.clamped > 0 {
            return None;
        }
        // In integers: the difference of two large numbers is exact.
        let scaled = n.checked_mul(self.squares)?.checked_sub(self.sum.checked_mul(self.sum)?)?;
        Some((scaled as f64 / (n * (n - 1)) as f64).sqrt())
    }

    /// The smallest delay that at least a share `quantile` of the delays does not exceed, with the
    /// interval that holds the percentile of all delays there could be with probability
    /// `confidence`, the rounding of buckets included.
    pub fn percentile(&self, quantile: f64, confidence: f64) -> Option<Percentile> {
        let n = self.count();
        if n == 0 {
            return None;
        }
        let RankInterval { lower, upper } = quantile_ranks(n, quantile, confidence);
        let rank = ((quantile * n as f64).ceil() as u64).clamp(1, n);
        Some(Percentile {
            quantile,
            value_ns: self.at_rank(rank).1,
            lower_ns: lower.map(|rank| self.at_rank(rank).0),
            upper_ns: upper.map(|rank| self.at_rank(rank).1),
        })
    }

    /// The lowest and highest value that the delay of this rank, from 1 on, may have.
    fn at_rank(&self, rank: u64) -> (u64, u64) {
        let n = self.count();
        // The middle of the rank's step, so that rounding in the quotient cannot leave it.
        let value = self.histogram.value_at_quantile((rank as f64 - 0.5) / n as f64);
        let within = |value: u64| value.clamp(self.min, self.max);
        // The bucket holds a multiple of the step, and no delay that is none.
        let step = self.step.max(1);
        let lowest = self.histogram.lowest_equivalent(value).next_multiple_of(step);
        let highest = within(value - value % step);
        (within(lowest).min(highest), highest)
    }

    /// The share of delays above `delay_ns` nanoseconds, and its interval; to a bucket's width.
    pub fn exceeding(&self, delay_ns: u64, confidence: f64) -> (f64, (f64, f64)) {
        let n = self.count();
        if n == 0 {
            return (0.0, (0.0, 1.0));
        }
        let above = n - self.histogram.count_between(0, delay_ns.min(MAX_DELAY_NS));
        (above as f64 / n as f64, super::interval::share(above, n, confidence))
    }

    /// Delay variation as RFC 5481 has it: how far a percentile is above the smallest delay.
    pub fn pdv_ns(&self, quantile: f64) -> Option<u64> {
        let percentile = self.percentile(quantile, 0.95)?;
        Some(percentile.value_ns - self.min)
    }
}

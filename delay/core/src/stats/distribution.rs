//! Delay distributions at a fixed cost in time and memory.

use hdrhistogram::Histogram;

use super::interval::{RankInterval, quantile_ranks};

/// Upper end of the range, in nanoseconds: 60 s. Longer delays are counted there.
pub const MAX_DELAY_NS: u64 = 60_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
/// The error of a percentile due to the width of buckets.
pub const RELATIVE_ERROR: f64 = 1e-3;

/// A percentile with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentile {
    /// The quantile, `0.0..1.0`.
    pub quantile: f64,
    /// The percentile of the recorded delays, in nanoseconds.
    pub value_ns: u64,
    /// Lower end of the interval; `None` with too few delays.
    pub lower_ns: Option<u64>,
    /// Upper end of the interval; `None` with too few delays.
    pub upper_ns: Option<u64>,
}

/// A distribution of delays in nanoseconds. Uses about 200 KiB, whatever the number of delays; separate recordings,
/// by thread or by file, merge without loss.
///
/// A negative delay is only counted.
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
    /// Creates a distribution without delays.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_DELAY_NS, SIGNIFICANT_DIGITS)
            .expect("the bounds are valid constants of a histogram");
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
        // 2^63 squared, 2 times, is the maximum; 60 s squared fits 2^56 times.
        let delay = u128::from(delay.min(MAX_DELAY_NS));
        self.squares += delay * delay;
    }

    /// Adds the delays of another distribution.
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

    /// The number of recorded delays, without negative ones.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The number of negative delays: a fault of the clocks or of the capture.
    pub fn negative(&self) -> u64 {
        self.negative
    }

    /// The most negative delay in nanoseconds, 0 if there is none.
    pub fn most_negative_ns(&self) -> i64 {
        self.most_negative
    }

    /// The number of delays beyond [`MAX_DELAY_NS`]: percentiles count them as that; minimum, maximum and mean use
    /// their exact values.
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

    /// The standard deviation of the sample, in nanoseconds; `None` for fewer than two delays, if one exceeds
    /// [`MAX_DELAY_NS`], or if their sum exceeds 2^64.
    pub fn standard_deviation_ns(&self) -> Option<f64> {
        let n = u128::from(self.count());
        if n < 2 || self.clamped > 0 {
            return None;
        }
        // In integers: the difference of two large numbers is exact.
        let scaled = n.checked_mul(self.squares)?.checked_sub(self.sum.checked_mul(self.sum)?)?;
        Some((scaled as f64 / (n * (n - 1)) as f64).sqrt())
    }

    /// Returns the smallest delay that at least a share `quantile` of the delays does not exceed, with the interval
    /// that contains the percentile of the population with probability `confidence`, including the rounding of
    /// buckets.
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

    /// The minimum and maximum of the delay of this rank, starting at 1.
    fn at_rank(&self, rank: u64) -> (u64, u64) {
        let n = self.count();
        // The middle of the rank's step, so that rounding of the quotient stays within it.
        let value = self.histogram.value_at_quantile((rank as f64 - 0.5) / n as f64);
        let within = |value: u64| value.clamp(self.min, self.max);
        // The bucket holds a multiple of the step, and no other delay.
        let step = self.step.max(1);
        let lowest = self.histogram.lowest_equivalent(value).next_multiple_of(step);
        let highest = within(value - value % step);
        (within(lowest).min(highest), highest)
    }

    /// The share of delays above `delay_ns` nanoseconds, with its interval; precise to the width of a bucket.
    pub fn exceeding(&self, delay_ns: u64, confidence: f64) -> (f64, (f64, f64)) {
        let n = self.count();
        if n == 0 {
            return (0.0, (0.0, 1.0));
        }
        let above = n - self.histogram.count_between(0, delay_ns.min(MAX_DELAY_NS));
        (above as f64 / n as f64, super::interval::share(above, n, confidence))
    }

    /// Packet delay variation by RFC 5481: the difference of a percentile from the smallest delay.
    pub fn pdv_ns(&self, quantile: f64) -> Option<u64> {
        let percentile = self.percentile(quantile, 0.95)?;
        Some(percentile.value_ns - self.min)
    }
}

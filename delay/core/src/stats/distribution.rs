//! Delay distributions at a fixed cost in time and memory.

use std::collections::BTreeMap;

use super::batches::{Batch, Batches, variance_of_sum};
use super::buckets::Buckets;
use super::interval::EffectiveCount;

/// Upper end of the range, in nanoseconds: 60 s. Longer delays are counted there.
pub const MAX_DELAY_NS: u64 = 60_000_000_000;
/// The error of a percentile due to the width of buckets.
pub const RELATIVE_ERROR: f64 = 1.0 / (1 << FINE.bits) as f64;
/// The buckets of percentiles.
const FINE: Buckets = Buckets { bits: 13 };
/// The buckets of batches, which show the dependence of delays.
const COARSE: Buckets = Buckets { bits: 10 };
/// The share of all delays in one coarse bucket above which their dependence is unknown.
const CROWDED: f64 = 0.02;

/// A percentile with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentile {
    /// The quantile, `0.0..1.0`.
    pub quantile: f64,
    /// The percentile of the recorded delays, in nanoseconds.
    pub value_ns: u64,
    /// The number of independent delays with the same information; `None` with too few delays to estimate it.
    pub effective: Option<f64>,
    /// Lower end of the interval; `None` with too few independent delays.
    pub lower_ns: Option<u64>,
    /// Upper end of the interval, with lost packets as infinitely late; `None` with too few independent delays, or
    /// if lost packets can exceed all recorded ones.
    pub upper_ns: Option<u64>,
}

/// A mean with its confidence interval, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// The mean of the recorded delays.
    pub value_ns: f64,
    /// The number of independent delays with the same information.
    pub effective: f64,
    /// Lower end of the interval.
    pub lower_ns: f64,
    /// Upper end of the interval.
    pub upper_ns: f64,
}

/// The limits of the error of each delay due to the resolution of time stamps, in nanoseconds: no average reduces
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StampError {
    /// The maximum by which a delay is measured too long.
    pub too_long_ns: u64,
    /// The maximum by which it is measured too short.
    pub too_short_ns: u64,
}

impl StampError {
    /// The error of stamps of this resolution, whether the clocks truncate or round.
    pub fn of_resolutions(arrival_ns: u64, departure_ns: u64) -> Self {
        let error = |step: u64, half: u64| step.saturating_sub(1) + half / 2;
        StampError {
            too_long_ns: error(arrival_ns, departure_ns),
            too_short_ns: error(departure_ns, arrival_ns),
        }
    }

    /// The error with that of clocks that differ by up to this time in either direction.
    #[must_use]
    pub fn with_clock_error(self, clock_error_ns: u64) -> Self {
        StampError {
            too_long_ns: self.too_long_ns.saturating_add(clock_error_ns),
            too_short_ns: self.too_short_ns.saturating_add(clock_error_ns),
        }
    }

    /// Widens the interval of a percentile.
    pub fn widen(&self, percentile: Percentile) -> Percentile {
        Percentile {
            lower_ns: percentile.lower_ns.map(|lower| lower.saturating_sub(self.too_long_ns)),
            upper_ns: percentile.upper_ns.map(|upper| upper.saturating_add(self.too_short_ns)),
            ..percentile
        }
    }

    /// Widens the interval of a mean.
    pub fn widen_mean(&self, mean: Mean) -> Mean {
        Mean {
            lower_ns: (mean.lower_ns - self.too_long_ns as f64).max(0.0),
            upper_ns: mean.upper_ns + self.too_short_ns as f64,
            ..mean
        }
    }
}

/// A distribution of delays in nanoseconds, recorded in the order of their packets. Uses some megabytes at most,
/// whatever the number of delays.
///
/// A negative delay is only counted.
#[derive(Debug, Clone)]
pub struct Distribution {
    batches: Batches,
    /// Small numbers, as a cache holds more of them; a bucket that is full is emptied into `full`.
    counts: Vec<u32>,
    full: BTreeMap<usize, u64>,
    count: u64,
    lost: u64,
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
        Self {
            batches: Batches::new(COARSE.of(MAX_DELAY_NS) + 1),
            counts: vec![0; FINE.of(MAX_DELAY_NS) + 1],
            full: BTreeMap::new(),
            count: 0,
            lost: 0,
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
        self.count += 1;
        let within = delay.min(MAX_DELAY_NS);
        let bucket = FINE.of(within);
        if self.counts[bucket] == u32::MAX {
            self.empty(bucket);
        }
        self.counts[bucket] += 1;
        self.batches.record(COARSE.of(within), delay);
        self.clamped += u64::from(delay > MAX_DELAY_NS);
        self.min = self.min.min(delay);
        self.max = self.max.max(delay);
        self.sum += u128::from(delay);
        self.refine(delay);
        // 2^63 squared, 2 times, is the maximum; 60 s squared fits 2^56 times.
        let delay = u128::from(delay.min(MAX_DELAY_NS));
        self.squares += delay * delay;
    }

    #[cold]
    fn empty(&mut self, bucket: usize) {
        *self.full.entry(bucket).or_default() +=
            u64::from(std::mem::take(&mut self.counts[bucket]));
    }

    /// The number of delays in each bucket of percentiles.
    fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        let full = |bucket| self.full.get(&bucket).copied().unwrap_or(0);
        self.counts.iter().enumerate().map(move |(bucket, count)| full(bucket) + u64::from(*count))
    }

    /// Records a lost packet: its delay exceeds all others.
    pub fn record_lost(&mut self) {
        self.lost += 1;
        self.batches.record_lost();
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
        self.count
    }

    /// The number of lost packets.
    pub fn lost(&self) -> u64 {
        self.lost
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

    /// Returns the mean with the interval that contains the mean of the population with probability `confidence`;
    /// `None` with too few independent delays.
    ///
    /// The interval is longer above, as sums of positive values are skewed: its upper end is that of the logarithm
    /// of the distance from the smallest delay.
    pub fn mean(&self, confidence: f64) -> Option<Mean> {
        let value_ns = self.mean_ns()?;
        let deviation_ns = self.standard_deviation_ns()?;
        if deviation_ns == 0.0 {
            let (lower_ns, upper_ns) = (value_ns, value_ns);
            return Some(Mean { value_ns, effective: self.count as f64, lower_ns, upper_ns });
        }
        let (variance, freedom) = variance_of_sum(&self.batches.all(), |batch| {
            batch.sum as f64 - value_ns * batch.count as f64
        })?;
        let n = self.count as f64;
        let count = (n * deviation_ns).powi(2) / variance.max(f64::MIN_POSITIVE);
        let effective = EffectiveCount { count, freedom };
        let reach_ns = effective.reach_of_mean(confidence)? * variance.sqrt() / n;
        let above_ns = value_ns - self.min as f64;
        Some(Mean {
            value_ns,
            effective: count,
            lower_ns: (value_ns - reach_ns).max(self.min as f64),
            upper_ns: value_ns + above_ns * (reach_ns / above_ns).exp_m1(),
        })
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

    /// Returns the percentile, without an interval: see [`Percentiles::get`].
    pub fn value_at(&self, quantile: f64) -> Option<u64> {
        Some(self.percentiles()?.value_at(quantile))
    }

    /// Returns one percentile with its interval: see [`Percentiles::get`].
    pub fn percentile(&self, quantile: f64, confidence: f64) -> Option<Percentile> {
        Some(self.percentiles()?.get(quantile, confidence))
    }

    /// The delays rounded to buckets, in order, with their numbers; the smallest and the largest are exact.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut seen = 0;
        self.counts().enumerate().filter(|(_, count)| *count > 0).map(move |(bucket, count)| {
            let value = if seen == 0 { self.min } else { FINE.shortest(bucket + 1) - 1 };
            seen += count;
            (if seen == self.count { self.max } else { value }, count)
        })
    }

    /// Returns the percentiles; `None` without delays.
    pub fn percentiles(&self) -> Option<Percentiles<'_>> {
        if self.count == 0 {
            return None;
        }
        let mut sum = 0;
        let up_to = self.counts().take(FINE.of(self.max.min(MAX_DELAY_NS)) + 1);
        let up_to = up_to
            .map(|count| {
                sum += count;
                sum
            })
            .collect();
        let batches = self.batches.all();
        Some(Percentiles { of: self, batches, up_to })
    }
}

/// The percentiles of a distribution.
#[derive(Debug)]
pub struct Percentiles<'a> {
    of: &'a Distribution,
    batches: Vec<Batch>,
    /// The number of delays in each fine bucket and the ones before it.
    up_to: Vec<u64>,
}

impl Percentiles<'_> {
    /// Returns the smallest delay that at least a share `quantile` of the delays does not exceed, in nanoseconds.
    pub fn value_at(&self, quantile: f64) -> u64 {
        self.at_rank((quantile * self.of.count as f64).ceil() as u64).1
    }

    /// Returns the percentile with the interval that contains the percentile of the population with probability
    /// `confidence`, including the rounding of buckets. Delays may depend on each other.
    pub fn get(&self, quantile: f64, confidence: f64) -> Percentile {
        let shares = |packets: u64| {
            let effective = self.effective(quantile, packets)?;
            Some((effective, effective.shares(quantile, confidence)))
        };
        let n = self.of.count;
        let arrived = shares(n);
        let sent = n + self.of.lost;
        let all = if self.of.lost == 0 { arrived } else { shares(sent) };
        let lower = arrived.and_then(|(_, shares)| shares).map(|(low, _)| (low * n as f64) as u64);
        let upper = all.and_then(|(_, shares)| shares);
        let upper = upper.map(|(_, high)| (high * sent as f64) as u64 + 1);
        Percentile {
            quantile,
            value_ns: self.value_at(quantile),
            effective: arrived.map(|(effective, _)| effective.count),
            lower_ns: lower.filter(|rank| *rank >= 1).map(|rank| self.lower(rank, quantile)),
            upper_ns: upper.filter(|rank| *rank <= n).map(|rank| self.upper(rank, quantile)),
        }
    }

    /// Returns the effective number of the first `packets` ones in order of delay, lost ones last, of which a share
    /// `quantile` is below the quantile.
    fn effective(&self, quantile: f64, packets: u64) -> Option<EffectiveCount> {
        let rank = quantile * packets as f64;
        if rank >= self.of.count as f64 {
            return None;
        }
        let (at, before, within) = self.coarse(rank.ceil() as u64);
        // Delays of the same bucket are on both sides of the quantile in the same proportion.
        let share = (rank - before as f64) / within as f64;
        let with_lost = packets > self.of.count;
        let (variance, freedom) = variance_of_sum(&self.batches, |batch| {
            let below = batch.delays.iter().take_while(|(bucket, _)| *bucket <= at);
            let below = below.fold(0.0, |sum, (bucket, count)| {
                sum + count as f64 * if bucket == at { share } else { 1.0 }
            });
            let packets = batch.count + if with_lost { batch.lost } else { 0 };
            below - quantile * packets as f64
        })?;
        let packets = packets as f64;
        // Equal delays have no variance: each has the information of all.
        let count = quantile * (1.0 - quantile) * packets * packets / variance.max(1e-6);
        Some(EffectiveCount { count, freedom })
    }

    /// The coarse bucket of the delay of this rank, and the numbers of delays before it and in it.
    fn coarse(&self, rank: u64) -> (usize, u64, u64) {
        let bucket = COARSE.of(FINE.shortest(self.bucket_of(rank)));
        let before = |bucket: usize| match FINE.of(COARSE.shortest(bucket)) {
            0 => 0,
            fine => self.up_to[(fine - 1).min(self.up_to.len() - 1)],
        };
        (bucket, before(bucket), before(bucket + 1) - before(bucket))
    }

    /// The coarse bucket of a quantile, if the number of delays in it hides their dependence.
    fn crowded(&self, quantile: f64) -> Option<usize> {
        let n = self.of.count as f64;
        let (bucket, _, within) = self.coarse((quantile * n).ceil() as u64);
        (within as f64 > CROWDED * n).then_some(bucket)
    }

    fn lower(&self, rank: u64, quantile: f64) -> u64 {
        let lowest = self.at_rank(rank).0;
        let start = |bucket| self.on_step(COARSE.shortest(bucket), u64::MAX).0;
        self.crowded(quantile).map_or(lowest, |bucket| start(bucket).min(lowest))
    }

    fn upper(&self, rank: u64, quantile: f64) -> u64 {
        let highest = self.at_rank(rank).1;
        let end = |bucket| self.on_step(0, COARSE.shortest(bucket + 1) - 1).1;
        self.crowded(quantile).map_or(highest, |bucket| end(bucket).max(highest))
    }

    /// The fine bucket of the delay of this rank, starting at 1.
    fn bucket_of(&self, rank: u64) -> usize {
        self.up_to.partition_point(|count| *count < rank.clamp(1, self.of.count))
    }

    /// The minimum and maximum of the delay of this rank, starting at 1.
    fn at_rank(&self, rank: u64) -> (u64, u64) {
        let bucket = self.bucket_of(rank);
        let (lowest, highest) = self.on_step(FINE.shortest(bucket), FINE.shortest(bucket + 1) - 1);
        (lowest.min(highest), highest)
    }

    /// Rounds a range inwards to possible delays: multiples of the step, from the shortest to the longest one.
    fn on_step(&self, lowest: u64, highest: u64) -> (u64, u64) {
        let Distribution { min, max, step, .. } = *self.of;
        let step = step.max(1);
        let within = |value: u64| value.clamp(min, max);
        (within(lowest.next_multiple_of(step)), within(highest - highest % step))
    }
}

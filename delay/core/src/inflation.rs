//! Inflation of delays by their observer: its work delays the packets that it observes, and those behind them.
//!
//! While a second copy of the observer runs, delays are longer by the work of that copy. A queue grows faster than the
//! work of its packets: one copy adds at most as much as the second one. At a moderate load it adds at least half.

use crate::correction::CorrectedDelay;
use crate::stats::distributions::student_quantile;
use crate::stats::{Histogram, Mean, Percentile};

/// The growth of delays by the second copy above which the path is close to overload: then one copy may add any part.
const MODERATE: f64 = 0.5;
/// The quantiles for which the added delay is estimated.
pub const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// Minimum number of delays of a period on the smaller side of a quantile.
const FEWEST: f64 = 5.0;
/// Minimum number of periods.
const FEWEST_PERIODS: usize = 4;

/// Delays with one copy of the observer and with two, in pairs of periods close to each other: slow changes of the
/// traffic are in both periods of a pair.
#[derive(Debug, Clone, Default)]
pub struct Inflation {
    single: Histogram,
    doubled: Histogram,
    /// By statistic: the mean, and the quantiles.
    pairs: [Vec<PeriodPair>; 1 + QUANTILES.len()],
    count: u64,
}

/// A statistic of the delays of two periods, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct PeriodPair {
    single_ns: f64,
    doubled_ns: f64,
}

/// The time that the observer adds, with its interval, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AddedDelay {
    /// The estimate.
    pub value_ns: f64,
    /// Lower end of the interval; negative if the observer may add nothing.
    pub lower_ns: f64,
    /// Upper end of the interval.
    pub upper_ns: f64,
}

impl Inflation {
    /// Records a delay with one copy.
    pub fn record_single(&mut self, delay_ns: u64) {
        self.single.record(delay_ns);
    }

    /// Records a delay with two copies.
    pub fn record_doubled(&mut self, delay_ns: u64) {
        self.doubled.record(delay_ns);
        self.count += 1;
    }

    /// Ends a pair of periods.
    pub fn end_pair(&mut self) {
        let (single, doubled) = (&self.single, &self.doubled);
        let mut add = |statistic: usize, pair: Option<(f64, f64)>| {
            let pair = pair.map(|(single_ns, doubled_ns)| PeriodPair { single_ns, doubled_ns });
            self.pairs[statistic].extend(pair);
        };
        let mean = |delays: &Histogram| {
            let count = delays.count() as f64;
            (count >= FEWEST).then(|| delays.sum_ns() as f64 / count)
        };
        add(0, mean(single).zip(mean(doubled)));
        for (number, quantile) in QUANTILES.into_iter().enumerate() {
            let value = |delays: &Histogram| {
                let side = delays.count() as f64 * quantile.min(1.0 - quantile);
                delays.value_at(quantile).filter(|_| side >= FEWEST).map(|ns| ns as f64)
            };
            add(1 + number, value(single).zip(value(doubled)));
        }
        (self.single, self.doubled) = (Histogram::default(), Histogram::default());
    }

    /// The number of delays with two copies.
    pub fn doubled(&self) -> u64 {
        self.count
    }

    /// The time added to a percentile; `None` with too few periods of enough delays.
    pub fn at(&self, quantile: f64, confidence: f64) -> Option<AddedDelay> {
        let number = QUANTILES.iter().position(|known| *known == quantile)?;
        AddedDelay::of(&self.pairs[1 + number], confidence)
    }

    /// The time added to the mean; `None` with too few periods of enough delays.
    pub fn of_mean(&self, confidence: f64) -> Option<AddedDelay> {
        AddedDelay::of(&self.pairs[0], confidence)
    }

    /// The percentile without the observer; `None` without an interval.
    pub fn percentile(&self, measured: &Percentile, confidence: f64) -> Option<CorrectedDelay> {
        let added = self.at(measured.quantile, confidence)?;
        let (lower_ns, upper_ns) = (measured.lower_ns? as f64, measured.upper_ns);
        let upper_ns = upper_ns.map_or(f64::INFINITY, |ns| ns as f64);
        Some(added.removed_from([measured.value_ns as f64, lower_ns, upper_ns]))
    }

    /// The mean without the observer; `None` without an interval.
    pub fn mean(&self, measured: &Mean, confidence: f64) -> Option<CorrectedDelay> {
        let Mean { value_ns, lower_ns, upper_ns, .. } = *measured;
        Some(self.of_mean(confidence)?.removed_from([value_ns, lower_ns, upper_ns]))
    }
}

impl AddedDelay {
    /// The delay that the first copy adds.
    fn of(pairs: &[PeriodPair], confidence: f64) -> Option<Self> {
        if pairs.len() < FEWEST_PERIODS {
            return None;
        }
        let n = pairs.len() as f64;
        let mean = |of: fn(&PeriodPair) -> f64| pairs.iter().map(of).sum::<f64>() / n;
        let single_ns = mean(|pair| pair.single_ns);
        let second_ns = mean(|pair| pair.doubled_ns) - single_ns;
        let squares =
            pairs.iter().map(|pair| (pair.doubled_ns - pair.single_ns - second_ns).powi(2));
        let deviation_ns = (squares.sum::<f64>() / (n - 1.0)).sqrt();
        let reach = student_quantile(0.5 * (1.0 + confidence), pairs.len() - 1);
        let error_ns = reach * deviation_ns / n.sqrt();
        let is_moderate = second_ns <= MODERATE * single_ns;
        let lower_ns = if is_moderate { 0.5 * (second_ns - error_ns) } else { 0.0 };
        // The middle between all of the growth and half of it.
        let value_ns = 0.75 * second_ns;
        Some(Self { value_ns, lower_ns, upper_ns: second_ns + error_ns })
    }

    /// Work takes no negative time.
    fn removed_from(&self, [value_ns, lower_ns, upper_ns]: [f64; 3]) -> CorrectedDelay {
        CorrectedDelay {
            value_ns: value_ns - self.value_ns.max(0.0),
            lower_ns: lower_ns - self.upper_ns.max(0.0),
            upper_ns: upper_ns - self.lower_ns.max(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Distribution;
    use onbeat_wire::random::Random;

    /// An exponential delay.
    fn exponential(random: &mut Random, mean_ns: f64) -> f64 {
        let uniform = (random.below(1 << 53) as f64 + 1.0) / (1_u64 << 53) as f64;
        -mean_ns * uniform.ln()
    }

    /// Delays of a queue with one server, whose service takes longer by each copy of the observer.
    fn queue(random: &mut Random, copies: f64, packets: usize, mut each: impl FnMut(i64)) {
        let (mut wait_ns, work_ns) = (0_f64, 200.0 * copies);
        for _ in 0..packets {
            let service_ns = exponential(random, 1_000.0) + work_ns;
            let delay_ns = wait_ns + service_ns;
            each(delay_ns as i64);
            wait_ns = (delay_ns - exponential(random, 2_500.0)).max(0.0);
        }
    }

    #[test]
    fn the_work_of_an_observer_is_removed_with_the_queue_that_it_causes() {
        let mut random = Random::new(7);
        let (mut without, mut measured) = (Distribution::new(), Distribution::new());
        queue(&mut random, 0.0, 1_000_000, |delay_ns| without.record(delay_ns));
        let truth_ns = without.mean_ns().unwrap();
        let median_ns = without.value_at(0.5).unwrap() as f64;
        let mut inflation = Inflation::default();
        for _ in 0..20 {
            queue(&mut random, 1.0, 40_000, |delay_ns| measured.record(delay_ns));
            queue(&mut random, 1.0, 5_000, |delay_ns| inflation.record_single(delay_ns as u64));
            queue(&mut random, 2.0, 5_000, |delay_ns| inflation.record_doubled(delay_ns as u64));
            inflation.end_pair();
        }
        let mean = measured.mean(0.95).unwrap();
        // Far more than the work of 200 ns.
        assert!(mean.lower_ns - truth_ns > 300.0, "{mean:?} {truth_ns}");
        let found = inflation.mean(&mean, 0.95).unwrap();
        assert!((found.lower_ns..found.upper_ns).contains(&truth_ns), "{found:?} {truth_ns}");
        let median = measured.percentile(0.5, 0.95).unwrap();
        let found = inflation.percentile(&median, 0.95).unwrap();
        assert!((found.lower_ns..found.upper_ns).contains(&median_ns), "{found:?} {median_ns}");
        assert!(found.upper_ns < median.value_ns as f64, "{found:?} {median:?}");
    }

    #[test]
    fn too_few_delays_or_periods_give_no_estimate() {
        let mut inflation = Inflation::default();
        for _ in 0..FEWEST_PERIODS {
            assert_eq!(inflation.of_mean(0.95), None);
            for delay_ns in 100..120 {
                inflation.record_single(delay_ns);
                inflation.record_doubled(delay_ns + 5);
            }
            inflation.end_pair();
        }
        assert_eq!((inflation.at(0.99, 0.95), inflation.doubled()), (None, 80));
        let added = inflation.of_mean(0.95).unwrap();
        assert!((added.upper_ns, added.lower_ns) == (5.0, 2.5), "{added:?}");
        // Close to overload, one copy may add any part.
        assert_eq!(
            AddedDelay::of(&[PeriodPair { single_ns: 5.0, doubled_ns: 9.0 }; 4], 0.95)
                .unwrap()
                .lower_ns,
            0.0
        );
    }
}

//! The judge of intervals: their coverage and width over many measurements of a world.

use onbeat_delay::stats::{Distribution, Percentile, StampError};
use onbeat_delay::tail::{LargestDelays, fit};

use super::worlds::{Random, World};

pub(crate) const CONFIDENCE: f64 = 0.95;
/// Minimum share of intervals that contain the truth.
pub(crate) const COVERED: f64 = 0.93;
/// The same of extrapolated bounds.
pub(crate) const BOUNDED: f64 = 0.9;
/// Maximum share of values that are withheld although they may not be, because their independent delays are
/// underestimated.
const WITHHELD: f64 = 0.05;
/// The number of measurements whose bounds are extrapolated, which takes longer than all intervals.
const BOUND_RUNS: u64 = 100;
/// Maximum width, in ideal widths.
pub(crate) const WIDEST: f64 = 2.5;
/// The number of independent delays on the smaller side of a quantile below which a value may be withheld.
pub(crate) const FEW: f64 = 10.0;
pub(crate) const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

/// The results of a statistic over many measurements.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    estimates: Vec<f64>,
    widths: Vec<f64>,
    covered: usize,
    /// Shares of delays up to the true quantile: their variance is that of the independent delays.
    shares: Vec<f64>,
    /// The quantile; `None`: the mean.
    quantile: Option<f64>,
    /// True for the extrapolated bound of one in all packets.
    is_bound: bool,
    variance: f64,
    resolution_ns: f64,
}

impl Cell {
    fn record(&mut self, truth: f64, estimate: f64, interval: Option<(f64, f64)>) {
        self.estimates.push(estimate);
        let Some((lower, upper)) = interval else { return };
        self.covered += usize::from((lower..=upper).contains(&truth));
        self.widths.push(upper - lower);
    }

    pub(crate) fn name(&self) -> String {
        if self.is_bound {
            return "bound of 1/n".into();
        }
        self.quantile
            .map_or("mean".into(), |quantile| format!("p{}", (quantile * 1e6).round() / 1e4))
    }

    /// The share of given intervals that contain the truth.
    pub(crate) fn coverage(&self) -> f64 {
        self.covered as f64 / self.widths.len() as f64
    }

    pub(crate) fn withheld(&self) -> f64 {
        1.0 - self.widths.len() as f64 / self.estimates.len() as f64
    }

    /// The width that contains 95 % of the estimates, and the resolution of the stamps.
    pub(crate) fn ideal_width(&self) -> f64 {
        let estimates = sorted(&self.estimates);
        let at = |share: f64| estimates[(share * (estimates.len() - 1) as f64).round() as usize];
        at(0.5 + CONFIDENCE / 2.0) - at(0.5 - CONFIDENCE / 2.0) + 2.0 * self.resolution_ns
    }

    pub(crate) fn median_width(&self) -> f64 {
        let widths = sorted(&self.widths);
        widths.get(widths.len() / 2).copied().unwrap_or(f64::NAN)
    }
    /// The number of independent delays on the smaller side of the quantile, from the variance over all
    /// measurements.
    pub(crate) fn independent(&self) -> f64 {
        match self.quantile {
            _ if self.is_bound => 1.0,
            Some(q) => q * (1.0 - q) / variance(&self.shares) * q.min(1.0 - q),
            None => self.variance / variance(&self.estimates) / 2.0,
        }
    }

    /// The faults, as sentences. `slack` is the error of a coverage of few measurements.
    pub(crate) fn faults(&self, slack: f64) -> Vec<String> {
        let mut faults = Vec::new();
        if self.is_bound {
            // Where nearly all are withheld, a few given ones say nothing of their coverage.
            if self.withheld() < 0.9 && self.coverage() < BOUNDED - slack {
                faults.push(format!("missed by {:.1} %", 100.0 * (1.0 - self.coverage())));
            }
            return faults;
        }
        // With fewer, values may be withheld, and the table shows those that are given.
        if self.independent() < FEW {
            return faults;
        }
        if self.coverage() < COVERED - slack {
            faults.push(format!("missed by {:.1} %", 100.0 * (1.0 - self.coverage())));
        }
        if self.withheld() > WITHHELD + slack {
            faults.push(format!("withheld in {:.1} %", 100.0 * self.withheld()));
        }
        let width = self.median_width() / self.ideal_width();
        if width > WIDEST {
            faults.push(format!("width {width:.2} times the ideal"));
        }
        faults
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

fn variance(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)
}

/// The clocks of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks {
    /// Resolution of the time stamps of arrivals and departures, in nanoseconds.
    pub(crate) resolution_ns: [i64; 2],
    /// The share of lost packets.
    pub(crate) lost: f64,
    /// True if upper bounds are extrapolated, too.
    pub(crate) bounds: bool,
}

impl Clocks {
    pub(crate) const EXACT: Clocks = Clocks { resolution_ns: [1, 1], lost: 0.0, bounds: false };
}

/// Measures a world of `n` packets `runs` times; returns the cells of the mean and of each quantile.
pub(crate) fn measure(world: World, n: usize, runs: u64, clocks: Clocks) -> Vec<Cell> {
    let quantiles = QUANTILES.into_iter().filter(|quantile| n as f64 * (1.0 - quantile) >= 1.0);
    let truths: Vec<(f64, f64)> =
        quantiles.map(|quantile| (quantile, world.exceeded_with(1.0 - quantile))).collect();
    let [arrivals, departures] = clocks.resolution_ns;
    let resolution_ns = (arrivals.max(departures) - 1) as f64;
    let error = StampError::of_resolutions(arrivals as u64, departures as u64);
    let mut cells = vec![Cell { resolution_ns, ..Cell::default() }; 2 + truths.len()];
    let rare = 1.0 / n as f64;
    let bound = world.exceeded_with(rare);
    for run in 0..runs {
        let mut random = Random::new(run << 20 | n as u64 ^ (world as u64) << 60);
        let mut times = Random::new(!run);
        let mut delays = Distribution::new();
        let mut largest = LargestDelays::new(10_000);
        let mut below = vec![0_u64; truths.len()];
        world.delays(n, &mut random, |delay_ns| {
            for (below, (_, truth)) in below.iter_mut().zip(&truths) {
                *below += u64::from(delay_ns as f64 <= *truth);
            }
            if clocks.lost > 0.0 && times.uniform() < clocks.lost {
                return delays.record_lost();
            }
            if clocks.bounds {
                largest.record(delay_ns);
            }
            if clocks.resolution_ns == [1, 1] {
                return delays.record(delay_ns);
            }
            let arrival_ns = (1e9 + 1e9 * times.uniform()) as i64;
            let departure_ns = arrival_ns + delay_ns;
            let stamps =
                (arrival_ns - arrival_ns % arrivals, departure_ns - departure_ns % departures);
            delays.record((stamps.1 - stamps.0).max(0));
        });
        let mean = delays.mean(CONFIDENCE).map(|mean| error.widen_mean(mean));
        let interval = mean.map(|mean| (mean.lower_ns, mean.upper_ns));
        cells[0].record(world.mean(), delays.mean_ns().unwrap(), interval);
        cells[0].variance += delays.standard_deviation_ns().unwrap().powi(2) / runs as f64;
        if clocks.bounds && run < BOUND_RUNS {
            let tail = fit(&largest).ok();
            let found = tail.and_then(|tail| tail.delay_exceeded_with(rare, CONFIDENCE));
            let found = found.filter(|found| found.upper.is_finite());
            let value = found.map_or(f64::NAN, |found| found.value);
            let last = 1 + truths.len();
            cells[last].record(bound, value, found.map(|found| (found.lower, found.upper)));
            cells[last].is_bound = true;
        }
        let percentiles = delays.percentiles().unwrap();
        for (((quantile, truth), below), cell) in truths.iter().zip(below).zip(&mut cells[1..]) {
            let found = error.widen(percentiles.get(*quantile, CONFIDENCE));
            let Percentile { value_ns, lower_ns, upper_ns, .. } = found;
            let interval = lower_ns.map(|lower_ns| {
                (lower_ns as f64, upper_ns.map_or(f64::INFINITY, |upper_ns| upper_ns as f64))
            });
            cell.record(*truth, value_ns as f64, interval);
            cell.quantile = Some(*quantile);
            cell.shares.push(below as f64 / n as f64);
        }
    }
    if !clocks.bounds {
        cells.pop();
    }
    cells
}

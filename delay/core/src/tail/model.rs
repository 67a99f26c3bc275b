//! Selection of the threshold, and estimates of the tail.

use super::goodness::{anderson_darling, p_value};
use super::largest::{LargestDelays, Sample};
use super::pareto::{Pareto, golden_maximum};
use crate::stats::distributions::normal_quantile;
use crate::stats::interval::share;

/// Minimum number of exceedances of a fit.
const FEWEST: usize = 50;
/// Number of delays that leave this many at the highest of the thresholds that must fit.
const NEEDED: u64 = 1_050;
/// Maximum share of exceedances: the tail is at most a tenth of the delays.
const MOST_SHARE: u64 = 10;
/// The factor of the number of exceedances from threshold to threshold.
const NEXT: f64 = 0.7;
/// A fit is good if values of such a distribution would fit worse in this share of cases...
const GOOD: f64 = 0.1;
/// ... at this number of consecutive thresholds, the lowest of which is selected.
const GOOD_IN_A_ROW: usize = 3;
/// The fit and its test assume continuous delays: valid up to this product of the number of exceedances and the
/// square of the clock's resolution, in units of the mean exceedance.
const COARSE: f64 = 1.0;
/// Range of shapes in which maximum likelihood is regular, and the distribution of the test statistic is known.
const SHAPES: std::ops::Range<f64> = -0.5..0.75;

/// The reason why there is no extrapolation.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Too few delays.
    #[error(
        "too few delays for a tail: {count}, at least {NEEDED} required, with the longest tenth of them kept"
    )]
    TooFew {
        /// The number of delays.
        count: u64,
    },
    /// The resolution of the clock is too coarse.
    #[error(
        "the longest delays differ in steps of {resolution_ns} ns, which is too coarse for this tail"
    )]
    Coarse {
        /// The smallest difference between any two of the longest delays, in nanoseconds.
        resolution_ns: i64,
    },
    /// The longest delays are equal.
    #[error("the longest {count} delays are equal; a tail requires different delays")]
    Equal {
        /// The longest tenth of the delays, as far as they were kept.
        count: usize,
    },
    /// The distribution fits the tail at too few consecutive thresholds.
    #[error(
        "a generalized Pareto tail fits at {in_a_row} thresholds in a row of {thresholds} (p >= {GOOD}; \
         the best has {best_p:.3}), and {GOOD_IN_A_ROW} are required; check for delays of more than one cause"
    )]
    NoFit {
        /// Thresholds tried.
        thresholds: usize,
        /// Maximum number of consecutive thresholds with a good fit.
        in_a_row: usize,
        /// The best p-value found.
        best_p: f64,
    },
}

/// An estimate with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The most likely value.
    pub value: f64,
    /// Lower end of the interval.
    pub lower: f64,
    /// Upper end of the interval.
    pub upper: f64,
}

/// The tail of a distribution of delays.
#[derive(Debug, Clone, PartialEq)]
pub struct Tail {
    /// The threshold, in nanoseconds: estimates apply to delays above it.
    pub threshold_ns: f64,
    /// The number of all delays.
    pub count: u64,
    /// The exceedances of the threshold, in nanoseconds, in ascending order.
    exceedances: Vec<f64>,
    /// The distribution of the exceedances, in nanoseconds.
    pub pareto: Pareto,
    /// The probability of a worse fit if the distribution is right.
    pub p_value: f64,
    /// The share of independent exceedances; the others belong to the same overload as a previous one. It
    /// determines the width of intervals.
    pub extremal_index: f64,
}

/// Fits the tail. The threshold is the lowest that at most a tenth of the delays exceed, and at which and at the
/// next higher ones the fit is good.
pub fn fit(largest: &LargestDelays) -> Result<Tail, Refusal> {
    let samples = largest.descending();
    let count = largest.count();
    // The delay at the threshold itself is not above it.
    let most = (count / MOST_SHARE).min(samples.len().saturating_sub(1) as u64) as usize;
    if (most as u64) < NEEDED / MOST_SHARE {
        return Err(Refusal::TooFew { count });
    }
    let steps = samples[..=most].windows(2).map(|pair| pair[0].delay_ns - pair[1].delay_ns);
    let Some(resolution_ns) = steps.filter(|step| *step > 0).min() else {
        return Err(Refusal::Equal { count: most });
    };
    let sizes = std::iter::successors(Some(most), |size| Some((*size as f64 * NEXT) as usize))
        .take_while(|size| *size >= FEWEST);
    let fits: Vec<Result<Tail, FitFailure>> =
        sizes.map(|size| at(&samples, size, count, resolution_ns)).collect();
    let p_of = |fit: &Result<Tail, FitFailure>| fit.as_ref().map_or(0.0, |tail| tail.p_value);
    let is_good = |fits: &[Result<Tail, FitFailure>]| fits.iter().all(|fit| p_of(fit) >= GOOD);
    let lowest = fits.windows(GOOD_IN_A_ROW).position(is_good);
    let refusal = if fits.iter().any(|fit| matches!(fit, Err(FitFailure::Coarse))) {
        Refusal::Coarse { resolution_ns }
    } else {
        let best_p = fits.iter().map(p_of).fold(0.0, f64::max);
        let rows = fits.split(|fit| p_of(fit) < GOOD);
        let in_a_row = rows.map(<[_]>::len).max().unwrap_or(0);
        Refusal::NoFit { thresholds: fits.len(), in_a_row, best_p }
    };
    lowest.and_then(|lowest| fits.into_iter().nth(lowest)).and_then(Result::ok).ok_or(refusal)
}

/// The reason why a threshold has no tail.
enum FitFailure {
    /// The clock is too coarse.
    Coarse,
    /// No distribution fits, or one of a shape without valid estimates.
    Shape,
}

/// Fits the `size` largest delays.
fn at(samples: &[Sample], size: usize, count: u64, resolution_ns: i64) -> Result<Tail, FitFailure> {
    let threshold = samples[size].delay_ns;
    let above: Vec<Sample> =
        samples[..size].iter().copied().filter(|sample| sample.delay_ns > threshold).collect();
    // A delay represents those within half a step of the clock around it.
    let resolution = resolution_ns as f64;
    let threshold_ns = threshold as f64 + 0.5 * resolution;
    let exceedances: Vec<f64> =
        above.iter().rev().map(|sample| sample.delay_ns as f64 - threshold_ns).collect();
    let number = exceedances.len() as f64;
    let mean = exceedances.iter().sum::<f64>() / number;
    if above.len() < FEWEST / 2 || number * (resolution / mean).powi(2) > COARSE {
        return Err(FitFailure::Coarse);
    }
    let pareto = Pareto::fit(&exceedances)
        .filter(|found| SHAPES.contains(&found.shape))
        .ok_or(FitFailure::Shape)?;
    let p_value = p_value(anderson_darling(&exceedances, &pareto), pareto.shape);
    let extremal_index = extremal_index(above.iter().map(|sample| sample.place).collect());
    Ok(Tail { threshold_ns, count, exceedances, pareto, p_value, extremal_index })
}

/// Estimates the extremal index from the times between exceedances (Ferro, Segers 2003).
fn extremal_index(mut places: Vec<u64>) -> f64 {
    places.sort_unstable();
    let gaps: Vec<f64> = places.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    // If no gap exceeds two, all are within clusters, and the moments are used as they are; otherwise a bias is
    // removed.
    let moved: fn(f64) -> (f64, f64) = if gaps.iter().all(|gap| *gap <= 2.0) {
        |gap| (gap, gap * gap)
    } else {
        |gap| (gap - 1.0, (gap - 1.0) * (gap - 2.0))
    };
    let (sum, squares) = gaps
        .iter()
        .map(|gap| moved(*gap))
        .fold((0.0, 0.0), |sums, (a, b)| (sums.0 + a, sums.1 + b));
    if squares <= 0.0 {
        return 1.0;
    }
    (2.0 * sum * sum / (gaps.len() as f64 * squares)).min(1.0)
}

impl Tail {
    /// The number of delays above the threshold.
    pub fn exceedances(&self) -> usize {
        self.exceedances.len()
    }

    /// The share of delays above the threshold.
    fn rate(&self) -> f64 {
        self.exceedances.len() as f64 / self.count as f64
    }

    /// The delay that no packet exceeds, in nanoseconds, if the tail is bounded. It is the most likely one;
    /// [`delay_exceeded_with`](Self::delay_exceeded_with) returns a bound with a confidence.
    pub fn end_ns(&self) -> Option<f64> {
        self.pareto.end().map(|end| self.threshold_ns + end)
    }

    /// The probability of a delay above `delay_ns` nanoseconds; `None` below the threshold, where the distribution
    /// itself applies.
    ///
    /// The interval combines that of the profile likelihood within the tail, and Clopper and Pearson's of the
    /// number of delays in it; each misses with half of the remainder of `confidence`.
    pub fn exceeding(&self, delay_ns: f64, confidence: f64) -> Option<Estimate> {
        let above = delay_ns - self.threshold_ns;
        if above < 0.0 {
            return None;
        }
        let each = (1.0 + confidence) / 2.0;
        let within = self.survival(above, each);
        let rate = self.rate_interval(each);
        Some(Estimate {
            value: self.rate() * within.value,
            lower: rate.0 * within.lower,
            upper: rate.1 * within.upper,
        })
    }

    /// The delay in nanoseconds that a share `p` of packets exceeds, with an interval as that of
    /// [`exceeding`](Self::exceeding); `None` if that is below the threshold. The upper end is infinite if no delay
    /// can be excluded.
    pub fn delay_exceeded_with(&self, p: f64, confidence: f64) -> Option<Estimate> {
        if p <= 0.0 || p > self.rate() {
            return None;
        }
        let each = (1.0 + confidence) / 2.0;
        let rate = self.rate_interval(each);
        // The upper end of the interval grows with the number of delays in the tail.
        let end = |rate: f64, outside: f64| {
            let reach = (rate / p).ln();
            if reach <= 0.0 {
                return 0.0;
            }
            let within = |above: f64| self.is_likely(above, reach, each);
            let inside = self.pareto.exceeded_with(p / rate);
            if outside > inside && within(outside) {
                return f64::INFINITY;
            }
            boundary(inside, outside, within)
        };
        // The range of a 64-bit clock.
        const FURTHEST_NS: f64 = i64::MAX as f64;
        Some(Estimate {
            value: self.threshold_ns + self.pareto.exceeded_with(p / self.rate()),
            lower: self.threshold_ns + end(rate.0, 0.0),
            upper: self.threshold_ns + end(rate.1, FURTHEST_NS),
        })
    }

    /// The interval of the share of delays above the threshold, by the number of independent ones.
    fn rate_interval(&self, confidence: f64) -> (f64, f64) {
        let independent = |n: u64| ((n as f64 * self.extremal_index).round() as u64).max(1);
        let exceedances = self.exceedances.len() as u64;
        share(independent(exceedances), independent(self.count), confidence)
    }

    /// The probability that an exceedance exceeds the threshold by more than `above`.
    fn survival(&self, above: f64, confidence: f64) -> Estimate {
        /// -ln of the smallest probability that is distinguished from 0.
        const FURTHEST: f64 = 690.0;
        let value = self.pareto.survival(above);
        if above == 0.0 {
            return Estimate { value, lower: 1.0, upper: 1.0 };
        }
        let within = |reach: f64| self.is_likely(above, reach, confidence);
        let here = (-value.ln()).clamp(1e-9, FURTHEST);
        let upper = boundary(here, 0.0, within);
        let lower = if within(FURTHEST) { f64::INFINITY } else { boundary(here, FURTHEST, within) };
        Estimate { value, lower: (-lower).exp(), upper: (-upper).exp() }
    }

    /// Returns true if the likelihood permits that `above` is exceeded with probability e^-`reach`. A cluster of
    /// exceedances counts once.
    fn is_likely(&self, above: f64, reach: f64, confidence: f64) -> bool {
        if above <= 0.0 || reach <= 0.0 {
            return false;
        }
        let best = self.pareto.log_likelihood(&self.exceedances);
        let allowed = normal_quantile((1.0 + confidence) / 2.0).powi(2) / 2.0;
        (best - self.profile(above, reach)) * self.extremal_index <= allowed
    }

    /// The maximum likelihood of a distribution that exceeds `above` with probability e^-`reach`.
    fn profile(&self, above: f64, reach: f64) -> f64 {
        let with_shape = |shape: f64| {
            // From above = σ·((e^(ξ·reach) - 1)/ξ).
            let z = if shape.abs() < 1e-9 { reach } else { (shape * reach).exp_m1() / shape };
            Pareto { shape, scale: above / z }.log_likelihood(&self.exceedances)
        };
        let shape = golden_maximum(-1.0, 2.0, 1e-6, with_shape);
        with_shape(shape)
    }
}

/// Returns the point between `inside` and `outside` up to which a condition holds.
fn boundary(mut inside: f64, mut outside: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..100 {
        let middle = 0.5 * (inside + outside);
        if holds(middle) {
            inside = middle
        } else {
            outside = middle
        }
        if (inside - outside).abs() <= 1e-6 * inside.abs() {
            break;
        }
    }
    0.5 * (inside + outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Case {
        values: Vec<f64>,
        above: f64,
        lower: f64,
        upper: f64,
    }

    /// Compared with scipy (tests/data/reference.py).
    #[test]
    fn profile_likelihood_intervals() {
        #[derive(serde::Deserialize)]
        struct Reference {
            pareto: Vec<Case>,
        }
        let text = include_str!("../../tests/data/reference.json");
        let reference: Reference = serde_json::from_str(text).unwrap();
        for case in reference.pareto {
            let tail = Tail {
                threshold_ns: 0.0,
                count: 10 * case.values.len() as u64,
                pareto: Pareto::fit(&case.values).unwrap(),
                exceedances: case.values,
                p_value: 1.0,
                extremal_index: 1.0,
            };
            let found = tail.survival(case.above, 0.95);
            let close = |a: f64, b: f64| (a - b).abs() <= 2e-3 * b.abs() + 1e-12;
            assert!(close(found.upper, case.upper), "{found:?} {}", case.upper);
            assert!(close(found.lower, case.lower), "{found:?} {}", case.lower);
        }
    }

    /// Pairs at random times: half of the exceedances are independent.
    #[test]
    fn the_extremal_index_of_pairs_is_a_half() {
        let random = &mut onbeat_wire::random::Random::new(3);
        let mut place = 0;
        let mut places = Vec::new();
        for _ in 0..2000 {
            place += 2 + (-100.0 * (1.0 - random.uniform()).ln()) as u64;
            places.extend([place, place + 1]);
        }
        let index = extremal_index(places);
        assert!((0.45..0.55).contains(&index), "{index}");
    }
}

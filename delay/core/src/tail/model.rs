//! Selection of the threshold, and estimates of the tail.

use super::goodness::{anderson_darling, p_value};
use super::largest::{LargestDelays, Sample};
use super::pareto::{Pareto, golden_maximum};
use crate::change::median;
use crate::stats::distributions::normal_quantile;
use crate::stats::interval::share;

/// Number of independent exceedances of a fit: few, so that the threshold is high and the limit distribution holds.
const INDEPENDENT: f64 = 100.0;
/// Factor of the difference of log-likelihoods that an interval permits, because the number of independent
/// exceedances is an estimate. Selected by simulation (`make soak SOAK=delay`).
const CAUTION: f64 = 2.0;
/// Number of delays that leave this many in a tenth of them.
const NEEDED: u64 = 1_050;
/// Maximum share of exceedances: the tail is at most a tenth of the delays.
const MOST_SHARE: u64 = 10;
/// The factor of the number of exceedances from threshold to threshold.
const NEXT: f64 = 1.4;
/// A fit is refused if values of such a distribution would fit worse in a smaller share of cases.
const GOOD: f64 = 0.02;
/// A gap between the longest delays separates two causes if a single one would leave one as large with this
/// probability.
const GAP: f64 = 1e-3;
/// The fit and its test assume continuous delays: valid up to this product of the number of exceedances and the
/// square of the clock's resolution, in units of the mean exceedance.
const COARSE: f64 = 1.0;
/// The heaviest tail of one cause in the search for gaps.
const HEAVIEST: f64 = 0.3;
/// Range of shapes in which there is a fit.
const SHAPES: std::ops::Range<f64> = -0.95..0.75;

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
    /// The longest delays belong to few overloads.
    #[error(
        "the longest delays belong to {independent} independent overloads, and at least {INDEPENDENT} are required; \
         measure for longer"
    )]
    Dependent {
        /// The number of independent ones.
        independent: u64,
    },
    /// The distribution does not fit the tail.
    #[error(
        "a generalized Pareto tail does not fit (p = {p:.3}, {GOOD} required); check for delays of more than one cause"
    )]
    NoFit {
        /// The probability of a worse fit if the distribution is right.
        p: f64,
    },
    /// The longest delays have two causes.
    #[error(
        "delays above a gap of {gap_ns} ns ({longest} of them) have another cause than all others, and are too few for a \
         tail of their own"
    )]
    Gap {
        /// The number of delays above the gap.
        longest: u64,
        /// Its size, in nanoseconds.
        gap_ns: i64,
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

/// Fits the tail. The threshold is the highest that leaves enough independent exceedances, of at most a tenth of the
/// delays.
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
    let independent = |size: usize| {
        let places = samples[..size].iter().map(|sample| sample.place).collect();
        size as f64 * extremal_index(places)
    };
    let next = |size: &usize| (*size < most).then(|| most.min((*size as f64 * NEXT) as usize));
    let mut sizes = std::iter::successors(Some(INDEPENDENT as usize), next);
    let size = sizes.find(|size| independent(*size) >= INDEPENDENT).unwrap_or(most);
    if independent(size) < INDEPENDENT {
        return Err(Refusal::Dependent { independent: independent(size) as u64 });
    }
    at(&samples, size, count, resolution_ns)
}

/// Fits the `size` largest delays.
fn at(samples: &[Sample], size: usize, count: u64, resolution_ns: i64) -> Result<Tail, Refusal> {
    let threshold = samples[size].delay_ns;
    let mut above: Vec<Sample> =
        samples[..size].iter().copied().filter(|sample| sample.delay_ns > threshold).collect();
    // A delay represents those within half a step of the clock around it.
    let resolution = resolution_ns as f64;
    let threshold_ns = threshold as f64 + 0.5 * resolution;
    let exceedance = |sample: &Sample| sample.delay_ns as f64 - threshold_ns;
    let exceedances: Vec<f64> = above.iter().rev().map(exceedance).collect();
    let number = exceedances.len() as f64;
    let mean = exceedances.iter().sum::<f64>() / number;
    if number < INDEPENDENT / 2.0 || number * (resolution / mean).powi(2) > COARSE {
        return Err(Refusal::Coarse { resolution_ns });
    }
    if let Some((longest, gap_ns)) = gap(&exceedances) {
        return Err(Refusal::Gap { longest, gap_ns });
    }
    let pareto = Pareto::fit(&exceedances)
        .filter(|found| SHAPES.contains(&found.shape))
        .ok_or(Refusal::NoFit { p: 0.0 })?;
    let extremal_index = extremal_index(above.iter().map(|sample| sample.place).collect());
    // The test assumes independent values: one of each overload.
    above.sort_unstable_by_key(|sample| sample.place);
    let every = (1.0 / extremal_index).round() as usize;
    let mut tested: Vec<f64> = above.iter().step_by(every).map(exceedance).collect();
    tested.sort_unstable_by(f64::total_cmp);
    let p_value = p_value(anderson_darling(&tested, &pareto), pareto.shape);
    let tail = Tail { threshold_ns, count, exceedances, pareto, p_value, extremal_index };
    match p_value >= GOOD {
        true => Ok(tail),
        false => Err(Refusal::NoFit { p: p_value }),
    }
}

/// The largest gap between neighbors among exceedances in ascending order, and the number of delays above it, if one
/// cause does not explain it.
///
/// The gap below the i-th longest of an exponential tail is exponential with the i-th part of its mean; that of a
/// heavy tail grows toward the longest.
fn gap(ascending: &[f64]) -> Option<(u64, i64)> {
    let number = ascending.len();
    let above = |place: usize| (number - 1 - place) as f64;
    let scaled = |(place, pair): (usize, &[f64])| {
        (pair[1] - pair[0]) * above(place) * (above(place) / number as f64).powf(HEAVIEST)
    };
    let gaps: Vec<f64> = ascending.windows(2).enumerate().map(scaled).collect();
    // The median of an exponential distribution is ln 2 of its mean; equal delays have no gap.
    let mean = median(gaps.iter().copied().filter(|gap| *gap > 0.0).collect())? / 2_f64.ln();
    let largest = (0..gaps.len()).max_by(|a, b| gaps[*a].total_cmp(&gaps[*b]))?;
    let allowed = mean * (number as f64 / GAP).ln();
    let gap_ns = (ascending[largest + 1] - ascending[largest]) as i64;
    (gaps[largest] > allowed).then_some((above(largest) as u64, gap_ns))
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
    /// [`exceeding`](Self::exceeding); `None` if that is below the threshold, or for a share of less than one of the
    /// recorded delays, about which they contain nothing. The upper end is infinite if no delay can be excluded.
    pub fn delay_exceeded_with(&self, p: f64, confidence: f64) -> Option<Estimate> {
        if p * (self.count as f64) < 1.0 - 1e-9 || p > self.rate() {
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
        let allowed = CAUTION * normal_quantile((1.0 + confidence) / 2.0).powi(2) / 2.0;
        (best - self.profile(above, reach)) * self.extremal_index <= allowed
    }

    /// The maximum likelihood of a distribution that exceeds `above` with probability e^-`reach`.
    fn profile(&self, above: f64, reach: f64) -> f64 {
        let with_shape = |shape: f64| {
            // From above = σ·((e^(ξ·reach) - 1)/ξ).
            let z = if shape.abs() < 1e-9 { reach } else { (shape * reach).exp_m1() / shape };
            Pareto { shape, scale: above / z }.log_likelihood(&self.exceedances)
        };
        let shape = golden_maximum(-1.0, 2.0, 1e-3, with_shape);
        with_shape(shape)
    }
}

/// Returns the point between `inside` and `outside` up to which a condition holds.
fn boundary(mut inside: f64, mut outside: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..100 {
        // The orders of magnitude first: `outside` can be infinitely far.
        let is_far = inside > 0.0 && outside > 4.0 * inside;
        let middle = if is_far { (inside * outside).sqrt() } else { 0.5 * (inside + outside) };
        if holds(middle) {
            inside = middle
        } else {
            outside = middle
        }
        if (inside - outside).abs() <= 1e-5 * inside.abs() {
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
                // Intervals without their caution.
                extremal_index: CAUTION,
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

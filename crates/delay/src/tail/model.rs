//! Choice of the threshold, and what the tail says.

use super::goodness::{anderson_darling, p_value};
use super::largest::{Largest, Sample};
use super::pareto::{Pareto, golden_maximum, log_term};
use crate::stats::interval::share;
use crate::stats::special::normal_quantile;

/// Exceedances that a fit needs at least.
pub const FEWEST: usize = 50;
/// Exceedances that a fit is made of at most: the tail is at most a tenth of the delays.
const MOST_SHARE: u64 = 10;
/// From threshold to threshold, the exceedances become this share.
const NEXT: f64 = 0.7;
/// A fit is good where values of such a distribution would look worse in this share of cases...
const GOOD: f64 = 0.1;
/// ... at the threshold, and at this many above it where there are as many.
const GOOD_ABOVE: usize = 2;
/// Of the exceedances, this share has to be different from each other: the test and the fit take
/// values as continuous.
const DISTINCT: f64 = 0.5;
/// Shapes between which maximum likelihood is regular and the mean of the tail is finite.
const SHAPES: std::ops::Range<f64> = -0.5..1.0;

/// Why nothing is said about what was never seen.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Too few delays.
    #[error(
        "{count} delays are too few for a tail: it takes {}",
        FEWEST as u64 * MOST_SHARE
    )]
    TooFew {
        /// Delays.
        count: u64,
    },
    /// The clock's resolution shows.
    #[error(
        "of the {exceedances} longest delays only {distinct} are different from each other: the \
         clock is too coarse for a tail"
    )]
    Coarse {
        /// Exceedances of the lowest threshold.
        exceedances: usize,
        /// Different values among them.
        distinct: usize,
    },
    /// No threshold leaves a tail that the distribution fits.
    #[error(
        "no threshold leaves a generalised Pareto tail: the best of {thresholds} has p = \
         {best_p:.3}, and {GOOD} is required at {} in a row; delays of more than one cause?",
        GOOD_ABOVE + 1
    )]
    NoFit {
        /// Thresholds tried.
        thresholds: usize,
        /// The best p-value found.
        best_p: f64,
    },
}

/// A value and the interval that holds the true one with the confidence asked for.
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
    /// The threshold, in nanoseconds: what is said is about delays above it.
    pub threshold_ns: f64,
    /// Delays in all.
    pub count: u64,
    /// How much the delays exceed the threshold, in nanoseconds, in ascending order.
    exceedances: Vec<f64>,
    /// What exceeds the threshold, by how much, in nanoseconds.
    pub pareto: Pareto,
    /// How probable a worse fit is where the distribution is right.
    pub p_value: f64,
    /// The share of the exceedances that come independently of each other; the others are of the
    /// same overload as one before. Intervals are as wide as those leave them.
    pub extremal_index: f64,
}

/// Fits the tail. The threshold is the lowest, of at most a tenth of the delays exceeding it, from
/// which on the fit is good.
pub fn fit(largest: &Largest) -> Result<Tail, Refusal> {
    let samples = largest.descending();
    let count = largest.count();
    // The delay at the threshold itself is not above it.
    let most = (count / MOST_SHARE).min(samples.len().saturating_sub(1) as u64) as usize;
    if most < FEWEST {
        return Err(Refusal::TooFew { count });
    }
    let mut distinct: Vec<i64> = samples[..most].iter().map(|sample| sample.delay_ns).collect();
    distinct.dedup();
    if (distinct.len() as f64) < DISTINCT * most as f64 {
        return Err(Refusal::Coarse { exceedances: most, distinct: distinct.len() });
    }
    let sizes = std::iter::successors(Some(most), |size| Some((*size as f64 * NEXT) as usize))
        .take_while(|size| *size >= FEWEST);
    let fits: Vec<Option<Tail>> = sizes.map(|size| at(&samples, size, count)).collect();
    let p_of = |fit: &Option<Tail>| fit.as_ref().map_or(0.0, |tail| tail.p_value);
    let good = |i: usize| {
        let end = (i + 1 + GOOD_ABOVE).min(fits.len());
        fits[i..end].iter().all(|fit| p_of(fit) >= GOOD)
    };
    let refusal = Refusal::NoFit {
        thresholds: fits.len(),
        best_p: fits.iter().map(p_of).fold(0.0, f64::max),
    };
    match (0..fits.len()).find(|&i| good(i)) {
        Some(i) => fits.into_iter().nth(i).flatten().ok_or(refusal),
        None => Err(refusal),
    }
}

/// The fit to the `size` largest delays; `None` where there is none.
fn at(samples: &[Sample], size: usize, count: u64) -> Option<Tail> {
    let threshold = samples.get(size)?.delay_ns;
    let above: Vec<Sample> =
        samples[..size].iter().copied().filter(|sample| sample.delay_ns > threshold).collect();
    if above.len() < FEWEST {
        return None;
    }
    // Half a nanosecond is what a whole number stands for at least.
    let threshold_ns = threshold as f64 + 0.5;
    let exceedances: Vec<f64> =
        above.iter().rev().map(|sample| sample.delay_ns as f64 - threshold_ns).collect();
    let pareto = Pareto::fit(&exceedances).filter(|found| SHAPES.contains(&found.shape))?;
    let p_value = p_value(anderson_darling(&exceedances, &pareto), pareto.shape);
    let places = above.iter().map(|sample| sample.place).collect();
    let extremal_index = extremal_index(places);
    Some(Tail { threshold_ns, count, exceedances, pareto, p_value, extremal_index })
}

/// The extremal index by the times between exceedances (Ferro, Segers 2003).
fn extremal_index(mut places: Vec<u64>) -> f64 {
    places.sort_unstable();
    let gaps: Vec<f64> = places.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    // Where no gap is longer than two, all are within clusters, and the moments are taken as they
    // are; else a bias is taken out.
    let moved: fn(f64) -> (f64, f64) = if gaps.iter().all(|gap| *gap <= 2.0) {
        |gap| (gap, gap * gap)
    } else {
        |gap| (gap - 1.0, (gap - 1.0) * (gap - 2.0))
    };
    let (sum, squares) = gaps.iter().map(|gap| moved(*gap)).fold((0.0, 0.0), |sums, (a, b)| {
        (sums.0 + a, sums.1 + b)
    });
    if squares <= 0.0 {
        return 1.0;
    }
    (2.0 * sum * sum / (gaps.len() as f64 * squares)).min(1.0)
}

impl Tail {
    /// Delays above the threshold.
    pub fn exceedances(&self) -> usize {
        self.exceedances.len()
    }

    /// The share of delays above the threshold.
    fn rate(&self) -> f64 {
        self.exceedances.len() as f64 / self.count as f64
    }

    /// The delay that no packet exceeds, in nanoseconds, where the tail has an end. It is the most
    /// likely one; what is certain to some confidence is [`delay_exceeded_with`](Self::delay_exceeded_with).
    pub fn end_ns(&self) -> Option<f64> {
        self.pareto.end().map(|end| self.threshold_ns + end)
    }

    /// How probable a delay above `delay_ns` nanoseconds is; `None` below the threshold, where the
    /// distribution itself tells.
    ///
    /// The interval is that of the profile likelihood within the tail, and Clopper and Pearson's
    /// of how many delays are in it; each misses with half of what `confidence` leaves.
    pub fn exceeding(&self, delay_ns: f64, confidence: f64) -> Option<Estimate> {
        let above = delay_ns - self.threshold_ns;
        if above < 0.0 {
            return None;
        }
        let each = (1.0 + confidence) / 2.0;
        let within = self.survival(above, each);
        // As many delays as come independently.
        let independent = |n: u64| ((n as f64 * self.extremal_index).round() as u64).max(1);
        let exceedances = independent(self.exceedances.len() as u64);
        let rate = share(exceedances, independent(self.count), each);
        Some(Estimate {
            value: self.rate() * within.value,
            lower: rate.0 * within.lower,
            upper: rate.1 * within.upper,
        })
    }

    /// The delay in nanoseconds that a share `p` of packets exceeds; `None` where that is below
    /// the threshold. The upper end is infinite where the tail does not exclude any delay.
    pub fn delay_exceeded_with(&self, p: f64, confidence: f64) -> Option<Estimate> {
        if p <= 0.0 || p > self.rate() {
            return None;
        }
        let value = self.threshold_ns + self.pareto.exceeded_with(p / self.rate());
        // The bounds of the probability fall with the delay.
        let crossing = |bound: fn(&Estimate) -> f64| {
            let bound = |delay: f64| self.exceeding(delay, confidence).map_or(1.0, |e| bound(&e));
            let mut high = value;
            for _ in 0..64 {
                if bound(high) <= p {
                    break;
                }
                high = self.threshold_ns + 2.0 * (high - self.threshold_ns).max(1.0);
            }
            if bound(high) > p {
                return f64::INFINITY;
            }
            let mut low = self.threshold_ns;
            while high - low > 1e-6 * high.abs() {
                let middle = 0.5 * (low + high);
                if bound(middle) > p { low = middle } else { high = middle }
            }
            high
        };
        Some(Estimate { value, lower: crossing(|e| e.lower), upper: crossing(|e| e.upper) })
    }

    /// The probability that an exceedance exceeds the threshold by more than `above`.
    fn survival(&self, above: f64, confidence: f64) -> Estimate {
        let value = self.pareto.survival(above);
        if above == 0.0 {
            return Estimate { value, lower: 1.0, upper: 1.0 };
        }
        let best = self.pareto.log_likelihood(&self.exceedances);
        let reach = normal_quantile((1.0 + confidence) / 2.0).powi(2) / 2.0;
        // Where values come in clusters, the likelihood counts each cluster once.
        let within =
            |reach_s: f64| (best - self.profile(above, reach_s)) * self.extremal_index <= reach;
        // By -ln of the probability, from 0 (certain) to as far as numbers go.
        let here = (-value.max(1e-300).ln()).max(1e-9);
        let upper = boundary(here, 1e-9, within);
        let lower = if within(690.0) { 690.0 } else { boundary(here, 690.0, within) };
        let lower = if lower >= 690.0 { 0.0 } else { (-lower).exp() };
        Estimate { value, lower, upper: (-upper).exp() }
    }

    /// The greatest likelihood of a distribution that exceeds `above` with probability
    /// e^-`reach`.
    fn profile(&self, above: f64, reach: f64) -> f64 {
        let with_shape = |shape: f64| {
            // From above = σ·((e^(ξ·reach) - 1)/ξ).
            let z = if shape.abs() < 1e-9 { reach } else { (shape * reach).exp_m1() / shape };
            Pareto { shape, scale: above / z }.log_likelihood(&self.exceedances)
        };
        let shape = golden_maximum(SHAPES.start - 0.5, SHAPES.end + 1.0, with_shape);
        // Where all is impossible on one side, the search may end there.
        with_shape(shape).max(with_shape(self.pareto.shape))
    }
}

/// The point between `inside` and `outside` where a condition ends to hold.
fn boundary(mut inside: f64, mut outside: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..60 {
        let middle = 0.5 * (inside + outside);
        if holds(middle) { inside = middle } else { outside = middle }
        if (inside - outside).abs() <= 1e-7 * inside.abs() {
            break;
        }
    }
    0.5 * (inside + outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exceedances that come in pairs are half as many.
    #[test]
    fn the_extremal_index_of_pairs_is_a_half() {
        let random = &mut crate::synthetic::Random(3);
        let mut place = 0;
        let mut places = Vec::new();
        for _ in 0..2000 {
            place += 2 + random.below(200);
            places.extend([place, place + 1]);
        }
        let index = extremal_index(places);
        assert!((0.45..0.55).contains(&index), "{index}");
        assert_eq!(log_term(0.0, 2.0), 2.0);
    }
}

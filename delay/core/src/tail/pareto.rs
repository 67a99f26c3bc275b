//! The generalized Pareto distribution, and its maximum-likelihood fit.

use crate::stats::distributions::normal_quantile;

/// Below this, the effect of the shape is below the precision of 64 bits, and limits are used.
const SMALL_SHAPE: f64 = 1e-9;

/// ln(1 + ξz)/ξ, which is z for ξ = 0.
pub(super) fn log_term(shape: f64, z: f64) -> f64 {
    if shape.abs() < SMALL_SHAPE { z } else { (shape * z).ln_1p() / shape }
}

/// A generalized Pareto distribution of exceedances of a threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pareto {
    /// ξ. Below 0 there is a largest value; 0 is the exponential distribution; above 0 the tail decreases as a
    /// power.
    pub shape: f64,
    /// σ, in the unit of the values; above 0.
    pub scale: f64,
}

/// The kind of tail, by the shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Bounded: there is a largest value.
    Bounded,
    /// Decreases exponentially: the shape is not distinguishable from 0.
    Exponential,
    /// Decreases as a power of the value.
    Heavy,
}

impl Pareto {
    /// The probability of a value above `x`.
    pub fn survival(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 1.0;
        }
        let z = x / self.scale;
        if self.shape < 0.0 && self.shape * z <= -1.0 {
            return 0.0;
        }
        (-log_term(self.shape, z)).exp()
    }

    /// The value that is exceeded with probability `p`, `0 < p <= 1`.
    pub fn exceeded_with(&self, p: f64) -> f64 {
        let reach = -p.ln();
        let z = if self.shape.abs() < SMALL_SHAPE {
            reach
        } else {
            (self.shape * reach).exp_m1() / self.shape
        };
        self.scale * z
    }

    /// The largest possible value, if the shape bounds it.
    pub fn end(&self) -> Option<f64> {
        (self.shape < 0.0).then(|| -self.scale / self.shape)
    }

    /// The log-likelihood of non-negative values.
    pub fn log_likelihood(&self, values: &[f64]) -> f64 {
        if self.scale <= 0.0 {
            return f64::NEG_INFINITY;
        }
        let mut sum = 0.0;
        for value in values {
            let z = value / self.scale;
            if self.shape * z <= -1.0 {
                return f64::NEG_INFINITY;
            }
            sum += log_term(self.shape, z);
        }
        -(values.len() as f64) * self.scale.ln() - (1.0 + self.shape) * sum
    }

    /// The standard error of the shape for `n` values (Smith 1985); for shapes above -1/2.
    pub fn shape_error(&self, n: usize) -> f64 {
        (1.0 + self.shape) / (n as f64).sqrt()
    }

    /// The kind of tail, at 95 % confidence.
    pub fn kind(&self, n: usize) -> Shape {
        let reach = normal_quantile(0.975) * self.shape_error(n);
        match self.shape {
            shape if shape + reach < 0.0 => Shape::Bounded,
            shape if shape - reach > 0.0 => Shape::Heavy,
            _ => Shape::Exponential,
        }
    }

    /// Returns the distribution of maximum likelihood; `None` if there is none with a shape above -1, below which
    /// likelihood is unbounded.
    ///
    /// For a given θ = ξ/σ, the best ξ is the mean of ln(1 + θx) (Grimshaw 1993); the rest is a search for θ.
    pub fn fit(values: &[f64]) -> Option<Self> {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let largest = values.iter().copied().max_by(f64::total_cmp)?;
        if values.len() < 2 || mean <= 0.0 || !largest.is_finite() {
            return None;
        }
        let best = |theta: f64| -> Self {
            // Near 0 the mean of logarithms is θ·mean to all digits.
            if theta.abs() * largest < SMALL_SHAPE {
                return Pareto { shape: 0.0, scale: mean };
            }
            let shape =
                values.iter().map(|x| (theta * x).ln_1p()).sum::<f64>() / values.len() as f64;
            Pareto { shape, scale: shape / theta }
        };
        let quality = |theta: f64| {
            let candidate = best(theta);
            // The sum of logarithms is known: it is n times the shape.
            if candidate.shape <= -1.0 {
                f64::NEG_INFINITY
            } else {
                -candidate.scale.ln() - candidate.shape
            }
        };
        // From next to the end of the support up to a tail without a mean, denser where it bends.
        let negative = (1..=40).map(|i| -(1.0 - 0.7_f64.powi(i)) / largest).rev();
        let positive = (0..=60).map(|i| 1e-4 * 1.4_f64.powi(i) / mean);
        let grid: Vec<f64> = negative.chain([0.0]).chain(positive).collect();
        let peak =
            (0..grid.len()).max_by(|&a, &b| quality(grid[a]).total_cmp(&quality(grid[b])))?;
        if peak == 0 || peak == grid.len() - 1 {
            return None;
        }
        let theta = golden_maximum(grid[peak - 1], grid[peak + 1], 1e-9, quality);
        Some(best(theta)).filter(|found| found.shape > -1.0 && found.scale > 0.0)
    }
}

/// Returns the maximum of a function with one peak between `low` and `high`, to a `fraction` of their distance. If
/// both sides are equal, the search continues above: impossible values, with minus infinity, are below.
pub(super) fn golden_maximum(
    mut low: f64,
    mut high: f64,
    fraction: f64,
    of: impl Fn(f64) -> f64,
) -> f64 {
    let golden = (5_f64.sqrt() - 1.0) / 2.0;
    let enough = fraction * (high - low);
    let (mut a, mut b) = (high - golden * (high - low), low + golden * (high - low));
    let (mut of_a, mut of_b) = (of(a), of(b));
    while high - low > enough {
        if of_a <= of_b {
            low = a;
            (a, of_a) = (b, of_b);
            b = low + golden * (high - low);
            of_b = of(b);
        } else {
            high = b;
            (b, of_b) = (a, of_a);
            a = high - golden * (high - low);
            of_a = of(a);
        }
    }
    0.5 * (low + high)
}

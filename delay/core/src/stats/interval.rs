//! Confidence intervals of shares and quantiles.

use super::distributions::{beta_quantile, normal_quantile, student_quantile};

/// Minimum number of independent delays on the smaller side of a quantile. With fewer, an interval is withheld.
const FEWEST: f64 = 5.0;
/// Factor of the estimated variance: it is low in those measurements whose average is low, too, because a rare
/// overload is missing. Selected by simulation (`make soak SOAK=delay`).
const CAUTION: f64 = 1.4;
/// The number of independent delays at which the variance is doubled again, since so few show little of their
/// dependence.
const SCARCE: f64 = 6.0;
/// Number of delays on each side above which the normal distribution replaces the binomial one.
const MANY: f64 = 1e5;

/// The number of independent delays that contain the same information, with the degrees of freedom of this
/// estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EffectiveCount {
    /// The number, which exceeds that of the delays if they follow a schedule.
    pub count: f64,
    /// Degrees of freedom.
    pub freedom: usize,
}

impl EffectiveCount {
    /// The number on the smaller side of a quantile.
    fn on_smaller_side(&self, q: f64) -> f64 {
        self.count * q.min(1.0 - q)
    }

    /// Returns the range of shares whose quantiles contain the true quantile `q`, `0 < q < 1`, with probability
    /// `confidence`; `None` with too few independent delays.
    ///
    /// It is the interval of Clopper and Pearson for the effective number, reduced for its own uncertainty (Korn,
    /// Graubard 1998), read as shares (Woodruff 1952).
    pub(super) fn shares(&self, q: f64, confidence: f64) -> Option<(f64, f64)> {
        let side = self.on_smaller_side(q);
        if side < FEWEST {
            return None;
        }
        let count = self.count / self.caution(side, confidence).powi(2);
        let (low, high) = (0.5 * (1.0 - confidence), 0.5 * (1.0 + confidence));
        if count * q.min(1.0 - q) > MANY {
            let reach = normal_quantile(high) * (q * (1.0 - q) / count).sqrt();
            return Some(((q - reach).max(0.0), (q + reach).min(1.0)));
        }
        let (below, above) = (count * q, count * (1.0 - q));
        Some((beta_quantile(low, below, above + 1.0), beta_quantile(high, below + 1.0, above)))
    }

    /// The half width of the interval of a mean, in standard errors of independent values; `None` with too few.
    pub(super) fn reach_of_mean(&self, confidence: f64) -> Option<f64> {
        let side = self.on_smaller_side(0.5);
        let normal = normal_quantile(0.5 * (1.0 + confidence));
        (side >= FEWEST).then(|| normal * self.caution(side, confidence))
    }

    /// The factor of the width of an interval.
    fn caution(&self, side: f64, confidence: f64) -> f64 {
        let level = 0.5 * (1.0 + confidence);
        let student = student_quantile(level, self.freedom) / normal_quantile(level);
        student * (CAUTION * (1.0 + (SCARCE / side).powi(2))).sqrt()
    }
}

/// Returns the interval of a share of which `k` of `n` independent ones were observed (Clopper, Pearson 1934).
pub fn share(k: u64, n: u64, confidence: f64) -> (f64, f64) {
    let miss = (1.0 - confidence) / 2.0;
    let (k, others) = (k as f64, n.saturating_sub(k) as f64);
    let lower = if k == 0.0 { 0.0 } else { beta_quantile(miss, k, others + 1.0) };
    let upper = if others == 0.0 { 1.0 } else { beta_quantile(1.0 - miss, k + 1.0, others) };
    (lower, upper)
}

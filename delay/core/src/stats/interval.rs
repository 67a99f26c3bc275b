//! Distribution-free confidence intervals.
//!
//! The number of `n` delays below the true quantile is binomial; so the quantile lies between two order statistics
//! with a computable probability (David, Nagaraja: *Order Statistics*, 7.1). The delays are assumed to be
//! independent. Those of one overload are not: an interval of clustered delays is that of the number of clusters.

use super::distributions::{binomial_probability, binomial_quantile};

/// The order statistics between which a quantile lies. Ranks count from 1, the smallest delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankInterval {
    /// `None`: too few delays for a lower bound.
    pub lower: Option<u64>,
    /// `None`: too few delays for an upper bound.
    pub upper: Option<u64>,
}

/// Returns the ranks between which the quantile `q`, `0 < q < 1`, of `n` delays lies with a probability of at least
/// `confidence`, with at most half of the rest on each side.
pub fn quantile_ranks(n: u64, q: f64, confidence: f64) -> RankInterval {
    let miss = (1.0 - confidence) / 2.0;
    let lower = binomial_quantile(miss, n, q);
    let upper = binomial_quantile(1.0 - miss, n, q) + 1;
    RankInterval { lower: (lower >= 1).then_some(lower), upper: (upper <= n).then_some(upper) }
}

/// Returns the number of delays required for an upper bound of the quantile `q`.
///
/// With fewer, the probability that the largest delay is below the quantile is too high.
pub fn needed(q: f64, confidence: f64) -> u64 {
    let miss = (1.0 - confidence) / 2.0;
    (miss.ln() / q.ln()).ceil() as u64
}

/// Returns the interval of a share of which `k` of `n` were observed (Clopper, Pearson 1934).
pub fn share(k: u64, n: u64, confidence: f64) -> (f64, f64) {
    let miss = (1.0 - confidence) / 2.0;
    let lower = if k == 0 { 0.0 } else { binomial_probability(k - 1, n, 1.0 - miss) };
    let upper = if k >= n { 1.0 } else { binomial_probability(k, n, miss) };
    (lower, upper)
}

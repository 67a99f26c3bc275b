//! Confidence intervals that assume nothing about how delays are distributed.
//!
//! How many of `n` delays are below the true quantile is binomial; so the quantile lies between
//! two order statistics with a probability that can be computed (David, Nagaraja: *Order
//! Statistics*, 7.1). The delays are taken as independent. Those of one overload are not: an
//! interval of `n` delays that come in clusters is that of as many delays as there are clusters.

use super::special::{binomial_probability, binomial_quantile};

/// Between which order statistics a quantile lies. Ranks count from 1, the smallest delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankInterval {
    /// `None`: there are too few delays to bound it from below.
    pub lower: Option<u64>,
    /// `None`: there are too few delays to bound it from above.
    pub upper: Option<u64>,
}

/// The ranks between which the quantile `q`, `0 < q < 1`, of `n` delays lies with a probability of
/// at least `confidence`, at most half of the rest on either side.
pub fn quantile_ranks(n: u64, q: f64, confidence: f64) -> RankInterval {
    let miss = (1.0 - confidence) / 2.0;
    let lower = binomial_quantile(miss, n, q);
    let upper = binomial_quantile(1.0 - miss, n, q) + 1;
    RankInterval { lower: (lower >= 1).then_some(lower), upper: (upper <= n).then_some(upper) }
}

/// How many delays it takes for an upper bound of the quantile `q`.
///
/// Below that, the largest delay seen is below the quantile with a probability that is not small
/// enough.
pub fn needed(q: f64, confidence: f64) -> u64 {
    let miss = (1.0 - confidence) / 2.0;
    (miss.ln() / q.ln()).ceil() as u64
}

/// The interval of a share of which `k` of `n` were seen (Clopper, Pearson 1934).
pub fn share(k: u64, n: u64, confidence: f64) -> (f64, f64) {
    let miss = (1.0 - confidence) / 2.0;
    let lower = if k == 0 { 0.0 } else { binomial_probability(k - 1, n, 1.0 - miss) };
    let upper = if k >= n { 1.0 } else { binomial_probability(k, n, miss) };
    (lower, upper)
}

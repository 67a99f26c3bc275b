//! Goodness of fit of a generalized Pareto distribution.
//!
//! The test is that of Anderson and Darling, which weights the tails; the table accounts for shape and scale being
//! fitted to the same values (Choulakian, Stephens 2001, for fewer shapes).

use super::Pareto;
use super::table::{LEVELS, QUANTILES, SHAPES};

/// Returns the statistic A² of values in ascending order.
pub fn anderson_darling(ascending: &[f64], distribution: &Pareto) -> f64 {
    let n = ascending.len();
    let survival: Vec<f64> = ascending.iter().map(|value| distribution.survival(*value)).collect();
    // A value of probability zero must not yield infinity.
    let ln = |p: f64| p.max(f64::MIN_POSITIVE).ln();
    let sum: f64 = (0..n)
        .map(|i| (2 * i + 1) as f64 * (ln(1.0 - survival[i]) + ln(survival[n - 1 - i])))
        .sum();
    -(n as f64) - sum / n as f64
}

/// Returns the probability of a statistic of at least this value for a generalized Pareto distribution of the
/// fitted shape: at most 0.9 and at least 0.001, the limits of the table.
///
/// Shapes beyond those of the table use its last row.
pub fn p_value(statistic: f64, shape: f64) -> f64 {
    let place = SHAPES.partition_point(|known| *known <= shape).clamp(1, SHAPES.len() - 1);
    let (below, above) = (place - 1, place);
    let share = ((shape - SHAPES[below]) / (SHAPES[above] - SHAPES[below])).clamp(0.0, 1.0);
    let quantile = |level: usize| {
        QUANTILES[below][level] + share * (QUANTILES[above][level] - QUANTILES[below][level])
    };
    let last = LEVELS.len() - 1;
    if statistic <= quantile(0) {
        return LEVELS[0];
    }
    for level in 1..=last {
        let (from, to) = (quantile(level - 1), quantile(level));
        if statistic <= to {
            // The distribution of the statistic decreases exponentially.
            let share = (statistic - from) / (to - from);
            return LEVELS[level - 1] * (LEVELS[level] / LEVELS[level - 1]).powf(share);
        }
    }
    LEVELS[last]
}

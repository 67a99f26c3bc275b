//! Distributions at their edges, intervals that hold, and delay variation.

use onbeat_delay::stats::interval::{needed, quantile_ranks};
use onbeat_delay::stats::{Distribution, MAX_DELAY_NS, Variation};
use proptest::prelude::*;

#[test]
fn nothing_has_no_figures() {
    let nothing = Distribution::new();
    assert_eq!((nothing.count(), nothing.min_ns(), nothing.max_ns()), (0, None, None));
    assert_eq!((nothing.mean_ns(), nothing.standard_deviation_ns()), (None, None));
    assert_eq!((nothing.percentile(0.5, 0.95), nothing.pdv_ns(0.5)), (None, None));
    assert_eq!(nothing.exceeding(1, 0.95), (0.0, (0.0, 1.0)));
}

#[test]
fn negative_delays_are_counted_separately() {
    let mut distribution = Distribution::new();
    [-5, 0, 7, -3, i64::MIN].into_iter().for_each(|delay| distribution.record(delay));
    assert_eq!((distribution.count(), distribution.negative()), (2, 3));
    assert_eq!(distribution.most_negative_ns(), i64::MIN);
    assert_eq!((distribution.min_ns(), distribution.max_ns()), (Some(0), Some(7)));
}

#[test]
fn delays_beyond_the_range_are_counted() {
    let mut distribution = Distribution::new();
    [1, MAX_DELAY_NS as i64, i64::MAX].into_iter().for_each(|delay| distribution.record(delay));
    assert_eq!((distribution.count(), distribution.clamped()), (3, 1));
    assert_eq!(distribution.max_ns(), Some(i64::MAX as u64));
    assert_eq!(distribution.standard_deviation_ns(), None, "it would be wrong");
}

#[test]
fn a_tail_needs_enough_delays() {
    // ln(0.025)/ln(q): the largest of fewer is below the quantile too often.
    for (q, least) in [(0.5, 6), (0.99, 368), (0.999, 3_688), (0.99999, 368_887)] {
        assert_eq!(needed(q, 0.95), least);
        assert_eq!(quantile_ranks(least - 1, q, 0.95).upper, None);
        assert_eq!(quantile_ranks(least, q, 0.95).upper, Some(least));
    }
    let mut few = Distribution::new();
    (0..100).for_each(|delay| few.record(delay));
    let percentile = few.percentile(0.999, 0.95).unwrap();
    assert_eq!((percentile.value_ns, percentile.upper_ns), (99, None));
    assert!(percentile.lower_ns.is_some());
}

#[test]
fn variation_by_hand() {
    let mut variation = Variation::new();
    for delay in [100, 130, 90, 90] {
        variation.record(delay);
    }
    // A packet that was lost has no pair on either side.
    variation.lose();
    [500, 510].into_iter().for_each(|delay| variation.record(delay));
    assert_eq!(variation.count(), 4);
    assert_eq!((variation.longer().count(), variation.shorter().count()), (3, 1));
    assert_eq!((variation.longer().max_ns(), variation.shorter().max_ns()), (Some(30), Some(40)));
    assert_eq!(variation.mean_absolute_ns(), Some(80.0 / 4.0));
    let mut other = Variation::new();
    [1, 3].into_iter().for_each(|delay| other.record(delay));
    variation.merge(&other);
    assert_eq!(variation.count(), 5);
}

#[test]
fn pdv_counts_from_the_smallest() {
    let mut distribution = Distribution::new();
    (1000..2000).for_each(|delay| distribution.record(delay));
    let pdv = distribution.pdv_ns(0.99).unwrap();
    assert!(pdv.abs_diff(989) <= 2, "{pdv}");
    let (share, (lower, upper)) = distribution.exceeding(1899, 0.95);
    assert!((share - 0.1).abs() < 2e-3 && lower < 0.1 && upper > 0.1, "{share} {lower} {upper}");
}

proptest! {
    /// Percentiles are delays that were seen, to the buckets' width, and ordered.
    #[test]
    fn percentiles_are_in_order(delays in prop::collection::vec(0_i64..2_000_000_000, 1..200)) {
        let mut distribution = Distribution::new();
        delays.iter().for_each(|delay| distribution.record(*delay));
        let mut sorted = delays.clone();
        sorted.sort_unstable();
        let mut last = 0;
        for quantile in [0.01, 0.1, 0.5, 0.9, 0.99, 0.999] {
            let percentile = distribution.percentile(quantile, 0.95).unwrap();
            let rank = ((quantile * delays.len() as f64).ceil() as usize).max(1);
            let exact = sorted[rank - 1] as u64;
            prop_assert!(percentile.value_ns.abs_diff(exact) <= exact / 1000 + 1);
            prop_assert!(percentile.value_ns >= last);
            last = percentile.value_ns;
            let bounds = (percentile.lower_ns.unwrap_or(0), percentile.upper_ns.unwrap_or(u64::MAX));
            prop_assert!(bounds.0 <= percentile.value_ns && percentile.value_ns <= bounds.1);
        }
    }
}

/// A percentile has no more digits than the clock of the delays.
#[test]
fn percentiles_are_multiples_of_the_resolution() {
    for step in [1, 7, 100, 1_000, 1_000_000] {
        let mut delays = Distribution::new();
        let mut later = Distribution::new();
        for number in 1..2000 {
            let part = if number % 2 == 0 { &mut delays } else { &mut later };
            part.record((number % 500 + 9) * step);
        }
        delays.merge(&later);
        for quantile in [0.1, 0.5, 0.9, 0.99] {
            let found = delays.percentile(quantile, 0.95).unwrap();
            for value in [Some(found.value_ns), found.lower_ns, found.upper_ns] {
                assert_eq!(value.unwrap() % step as u64, 0, "{step}: {found:?}");
            }
            assert!(found.lower_ns <= Some(found.value_ns), "{step}: {found:?}");
        }
    }
}

//! Distributions at their edges, intervals that hold, and delay variation.

use onbeat_delay::stats::{Distribution, MAX_DELAY_NS, StampError, Variation};
use proptest::prelude::*;

#[test]
fn nothing_has_no_figures() {
    let nothing = Distribution::new();
    assert_eq!((nothing.count(), nothing.min_ns(), nothing.max_ns()), (0, None, None));
    assert_eq!((nothing.mean_ns(), nothing.standard_deviation_ns()), (None, None));
    assert_eq!((nothing.percentile(0.5, 0.95), nothing.mean(0.95)), (None, None));
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
fn intervals_require_independent_delays() {
    let mut few = Distribution::new();
    (0..400).for_each(|number| few.record(number * 149 % 400));
    let percentile = few.percentile(0.999, 0.95).unwrap();
    assert_eq!((percentile.value_ns, percentile.lower_ns, percentile.upper_ns), (399, None, None));
    let median = few.percentile(0.5, 0.95).unwrap();
    assert!(median.lower_ns < Some(199) && median.upper_ns > Some(199), "{median:?}");
    // Each delay 100 times: the information is that of 4 delays.
    let mut repeated = Distribution::new();
    (0..400).for_each(|number| repeated.record(number / 100));
    assert_eq!(repeated.percentile(0.5, 0.95).unwrap().upper_ns, None);
}

#[test]
fn lost_packets_are_later_than_all_others() {
    let mut delays = Distribution::new();
    for number in 0..100_000 {
        match number % 50 {
            7 => delays.record_lost(),
            _ => delays.record(number * 7919 % 100_003),
        }
    }
    assert_eq!((delays.count(), delays.lost()), (98_000, 2_000));
    let median = delays.percentile(0.5, 0.95).unwrap();
    // 50 % of all packets are 51 % of those that arrived.
    assert!(median.lower_ns < Some(50_000) && median.upper_ns > Some(51_000), "{median:?}");
    let p99 = delays.percentile(0.99, 0.95).unwrap();
    assert!(p99.lower_ns.is_some() && p99.upper_ns.is_none(), "{p99:?}");
}

#[test]
fn resolution_widens_intervals() {
    let error = StampError::of_resolutions(1_000, 1);
    assert_eq!((error.too_long_ns, error.too_short_ns), (999, 500));
    assert_eq!(StampError::of_resolutions(1, 1), StampError::default());
    let mut delays = Distribution::new();
    (0..1_000).for_each(|number| delays.record(if number * 7 % 10 < 7 { 1_000 } else { 0 }));
    let error = StampError::of_resolutions(1_000, 1_000);
    let median = error.widen(delays.percentile(0.5, 0.95).unwrap());
    assert_eq!((median.lower_ns, median.upper_ns), (Some(0), Some(2_499)));
    let mean = error.widen_mean(delays.mean(0.95).unwrap());
    assert!(mean.lower_ns < 700.0 && mean.upper_ns > 1_700.0, "{mean:?}");
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
        (1..2000).for_each(|number| delays.record((number * 149 % 500 + 9) * step));
        for quantile in [0.1, 0.5, 0.9, 0.99] {
            let found = delays.percentile(quantile, 0.95).unwrap();
            for value in
                [Some(found.value_ns), found.lower_ns, found.upper_ns].into_iter().flatten()
            {
                assert_eq!(value % step as u64, 0, "{step}: {found:?}");
            }
            assert!(found.lower_ns <= Some(found.value_ns), "{step}: {found:?}");
        }
    }
}

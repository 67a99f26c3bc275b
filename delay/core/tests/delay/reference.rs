//! Values computed by this crate, compared with scipy, numpy and ruptures (data/reference.py).

use onbeat_delay::change::change_points;
use onbeat_delay::clocks::{Hull, Point};
use onbeat_delay::stats::interval::share;
use onbeat_delay::stats::{Distribution, RELATIVE_ERROR};
use onbeat_delay::tail::{Pareto, anderson_darling};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    shares: Vec<(u64, u64, f64, f64, f64)>,
    distribution: DistributionCase,
    dependent: DependentCase,
    pareto: Vec<ParetoCase>,
    changes: Vec<ChangeCase>,
    hulls: Vec<HullCase>,
}

#[derive(Deserialize)]
struct DistributionCase {
    values: Vec<i64>,
    mean: f64,
    standard_deviation: f64,
    percentiles: Vec<(f64, u64)>,
}

#[derive(Deserialize)]
struct DependentCase {
    values: Vec<i64>,
    effective: f64,
}

#[derive(Deserialize)]
struct ParetoCase {
    values: Vec<f64>,
    shape: f64,
    scale: f64,
    log_likelihood: f64,
    anderson_darling: f64,
    survival: Vec<(f64, f64)>,
}

#[derive(Deserialize)]
struct ChangeCase {
    values: Vec<f64>,
    penalty: f64,
    shortest: usize,
    points: Vec<usize>,
}

#[derive(Deserialize)]
struct HullCase {
    points: Vec<(i64, i64)>,
    corners: Vec<(i64, i64)>,
    delay_at_0: f64,
    skew: f64,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("../data/reference.json")).unwrap()
}

#[track_caller]
fn close(found: f64, expected: f64, relative: f64) {
    let error = (found - expected).abs();
    assert!(error <= relative * expected.abs().max(1e-300), "{found} is not {expected}");
}

#[test]
fn intervals_of_shares() {
    for (k, n, confidence, lower, upper) in reference().shares {
        let found = share(k, n, confidence);
        // Logarithms of 10^8! leave this many digits.
        close(found.0, lower, 1e-5);
        close(found.1, upper, 1e-5);
    }
}

#[test]
fn moments_and_percentiles() {
    let case = reference().distribution;
    let mut whole = Distribution::new();
    case.values.iter().for_each(|value| whole.record(*value));
    close(whole.mean_ns().unwrap(), case.mean, 1e-12);
    close(whole.standard_deviation_ns().unwrap(), case.standard_deviation, 1e-12);
    for (quantile, value) in &case.percentiles {
        let percentile = whole.percentile(*quantile, 0.95).unwrap();
        close(percentile.value_ns as f64, *value as f64, RELATIVE_ERROR);
        let bounds = (percentile.lower_ns, percentile.upper_ns);
        assert!(bounds.0.is_none_or(|lower| lower <= *value), "{percentile:?}");
        assert!(bounds.1.is_none_or(|upper| upper >= *value), "{percentile:?}");
    }
}

#[test]
fn independent_delays_in_a_sequence() {
    let case = reference().dependent;
    let mut delays = Distribution::new();
    case.values.iter().for_each(|value| delays.record(*value));
    close(delays.mean(0.95).unwrap().effective, case.effective, 1e-3);
}

#[test]
fn pareto_fits() {
    for case in reference().pareto {
        let found = Pareto::fit(&case.values).unwrap();
        close(found.log_likelihood(&case.values), case.log_likelihood, 1e-10);
        assert!((found.shape - case.shape).abs() < 1e-4, "{found:?} {}", case.shape);
        close(found.scale, case.scale, 1e-4);
        let exact = Pareto { shape: case.shape, scale: case.scale };
        close(anderson_darling(&case.values, &exact), case.anderson_darling, 1e-9);
        for (x, survival) in case.survival {
            close(exact.survival(x), survival, 1e-9);
            if survival > 0.0 {
                close(exact.exceeded_with(survival), x, 1e-9);
            }
        }
    }
}

#[test]
fn changes_of_level() {
    for case in reference().changes {
        let found = change_points(&case.values, case.penalty, case.shortest);
        assert_eq!(found, case.points, "penalty {}", case.penalty);
    }
}

#[test]
fn hulls_and_the_line_below() {
    for case in reference().hulls {
        let mut hull = Hull::new();
        let mut sum = 0;
        for (time_ns, delay_ns) in &case.points {
            hull.push(Point { time_ns: *time_ns, delay_ns: *delay_ns });
            sum += time_ns;
        }
        let corners: Vec<_> =
            hull.corners().iter().map(|corner| (corner.time_ns, corner.delay_ns)).collect();
        assert_eq!(corners, case.corners);
        let line = hull.line(sum / case.points.len() as i64).unwrap();
        close(line.at(0), case.delay_at_0, 1e-6);
        assert!((line.skew - case.skew).abs() < 1e-11, "{} {}", line.skew, case.skew);
    }
}

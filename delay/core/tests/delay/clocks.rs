//! Two clocks whose truth is known: skew, steps, offset.

use onbeat_delay::clocks::{Envelope, Line, Offset, Point, offset};
use onbeat_wire::random::Random;

const SECOND: i64 = 1_000_000_000;

/// The difference of the clocks beyond the shortest delay: skew in ppm, and steps at times.
struct Truth<'a> {
    skew_ppm: f64,
    steps: &'a [(i64, f64)],
}

impl Truth<'_> {
    fn at(&self, time_ns: i64) -> f64 {
        let steps = self.steps.iter().filter(|(at, _)| *at <= time_ns).map(|(_, by)| by);
        self.skew_ppm * 1e-6 * time_ns as f64 + steps.sum::<f64>()
    }
}

/// A packet each 250 µs for `seconds`, delayed by 20 µs and an exponential queue of 30 µs.
fn measure(truth: &Truth<'_>, seconds: i64) -> Envelope {
    let mut random = Random::new(7);
    let mut envelope = Envelope::new();
    for time_ns in (0..seconds * SECOND).step_by(250_000) {
        let queue = -30_000.0 * (1.0 - random.uniform()).ln();
        let delay_ns = (20_000.0 + queue + truth.at(time_ns)).round() as i64;
        envelope.push(Point { time_ns, delay_ns });
    }
    envelope
}

/// The largest error of the fastest packet's delay, where it is known.
fn worst(envelope: &Envelope, truth: &Truth<'_>, seconds: i64) -> (f64, f64) {
    let clocks = envelope.clocks();
    let (mut worst, mut known, mut asked) = (0.0, 0.0, 0.0);
    for time_ns in (0..seconds * SECOND).step_by(1_000_000) {
        asked += 1.0;
        if let Some(segment) = clocks.segment(time_ns) {
            known += 1.0;
            worst =
                f64::max(worst, (segment.line.at(time_ns) - 20_000.0 - truth.at(time_ns)).abs());
        }
    }
    (worst, known / asked)
}

#[test]
fn fifty_ppm_and_a_step() {
    for by in [5_000.0, -20_000.0, -3e9] {
        let truth = Truth { skew_ppm: 50.0, steps: &[(37 * SECOND + 1234, by)] };
        let envelope = measure(&truth, 100);
        let clocks = envelope.clocks();
        assert_eq!(clocks.segments().len(), 2, "{by}: {clocks:?}");
        for segment in clocks.segments() {
            let error = (segment.line.skew - 50e-6).abs();
            assert!(error < 1e-8, "{by}: {segment:?}");
            assert!(segment.residual_ns < 1000.0, "{segment:?}");
        }
        let (worst, known) = worst(&envelope, &truth, 100);
        assert!(worst <= 1000.0, "{by}: {worst} ns");
        assert!(known > 0.99, "{by}: {known}");
    }
}

#[test]
fn clocks_that_agree_have_no_step() {
    let truth = Truth { skew_ppm: 0.0, steps: &[] };
    let envelope = measure(&truth, 30);
    assert_eq!(envelope.clocks().segments().len(), 1);
    let (worst, known) = worst(&envelope, &truth, 30);
    assert!(worst <= 200.0 && known == 1.0, "{worst} {known}");
}

#[test]
fn several_steps() {
    let truth = Truth {
        skew_ppm: -20.0,
        steps: &[(10 * SECOND, 50_000.0), (20 * SECOND, -80_000.0), (45 * SECOND, 10_000.0)],
    };
    let envelope = measure(&truth, 60);
    assert_eq!(envelope.clocks().segments().len(), 4);
    let (worst, known) = worst(&envelope, &truth, 60);
    assert!(worst <= 1000.0 && known > 0.98, "{worst} {known}");
}

#[test]
fn few_points_make_few_claims() {
    let clocks = |points: &[(i64, i64)]| {
        let mut envelope = Envelope::new();
        for (time_ns, delay_ns) in points {
            envelope.push(Point { time_ns: *time_ns, delay_ns: *delay_ns });
        }
        envelope.clocks()
    };
    assert!(clocks(&[]).segments().is_empty());
    assert!(clocks(&[(5, 7)]).segments().is_empty());
    let two = clocks(&[(0, 100), (SECOND, 100 + 1000)]);
    assert_eq!(two.segments().len(), 1);
    assert!((two.segments()[0].line.skew - 1e-6).abs() < 1e-15);
    assert!(two.segment(-1).is_none());
    // Times at both ends of what can be told apart.
    assert_eq!(clocks(&[(i64::MIN, 0), (i64::MAX, 0)]).segments().len(), 1);
}

#[test]
fn offsets_of_both_directions() {
    let line = |delay_ns, skew| Line { origin_ns: 0, delay_ns, skew };
    // The remote clock is 5 ms ahead and drifts by 10 ppm; 20 µs there, 30 µs back.
    let (there, back) = (line(5_020_000.0, 10e-6), line(-4_970_000.0, -10e-6));
    let found = offset(&there, &back, SECOND).unwrap();
    assert!((found.offset_ns - 5_005_000.0).abs() < 1e-6, "{found:?}");
    assert!((found.bound_ns - 25_000.0).abs() < 1e-6, "the truth, 5 µs off, is within it");
    // The truth is 5,010,000: what is told is within the bound.
    assert!((found.offset_ns - 5_010_000.0).abs() <= found.bound_ns);
    assert_eq!(found.one_way(5_005_000.0 + 24_000.0), None, "less than what it may be off by");
    assert!((found.one_way(5_105_000.0).unwrap() - 100_000.0).abs() < 1e-3);
    assert_eq!(offset(&line(-10.0, 0.0), &line(9.0, 0.0), 0), None);
    assert_eq!(Offset { offset_ns: 0.0, bound_ns: 1.0 }.one_way(1.0), Some(1.0));
}

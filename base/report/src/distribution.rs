//! Recording of delays by phase, at constant cost per delay.

use hdrhistogram::Histogram;

use crate::figure::{Distribution, DistributionSeries};

/// Upper end of the range, in nanoseconds: 60 s. A longer delay is recorded as this value, and counted as
/// clamped.
pub const MAX_DELAY_NS: u64 = 60_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Number of points of a curve per decade of exceedance probability.
const CURVE_POINTS_PER_DECADE: i32 = 32;

/// A phase of a [`Recorder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PhaseId(usize);

/// Delays in nanoseconds, by phase. A phase requires about 200 KiB, independent of the number of delays.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    phases: Vec<PhaseRecorder>,
}

#[derive(Debug, Clone)]
struct PhaseRecorder {
    name: String,
    histogram: Histogram<u64>,
    // The histogram rounds; these values are exact.
    min: u64,
    max: u64,
    sum: u128,
    lost: u64,
    clamped: u64,
}

impl Recorder {
    /// Creates a recorder without phases.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the phase of this name; creates it if necessary.
    pub fn phase(&mut self, name: &str) -> PhaseId {
        if let Some(index) = self.phases.iter().position(|phase| phase.name == name) {
            return PhaseId(index);
        }
        self.phases.push(PhaseRecorder::new(name));
        PhaseId(self.phases.len() - 1)
    }

    /// Records one delay in `phase`, which is of this recorder.
    pub fn record(&mut self, phase: PhaseId, delay_ns: u64) {
        self.phases[phase.0].record(delay_ns, 1);
    }

    /// Records a delay `count` times in `phase`, which is of this recorder.
    pub fn record_repeated(&mut self, phase: PhaseId, delay_ns: u64, count: u64) {
        self.phases[phase.0].record(delay_ns, count);
    }

    /// Counts frames that were sent in `phase` and not received.
    pub fn lose(&mut self, phase: PhaseId, frames: u64) {
        self.phases[phase.0].lost += frames;
    }

    /// Adds the delays of another recorder to the phases of the same names.
    pub fn merge(&mut self, other: &Self) {
        for theirs in &other.phases {
            let id = self.phase(&theirs.name);
            self.phases[id.0].merge(theirs);
        }
    }

    /// Returns the number of delays recorded in `phase`.
    pub fn count(&self, phase: PhaseId) -> u64 {
        self.phases[phase.0].histogram.len()
    }

    /// Returns the figure: a distribution per phase, in the order of creation.
    pub fn figure(&self) -> Distribution {
        Distribution {
            unit: "ns".into(),
            relative_error: 10_f64.powi(-i32::from(SIGNIFICANT_DIGITS)),
            series: self.phases.iter().map(PhaseRecorder::series).collect(),
        }
    }
}

impl PhaseRecorder {
    fn new(name: &str) -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_DELAY_NS, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that a histogram takes");
        Self { name: name.into(), histogram, min: u64::MAX, max: 0, sum: 0, lost: 0, clamped: 0 }
    }

    #[inline]
    fn record(&mut self, delay_ns: u64, count: u64) {
        self.histogram.saturating_record_n(delay_ns.min(MAX_DELAY_NS), count);
        self.clamped += count * u64::from(delay_ns > MAX_DELAY_NS);
        self.min = self.min.min(delay_ns);
        self.max = self.max.max(delay_ns);
        self.sum += u128::from(delay_ns) * u128::from(count);
    }

    fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all recorders have the same bounds");
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.lost += other.lost;
        self.clamped += other.clamped;
    }

    /// Returns the smallest delay that at most a share `exceedance` of the delays exceeds.
    fn value_exceeded_by(&self, exceedance: f64) -> u64 {
        self.histogram.value_at_quantile(1.0 - exceedance).clamp(self.min, self.max)
    }

    fn series(&self) -> DistributionSeries {
        let count = self.histogram.len();
        let present = |value: u64| (count > 0).then_some(value);
        let exceeded_by = |share: f64| (count > 0).then(|| self.value_exceeded_by(share));
        DistributionSeries {
            name: self.name.clone(),
            count,
            lost: self.lost,
            clamped: self.clamped,
            min: present(self.min),
            p50: exceeded_by(0.5),
            p90: exceeded_by(0.1),
            p99: exceeded_by(0.01),
            p99_9: exceeded_by(0.001),
            p99_99: (count >= 10_000).then(|| self.value_exceeded_by(0.0001)),
            max: present(self.max),
            mean: (count > 0).then(|| self.sum as f64 / count as f64),
            curve: self.curve(count),
        }
    }

    /// Returns points evenly spaced on a logarithmic axis of exceedance probability, from the smallest delay
    /// (0 %) to the share of one delay, and the largest (100 %).
    fn curve(&self, count: u64) -> Vec<(f64, u64)> {
        if count == 0 {
            return Vec::new();
        }
        let mut curve = vec![(0.0, self.min)];
        for step in 1.. {
            let exceedance = 10_f64.powf(-f64::from(step) / f64::from(CURVE_POINTS_PER_DECADE));
            if exceedance * (count as f64) < 1.0 {
                break;
            }
            curve.push((percentile(exceedance), self.value_exceeded_by(exceedance)));
        }
        curve.push((100.0, self.max));
        curve
    }
}

/// Rounds to the digits that the tail requires: 99.9968377 instead of 99.99683772233983.
fn percentile(exceedance: f64) -> f64 {
    let digits = 10_f64.powf((-exceedance.log10()).ceil() + 3.0);
    (100.0 * digits * (1.0 - exceedance)).round() / digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(delays: impl IntoIterator<Item = u64>) -> DistributionSeries {
        let mut recorder = Recorder::new();
        let phase = recorder.phase("p");
        for delay in delays {
            recorder.record(phase, delay);
        }
        recorder.figure().series.remove(0)
    }

    fn near(value: Option<u64>, expected: u64) {
        let value = value.expect("there are delays");
        let error = value.abs_diff(expected) as f64 / expected as f64;
        assert!(error <= 1e-3, "{value} is not near {expected}");
    }

    #[test]
    fn percentiles_are_within_the_stated_error() {
        let series = recorded((1..=100_000).map(|i| i * 100));
        near(series.p50, 5_000_000);
        near(series.p90, 9_000_000);
        near(series.p99, 9_900_000);
        near(series.p99_9, 9_990_000);
        near(series.p99_99, 9_999_000);
        assert_eq!(series.min, Some(100));
        assert_eq!(series.max, Some(10_000_000), "exact instead of the bucket's end");
        assert_eq!(series.mean, Some(5_000_050.0));
    }

    #[test]
    fn no_percentile_lies_outside_the_extremes() {
        let series = recorded([1_234_567, 1_234_568]);
        assert_eq!((series.min, series.max), (Some(1_234_567), Some(1_234_568)));
        assert_eq!(series.p99_99, None, "there are two");
        for value in [series.p50, series.p99_9] {
            assert!((1_234_567..=1_234_568).contains(&value.unwrap()), "{value:?}");
        }
    }

    #[test]
    fn a_phase_without_received_frames_has_no_values() {
        let mut recorder = Recorder::new();
        let phase = recorder.phase("both down");
        recorder.lose(phase, 200);
        let series = &recorder.figure().series[0];
        assert_eq!((series.count, series.lost), (0, 200));
        assert_eq!((series.min, series.p50, series.max), (None, None, None));
        assert!(series.curve.is_empty());
    }

    #[test]
    fn delays_beyond_the_range_are_counted() {
        let series = recorded([MAX_DELAY_NS, MAX_DELAY_NS + 1, u64::MAX]);
        assert_eq!((series.count, series.clamped), (3, 2));
        assert_eq!(series.max, Some(u64::MAX));
    }

    #[test]
    fn merging_equals_recording_together() {
        let mut whole = Recorder::new();
        let mut parts = [Recorder::new(), Recorder::new()];
        for i in 0..10_000_u64 {
            let (name, delay) = (["up", "down"][(i % 2) as usize], i * i + 1);
            let id = whole.phase(name);
            whole.record(id, delay);
            let part = &mut parts[(i % 3 == 0) as usize];
            let id = part.phase(name);
            part.record(id, delay);
        }
        let mut merged = Recorder::new();
        merged.phase("up");
        parts.iter().for_each(|part| merged.merge(part));
        assert_eq!(merged.figure(), whole.figure());
    }

    #[test]
    fn curves_rise_and_reach_both_ends() {
        let series = recorded((0..1_000_000_u64).map(|i| 1000 + i % 7919));
        let curve = &series.curve;
        assert_eq!(curve.first(), Some(&(0.0, series.min.unwrap())));
        assert_eq!(curve.last(), Some(&(100.0, series.max.unwrap())));
        assert!(curve.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1));
        assert!(curve.len() <= 200, "{}", curve.len());
        assert!(curve.iter().any(|point| point.0 == 99.9));
    }
}

//! Values by a parameter, such as a packet rate.

use serde::{Deserialize, Serialize};

use super::Column;
use crate::number::Number;

/// Means of repeated runs by a parameter, with their standard deviations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// The parameter.
    pub parameter: Column,
    /// Unit of the values.
    pub unit: String,
    /// The compared subjects.
    pub series: Vec<SweepSeries>,
}

/// The values of one subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepSeries {
    /// The subject.
    pub name: String,
    /// Its values, by rising parameter.
    pub points: Vec<SweepPoint>,
}

/// The value at one parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// The parameter.
    pub at: Number,
    /// Mean of the runs.
    pub mean: Number,
    /// Their standard deviation; `None` of fewer than two runs.
    pub deviation: Option<f64>,
    /// The number of runs; 0: a value of a publication.
    pub runs: u32,
}

impl Sweep {
    /// Creates a sweep without series.
    pub fn new(parameter: impl Into<Column>, unit: impl Into<String>) -> Self {
        Self { parameter: parameter.into(), unit: unit.into(), series: Vec::new() }
    }

    /// Adds the runs of a subject, by rising parameter. Values that are not numbers are omitted.
    #[must_use]
    pub fn runs<'a>(
        self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (Number, &'a [f64])>,
    ) -> Self {
        self.series(name, points.into_iter().map(|(at, values)| SweepPoint::of_runs(at, values)))
    }

    /// Adds values of a publication.
    #[must_use]
    pub fn published(
        self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (Number, f64)>,
    ) -> Self {
        let point = |(at, mean): (Number, f64)| SweepPoint {
            at,
            mean: mean.into(),
            deviation: None,
            runs: 0,
        };
        self.series(name, points.into_iter().map(point))
    }

    fn series(mut self, name: impl Into<String>, points: impl Iterator<Item = SweepPoint>) -> Self {
        self.series.push(SweepSeries { name: name.into(), points: points.collect() });
        self
    }

    /// Returns the parameters of all series, rising.
    pub(crate) fn parameters(&self) -> Vec<Number> {
        let mut all: Vec<Number> =
            self.series.iter().flat_map(|series| &series.points).map(|point| point.at).collect();
        all.sort_by(|a, b| a.as_f64().total_cmp(&b.as_f64()));
        all.dedup_by(|a, b| a.as_f64() == b.as_f64());
        all
    }
}

impl SweepSeries {
    /// Returns the value at a parameter.
    pub(crate) fn at(&self, parameter: Number) -> Option<&SweepPoint> {
        self.points.iter().find(|point| point.at.as_f64() == parameter.as_f64())
    }
}

impl SweepPoint {
    fn of_runs(at: Number, values: &[f64]) -> Self {
        let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let runs = values.len() as f64;
        // 0 / 0 is no number: without a run the mean is missing.
        let mean = values.iter().sum::<f64>() / runs;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (values.len() > 1).then(|| (squares / (runs - 1.0)).sqrt());
        Self { at, mean: mean.into(), deviation, runs: values.len() as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_of_runs() {
        let point = |values: &[f64]| SweepPoint::of_runs(7_u64.into(), values);
        let found = point(&[2.0, 4.0, f64::NAN, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((found.mean, found.runs), (5.0.into(), 8));
        assert!((found.deviation.unwrap() - 32_f64.sqrt() / 7_f64.sqrt()).abs() < 1e-12);
        assert_eq!((point(&[3.0]).mean, point(&[3.0]).deviation), (3.0.into(), None));
        assert!(point(&[]).mean.as_f64().is_nan());
    }

    #[test]
    fn series_may_have_different_parameters() {
        let at = |numbers: [u64; 2]| numbers.map(|at| (Number::from(at), 1.0));
        let sweep = Sweep::new(("rate", "packets/s"), "%")
            .published("a", at([1, 3]))
            .published("b", at([2, 3]));
        assert_eq!(sweep.parameters(), [1_u64, 2, 3].map(Number::from));
        assert!(sweep.series[0].at(2_u64.into()).is_none());
    }
}

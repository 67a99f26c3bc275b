//! Figures: measured values, each kind with its error or limit.

mod series;
mod sweep;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::number::Number;
use crate::topology::Topology;

pub use series::{Loss, MAX_LOSSES, MAX_POINTS, Phase, PhaseState, Series, TimeSeries, downsample};
pub use sweep::{Sweep, SweepPoint, SweepSeries};

/// Figures by name, in the order of measurement.
pub type Figures = IndexMap<String, Figure>;

/// One figure; `kind` identifies it in JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Figure {
    /// A value and its spread.
    Measurement(Measurement),
    /// A value and its theoretical or practical limit.
    Ratio(Ratio),
    /// The distribution of delays.
    Distribution(Distribution),
    /// Values over time.
    TimeSeries(TimeSeries),
    /// Values by a parameter.
    Sweep(Sweep),
    /// Counters, or any table.
    Counters(Counters),
    /// The measured network.
    Topology(Topology),
}

macro_rules! figure_from {
    ($($kind:ident),*) => {
        $(impl From<$kind> for Figure {
            fn from(figure: $kind) -> Self {
                Self::$kind(figure)
            }
        })*
    };
}
figure_from!(Measurement, Ratio, Distribution, TimeSeries, Sweep, Counters, Topology);

/// The error of a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Spread {
    /// Over repeated runs.
    Runs {
        /// Smallest value.
        min: Number,
        /// Middle value.
        median: Number,
        /// Largest value.
        max: Number,
        /// Number of runs.
        runs: u32,
    },
    /// A confidence interval.
    Interval {
        /// Lower bound.
        low: Number,
        /// Upper bound.
        high: Number,
        /// Probability that the true value is inside, `0.0..1.0`.
        confidence: f64,
    },
}

impl Spread {
    /// Returns the spread of repeated runs; `None` without a run. Values that are not numbers are omitted.
    pub fn of_runs(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let upper = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[upper]
        } else {
            f64::midpoint(sorted[upper - 1], sorted[upper])
        };
        Some(Self::Runs {
            min: min.into(),
            median: median.into(),
            max: max.into(),
            runs: u32::try_from(sorted.len()).unwrap_or(u32::MAX),
        })
    }
}

fn median(values: &[f64]) -> (Number, Option<Spread>) {
    match Spread::of_runs(values) {
        Some(Spread::Runs { min, median, max, runs }) => {
            (median, Some(Spread::Runs { min, median, max, runs }))
        }
        _ => (Number::MISSING, None),
    }
}

/// A value and its spread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The value; the median of several runs.
    pub value: Number,
    /// Its unit.
    pub unit: String,
    /// Its error; `None` for a count.
    pub spread: Option<Spread>,
}

impl Measurement {
    /// Creates a value without a spread.
    pub fn new(unit: impl Into<String>, value: impl Into<Number>) -> Self {
        Self { value: value.into(), unit: unit.into(), spread: None }
    }

    /// Creates the median of repeated runs, with their spread.
    pub fn of_runs(unit: impl Into<String>, values: &[f64]) -> Self {
        let (value, spread) = median(values);
        Self { value, unit: unit.into(), spread }
    }

    /// Adds a confidence interval.
    pub fn with_interval(mut self, low: f64, high: f64, confidence: f64) -> Self {
        let (low, high) = (low.into(), high.into());
        self.spread = Some(Spread::Interval { low, high, confidence });
        self
    }
}

/// A value and its limit, the best possible value, measured in the same run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The value; the median of several runs.
    pub value: Number,
    /// The limit; the median of several runs.
    pub limit: Number,
    /// The name of the limit: `plain XDP redirect`.
    pub limit_name: String,
    /// Unit of value and limit.
    pub unit: String,
    /// Value divided by limit; the median of several runs' ratios.
    pub ratio: Number,
    /// Spread of the ratio.
    pub spread: Option<Spread>,
}

impl Ratio {
    /// Creates the ratio of one run.
    pub fn new(
        unit: impl Into<String>,
        value: impl Into<Number>,
        limit: impl Into<Number>,
        limit_name: impl Into<String>,
    ) -> Self {
        let (value, limit) = (value.into(), limit.into());
        let ratio = (value.as_f64() / limit.as_f64()).into();
        Self { value, limit, limit_name: limit_name.into(), unit: unit.into(), ratio, spread: None }
    }

    /// Creates the ratio of runs measured in pairs of (value, limit): a disturbance of both halves of a pair
    /// cancels out.
    pub fn of_runs(
        unit: impl Into<String>,
        pairs: &[(f64, f64)],
        limit_name: impl Into<String>,
    ) -> Self {
        let values: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
        let limits: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
        let ratios: Vec<f64> = pairs.iter().map(|pair| pair.0 / pair.1).collect();
        let (ratio, spread) = median(&ratios);
        Self {
            value: median(&values).0,
            limit: median(&limits).0,
            limit_name: limit_name.into(),
            unit: unit.into(),
            ratio,
            spread,
        }
    }
}

/// Delay distributions to compare. Created by [`Recorder`](crate::Recorder).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Unit of the delays.
    pub unit: String,
    /// Relative error of a percentile; min, max and mean are exact.
    pub relative_error: f64,
    /// The distributions, one per phase or load.
    pub series: Vec<DistributionSeries>,
}

/// One distribution. If no frame was received, the values are `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DistributionSeries {
    /// Phase or load.
    pub name: String,
    /// Delays recorded.
    pub count: u64,
    /// Frames sent and not received; they are in none of the values below.
    pub lost: u64,
    /// Delays above the recorder's range, recorded as its upper end; exact in `max` and `mean`.
    pub clamped: u64,
    /// Smallest.
    pub min: Option<u64>,
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p99_9: Option<u64>,
    /// 99.99th percentile; `None` with fewer than 10,000 delays.
    #[serde(default)]
    pub p99_99: Option<u64>,
    /// Largest.
    pub max: Option<u64>,
    /// Mean.
    pub mean: Option<f64>,
    /// Curve of (percentile `0.0..=100.0`, value), rising; dense toward 100.
    pub curve: Vec<(f64, u64)>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Headings.
    pub columns: Vec<Column>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

impl Counters {
    /// Creates a table with these headings, each with an optional unit: see [`Column`].
    pub fn new<C: Into<Column>>(columns: impl IntoIterator<Item = C>) -> Self {
        Self { columns: columns.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Creates a table of names and numbers.
    pub fn named<C: Into<Column>, N: Into<Cell>, V: Into<Cell>>(
        columns: [C; 2],
        rows: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let mut table = Self::new(columns);
        for (name, value) in rows {
            table.row([name.into(), value.into()]);
        }
        table
    }

    /// Adds a row. A row shorter than the headings is padded, a longer one is truncated.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let mut row: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        row.resize(self.columns.len(), Cell::Text(String::new()));
        self.rows.push(row);
    }
}

/// A heading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// The name of the column.
    pub name: String,
    /// Unit of its numbers; empty for counts and text.
    pub unit: String,
}

impl From<&str> for Column {
    fn from(name: &str) -> Self {
        Self { name: name.into(), unit: String::new() }
    }
}

impl<N: Into<String>> From<(N, &str)> for Column {
    fn from((name, unit): (N, &str)) -> Self {
        Self { name: name.into(), unit: unit.into() }
    }
}

/// The content of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A name or a state.
    Text(String),
    /// A count or a measurement.
    Number(Number),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Number(value.into())
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Number(value.into())
    }
}

impl From<Number> for Cell {
    fn from(value: Number) -> Self {
        Self::Number(value)
    }
}

/// No value becomes [`Number::MISSING`].
impl<N: Into<Number>> From<Option<N>> for Cell {
    fn from(value: Option<N>) -> Self {
        Self::Number(value.map_or(Number::MISSING, Into::into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_runs() {
        let runs = |min: f64, median: f64, max: f64, runs| {
            Some(Spread::Runs { min: min.into(), median: median.into(), max: max.into(), runs })
        };
        assert_eq!(Spread::of_runs(&[]), None);
        assert_eq!(Spread::of_runs(&[f64::NAN]), None);
        assert_eq!(Spread::of_runs(&[3.0]), runs(3.0, 3.0, 3.0, 1));
        assert_eq!(Spread::of_runs(&[3.0, 1.0, 2.0]), runs(1.0, 2.0, 3.0, 3));
        assert_eq!(Spread::of_runs(&[4.0, 1.0, 2.0, 3.0]), runs(1.0, 2.5, 4.0, 4));
    }

    #[test]
    fn a_ratio_of_runs_is_the_median_of_paired_ratios() {
        // The machine halves its speed in the second pair, which affects both halves.
        let ratio = Ratio::of_runs("frames/s", &[(90.0, 100.0), (45.0, 50.0), (91.0, 100.0)], "x");
        assert!((ratio.ratio.as_f64() - 0.9).abs() < 1e-9);
        assert_eq!(ratio.limit, 100.0.into());
    }

    #[test]
    fn a_ratio_without_a_limit_is_missing() {
        let json = serde_json::to_value(Ratio::new("1", 0_u64, 0_u64, "x")).unwrap();
        assert_eq!(json["ratio"], serde_json::Value::Null);
    }

    #[test]
    fn rows_have_the_length_of_the_headings() {
        let mut counters = Counters::new(["node", "passed"]);
        counters.row(["A"]);
        counters.row(["A", "B", "C"]);
        assert!(counters.rows.iter().all(|row| row.len() == 2));
    }
}

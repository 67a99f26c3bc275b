//! The result of one row at one period under one load, and its figures.

use onbeat_report::{Cell, Counters, Number, Outcome, Ratio, Recorder, Spread};

use super::{Load, cycle};
use crate::bench::port::series::exceeded_by;

/// Percentiles: name, and share of the values above.
const PERCENTILES: [(&str, f64); 2] = [("p50", 0.5), ("p99.9", 1e-3)];
/// Index into [`PERCENTILES`].
const P99_9: usize = 1;

/// Values of one quantity.
#[derive(Debug, Default)]
pub(in crate::bench) struct Values {
    /// Median and p99.9 per round, without rounds that have no values.
    pub(in crate::bench) rounds: Vec<[f64; PERCENTILES.len()]>,
    /// All rounds, as one phase.
    pub(in crate::bench) pooled: Recorder,
}

impl Values {
    /// Adds the values of a round.
    pub(in crate::bench) fn add(&mut self, backend: &'static str, mut values: Vec<u64>) {
        let phase = self.pooled.phase(backend);
        values.iter().for_each(|value| self.pooled.record(phase, *value));
        values.sort_unstable();
        if !values.is_empty() {
            let of =
                |(_, share)| exceeded_by(&values, share).map_or(f64::NAN, |value| value as f64);
            self.rounds.push(PERCENTILES.map(of));
        }
    }

    /// Counts lost values.
    pub(in crate::bench) fn lose(&mut self, backend: &'static str, count: u64) {
        let phase = self.pooled.phase(backend);
        self.pooled.lose(phase, count);
    }

    /// p99.9 over all rounds.
    fn tail(&self) -> Option<u64> {
        let figure = self.pooled.figure();
        figure.series.first().and_then(|series| series.p99_9)
    }

    fn percentiles(&self, place: usize) -> Vec<f64> {
        self.rounds.iter().map(|round| round[place]).collect()
    }
}

/// The result of one row at one period under one load.
pub(in crate::bench) trait CycleCase {
    /// The measured quantities.
    type Quantity: Quantity;

    /// The row.
    fn backend(&self) -> &'static str;

    /// Period in nanoseconds, and load.
    fn condition(&self) -> (u64, Load);

    /// The values of a quantity.
    fn values(&self, quantity: Self::Quantity) -> &Values;

    /// A recorder that the distribution of a quantity shows first, as a reference.
    fn reference(&self, _quantity: Self::Quantity) -> Option<&Recorder> {
        None
    }

    /// The first cells of its row in a table: cycle, load, back end.
    fn cells(&self) -> [Cell; 3] {
        let (period_ns, load) = self.condition();
        [cycle(period_ns).into(), load.name().into(), self.backend().into()]
    }
}

/// A quantity measured in each cycle.
pub(in crate::bench) trait Quantity: Copy {
    /// Its name in figures.
    fn name(self) -> &'static str;
}

/// All periods and loads, in order.
fn conditions(cases: &[impl CycleCase]) -> Vec<(u64, Load)> {
    let mut conditions: Vec<_> = cases.iter().map(CycleCase::condition).collect();
    conditions.dedup();
    conditions
}

/// The cases at one period under one load.
fn under<C: CycleCase>(cases: &[C], condition: (u64, Load)) -> impl Iterator<Item = &C> {
    cases.iter().filter(move |case| case.condition() == condition)
}

/// Adds the distributions of the quantities.
pub(in crate::bench) fn distributions<C: CycleCase>(
    outcome: &mut Outcome,
    cases: &[C],
    quantities: &[C::Quantity],
) {
    for quantity in quantities {
        for (period_ns, load) in conditions(cases) {
            let mut recorder = Recorder::new();
            for case in under(cases, (period_ns, load)) {
                case.reference(*quantity).into_iter().for_each(|other| recorder.merge(other));
                recorder.merge(&case.values(*quantity).pooled);
            }
            let name = format!("{}, {}, {load}", quantity.name(), cycle(period_ns));
            outcome.figure(name, recorder.figure());
        }
    }
}

/// Adds p99.9 of a quantity over all cycles relative to the baseline's, in nanoseconds; the spread is
/// that of the ratios per round. `what` names the quantity; rows that are not `compared` are left out.
pub(in crate::bench) fn ratios<C: CycleCase>(
    outcome: &mut Outcome,
    cases: &[C],
    (quantity, what): (C::Quantity, &str),
    baseline: &'static str,
    compared: impl Fn(&str) -> bool,
) {
    for (period_ns, load) in conditions(cases) {
        let cases = || under(cases, (period_ns, load));
        let Some(limits) = cases().find(|case| case.backend() == baseline) else { continue };
        let limits = limits.values(quantity);
        for case in cases().filter(|case| case.backend() != baseline && compared(case.backend())) {
            let values = case.values(quantity);
            let (Some(value), Some(limit)) = (values.tail(), limits.tail()) else { continue };
            let mut ratio = Ratio::new("ns", value, limit, baseline);
            let rounds = values.percentiles(P99_9).into_iter().zip(limits.percentiles(P99_9));
            let rounds: Vec<f64> = rounds.map(|(value, limit)| value / limit).collect();
            ratio.spread = Spread::of_runs(&rounds);
            let (backend, cycle) = (case.backend(), cycle(period_ns));
            let name =
                format!("p99.9 of {what}: {backend} relative to {baseline}, {cycle}, {load}");
            outcome.figure(name, ratio);
        }
    }
}

/// Adds percentiles of a quantity with their spread over rounds, and relative to those of the row
/// `limit`.
pub(in crate::bench) fn over_rounds<C: CycleCase>(
    cases: &[C],
    quantity: C::Quantity,
    limit: Option<&'static str>,
) -> Counters {
    let mut columns =
        ["cycle", "load", "back end", "rounds"].map(|name| (name.to_owned(), "")).to_vec();
    for (percentile, _) in PERCENTILES {
        columns.extend(
            ["median", "minimum", "maximum"].map(|of| (format!("{percentile} {of}"), "ns")),
        );
        columns.extend(limit.map(|limit| (format!("{percentile} relative to {limit}"), "")));
    }
    let mut table = Counters::new(columns);
    for case in cases {
        let values = case.values(quantity);
        let mut row = Vec::from(case.cells());
        row.push((values.rounds.len() as u64).into());
        for place in 0..PERCENTILES.len() {
            let percentiles = values.percentiles(place);
            row.extend(spread(&percentiles));
            row.extend(limit.map(|limit| {
                let case = under(cases, case.condition()).find(|other| other.backend() == limit);
                let limits = case.map(|case| case.values(quantity).percentiles(place));
                let pairs: Vec<_> =
                    percentiles.iter().copied().zip(limits.unwrap_or_default()).collect();
                Cell::from(Ratio::of_runs("ns", &pairs, limit).ratio)
            }));
        }
        table.row(row);
    }
    table
}

/// Median, minimum and maximum.
fn spread(values: &[f64]) -> [Cell; 3] {
    let numbers = match Spread::of_runs(values) {
        Some(Spread::Runs { min, median, max, .. }) => [median, min, max],
        _ => [Number::MISSING; 3],
    };
    numbers.map(Cell::from)
}

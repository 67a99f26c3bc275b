//! Common parts of the text and the HTML of a result: grouping of figures, and their tables.

use crate::figure::{
    Cell, Counters, Distribution, Figure, Measurement, Ratio, Spread, Sweep, SweepPoint,
    SweepSeries, TimeSeries,
};
use crate::format;
use crate::number::Number;
use crate::origin::{Input, InputKind};
use crate::result::{Check, Outcome};
use crate::table::{Alignment, TextTable};

/// Figures as shown: measurements in one table and ratios in one chart, in the position of the first one;
/// others separately.
#[derive(Debug)]
pub(crate) enum Group<'a> {
    Measurements(Vec<(&'a str, &'a Measurement)>),
    Ratios(Vec<(&'a str, &'a Ratio)>),
    Single(&'a str, &'a Figure),
}

pub(crate) fn groups<'a>(
    figures: impl IntoIterator<Item = (&'a String, &'a Figure)>,
) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let (mut measurements, mut ratios) = (None, None);
    for (name, figure) in figures {
        match figure {
            Figure::Measurement(measurement) => {
                let at = *measurements.get_or_insert_with(|| {
                    groups.push(Group::Measurements(Vec::new()));
                    groups.len() - 1
                });
                if let Group::Measurements(list) = &mut groups[at] {
                    list.push((name, measurement));
                }
            }
            Figure::Ratio(ratio) => {
                let at = *ratios.get_or_insert_with(|| {
                    groups.push(Group::Ratios(Vec::new()));
                    groups.len() - 1
                });
                if let Group::Ratios(list) = &mut groups[at] {
                    list.push((name, ratio));
                }
            }
            other => groups.push(Group::Single(name, other)),
        }
    }
    groups
}

/// A run without checks has not passed.
pub(crate) fn verdict_word(outcome: &Outcome) -> &'static str {
    match (outcome.ok(), outcome.checks.is_empty()) {
        (true, true) => "DONE",
        (true, false) => "PASS",
        (false, _) => "FAIL",
    }
}

pub(crate) fn verdict(outcome: &Outcome) -> String {
    let failed = outcome.checks.iter().filter(|check| !check.ok()).count();
    match (outcome.checks.len(), failed) {
        (0, _) => "nothing was checked".into(),
        (1, 0) => "the check holds".into(),
        (all, 0) => format!("all {all} checks hold"),
        (all, failed) => format!("{failed} of {all} checks failed"),
    }
}

pub(crate) fn check_table(checks: &[Check]) -> TextTable {
    let mut table = TextTable::new([
        ("check", Alignment::Left),
        ("value", Alignment::Right),
        ("", Alignment::Left),
        ("limit", Alignment::Right),
        ("", Alignment::Left),
    ]);
    for check in checks {
        let value = format::quantity(check.value, &check.unit);
        let limit = format::quantity(check.limit, &check.unit);
        let ok = if check.ok() { "ok" } else { "FAILED" };
        table.row([&check.name, &value, check.sense.sign(), &limit, ok]);
    }
    table
}

pub(crate) fn measurement_table(list: &[(&str, &Measurement)]) -> TextTable {
    let mut table = TextTable::new([
        ("measurement", Alignment::Left),
        ("value", Alignment::Right),
        ("spread", Alignment::Left),
    ]);
    for (name, measurement) in list {
        let value = format::quantity(measurement.value, &measurement.unit);
        let spread =
            spread(measurement.spread.as_ref(), |v| format::quantity(v, &measurement.unit));
        table.row([*name, &value, &spread]);
    }
    table
}

pub(crate) fn ratio_table(list: &[(&str, &Ratio)]) -> TextTable {
    let mut table = TextTable::new([
        ("value and its limit", Alignment::Left),
        ("value", Alignment::Right),
        ("limit", Alignment::Right),
        ("ratio", Alignment::Right),
        ("spread of the ratio", Alignment::Left),
        ("definition of the limit", Alignment::Left),
    ]);
    for (name, ratio) in list {
        let quantity = |value| format::quantity(value, &ratio.unit);
        let (value, limit) = (quantity(ratio.value), quantity(ratio.limit));
        let share = format::percent(ratio.ratio.as_f64());
        let spread = spread(ratio.spread.as_ref(), |value| format::percent(value.as_f64()));
        table.row([*name, &value, &limit, &share, &spread, &ratio.limit_name]);
    }
    table
}

fn spread(spread: Option<&Spread>, text: impl Fn(Number) -> String) -> String {
    match spread {
        Some(Spread::Runs { runs: 1, .. }) => "1 run".into(),
        Some(Spread::Runs { min, max, runs, .. }) => {
            format!("{} to {} in {runs} runs", text(*min), text(*max))
        }
        Some(Spread::Interval { low, high, confidence }) => {
            let confidence = format::float(confidence * 100.0);
            format!("{} to {} with {confidence} % confidence", text(*low), text(*high))
        }
        None => String::new(),
    }
}

pub(crate) fn distribution_table(figure: &Distribution) -> TextTable {
    let headings = ["min", "p50", "p90", "p99", "p99.9", "p99.99", "max", "mean"];
    let headings = ["frames", "lost"].into_iter().chain(headings);
    let mut table = TextTable::new(
        [("", Alignment::Left)]
            .into_iter()
            .chain(headings.map(|heading| (heading, Alignment::Right))),
    );
    for series in &figure.series {
        let quantity = |value: Option<Number>| {
            value.map_or("–".into(), |value| format::quantity(value, &figure.unit))
        };
        let mean = quantity(series.mean.map(Number::from));
        let [min, p50, p90, p99, p99_9, p99_99, max] = [
            series.min,
            series.p50,
            series.p90,
            series.p99,
            series.p99_9,
            series.p99_99,
            series.max,
        ]
        .map(|value| quantity(value.map(Number::from)));
        let count = |value: u64| format::quantity(value.into(), "");
        let (frames, lost) = (count(series.count), count(series.lost));
        table.row([
            &series.name,
            &frames,
            &lost,
            &min,
            &p50,
            &p90,
            &p99,
            &p99_9,
            &p99_99,
            &max,
            &mean,
        ]);
    }
    table
}

/// Returns the precision of a distribution, and the number of delays beyond its range.
pub(crate) fn distribution_remark(figure: &Distribution) -> String {
    let error = format::float(figure.relative_error * 100.0);
    let clamped: u64 = figure.series.iter().map(|series| series.clamped).sum();
    let mut remark = format!("Percentiles are within {error} %; min, mean and max are exact.");
    if clamped > 0 {
        let clamped = format::count(clamped, "delay");
        remark.push_str(&format!(" Beyond the range: {clamped}."));
    }
    remark
}

pub(crate) fn time_series_remark(figure: &TimeSeries) -> String {
    let total: u64 = figure.series.iter().map(|series| series.total).sum();
    let lost: u64 = figure.losses.iter().map(|loss| loss.frames).sum();
    let values = format::count(total, "value");
    if figure.continuous {
        return format!("{values}.");
    }
    format!("{values}, {} lost.", format::count(lost, "frame"))
}

/// Returns the reason why a figure is empty; `None`: it is not.
pub(crate) fn empty_reason(figure: &Figure) -> Option<String> {
    let nothing = |lost: u64| match lost {
        0 => "No delay: no frame was measured.".to_owned(),
        lost => format!("No delay: {} lost, and none arrived.", format::count(lost, "frame")),
    };
    match figure {
        Figure::TimeSeries(series) => {
            let total: u64 = series.series.iter().map(|series| series.total).sum();
            let lost = series.losses.iter().map(|loss| loss.frames).sum();
            let reason =
                if series.continuous { "No value was recorded.".into() } else { nothing(lost) };
            (total == 0).then_some(reason)
        }
        Figure::Distribution(distribution) => {
            let frames: u64 = distribution.series.iter().map(|series| series.count).sum();
            let lost = distribution.series.iter().map(|series| series.lost).sum();
            (frames == 0).then(|| nothing(lost))
        }
        Figure::Sweep(sweep) => {
            sweep.parameters().is_empty().then(|| "No value was recorded.".into())
        }
        Figure::Counters(counters) => {
            counters.rows.is_empty().then(|| "No entry was recorded.".into())
        }
        Figure::Topology(topology) => {
            topology.nodes.is_empty().then(|| "The network has no node.".into())
        }
        Figure::Measurement(_) | Figure::Ratio(_) => None,
    }
}

pub(crate) fn sweep_table(figure: &Sweep) -> TextTable {
    let names = figure.series.iter().map(|series| series.name.as_str());
    let columns = std::iter::once(figure.parameter.name.as_str()).chain(names);
    let mut table = TextTable::new(columns.map(|name| (name, Alignment::Right)));
    let quantity = |value: Number| format::quantity(value, &figure.unit);
    for parameter in figure.parameters() {
        let value = |series: &SweepSeries| match series.at(parameter) {
            None => "–".into(),
            Some(SweepPoint { mean, deviation: Some(deviation), .. }) => {
                format!("{} ± {}", quantity(*mean), quantity((*deviation).into()))
            }
            Some(point) => quantity(point.mean),
        };
        let first = format::quantity(parameter, &figure.parameter.unit);
        table.row(std::iter::once(first).chain(figure.series.iter().map(value)));
    }
    table
}

/// Returns the meaning of the spreads; empty without any.
pub(crate) fn sweep_remark(figure: &Sweep) -> String {
    let points = || figure.series.iter().flat_map(|series| &series.points);
    let runs = points().filter(|point| point.deviation.is_some()).map(|point| point.runs);
    match (runs.clone().min(), runs.max()) {
        (Some(least), Some(most)) if least == most => {
            format!("Means and standard deviations of {most} runs.")
        }
        (Some(least), Some(most)) => {
            format!("Means and standard deviations of {least} to {most} runs.")
        }
        _ => String::new(),
    }
}

/// The text in place of unknown conditions.
pub(crate) const UNKNOWN_CONDITIONS: &str =
    "unknown: the inputs do not hold the conditions of their measurement";

/// Returns the known properties of an input's content: size and hash, or the reason why there are none.
pub(crate) fn input_content(input: &Input) -> String {
    match (input.size_octets, &input.sha256, input.kind) {
        (Some(octets), Some(hash), _) => {
            format!("{}, SHA-256 {hash}", format::count(octets, "octet"))
        }
        (_, _, InputKind::Interface) => "interface, captured live".into(),
        (_, _, InputKind::Secret) => "key, not hashed".into(),
        (_, _, InputKind::Pipe) => "pipe, not read to its end".into(),
        (_, _, InputKind::File) => "not read to its end".into(),
    }
}

pub(crate) fn counter_table(figure: &Counters) -> TextTable {
    let columns = figure.columns.iter().enumerate().map(|(index, column)| {
        let is_number = |row: &Vec<Cell>| matches!(row.get(index), Some(Cell::Number(_)));
        let align =
            if figure.rows.iter().any(is_number) { Alignment::Right } else { Alignment::Left };
        (column.name.as_str(), align)
    });
    let mut table = TextTable::new(columns);
    for row in &figure.rows {
        table.row(row.iter().zip(&figure.columns).map(|(cell, column)| match cell {
            Cell::Text(text) => text.clone(),
            Cell::Number(value) => format::quantity(*value, &column.unit),
        }));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;

    #[test]
    fn figures_of_a_kind_are_grouped_at_the_first_one() {
        let mut outcome = Run::begin("x").finish();
        outcome.figure("a", Measurement::new("", 1_u64));
        outcome.figure("table", Counters::new(["c"]));
        outcome.figure("r", Ratio::new("", 1_u64, 2_u64, "limit"));
        outcome.figure("b", Measurement::new("", 2_u64));
        let shape: Vec<String> = groups(&outcome.figures)
            .iter()
            .map(|group| match group {
                Group::Measurements(list) => format!("{} measurements", list.len()),
                Group::Ratios(list) => format!("{} ratios", list.len()),
                Group::Single(name, _) => (*name).into(),
            })
            .collect();
        assert_eq!(shape, ["2 measurements", "table", "1 ratios"]);
    }

    #[test]
    fn verdicts() {
        let mut outcome = Run::begin("x").finish();
        assert_eq!((verdict_word(&outcome), &*verdict(&outcome)), ("DONE", "nothing was checked"));
        outcome.check(Check::eq("lost", 0_u64, 0_u64, ""));
        assert_eq!((verdict_word(&outcome), &*verdict(&outcome)), ("PASS", "the check holds"));
        outcome.check(Check::eq("lost", 1_u64, 0_u64, ""));
        assert_eq!((verdict_word(&outcome), &*verdict(&outcome)), ("FAIL", "1 of 2 checks failed"));
    }

    #[test]
    fn a_sweep_as_a_table() {
        let figure = Sweep::new(("rate", "packets/s"), "%")
            .runs("stock", [(Number::from(1000_u64), &[10.0, 14.0][..])])
            .published("paper", [(Number::from(2000_u64), 55.0)]);
        let table = sweep_table(&figure).to_string();
        for part in ["1,000 packets/s", "12 % ± 2.828 %", "55 %", "–"] {
            assert!(table.contains(part), "{table}");
        }
        assert_eq!(sweep_remark(&figure), "Means and standard deviations of 2 runs.");
    }

    #[test]
    fn spreads_in_words() {
        let list = Measurement::of_runs("ns", &[1000.0, 3000.0, 2000.0]);
        let table = measurement_table(&[("delay", &list)]).to_string();
        assert!(table.contains("2.00 µs  1.00 µs to 3.00 µs in 3 runs"), "{table}");
        let interval = Measurement::new("ns", 2000.0).with_interval(1900.0, 2100.0, 0.95);
        let table = measurement_table(&[("delay", &interval)]).to_string();
        assert!(table.contains("1.90 µs to 2.10 µs with 95 % confidence"), "{table}");
    }
}

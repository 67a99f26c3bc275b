//! Compares results of several methods on one device, as the paper does.

use std::collections::BTreeMap;
use std::path::PathBuf;

use onbeat_delay::correction::{CorrectedDelay, Correction};
use onbeat_delay::stats::{Mean, Percentile};
use onbeat_report::{
    Cell, Check, Counters, Distribution, Figure, Outcome, Progress, Run, Spread, format,
};

use crate::correction::{
    AppliedCorrection, CALIBRATED, CORRECTED_MEAN, COUNT, DEVIATION, MEAN, measurement, method_of,
    read_result,
};
use crate::error::{Error, Result};

/// Methods whose results are compared.
const METHODS: [&str; 5] = ["match", "mirror", "scope", "hooks", "ping"];
/// The name of a mean in tables.
const MEAN_ROW: &str = "mean";
/// The figures of a result that are read.
const PERCENTILES: &str = "percentiles";
const STAGES: &str = "packets that left: stages";
const DISTRIBUTION: &str = "distribution";

/// Results of measurements of one device.
#[derive(Debug, Clone, clap::Args)]
pub struct CompareOptions {
    /// Results (--json) of onbeat delay match, mirror, scope, hooks or ping, all of one device
    #[arg(required = true, num_args = 2.., value_name = "RESULT")]
    results: Vec<PathBuf>,
    /// Subtract the delay of the path without the hop from the results of one method. FILE is from onbeat delay
    /// calibrate. DELAY is mean and deviation, such as scope=17.468+-0.412us
    #[arg(long, value_name = "FILE|METHOD=DELAY")]
    correct: Vec<String>,
}

impl CompareOptions {
    /// Reads the results and compares them.
    ///
    /// # Errors
    /// A file that is not a result of a delay measurement, or a correction of another method.
    pub fn run(&self, _: &mut Progress) -> Result<Outcome> {
        let run = Run::analysis("delay-compare");
        let mut corrections = self.corrections()?;
        let mut measured = Vec::new();
        for path in &self.results {
            let name = path.display().to_string();
            let failed = |reason: String| Error::input(&name, reason);
            let (result, input) = read_result(&name).map_err(|reason| match path.exists() {
                true => failed(reason),
                false => failed(format!(
                    "{reason}; `onbeat lab run single-hop --compare HOP` compares methods in namespaces"
                )),
            })?;
            run.inputs().add(input);
            measured.push(MeasuredDelays::of(name.clone(), result).map_err(failed)?);
        }
        let mut outcome = run.finish();
        let mut subtracted = correction_table();
        for (method, correction) in &mut corrections {
            let mut of_method =
                measured.iter_mut().filter(|delays| delays.method == *method).peekable();
            if of_method.peek().is_none() {
                return Err(Error::option(format!("--correct: no result is of {method}")));
            }
            for delays in of_method {
                delays.correct(&correction.correction).map_err(Error::option)?;
                outcome.notes.extend(correction.note(&format!("delay-{method}")));
            }
            correction.input().into_iter().for_each(|input| outcome.input(input));
            subtracted.row(correction_row(method, &correction.correction));
        }
        label(&mut measured);
        outcome.figure("as measured", as_measured(&measured));
        if !subtracted.rows.is_empty() {
            outcome.figure("path without the hop: subtracted delay", subtracted);
        }
        outcome.figure("agreement", agreement(&measured));
        let curves = curves(&measured);
        if !curves.series.is_empty() {
            outcome.figure("distribution, as measured", curves);
        }
        conclude(&mut outcome, &measured);
        Ok(outcome)
    }

    /// The corrections by method.
    fn corrections(&self) -> Result<BTreeMap<String, AppliedCorrection>> {
        let mut corrections = BTreeMap::new();
        for text in &self.correct {
            let failed = |error: String| Error::option(format!("--correct: {error}"));
            let named = text.split_once('=').filter(|(method, _)| METHODS.contains(method));
            let (method, delay) =
                named.map_or((None, text.as_str()), |(m, delay)| (Some(m), delay));
            let correction = AppliedCorrection::read(delay).map_err(failed)?;
            let method = method.or(correction.method()).map(str::to_owned);
            let Some(method) = method else {
                return Err(failed(format!(
                    "{text} names no method; use scope={text}, for example"
                )));
            };
            if corrections.insert(method.clone(), correction).is_some() {
                return Err(failed(format!("two corrections of {method}; use one")));
            }
        }
        Ok(corrections)
    }
}

/// The delays of one result.
#[derive(Debug)]
struct MeasuredDelays {
    file: String,
    method: String,
    /// The method, and the file if several results are of the method.
    label: String,
    result: Outcome,
    mean: Option<Mean>,
    percentiles: Vec<(String, Percentile)>,
    /// The values of the hop: those above, corrected.
    of_hop: Vec<(String, CorrectedDelay)>,
    remark: Option<&'static str>,
    /// Its confidence, and that of the correction.
    confidence: f64,
}

impl MeasuredDelays {
    fn of(file: String, result: Outcome) -> std::result::Result<Self, String> {
        if result.name.starts_with(CALIBRATED) {
            return Err("is a correction; use it with --correct".into());
        }
        let method = method_of(&result.name).to_owned();
        if !METHODS.contains(&method.as_str()) {
            let methods = METHODS.join(", ");
            return Err(format!("is a result of {}; use results of {methods}", result.name));
        }
        let (mean, confidence) = interval(&result, MEAN).unzip();
        let mut delays = Self {
            label: method.clone(),
            percentiles: percentiles(&result),
            mean,
            of_hop: Vec::new(),
            remark: None,
            confidence: confidence.unwrap_or(0.95),
            file,
            method,
            result,
        };
        delays.limit();
        match delays.already_corrected() {
            Some(corrected) => delays.of_hop = corrected,
            None => delays.of_hop = delays.uncorrected(),
        }
        Ok(delays)
    }

    /// Removes values that are not those of one passage of the hop.
    fn limit(&mut self) {
        if self.method == "match" && self.result.figures.contains_key("clocks") {
            (self.mean, self.percentiles) = (None, Vec::new());
            self.remark = Some("delays by two clocks are relative to the fastest packet");
        }
        if self.method == "ping" {
            self.percentiles.clear();
            self.remark =
                Some("half of the round trip without the reflector: it contains the hop twice");
        }
    }

    /// The part of a measured delay that is one passage of the hop.
    fn passage(&self) -> f64 {
        if self.method == "ping" { 0.5 } else { 1.0 }
    }

    /// The time by which the method may measure too long, in nanoseconds: a packet leaves during the work of the
    /// driver, whose end the hooks observe.
    fn too_long_ns(&self) -> f64 {
        let Some(Figure::Counters(stages)) = self.result.figures.get(STAGES) else { return 0.0 };
        let driver = stages.rows.iter().find(|row| text(row.first()) == Some("driver"));
        driver.and_then(|row| number(row.get(2))).unwrap_or(0.0)
    }

    /// Corrects the values of the hop.
    fn correct(&mut self, correction: &Correction) -> std::result::Result<(), String> {
        if self.already_corrected().is_some() {
            return Err(format!("--correct: {} is corrected; remove it", self.file));
        }
        let mean = self.mean.map(|mean| correction.mean(&mean, self.confidence));
        let mut of_hop: Vec<_> = mean.map(|mean| (MEAN_ROW.to_owned(), mean)).into_iter().collect();
        of_hop.extend(self.percentiles.iter().filter_map(|(name, percentile)| {
            Some((name.clone(), correction.percentile(percentile, self.confidence)?))
        }));
        self.of_hop = self.passages(of_hop);
        Ok(())
    }

    fn uncorrected(&self) -> Vec<(String, CorrectedDelay)> {
        let mean = self.mean.map(|mean| {
            let Mean { value_ns, lower_ns, upper_ns, .. } = mean;
            (MEAN_ROW.to_owned(), CorrectedDelay { value_ns, lower_ns, upper_ns })
        });
        let percentiles = self.percentiles.iter().filter_map(|(name, percentile)| {
            let upper_ns = percentile.upper_ns.map_or(f64::INFINITY, |ns| ns as f64);
            let (value_ns, lower_ns) = (percentile.value_ns as f64, percentile.lower_ns? as f64);
            Some((name.clone(), CorrectedDelay { value_ns, lower_ns, upper_ns }))
        });
        self.passages(mean.into_iter().chain(percentiles).collect())
    }

    fn passages(&self, values: Vec<(String, CorrectedDelay)>) -> Vec<(String, CorrectedDelay)> {
        let (share, too_long_ns) = (self.passage(), self.too_long_ns());
        let passage = |delay: CorrectedDelay| CorrectedDelay {
            value_ns: share * delay.value_ns,
            lower_ns: share * delay.lower_ns - too_long_ns,
            upper_ns: share * delay.upper_ns,
        };
        values.into_iter().map(|(name, delay)| (name, passage(delay))).collect()
    }

    /// The values of a result of `--correct`.
    fn already_corrected(&self) -> Option<Vec<(String, CorrectedDelay)>> {
        let (mean, _) = interval(&self.result, CORRECTED_MEAN)?;
        let Mean { value_ns, lower_ns, upper_ns, .. } = mean;
        let mut values =
            vec![(MEAN_ROW.to_owned(), CorrectedDelay { value_ns, lower_ns, upper_ns })];
        if self.method != "ping" {
            values.extend(corrected_percentiles(&self.result));
        }
        Some(self.passages(values))
    }

    fn of_hop(&self, statistic: &str) -> Option<&CorrectedDelay> {
        self.of_hop.iter().find(|(name, _)| name == statistic).map(|(_, delay)| delay)
    }

    /// The measured value of a statistic.
    fn measured_ns(&self, statistic: &str) -> Option<f64> {
        if statistic == MEAN_ROW {
            return self.mean.map(|mean| mean.value_ns);
        }
        let mut all = self.percentiles.iter();
        all.find(|(name, _)| name == statistic).map(|(_, percentile)| percentile.value_ns as f64)
    }
}

fn text(cell: Option<&Cell>) -> Option<&str> {
    match cell {
        Some(Cell::Text(text)) => Some(text),
        _ => None,
    }
}

fn number(cell: Option<&Cell>) -> Option<f64> {
    match cell {
        Some(Cell::Number(number)) => Some(number.as_f64()).filter(|value| value.is_finite()),
        _ => None,
    }
}

/// The mean of this name with its interval, and the confidence of it.
fn interval(result: &Outcome, name: &str) -> Option<(Mean, f64)> {
    let found = measurement(result, name)?;
    let Some(Spread::Interval { low, high, confidence }) = found.spread else { return None };
    let (value_ns, lower_ns, upper_ns) = (found.value.as_f64(), low.as_f64(), high.as_f64());
    let mean = Mean { value_ns, effective: f64::NAN, lower_ns, upper_ns };
    [value_ns, lower_ns, upper_ns].iter().all(|ns| ns.is_finite()).then_some((mean, confidence))
}

/// The rows of the table of percentiles: their names, and their values of these columns.
fn percentile_rows<'a, const N: usize>(
    result: &'a Outcome,
    columns: [&str; N],
) -> impl Iterator<Item = (&'a str, [Option<f64>; N])> {
    let table = match result.figures.get(PERCENTILES) {
        Some(Figure::Counters(table)) => Some(table),
        _ => None,
    };
    let place = |name: &str| table?.columns.iter().position(|column| column.name == name);
    let places = columns.map(place);
    table.into_iter().flat_map(|table| &table.rows).filter_map(move |row| {
        Some((text(row.first())?, places.map(|place| number(row.get(place?)))))
    })
}

fn percentiles(result: &Outcome) -> Vec<(String, Percentile)> {
    let rows = percentile_rows(result, ["delay", "lower bound", "upper bound"]);
    let percentile = |(name, [value, lower, upper]): (&str, [Option<f64>; 3])| {
        let quantile = name.strip_prefix('p')?.parse::<f64>().ok()? / 100.0;
        let ns = |value: f64| value.max(0.0) as u64;
        let (value_ns, lower_ns, upper_ns) = (ns(value?), lower.map(ns), upper.map(ns));
        Some((
            name.to_owned(),
            Percentile { quantile, value_ns, effective: None, lower_ns, upper_ns },
        ))
    };
    rows.filter_map(percentile).collect()
}

fn corrected_percentiles(result: &Outcome) -> Vec<(String, CorrectedDelay)> {
    let columns = ["corrected", "corrected, lower bound", "corrected, upper bound"];
    let corrected = |(name, [value, lower, upper]): (&str, [Option<f64>; 3])| {
        let upper_ns = upper.unwrap_or(f64::INFINITY);
        Some((name.to_owned(), CorrectedDelay { value_ns: value?, lower_ns: lower?, upper_ns }))
    };
    percentile_rows(result, columns).filter_map(corrected).collect()
}

/// Distinguishes results of the same method by their files.
fn label(measured: &mut [MeasuredDelays]) {
    let methods: Vec<String> = measured.iter().map(|delays| delays.method.clone()).collect();
    for delays in measured {
        if methods.iter().filter(|method| **method == delays.method).count() > 1 {
            delays.label = format!("{}, {}", delays.method, delays.file);
        }
    }
}

fn correction_table() -> Counters {
    Counters::new([("method", ""), ("mean", "ns"), ("standard deviation", "ns"), ("delays", "")])
}

fn correction_row(method: &str, correction: &Correction) -> [Cell; 4] {
    let Correction { mean_ns, standard_deviation_ns, count, .. } = *correction;
    [method.into(), mean_ns.into(), standard_deviation_ns.into(), count.into()]
}

/// The delays of each method, as in table 2 of the paper.
fn as_measured(measured: &[MeasuredDelays]) -> Counters {
    let mut table = Counters::new([
        ("method", ""),
        ("delays", ""),
        ("mean", "ns"),
        ("standard deviation", "ns"),
        ("median", "ns"),
        ("minimum", "ns"),
        ("maximum", "ns"),
        ("started", ""),
    ]);
    for delays in measured {
        let value = |name| measurement(&delays.result, name).map(|found| found.value);
        let series = series(&delays.result);
        table.row([
            Cell::from(delays.label.as_str()),
            value(COUNT).into(),
            value(MEAN).into(),
            value(DEVIATION).into(),
            series.and_then(|series| series.p50).into(),
            series.and_then(|series| series.min).into(),
            series.and_then(|series| series.max).into(),
            delays.result.started.as_str().into(),
        ]);
    }
    table
}

fn series(result: &Outcome) -> Option<&onbeat_report::figure::DistributionSeries> {
    match result.figures.get(DISTRIBUTION) {
        Some(Figure::Distribution(found)) => found.series.first(),
        _ => None,
    }
}

/// The curves of all methods in one picture.
fn curves(measured: &[MeasuredDelays]) -> Distribution {
    let mut curves = onbeat_report::Recorder::new().figure();
    curves.series = measured
        .iter()
        .filter_map(|delays| {
            let mut series = series(&delays.result)?.clone();
            series.name.clone_from(&delays.label);
            Some(series)
        })
        .collect();
    curves
}

/// Returns true if two values may be the same delay: their intervals overlap. Errors of clocks and methods do not
/// average out, so that the intervals are not combined as those of independent values.
fn agree(one: &CorrectedDelay, other: &CorrectedDelay) -> bool {
    one.lower_ns <= other.upper_ns && other.lower_ns <= one.upper_ns
}

/// The statistics that two results have at least, in order.
fn statistics(measured: &[MeasuredDelays]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in measured.iter().flat_map(|delays| &delays.of_hop) {
        let count = measured.iter().filter(|delays| delays.of_hop(name).is_some()).count();
        if count > 1 && !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// The delay of the hop by each method, and the methods that agree with it.
fn agreement(measured: &[MeasuredDelays]) -> Counters {
    let mut table = Counters::new([
        ("", ""),
        ("method", ""),
        ("measured", "ns"),
        ("delay of the hop", "ns"),
        ("lower bound", "ns"),
        ("upper bound", "ns"),
        ("difference to the first", "ns"),
        ("agrees with", ""),
        ("differs from", ""),
    ]);
    let finite = |value: f64| Some(value).filter(|value| value.is_finite());
    for statistic in statistics(measured) {
        let all: Vec<(&MeasuredDelays, &CorrectedDelay)> = measured
            .iter()
            .filter_map(|delays| Some((delays, delays.of_hop(&statistic)?)))
            .collect();
        for (number, (delays, value)) in all.iter().enumerate() {
            let others = |agreeing: bool| {
                let others = all.iter().enumerate().filter(|(other, (_, found))| {
                    *other != number && agree(value, found) == agreeing
                });
                let labels: Vec<&str> =
                    others.map(|(_, (delays, _))| delays.label.as_str()).collect();
                Cell::from(labels.join(", "))
            };
            let difference_ns = (number > 0).then(|| value.value_ns - all[0].1.value_ns);
            table.row([
                Cell::from(statistic.as_str()),
                delays.label.as_str().into(),
                delays.measured_ns(&statistic).into(),
                value.significant().into(),
                value.lower_ns.into(),
                finite(value.upper_ns).into(),
                difference_ns.into(),
                others(true),
                others(false),
            ]);
        }
    }
    table
}

/// Adds checks and notes.
fn conclude(outcome: &mut Outcome, measured: &[MeasuredDelays]) {
    let mut failed = 0_u64;
    for delays in measured {
        for check in delays.result.checks.iter().filter(|check| !check.ok()) {
            failed += 1;
            outcome.cause(
                "failed-measurement",
                format!(
                    "{}: {}: {}; repeat the measurement",
                    delays.file,
                    check.name,
                    check.statement()
                ),
            );
        }
        if delays.of_hop(MEAN_ROW).is_none() {
            outcome.cause(
                "no-mean",
                match delays.remark {
                    Some(remark) => format!("{}: {remark}; use captures of one clock", delays.file),
                    None => format!(
                        "{}: no mean with an interval; measure for longer, with a version of onbeat that reports one",
                        delays.file
                    ),
                },
            );
        } else if let Some(remark) = delays.remark {
            outcome.note(format!("{}: {remark}; percentiles cannot be halved", delays.label));
        }
        if delays.too_long_ns() > 0.0 {
            outcome.note(format!(
                "{}: a packet leaves during the work of the driver, {} on average, whose end the hooks observe; lower \
                 bounds contain it. The NIC and the wire are not included",
                delays.label,
                format::duration_ns(delays.too_long_ns())
            ));
        }
    }
    let comparable = measured.iter().filter(|delays| delays.of_hop(MEAN_ROW).is_some()).count();
    outcome.check(Check::min("results with a mean of the hop", comparable, 2_u64, ""));
    outcome.check(Check::eq("failed checks of the results", failed, 0_u64, ""));
    outcome.note(
        "values agree if their intervals overlap; values whose interval includes zero are withheld. Measurements at \
         different times also differ by the load of the device",
    );
    let confidence = measured.iter().map(|delays| delays.confidence);
    let (least, most) = confidence.fold((1.0_f64, 0.0_f64), |(least, most), confidence| {
        (least.min(confidence), most.max(confidence))
    });
    if least < most {
        outcome.note(format!(
            "the intervals have different confidence, from {:.0} to {:.0} %; repeat with one --confidence",
            100.0 * least,
            100.0 * most
        ));
    }
}

#[cfg(test)]
mod tests;

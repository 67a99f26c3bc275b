//! Calibration: measures the path without the hop.

use std::path::Path;

use onbeat_delay::correction::Correction;
use onbeat_delay::stats::Distribution;
use onbeat_report::{Cell, Check, Counters, Outcome, Progress};

use crate::correction::CALIBRATED;
use crate::error::{Error, Result};
use crate::method::{Method, MethodResult};

/// Measures the path without the hop, and writes the correction to `output` if all checks pass.
///
/// # Errors
/// The method and its options, or the file.
pub fn calibrate<M: Method>(method: &M, output: &Path, progress: &mut Progress) -> Result<Outcome> {
    if method.report().correct.is_some() {
        return Err(Error::option("--correct: calibration requires uncorrected delays"));
    }
    if let Some(reason) = method.no_correction() {
        return Err(Error::option(format!("cannot compute a correction: {reason}")));
    }
    let MethodResult { mut outcome, delays } = method.run(progress)?;
    outcome.name = format!("{CALIBRATED}{}", M::NAME);
    outcome.check(Check::min("delays of the null path", delays.count(), 2_u64, ""));
    match Correction::of(&delays, method.report().delays.confidence).filter(|_| outcome.ok()) {
        Some(correction) => {
            outcome.figure("correction", table(&correction, &delays));
            write(output, &outcome)?;
            outcome.note(format!("--correct {} subtracts it", output.display()));
        }
        None => outcome.note("no correction was written: a check failed"),
    }
    Ok(outcome)
}

/// As table 2 of the paper.
fn table(correction: &Correction, delays: &Distribution) -> Counters {
    let mut table = Counters::new([
        ("mean", "ns"),
        ("standard deviation", "ns"),
        ("median", "ns"),
        ("minimum", "ns"),
        ("maximum", "ns"),
        ("delays", ""),
    ]);
    let median = delays.value_at(0.5);
    table.row([
        Cell::from(correction.mean_ns),
        correction.standard_deviation_ns.into(),
        median.into(),
        delays.min_ns().into(),
        delays.max_ns().into(),
        delays.count().into(),
    ]);
    table
}

fn write(path: &Path, outcome: &Outcome) -> Result<()> {
    let text = serde_json::to_string_pretty(outcome)
        .map_err(|error| Error::output("--output", path, error))?;
    onbeat_host::output::write(path, text + "\n")
        .map_err(|error| Error::output("--output", path, error))
}

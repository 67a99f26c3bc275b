//! The correction of `--correct`, and its source.

use std::path::Path;
use std::result::Result;

use onbeat_delay::correction::Correction;
use onbeat_host::file;
use onbeat_report::{Figure, Input, Measurement, Outcome, Spread, format};

/// Figures of a result that yield a correction.
pub(super) const MEAN: &str = "mean delay";
pub(super) const DEVIATION: &str = "standard deviation";
pub(super) const COUNT: &str = "delays";
pub(super) const CORRECTED_MEAN: &str = "mean delay, corrected";

/// Maximum length of a result in octets.
const RESULT: u64 = 16 << 20;

/// Prefix of the names of results of the null path.
pub(super) const CALIBRATED: &str = "delay-calibrate-";

/// A correction that is subtracted.
#[derive(Debug, Clone)]
pub(super) struct AppliedCorrection {
    pub(super) correction: Correction,
    /// The source of a correction that was measured here.
    source: Option<CalibrationSource>,
}

/// The result that yields a correction.
#[derive(Debug, Clone)]
struct CalibrationSource {
    file: String,
    input: Input,
    name: String,
    started: String,
    kernel: Option<String>,
}

impl AppliedCorrection {
    /// Parses a correction, or reads a file with one.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        match text.parse::<Correction>() {
            Ok(correction) => Ok(Self { correction, source: None }),
            Err(_) if Path::new(text).is_file() => {
                of_result(text).map_err(|error| format!("{text} {error}"))
            }
            Err(error) => Err(format!("{error}, or a file written by `onbeat delay calibrate`")),
        }
    }

    /// The file of the result, if there is one.
    pub(super) fn input(&self) -> Option<Input> {
        self.source.as_ref().map(|source| source.input.clone())
    }

    /// The method that measured it, if it is of a result.
    pub(super) fn method(&self) -> Option<&str> {
        self.source.as_ref().map(|source| method_of(&source.name))
    }

    /// A note on its source, in a result of this name.
    pub(super) fn note(&self, taken_off: &str) -> Option<String> {
        let source = self.source.as_ref()?;
        let Correction { mean_ns, standard_deviation_ns, count, .. } = self.correction;
        let of =
            count.map(|count| format!(" of {}", format::count(count, "delay"))).unwrap_or_default();
        let kernel = source.kernel.as_deref();
        let kernel = kernel.map(|kernel| format!(", Linux {kernel}")).unwrap_or_default();
        let name = &source.name;
        let mut note = format!(
            "subtracted: {mean_ns:.0} ns ± {standard_deviation_ns:.0} ns{of} ({}, {name}, {}{kernel})",
            source.file, source.started
        );
        if method_of(name) != method_of(taken_off) {
            note += "; it was measured by another method, whose path may differ";
        }
        Some(note)
    }
}

/// The method of a result of this name.
pub(super) fn method_of(name: &str) -> &str {
    name.strip_prefix(CALIBRATED).or_else(|| name.strip_prefix("delay-")).unwrap_or(name)
}

/// Reads a result (`--json`).
pub(super) fn read_result(name: &str) -> Result<(Outcome, Input), String> {
    let text = file::read_text(Path::new(name), RESULT)
        .map_err(|error| format!("cannot be read: {error}"))?;
    let result = serde_json::from_str(&text)
        .map_err(|error| format!("is not a result of `onbeat delay`: {error}"))?;
    Ok((result, Input::of_file(name, text.as_bytes())))
}

/// Returns a figure of a result that is a measurement.
pub(super) fn measurement<'a>(result: &'a Outcome, name: &str) -> Option<&'a Measurement> {
    match result.figures.get(name) {
        Some(Figure::Measurement(found)) => Some(found),
        _ => None,
    }
}

/// Returns the correction of a result of the null path.
fn of_result(name: &str) -> Result<AppliedCorrection, String> {
    let (result, input) = read_result(name)?;
    if let Some(check) = result.checks.iter().find(|check| !check.ok()) {
        let statement = check.statement();
        return Err(format!("is of a measurement that failed ({}: {statement})", check.name));
    }
    let value = |name| {
        let value = measurement(&result, name)?.value.as_f64();
        (value.is_finite() && value >= 0.0).then_some(value)
    };
    let missing = |name| format!("has no figure {name:?}: at least two delays are required");
    let correction = Correction {
        mean_ns: value(MEAN).ok_or_else(|| missing(MEAN))?,
        standard_deviation_ns: value(DEVIATION).ok_or_else(|| missing(DEVIATION))?,
        count: value(COUNT).map(|count| count as u64),
        mean_error_ns: measurement(&result, MEAN).and_then(|mean| {
            let Some(Spread::Interval { high, .. }) = mean.spread else { return None };
            let error_ns = high.as_f64() - mean.value.as_f64();
            (error_ns.is_finite() && error_ns >= 0.0).then_some(error_ns)
        }),
    };
    let source = CalibrationSource {
        file: name.into(),
        input,
        name: result.name,
        started: result.started,
        kernel: result.conditions.kernel,
    };
    Ok(AppliedCorrection { correction, source: Some(source) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_report::{Check, Measurement, Run};

    #[test]
    fn corrections_are_read_from_text_and_from_results() {
        let text = AppliedCorrection::read("17.468+-0.412us").unwrap();
        assert_eq!(text.correction.mean_ns, 17_468.0);
        assert_eq!(text.note("delay-match"), None);
        assert!(AppliedCorrection::read("/no/such/file").unwrap_err().contains("delay calibrate"));

        let directory = std::env::temp_dir().join(format!("onbeat-delay-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("null.json");
        let name = path.to_str().unwrap();
        let write = |result: &Outcome| {
            std::fs::write(&path, serde_json::to_string(result).unwrap()).unwrap();
        };
        std::fs::write(&path, "{}").unwrap();
        assert!(AppliedCorrection::read(name).unwrap_err().contains(" is not a result"));

        let mut result = Run::begin("delay-calibrate-match").finish();
        let mean = Measurement::new("ns", 2000.5);
        result.figure(MEAN, mean.with_interval(1990.5, 2012.5, 0.95));
        write(&result);
        assert!(AppliedCorrection::read(name).unwrap_err().contains(DEVIATION));
        result.figure(DEVIATION, Measurement::new("ns", 100.0));
        result.figure(COUNT, Measurement::new("", 50_u64));
        write(&result);
        let found = AppliedCorrection::read(name).unwrap();
        let Correction { mean_ns, standard_deviation_ns, count, mean_error_ns } = found.correction;
        assert_eq!((mean_ns, standard_deviation_ns, count), (2000.5, 100.0, Some(50)));
        assert_eq!((mean_error_ns, text.correction.mean_error_ns), (Some(12.0), None));
        let input = Input::of_file(name, &std::fs::read(&path).unwrap());
        assert_eq!((found.input(), text.input()), (Some(input), None));
        let note = found.note("delay-match").unwrap();
        assert!(note.contains("± 100 ns of 50 delays") && !note.contains("another"), "{note}");
        assert!(found.note("delay-mirror").unwrap().contains("by another method"));

        result.check(Check::eq("negative delays", 3_u64, 0_u64, ""));
        write(&result);
        assert!(
            AppliedCorrection::read(name).unwrap_err().contains("failed (negative delays: 3 = 0)")
        );
        std::fs::remove_dir_all(&directory).unwrap();
    }
}

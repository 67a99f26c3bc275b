//! The correction of the paper's equation (2): delay_real = delay_measured - correction_mean.
//!
//! The correction is the delay of the path without the device, measured separately. Its spread widens the error of
//! the result.

use std::str::FromStr;

use crate::stats::distributions::normal_quantile;
use crate::stats::{Distribution, Mean, Percentile};

/// The delay of the null path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correction {
    /// Its mean, in nanoseconds.
    pub mean_ns: f64,
    /// Its standard deviation, in nanoseconds.
    pub standard_deviation_ns: f64,
    /// The number of delays; `None` if only mean and deviation are known.
    pub count: Option<u64>,
    /// The error of the mean, in nanoseconds, in either direction; `None` if it is not known: then that of one
    /// delay.
    pub mean_error_ns: Option<f64>,
}

/// A corrected value with its interval, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CorrectedDelay {
    /// The value.
    pub value_ns: f64,
    /// Lower end of the interval.
    pub lower_ns: f64,
    /// Upper end of the interval; infinite if the measurement has none.
    pub upper_ns: f64,
}

impl CorrectedDelay {
    /// Returns the value if its interval is above zero. Other values, negative ones above all, are not reported as
    /// delays.
    pub fn significant(&self) -> Option<f64> {
        (self.lower_ns > 0.0).then_some(self.value_ns)
    }
}

impl Correction {
    /// Computes the correction from delays of the null path; requires two delays.
    pub fn of(null_path: &Distribution, confidence: f64) -> Option<Self> {
        let mean_ns = null_path.mean_ns()?;
        let interval = null_path.mean(confidence);
        Some(Correction {
            mean_ns,
            standard_deviation_ns: null_path.standard_deviation_ns()?,
            count: Some(null_path.count()),
            mean_error_ns: interval.map(|mean| mean.upper_ns - mean_ns),
        })
    }

    /// Corrects a percentile; `None` without an interval of the measurement.
    ///
    /// Each packet has its own delay on the null path: the error of one delay of that rank adds to the interval of
    /// the measurement.
    pub fn percentile(&self, measured: &Percentile, confidence: f64) -> Option<CorrectedDelay> {
        let quantile = measured.quantile;
        // A percentile further out contains a delay of the null path that is as rare.
        let rank = normal_quantile(quantile.max(1.0 - quantile).max(0.5));
        let error_ns = reach(confidence).max(rank) * self.standard_deviation_ns;
        let corrected = |ns: f64| ns - self.mean_ns;
        Some(CorrectedDelay {
            value_ns: corrected(measured.value_ns as f64),
            lower_ns: corrected(measured.lower_ns? as f64) - error_ns,
            upper_ns: corrected(measured.upper_ns.map_or(f64::INFINITY, |ns| ns as f64)) + error_ns,
        })
    }

    /// Corrects a mean: the error is that of both means.
    pub fn mean(&self, measured: &Mean, confidence: f64) -> CorrectedDelay {
        let own_ns = reach(confidence) * self.standard_deviation_ns;
        let error_ns = self.mean_error_ns.unwrap_or(own_ns);
        let value_ns = measured.value_ns - self.mean_ns;
        CorrectedDelay {
            value_ns,
            lower_ns: value_ns - (measured.value_ns - measured.lower_ns).hypot(error_ns),
            upper_ns: value_ns + (measured.upper_ns - measured.value_ns).hypot(error_ns),
        }
    }
}

/// The number of standard deviations on each side that hold this share of a normal distribution.
fn reach(confidence: f64) -> f64 {
    normal_quantile((1.0 + confidence) / 2.0)
}

/// The error of a text that is not a correction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid correction `{0}`; use mean and standard deviation as `17.468±0.412us` (ns, us, ms)"
)]
pub struct ParseCorrectionError(String);

impl FromStr for Correction {
    type Err = ParseCorrectionError;

    /// Parses `17.468±0.412us`; `+-` is accepted for `±`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseCorrectionError(text.into());
        let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6)];
        let (numbers, unit_ns) = units
            .into_iter()
            .find_map(|(unit, ns)| Some((text.trim().strip_suffix(unit)?, ns)))
            .ok_or_else(error)?;
        let (mean, deviation) =
            numbers.split_once('±').or_else(|| numbers.split_once("+-")).ok_or_else(error)?;
        let number = |text: &str| {
            let number = text.trim().parse::<f64>().ok();
            number.filter(|number| number.is_finite() && *number >= 0.0).map(|n| n * unit_ns)
        };
        let mean_ns = number(mean).ok_or_else(error)?;
        let standard_deviation_ns = number(deviation).ok_or_else(error)?;
        Ok(Correction { mean_ns, standard_deviation_ns, count: None, mean_error_ns: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's correction (table 2).
    const PAPER: &str = "17.468±0.412us";

    #[test]
    fn the_correction_of_the_paper_is_parsed_and_applied() {
        let correction: Correction = PAPER.parse().unwrap();
        assert_eq!((correction.mean_ns, correction.standard_deviation_ns), (17_468.0, 412.0));
        for same in ["17.468 ± 0.412 us", "17468+-412ns", "0.017468±0.000412ms", "17.468±0.412µs"]
        {
            let other: Correction = same.parse().unwrap();
            assert!((other.mean_ns - 17_468.0).abs() < 1e-6, "{same}");
            assert!((other.standard_deviation_ns - 412.0).abs() < 1e-6, "{same}");
        }
        // 1.96 standard deviations of the null path beyond the interval of the measurement.
        let corrected = correction.percentile(&percentile(0.5, 57_468), 0.95).unwrap();
        assert_eq!(corrected.significant(), Some(40_000.0));
        assert!((corrected.lower_ns - (40_000.0 - 100.0 - 807.505)).abs() < 1e-3, "{corrected:?}");
        assert!((corrected.upper_ns - (40_000.0 + 300.0 + 807.505)).abs() < 1e-3, "{corrected:?}");
        // A rare delay contains a rare delay of the null path.
        let rare = correction.percentile(&percentile(0.9999, 57_468), 0.95).unwrap();
        assert!((rare.upper_ns - (40_300.0 + 3.719 * 412.0)).abs() < 1.0, "{rare:?}");
    }

    fn percentile(quantile: f64, value_ns: u64) -> Percentile {
        let (lower_ns, upper_ns) = (Some(value_ns - 100), Some(value_ns + 300));
        Percentile { quantile, value_ns, effective: Some(1e3), lower_ns, upper_ns }
    }

    #[test]
    fn a_value_within_its_error_is_withheld() {
        let correction: Correction = PAPER.parse().unwrap();
        for measured in [18_200, 17_468, 10_000] {
            let corrected = correction.percentile(&percentile(0.5, measured), 0.95).unwrap();
            assert_eq!(corrected.significant(), None);
        }
        let without = Percentile { lower_ns: None, ..percentile(0.5, 57_468) };
        assert_eq!(correction.percentile(&without, 0.95), None);
    }

    #[test]
    fn a_mean_has_a_smaller_error_than_a_delay() {
        let mut null_path = Distribution::new();
        let mut measured = Distribution::new();
        for i in 0..10_000 {
            null_path.record(17_000 + i * 389 % 1001);
            measured.record(50_000 + i * 997 % 2003);
        }
        let correction = Correction::of(&null_path, 0.95).unwrap();
        let mean = measured.mean(0.95).unwrap();
        let corrected = correction.mean(&mean, 0.95);
        let expected = measured.mean_ns().unwrap() - null_path.mean_ns().unwrap();
        assert_eq!(corrected.value_ns, expected);
        // The error of both.
        let error_ns = (mean.value_ns - mean.lower_ns).hypot(correction.mean_error_ns.unwrap());
        assert_eq!(corrected.lower_ns, expected - error_ns);
        assert!(error_ns < 50.0 && correction.mean_error_ns.unwrap() < 20.0, "{error_ns}");
        let unknown = Correction { mean_error_ns: None, ..correction }.mean(&mean, 0.95);
        assert!(unknown.upper_ns - unknown.value_ns > 500.0, "{unknown:?}");
        assert_eq!(Correction::of(&Distribution::new(), 0.95), None);
    }

    #[test]
    fn invalid_corrections_are_refused() {
        for text in ["", "17", "17us", "17±us", "±1us", "a±1us", "1±-1us", "nan±1us", "1±1"] {
            let error = text.parse::<Correction>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid correction `{text}`")), "{error}");
        }
    }
}

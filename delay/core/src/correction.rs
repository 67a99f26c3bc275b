//! The correction of the paper's equation (2): delay_real = delay_measured - correction_mean.
//!
//! The correction is the delay of the path without the device, measured separately. Its spread widens the error of
//! the result.

use std::fmt;
use std::str::FromStr;

use crate::stats::Distribution;
use crate::stats::distributions::normal_quantile;

/// The delay of the null path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correction {
    /// Its mean, in nanoseconds.
    pub mean_ns: f64,
    /// Its standard deviation, in nanoseconds.
    pub standard_deviation_ns: f64,
    /// The number of delays; `None` if only mean and deviation are known.
    pub count: Option<u64>,
}

/// A value with its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// In nanoseconds.
    pub value_ns: f64,
    /// The error in nanoseconds, in either direction, at the requested confidence.
    pub error_ns: f64,
}

impl Reading {
    /// Returns the value if it exceeds its error. Other values, negative ones above all, are not reported as
    /// delays.
    pub fn significant(&self) -> Option<f64> {
        (self.value_ns > self.error_ns).then_some(self.value_ns)
    }

    /// Adds an error that is independent of those included: clock resolution, residual skew.
    pub fn with_error(self, error_ns: f64) -> Self {
        Reading { error_ns: self.error_ns.hypot(error_ns), ..self }
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.significant() {
            Some(value) => write!(f, "{:.3} ± {:.3} µs", value / 1e3, self.error_ns / 1e3),
            None => write!(f, "withheld: error up to {:.3} µs", self.error_ns / 1e3),
        }
    }
}

impl Correction {
    /// Computes the correction from delays of the null path; requires two delays.
    pub fn of(null_path: &Distribution) -> Option<Self> {
        Some(Correction {
            mean_ns: null_path.mean_ns()?,
            standard_deviation_ns: null_path.standard_deviation_ns()?,
            count: Some(null_path.count()),
        })
    }

    /// Corrects one delay, or a percentile. Each packet has its own delay on the null path: the error is that of
    /// one.
    pub fn delay(&self, measured_ns: f64, confidence: f64) -> Reading {
        let error_ns = reach(confidence) * self.standard_deviation_ns;
        Reading { value_ns: measured_ns - self.mean_ns, error_ns }
    }

    /// Corrects the mean of many delays: the error is that of both means. A correction without a number of delays
    /// counts as one delay.
    pub fn mean(&self, measured: &Distribution, confidence: f64) -> Option<Reading> {
        let of_mean = |deviation: f64, count: u64| deviation / (count as f64).sqrt();
        let own = of_mean(measured.standard_deviation_ns()?, measured.count());
        let corrections = of_mean(self.standard_deviation_ns, self.count.unwrap_or(1));
        Some(Reading {
            value_ns: measured.mean_ns()? - self.mean_ns,
            error_ns: reach(confidence) * own.hypot(corrections),
        })
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
        Ok(Correction { mean_ns, standard_deviation_ns, count: None })
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
        // 1.96 standard deviations.
        let reading = correction.delay(57_468.0, 0.95);
        assert_eq!(reading.value_ns, 40_000.0);
        assert!((reading.error_ns - 807.505).abs() < 1e-3, "{reading:?}");
        assert_eq!(reading.to_string(), "40.000 ± 0.808 µs");
    }

    #[test]
    fn a_value_within_its_error_is_withheld() {
        let correction: Correction = PAPER.parse().unwrap();
        for measured in [18_200.0, 17_468.0, 10_000.0] {
            let reading = correction.delay(measured, 0.95);
            assert_eq!(reading.significant(), None);
            assert_eq!(reading.to_string(), "withheld: error up to 0.808 µs");
        }
        let reading = Reading { value_ns: 10.0, error_ns: 3.0 };
        assert_eq!(reading.with_error(4.0).error_ns, 5.0);
        assert_eq!(reading.with_error(40.0).significant(), None);
    }

    #[test]
    fn a_mean_has_a_smaller_error_than_a_delay() {
        let mut null_path = Distribution::new();
        let mut measured = Distribution::new();
        for i in 0..10_000 {
            null_path.record(17_000 + i % 1001);
            measured.record(50_000 + i * 7 % 2003);
        }
        let correction = Correction::of(&null_path).unwrap();
        let mean = correction.mean(&measured, 0.95).unwrap();
        let expected = measured.mean_ns().unwrap() - null_path.mean_ns().unwrap();
        assert_eq!(mean.value_ns, expected);
        // Uniform: standard deviations of 1001/√12 and 2003/√12, in the mean of 10,000.
        let error = 1.96 * (1001_f64.hypot(2003.0) / 12_f64.sqrt()) / 100.0;
        assert!((mean.error_ns - error).abs() < 0.1, "{mean:?} {error}");
        assert_eq!(Correction::of(&Distribution::new()), None);
    }

    #[test]
    fn invalid_corrections_are_refused() {
        for text in ["", "17", "17us", "17±us", "±1us", "a±1us", "1±-1us", "nan±1us", "1±1"] {
            let error = text.parse::<Correction>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid correction `{text}`")), "{error}");
        }
    }
}

//! What all methods take.

use std::path::{Path, PathBuf};
use std::time::Duration;

use onbeat_delay::correction::Correction;
use onbeat_delay::key::Recognition;
use onbeat_delay::matching::Window;
use onbeat_report::{Figure, Outcome};

use super::samples::Files;
use crate::args::duration;
use crate::exit::{Failure, Result};
use crate::output;

/// How packets are recognised, and what is done with their delays.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The longest delay that is looked for; what has not left by then is lost
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub(super) longest: Duration,
    /// The hop translates addresses and ports: packets are told apart without them
    #[arg(long)]
    nat: bool,
    /// What leaves is the reply to what came, its addresses and ports the other way round
    #[arg(long)]
    reply: bool,
    /// Look at so many octets of a packet, from the start of the IP header on, for captures that are cut
    #[arg(long, value_name = "NUMBER")]
    octets: Option<usize>,
    #[command(flatten)]
    pub(super) show: Show,
}

/// What is done with delays.
#[derive(Debug, clap::Args)]
pub(super) struct Show {
    /// Take off the delay of the path without the hop: mean and deviation (17.468±0.412us, or +-), or
    /// the result of a measurement of it (--json)
    #[arg(long, value_name = "DELAY|FILE")]
    correct: Option<String>,
    /// The probability with which the true value lies in an interval
    #[arg(long, value_name = "SHARE", default_value = "0.95", value_parser = confidence)]
    confidence: f64,
    #[command(flatten)]
    pub(super) files: Files,
    /// Print the result as JSON (docs/result.md)
    #[arg(long)]
    json: bool,
    /// Write a page with plots, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// No line of progress
    #[arg(short, long)]
    pub(super) quiet: bool,
}

impl Options {
    /// How delays are to be told. What can be known to be wrong is, before any work is done.
    pub(super) fn check(&self) -> Result<Telling> {
        if self.longest.is_zero() {
            return Err(Failure::new(
                "--longest 0 finds no packet: give the longest delay there is",
            ));
        }
        if self.octets == Some(0) {
            return Err(Failure::new("--octets 0 tells no packet from another"));
        }
        self.show.check()
    }

    pub(super) fn recognition(&self) -> Recognition {
        let octets = self.octets.unwrap_or(usize::MAX);
        Recognition { nat: self.nat, reply: self.reply, octets }
    }

    /// A departure that is stamped a little ahead of its arrival is found, too, so that it can be told
    /// that the clocks are not one.
    pub(super) fn window(&self) -> Window {
        const LEAD_NS: i64 = 1_000_000;
        let longest_ns = self.longest_ns();
        Window { longest_ns, lead_ns: longest_ns.min(LEAD_NS), ..Window::default() }
    }

    pub(super) fn longest_ns(&self) -> i64 {
        i64::try_from(self.longest.as_nanos()).unwrap_or(i64::MAX)
    }
}

impl Show {
    /// How delays are to be told. What can be known to be wrong is, before any work is done.
    pub(super) fn check(&self) -> Result<Telling> {
        output::check_report(self.html.as_deref())?;
        let correction = self.correct.as_deref().map(correction).transpose();
        let correction = correction.map_err(|error| Failure::new(format!("--correct: {error}")))?;
        Ok(Telling { correction, confidence: self.confidence })
    }

    /// Prints the result, and writes the page.
    pub(super) fn tell(&self, outcome: Outcome) -> Result {
        output::write_report(self.html.as_deref(), &outcome)?;
        output::print_outcome(outcome, self.json, false)
    }
}

/// How delays are told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Telling {
    /// What is taken off.
    pub(super) correction: Option<Correction>,
    /// Of all intervals.
    pub(super) confidence: f64,
}

/// Figures of a result that make a correction of it.
pub(super) const MEAN: &str = "mean delay";
pub(super) const DEVIATION: &str = "standard deviation";
pub(super) const COUNT: &str = "delays";

fn correction(text: &str) -> std::result::Result<Correction, String> {
    match text.parse::<Correction>() {
        Ok(correction) => Ok(correction),
        Err(_) if Path::new(text).is_file() => {
            of_result(Path::new(text)).map_err(|error| format!("{text} {error}"))
        }
        Err(error) => Err(format!("{error}, or the result of `onbeat delay match --json`")),
    }
}

/// The correction that the result of a measurement of the null path makes.
fn of_result(path: &Path) -> std::result::Result<Correction, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let result: Outcome = serde_json::from_str(&text)
        .map_err(|error| format!("is no result of `onbeat delay match --json`: {error}"))?;
    let value = |name| match result.figures.get(name) {
        Some(Figure::Measurement(found)) => {
            let value = found.value.as_f64();
            (value.is_finite() && value >= 0.0).then_some(value)
        }
        _ => None,
    };
    let missing = |name| format!("has no figure {name:?}: it takes two delays or more");
    Ok(Correction {
        mean_ns: value(MEAN).ok_or_else(|| missing(MEAN))?,
        standard_deviation_ns: value(DEVIATION).ok_or_else(|| missing(DEVIATION))?,
        count: value(COUNT).map(|count| count as u64),
    })
}

fn confidence(text: &str) -> std::result::Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.5..1.0).contains(share));
    share.ok_or_else(|| "a share from 0.5 up to, and not including, 1: 0.95".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_report::{Measurement, Run};

    #[test]
    fn corrections_as_text_and_as_results() {
        assert_eq!(correction("17.468+-0.412us").unwrap().mean_ns, 17_468.0);
        assert!(correction("/no/such/file").unwrap_err().contains("--json"));

        let directory = std::env::temp_dir().join(format!("onbeat-delay-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("null.json");
        let name = path.to_str().unwrap();
        std::fs::write(&path, "{}").unwrap();
        assert!(correction(name).unwrap_err().contains(" is no result"));

        let mut result = Run::begin("delay-match").finish();
        result.figure(MEAN, Measurement::new("ns", 2000.5));
        std::fs::write(&path, serde_json::to_string(&result).unwrap()).unwrap();
        assert!(correction(name).unwrap_err().contains(DEVIATION));
        result.figure(DEVIATION, Measurement::new("ns", 100.0));
        result.figure(COUNT, Measurement::new("", 50_u64));
        std::fs::write(&path, serde_json::to_string(&result).unwrap()).unwrap();
        let found = correction(name).unwrap();
        assert_eq!((found.mean_ns, found.standard_deviation_ns), (2000.5, 100.0));
        assert_eq!(found.count, Some(50));
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_confidence_is_a_share() {
        assert_eq!(confidence("0.99"), Ok(0.99));
        for text in ["1", "0.4", "95", "nan", "x"] {
            assert!(confidence(text).is_err(), "{text}");
        }
    }
}

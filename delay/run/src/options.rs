//! Common options of methods.

use std::time::Duration;

use onbeat_delay::diagnosis::MatchingOptions;
use onbeat_delay::key::Recognition;
use onbeat_delay::matching::Window;
use onbeat_report::format::parse_duration;

use crate::correction::AppliedCorrection;
use crate::error::{Error, Result};
use crate::requirement;
use crate::samples::SampleFiles;
use crate::selection::FilterOptions;

/// Default of the longest delay.
const DEFAULT_LONGEST: Duration = Duration::from_secs(1);

/// Options of packet identification, and of delay reports.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PacketOptions {
    /// Longest delay; a packet that has not departed by then is lost
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) longest: Duration,
    /// Identify packets without addresses and ports, which the hop translates
    #[arg(long)]
    pub(crate) nat: bool,
    /// Match each arrival with its reply, whose addresses and ports are exchanged
    #[arg(long)]
    pub(crate) reply: bool,
    /// Compare only NUMBER octets of a packet, starting at the IP header, for truncated captures
    #[arg(long, value_name = "NUMBER")]
    pub(crate) octets: Option<usize>,
    #[command(flatten)]
    pub(crate) selection: FilterOptions,
    #[command(flatten)]
    pub(crate) required: MatchRequirement,
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// Options of the required matches.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MatchRequirement {
    /// Fail if fewer packets, or less than half of the packets of the smaller side, are matched [default: 100]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) min_matched: Option<u64>,
}

/// The default of `--min-matched` of a measurement that `--count` may stop.
pub(crate) const MIN_MATCHED_OR_COUNT: &str = "100, or --count if that is less";

/// The help of `--min-matched` of captures with another default.
pub(crate) fn min_matched_help(default: &str) -> String {
    format!(
        "Fail if fewer packets, or less than half of the packets of the smaller side, are matched [default: {default}]"
    )
}

/// Options of reports of delays that include the path to the hop.
#[derive(Debug, Clone, clap::Args)]
pub struct ReportOptions {
    /// Subtract the delay of the path without the hop. DELAY is its mean and deviation, such as
    /// 17.468+-0.412us. FILE is from onbeat delay calibrate, or a result (--json) of that path
    #[arg(long, value_name = "DELAY|FILE")]
    pub(crate) correct: Option<String>,
    #[command(flatten)]
    pub(crate) delays: DelayOptions,
}

/// Options of all delay reports.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DelayOptions {
    /// Confidence of intervals: the probability that they contain the true value
    #[arg(long, value_name = "SHARE", default_value = "0.95", value_parser = confidence)]
    pub(crate) confidence: f64,
    #[command(flatten)]
    pub(crate) files: SampleFiles,
}

impl PacketOptions {
    /// Checks the options before any work is done.
    pub(crate) fn check(&self) -> Result<ReportSettings> {
        if self.longest.is_zero() {
            return Err(Error::option(
                "--longest 0 matches no packet; use the longest possible delay",
            ));
        }
        if self.octets == Some(0) {
            return Err(Error::option("--octets 0 distinguishes no packets; use at least 1"));
        }
        self.selection.check()?;
        self.report.check()
    }

    pub(crate) fn recognition(&self) -> Recognition {
        let octets = self.octets.unwrap_or(usize::MAX);
        Recognition { nat: self.nat, reply: self.reply, octets }
    }

    /// A departure that is stamped shortly before its arrival is matched, too, which reveals that the clocks
    /// differ.
    pub(crate) fn window(&self) -> Window {
        const LEAD_NS: i64 = 1_000_000;
        let longest_ns = self.longest_ns();
        Window { longest_ns, lead_ns: longest_ns.min(LEAD_NS), ..Window::default() }
    }

    /// The requirements of a measurement that stops after `count` packets.
    pub(crate) fn matching(&self, two_clocks: bool, count: Option<u64>) -> MatchingOptions {
        let min_matched = requirement::required(self.required.min_matched, count);
        MatchingOptions { longest_ns: self.longest_ns(), two_clocks, min_matched }
    }

    /// The options that affect matching, as on the command line.
    pub(crate) fn given(&self) -> Vec<(&'static str, Option<String>)> {
        let longest = Some(match self.longest.as_micros() {
            us if us % 1_000_000 == 0 => format!("{}s", us / 1_000_000),
            us => format!("{us}us"),
        });
        let octets = self.octets.map(|octets| ("--octets", Some(octets.to_string())));
        let required =
            self.required.min_matched.map(|number| ("--min-matched", Some(number.to_string())));
        let mut given = self.selection.given();
        given.extend((self.longest != DEFAULT_LONGEST).then_some(("--longest", longest)));
        given.extend(self.nat.then_some(("--nat", None)));
        given.extend(self.reply.then_some(("--reply", None)));
        given.extend(octets.into_iter().chain(required));
        given
    }

    pub(crate) fn longest_ns(&self) -> i64 {
        i64::try_from(self.longest.as_nanos()).unwrap_or(i64::MAX)
    }
}

impl ReportOptions {
    /// Checks the options before any work is done.
    pub(crate) fn check(&self) -> Result<ReportSettings> {
        let settings = self.delays.check()?;
        let correction = self.correct.as_deref().map(AppliedCorrection::read).transpose();
        let correction =
            correction.map_err(|error| Error::option(format!("--correct: {error}")))?;
        Ok(ReportSettings { correction, ..settings })
    }
}

impl DelayOptions {
    /// Checks the options before any work is done.
    pub(crate) fn check(&self) -> Result<ReportSettings> {
        self.files.check()?;
        Ok(ReportSettings { correction: None, confidence: self.confidence })
    }
}

/// Settings of delay reports.
#[derive(Debug, Clone)]
pub(crate) struct ReportSettings {
    /// The correction to subtract.
    pub(crate) correction: Option<AppliedCorrection>,
    /// The confidence of all intervals.
    pub(crate) confidence: f64,
}

fn confidence(text: &str) -> std::result::Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.5..1.0).contains(share));
    share.ok_or_else(|| "must be at least 0.5 and less than 1, for example 0.95".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confidence_is_a_share_from_one_half() {
        assert_eq!(confidence("0.99"), Ok(0.99));
        for text in ["1", "0.4", "95", "nan", "x"] {
            assert!(confidence(text).is_err(), "{text}");
        }
    }
}

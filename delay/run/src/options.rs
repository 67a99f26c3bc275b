//! Options that several methods have.

use std::time::Duration;

use onbeat_delay::diagnosis::MatchingOptions;
use onbeat_delay::key::Recognition;
use onbeat_delay::matching::Window;
use onbeat_report::format::parse_duration;

use crate::correction::AppliedCorrection;
use crate::error::{Error, Result};
use crate::judgement;
use crate::samples::SampleFiles;
use crate::selection::FilterOptions;

/// The longest delay, where none is given.
const DEFAULT_LONGEST: Duration = Duration::from_secs(1);

/// How packets are recognized, and how their delays are reported.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PacketOptions {
    /// The longest delay that is looked for; what has not left by then is lost
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) longest: Duration,
    /// The hop translates addresses and ports: packets are told apart without them
    #[arg(long)]
    pub(crate) nat: bool,
    /// What leaves is the reply to what came, its addresses and ports the other way round
    #[arg(long)]
    pub(crate) reply: bool,
    /// Look at so many octets of a packet, from the start of the IP header on, for captures that are cut
    #[arg(long, value_name = "NUMBER")]
    pub(crate) octets: Option<usize>,
    #[command(flatten)]
    pub(crate) selection: FilterOptions,
    #[command(flatten)]
    pub(crate) required: MatchRequirement,
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// How many packets a measurement takes.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MatchRequirement {
    /// Fail where fewer packets are matched [default: 100, or --count where that is less]. At least
    /// half of the packets of the side with fewer have to match, too
    #[arg(long, value_name = "NUMBER")]
    pub(crate) min_matched: Option<u64>,
}

/// How delays are reported.
#[derive(Debug, Clone, clap::Args)]
pub struct ReportOptions {
    /// Take off the delay of the path without the hop: mean and deviation (17.468±0.412us, or +-), or
    /// the file that onbeat delay calibrate wrote, or any result of a measurement of it (--json)
    #[arg(long, value_name = "DELAY|FILE")]
    pub(crate) correct: Option<String>,
    /// The probability with which the true value lies in an interval
    #[arg(long, value_name = "SHARE", default_value = "0.95", value_parser = confidence)]
    pub(crate) confidence: f64,
    #[command(flatten)]
    pub(crate) files: SampleFiles,
}

impl PacketOptions {
    /// How delays are reported. Finds what is wrong with the options before any work is done.
    pub(crate) fn check(&self) -> Result<ReportSettings> {
        if self.longest.is_zero() {
            return Err(Error::option(
                "--longest 0 finds no packet: give the longest delay there is",
            ));
        }
        if self.octets == Some(0) {
            return Err(Error::option("--octets 0 tells no packet from another"));
        }
        self.selection.check()?;
        self.report.check()
    }

    pub(crate) fn recognition(&self) -> Recognition {
        let octets = self.octets.unwrap_or(usize::MAX);
        Recognition { nat: self.nat, reply: self.reply, octets }
    }

    /// A departure that is stamped a little ahead of its arrival is matched, too, which shows that the
    /// clocks differ.
    pub(crate) fn window(&self) -> Window {
        const LEAD_NS: i64 = 1_000_000;
        let longest_ns = self.longest_ns();
        Window { longest_ns, lead_ns: longest_ns.min(LEAD_NS), ..Window::default() }
    }

    /// What a measurement requires that stops after `count` packets.
    pub(crate) fn matching(&self, two_clocks: bool, count: Option<u64>) -> MatchingOptions {
        let min_matched = judgement::required(self.required.min_matched, count);
        MatchingOptions { longest_ns: self.longest_ns(), two_clocks, min_matched }
    }

    /// The options that decide what is matched, as on the command line.
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
    /// How delays are reported. Finds what is wrong with the options before any work is done.
    pub(crate) fn check(&self) -> Result<ReportSettings> {
        self.files.check()?;
        let correction = self.correct.as_deref().map(AppliedCorrection::read).transpose();
        let correction =
            correction.map_err(|error| Error::option(format!("--correct: {error}")))?;
        Ok(ReportSettings { correction, confidence: self.confidence })
    }
}

/// How delays are reported.
#[derive(Debug, Clone)]
pub(crate) struct ReportSettings {
    /// Subtracted from delays.
    pub(crate) correction: Option<AppliedCorrection>,
    /// Of all intervals.
    pub(crate) confidence: f64,
}

fn confidence(text: &str) -> std::result::Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.5..1.0).contains(share));
    share.ok_or_else(|| "a share from 0.5 up to, and not including, 1: 0.95".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confidence_is_a_share() {
        assert_eq!(confidence("0.99"), Ok(0.99));
        for text in ["1", "0.4", "95", "nan", "x"] {
            assert!(confidence(text).is_err(), "{text}");
        }
    }
}

//! Options that several methods have.

use std::time::Duration;

use onbeat_delay::diagnosis::MatchingOptions;
use onbeat_delay::key::Recognition;
use onbeat_delay::matching::Window;

use crate::correction::AppliedCorrection;
use crate::error::{Error, Result};
use crate::judgement;
use crate::samples::Files;
use crate::selection::Selection;

/// The longest delay, where none is given.
const DEFAULT_LONGEST: Duration = Duration::from_secs(1);

/// How packets are recognized, and how their delays are reported.
#[derive(Debug, Clone)]
pub struct PacketOptions {
    /// The longest delay; a packet that has not left by then is lost.
    pub longest: Duration,
    /// The hop translates addresses and ports: ignore them.
    pub nat: bool,
    /// Departures are replies to arrivals, with addresses and ports exchanged.
    pub reply: bool,
    /// The octets of a packet to compare, from the IP header on; all without it.
    pub octets: Option<usize>,
    /// The packets to match.
    pub selection: Selection,
    /// Matches that a measurement requires; a default without it.
    pub min_matched: Option<u64>,
    /// The report.
    pub report: ReportOptions,
}

/// How delays are reported.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// The delay of the path without the hop, to subtract: as text, or a file with a result.
    pub correct: Option<String>,
    /// The probability with which the true value lies in an interval, below 1.
    pub confidence: f64,
    /// Files of samples.
    pub files: Files,
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
        let min_matched = judgement::required(self.min_matched, count);
        MatchingOptions { longest_ns: self.longest_ns(), two_clocks, min_matched }
    }

    /// The options that decide what is matched, as on the command line.
    pub(crate) fn given(&self) -> Vec<(&'static str, Option<String>)> {
        let longest = Some(match self.longest.as_micros() {
            us if us % 1_000_000 == 0 => format!("{}s", us / 1_000_000),
            us => format!("{us}us"),
        });
        let octets = self.octets.map(|octets| ("--octets", Some(octets.to_string())));
        let required = self.min_matched.map(|number| ("--min-matched", Some(number.to_string())));
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

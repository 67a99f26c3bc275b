//! What all methods take.

use std::ops::Deref;
use std::time::Duration;

use onbeat_delay::diagnosis::MatchingOptions;
use onbeat_delay::key::Recognition;
use onbeat_delay::matching::Window;
use onbeat_report::Outcome;

use super::judgement::Required;
use super::samples::Files;
use super::selection::Selection;
use super::taken::Taken;
use onbeat_terminal::Shown;
use onbeat_terminal::exit::{Failure, Result};
use onbeat_terminal::values::duration;

/// The longest delay, where none is given.
const DEFAULT_LONGEST: Duration = Duration::from_secs(1);

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
    pub(super) selection: Selection,
    #[command(flatten)]
    required: Required,
    #[command(flatten)]
    pub(super) show: Show,
}

/// What is done with delays.
#[derive(Debug, clap::Args)]
pub(super) struct Show {
    /// Take off the delay of the path without the hop: mean and deviation (17.468±0.412us, or +-), or
    /// the file that onbeat delay calibrate wrote, or any result of a measurement of it (--json)
    #[arg(long, value_name = "DELAY|FILE")]
    pub(super) correct: Option<String>,
    /// The probability with which the true value lies in an interval
    #[arg(long, value_name = "SHARE", default_value = "0.95", value_parser = confidence)]
    confidence: f64,
    #[command(flatten)]
    pub(super) files: Files,
    #[command(flatten)]
    shown: Shown,
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
        self.selection.check()?;
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

    /// What a measurement takes, where it ends after `count` packets.
    pub(super) fn matching(&self, two_clocks: bool, count: Option<u64>) -> MatchingOptions {
        let min_matched = self.required.matches(count);
        MatchingOptions { longest_ns: self.longest_ns(), two_clocks, min_matched }
    }

    /// The options that decide what is matched, as they were given.
    pub(super) fn given(&self) -> Vec<(&'static str, Option<String>)> {
        let longest = Some(match self.longest.as_micros() {
            us if us % 1_000_000 == 0 => format!("{}s", us / 1_000_000),
            us => format!("{us}us"),
        });
        let octets = self.octets.map(|octets| ("--octets", Some(octets.to_string())));
        let mut given = self.selection.given();
        given.extend((self.longest != DEFAULT_LONGEST).then_some(("--longest", longest)));
        given.extend(self.nat.then_some(("--nat", None)));
        given.extend(self.reply.then_some(("--reply", None)));
        given.extend(octets.into_iter().chain(self.required.given()));
        given
    }

    pub(super) fn longest_ns(&self) -> i64 {
        i64::try_from(self.longest.as_nanos()).unwrap_or(i64::MAX)
    }
}

/// Of all methods, as of all commands.
impl Deref for Show {
    type Target = Shown;

    fn deref(&self) -> &Shown {
        &self.shown
    }
}

impl Show {
    /// How delays are to be told. What can be known to be wrong is, before any work is done.
    pub(super) fn check(&self) -> Result<Telling> {
        self.shown.check()?;
        let correction = self.correct.as_deref().map(Taken::read).transpose();
        let correction = correction.map_err(|error| Failure::new(format!("--correct: {error}")))?;
        Ok(Telling { correction, confidence: self.confidence })
    }

    /// Prints the result, and writes the page.
    pub(super) fn tell(&self, outcome: Outcome) -> Result {
        self.shown.show(outcome)
    }
}

/// How delays are told.
#[derive(Debug, Clone)]
pub(super) struct Telling {
    /// What is taken off.
    pub(super) correction: Option<Taken>,
    /// Of all intervals.
    pub(super) confidence: f64,
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

//! Options that several methods take.

use std::path::PathBuf;
use std::time::Duration;

use onbeat_delay_run::{Method, PacketOptions, ReportOptions};
use onbeat_terminal::Shown;
use onbeat_terminal::exit::Result;
use onbeat_terminal::values::duration;

/// The command of a method.
pub(super) trait MethodCommand: Sized {
    type Options: Method;

    /// The measurement, and what is done with its result.
    fn split(self) -> Result<(Self::Options, Shown)>;

    /// Measures, and prints the result.
    fn execute(self) -> Result {
        let (options, shown) = self.split()?;
        shown.run(|progress| options.run(progress).map(|result| result.outcome))
    }
}

/// How packets are recognised, and what is done with their delays.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The longest delay that is looked for; what has not left by then is lost
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    longest: Duration,
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
    selection: Selection,
    #[command(flatten)]
    required: Required,
    #[command(flatten)]
    show: Show,
}

/// Which packets are matched.
#[derive(Debug, clap::Args)]
struct Selection {
    /// Match only packets that pass this filter (pcap-filter(7)): `udp and src net 10.1.0.0/16`
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,
    /// Match only arrivals that pass this filter
    #[arg(long, value_name = "EXPR")]
    filter_in: Option<String>,
    /// Match only departures that pass this filter
    #[arg(long, value_name = "EXPR")]
    filter_out: Option<String>,
}

/// How many packets a measurement takes.
#[derive(Debug, clap::Args)]
pub(super) struct Required {
    /// Fail where fewer packets are matched [default: 100, or --count where that is less]. At least
    /// half of the packets of the side with fewer have to match, too
    #[arg(long, value_name = "NUMBER")]
    pub(super) min_matched: Option<u64>,
}

/// What is done with delays.
#[derive(Debug, clap::Args)]
pub(super) struct Show {
    /// Take off the delay of the path without the hop: mean and deviation (17.468±0.412us, or +-), or
    /// the file that onbeat delay calibrate wrote, or any result of a measurement of it (--json)
    #[arg(long, value_name = "DELAY|FILE")]
    correct: Option<String>,
    /// The probability with which the true value lies in an interval
    #[arg(long, value_name = "SHARE", default_value = "0.95", value_parser = confidence)]
    confidence: f64,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    shown: Shown,
}

/// Where samples go.
#[derive(Debug, clap::Args)]
struct Files {
    /// Write each delay to a file, too
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write each delay to a Parquet file, too, which DuckDB, Polars and Spark read
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
}

impl Options {
    pub(super) fn split(self) -> (PacketOptions, Shown) {
        let Selection { filter, filter_in, filter_out } = self.selection;
        let (report, shown) = self.show.split();
        let packets = PacketOptions {
            longest: self.longest,
            nat: self.nat,
            reply: self.reply,
            octets: self.octets,
            selection: onbeat_delay_run::Selection { filter, filter_in, filter_out },
            min_matched: self.required.min_matched,
            report,
        };
        (packets, shown)
    }
}

impl Show {
    pub(super) fn split(self) -> (ReportOptions, Shown) {
        let Files { csv, parquet } = self.files;
        let files = onbeat_delay_run::Files { csv, parquet };
        let report = ReportOptions { correct: self.correct, confidence: self.confidence, files };
        (report, self.shown)
    }
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

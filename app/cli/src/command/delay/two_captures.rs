//! `onbeat delay match`

use std::path::PathBuf;

use onbeat_delay_run::MatchOptions;
use onbeat_terminal::Shown;
use onbeat_terminal::exit::Result;

use super::options::{MethodCommand, Options};

/// Match packets that entered a hop with packets that left it
///
/// Two captures, pcap or pcapng, also compressed by gzip or zstd; one of them may be - for standard
/// input. Both are stamped by one clock, or --two-clocks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat delay match in.pcap out.pcap --html delay.html
  onbeat delay match in.pcap.gz out.pcap.gz --correct null.json
  onbeat delay match a.pcap b.pcap --two-clocks --json
  onbeat delay match in.pcap out.pcap --filter udp --filter-in ip6

Exit status: 0 success, 1 negative result (too few packets match, or delays are negative; the cause is \
named), 2 error (a capture cannot be read).")]
pub(super) struct Match {
    /// Packets that entered the hop
    arrivals: PathBuf,
    /// Packets that left it
    departures: PathBuf,
    /// Each capture is stamped by a clock of its own: delays are told from the fastest packet on, with
    /// skew and steps of the clocks taken out
    #[arg(long, conflicts_with = "correct")]
    two_clocks: bool,
    #[command(flatten)]
    options: Options,
}

impl MethodCommand for Match {
    type Options = MatchOptions;

    fn split(self) -> Result<(MatchOptions, Shown)> {
        let Self { arrivals, departures, two_clocks, options } = self;
        let (packets, shown) = options.split();
        Ok((MatchOptions { arrivals, departures, two_clocks, packets }, shown))
    }
}

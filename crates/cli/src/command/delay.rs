//! `onbeat delay`

pub(super) mod captures;
mod crossed;
mod mirrored;
mod options;
mod outcome;
mod scope;
mod sink;

use crate::exit::Result;

/// What packets wait in one hop, from captures, with an honest error and an upper bound
///
/// A packet that entered a hop - switch, router, host - is found again among those that left it, though
/// the hop wrote its addresses, tags, TTL and checksums anew. The delay between is exact as far as the
/// time stamps are; what is said of it carries the interval it lies in.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat delay match in.pcap out.pcap
  onbeat delay mirror span.pcapng --mac 02:00:00:00:00:01 --html delay.html
  onbeat delay scope tek0001.csv

Exit code: 0 it is done, 1 delays were negative (clocks or capture are at fault), 2 it could not run.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Delay,
}

#[derive(Debug, clap::Subcommand)]
enum Delay {
    Match(crossed::Match),
    Mirror(mirrored::Mirror),
    Scope(scope::Scope),
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.command {
            Delay::Match(files) => files.execute(),
            Delay::Mirror(file) => file.execute(),
            Delay::Scope(file) => file.execute(),
        }
    }
}

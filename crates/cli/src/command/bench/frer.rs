//! `onbeat bench frer`

use onbeat_lab::bench::{self, Options, Source};

use super::Shown;
use crate::exit::Result;

/// FRER in XDP beside plain XDP redirection of the same frames
///
/// Over the same interfaces, in frames per second and nanoseconds per frame, and one-way delay with
/// and without FRER, on an idle machine and with a CPU hog on the same core.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat bench frer
  onbeat bench frer --json > frer.json
  onbeat bench frer --streams 1,4096 --rounds 7 --html frer.html
  onbeat bench frer --source socket --streams 1 --rounds 3

Exit code: 0 every check holds, 1 a check failed (figures never decide), 2 it could not run (it \
needs root).")]
pub(super) struct Frer {
    #[command(flatten)]
    shown: Shown,
    /// What sends the frames whose throughput is measured: a talker's packet socket, as in an end
    /// system, or its kernel, at the least cost there is
    #[arg(long, value_name = "SOURCE", default_value = "both")]
    #[arg(value_parser = ["socket", "kernel", "both"])]
    source: String,
    /// Numbers of streams to measure with
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    streams: Vec<u32>,
    /// How often each throughput is measured, with each source
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<u32>,
    /// Octets of a frame whose throughput is measured, VLAN tag included, without FCS
    #[arg(long, value_name = "OCTETS")]
    size: Option<usize>,
    /// Frames whose delay is measured, in each case
    #[arg(long, value_name = "NUMBER")]
    probes: Option<u64>,
    /// The CPU that everything runs on; the last one where it is not said
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
}

impl Frer {
    pub(super) fn execute(self) -> Result {
        let usual = Options::default();
        let options = Options {
            sources: match self.source.as_str() {
                "socket" => vec![Source::Socket],
                "kernel" => vec![Source::Kernel],
                _ => usual.sources,
            },
            streams: if self.streams.is_empty() { usual.streams } else { self.streams },
            rounds: self.rounds.unwrap_or(usual.rounds),
            frame_octets: self.size.unwrap_or(usual.frame_octets),
            probes: self.probes.unwrap_or(usual.probes),
            cpu: self.cpu,
            ..usual
        };
        self.shown.run(|progress| bench::run_frer(&options, progress))
    }
}

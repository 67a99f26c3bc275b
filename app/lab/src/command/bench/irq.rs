//! `onbeat bench irq`

use std::num::NonZeroU32;

use onbeat_lab::bench::irq::{self, Options};

use super::{ResultOptions, Slices};
use onbeat_terminal::exit::Result;
use onbeat_terminal::values::parse_sample_ratio;

/// The interrupt ledger: whether it charges the right ones, and what it costs
///
/// Two flows over two devices, each received in a thread of NAPI of its own, whose run time is what the
/// flow cost; then the same over one device, where the ledger has to tell them apart. And packets a
/// second with and without the ledger, in turns.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat bench irq
  onbeat bench irq --json > irq.json
  onbeat bench irq --sample 10
  onbeat bench irq --rounds 5 --slice 200ms --html irq.html

Exit status: 0 all checks hold, 1 a check failed (figures do not count), 2 error (root and Linux 6.8 with \
BTF are required).")]
pub(super) struct Irq {
    #[command(flatten)]
    shown: ResultOptions,
    #[command(flatten)]
    slices: Slices,
    /// Look at packets for one N-th of the time, as `onbeat irq top --sample N` does
    #[arg(long, value_name = "N", value_parser = parse_sample_ratio)]
    sample: Option<NonZeroU32>,
}

impl Irq {
    pub(super) fn execute(self) -> Result {
        let usual = Options::default();
        let options = Options {
            rounds: self.slices.rounds.unwrap_or(usual.rounds),
            slice: self.slices.slice.unwrap_or(usual.slice),
            cpu: self.slices.cpu,
            sample: self.sample,
        };
        self.shown.run(|progress| irq::run(&options, progress))
    }
}

//! `onbeat bench irq`

use std::num::NonZeroU32;

use clap::Arg;
use onbeat_lab::bench::irq::{self, Options};

use super::{ResultOptions, Slices, time, with_default};
use onbeat_terminal::exit::Result;
use onbeat_terminal::values::parse_sample_ratio;

/// Measure the interrupt ledger: accuracy and overhead
///
/// To measure the accuracy, two flows go through two devices, each with its own NAPI thread. The run time of
/// that thread is the true cost of the flow. Then both flows share one device, where the ledger
/// distinguishes them. To measure the overhead, the bench measures throughput in packets/s with and without the
/// ledger, alternately.
#[derive(Debug, clap::Args)]
#[command(mut_args(with_usual))]
#[command(after_help = "\
Examples:
  onbeat bench irq
  onbeat bench irq --json > irq.json
  onbeat bench irq --sample 10
  onbeat bench irq --rounds 5 --slice 200ms --html irq.html

Exit status: 0 all checks hold, 1 a check failed (measured values are invalid), 2 error (root and Linux 6.8 with \
BTF are required).")]
pub(super) struct Irq {
    #[command(flatten)]
    shown: ResultOptions,
    #[command(flatten)]
    slices: Slices,
    /// Sample packets during 1/N of the time, as `onbeat irq top --sample N`
    #[arg(long, value_name = "N", value_parser = parse_sample_ratio)]
    sample: Option<NonZeroU32>,
}

/// Adds the default to the help of an option.
fn with_usual(option: Arg) -> Arg {
    let usual = Options::default();
    match option.get_id().as_str() {
        "rounds" => with_default(option, usual.rounds),
        "slice" => with_default(option, time(usual.slice)),
        _ => option,
    }
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

//! `onbeat bench`

mod cyclic;
mod delay;
mod frer;
mod irq;
mod port;
mod powerlink;

use std::time::Duration;

use onbeat_terminal::Shown;
use onbeat_terminal::exit::{Failure, Result};
use onbeat_terminal::values::duration;

/// Measure, always beside the limit in the same run
///
/// What can be is measured side by side: whatever disturbs the machine disturbs all that is
/// compared.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat bench frer
  onbeat bench port --cycles 5000

Exit status: 0 all checks hold, 1 a check failed (figures do not count), 2 error (root is required).")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Bench,
}

#[derive(Debug, clap::Subcommand)]
enum Bench {
    Delay(delay::Delay),
    Frer(frer::Frer),
    Irq(irq::Irq),
    Port(port::Port),
    Powerlink(powerlink::Powerlink),
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.command {
            Bench::Delay(delay) => delay.execute(),
            Bench::Frer(frer) => frer.execute(),
            Bench::Irq(irq) => irq.execute(),
            Bench::Port(port) => port.execute(),
            Bench::Powerlink(powerlink) => powerlink.execute(),
        }
    }
}

/// Refuses an option of a part of the bench that is not measured: it would be ignored.
fn refuse(option: &str, given: bool, measured: bool, part: &str) -> Result<()> {
    if !given || measured {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{option} is an option of {part}, which is not measured; leave it out"
    )))
}

/// Of benches that measure for a while, with and without something in turns.
#[derive(Debug, clap::Args)]
struct Slices {
    /// How often everything is measured
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<u32>,
    /// How long at a time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    slice: Option<Duration>,
    /// The CPU on which it is measured; the last one where it is not said
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
}

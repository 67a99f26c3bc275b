//! `onbeat bench`

mod delay;
mod frer;
mod irq;
mod port;
mod powerlink;

use std::path::PathBuf;

use onbeat_report::{Outcome, Progress};

use crate::exit::Result;
use crate::output;

/// Measure, always beside the limit in the same run
///
/// What can be is measured side by side: whatever disturbs the machine disturbs all that is
/// compared.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat bench frer
  onbeat bench port --cycles 5000

Exit code: 0 every check holds, 1 a check failed (figures never decide), 2 it could not run (it \
needs root).")]
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

/// What every bench can do with its result.
#[derive(Debug, clap::Args)]
struct Shown {
    /// Print the result as JSON (docs/result.schema.json)
    #[arg(long)]
    json: bool,
    /// Write a report with plots, in one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print no progress
    #[arg(short, long)]
    quiet: bool,
}

impl Shown {
    /// Measures, and shows what came of it.
    fn run(&self, measure: impl FnOnce(&mut Progress) -> onbeat_lab::Result<Outcome>) -> Result {
        output::check_report(self.html.as_deref())?;
        let outcome = measure(&mut Progress::new(self.quiet))?;
        output::write_report(self.html.as_deref(), &outcome)?;
        output::print_outcome(outcome, self.json, false)
    }
}

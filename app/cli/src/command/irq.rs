//! `onbeat irq`

mod guard;
mod record;
mod report;
mod top;

use std::time::Duration;

use onbeat_terminal::exit::{Failure, Result};

/// Who causes softirq time and who pays for it; schedule it by who waits for it
///
/// The kernel charges what it does for packets - softirqs, threads of NAPI - to whatever process it
/// interrupts, or to nobody. These commands charge it to the processes that read the packets, and
/// give it the priority of those who wait for them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat irq top
  onbeat irq record -o storm.irq --for 30s
  onbeat irq report storm.irq --html storm.html
  onbeat irq guard guard.toml

Exit status: 0 success, 1 negative result, 2 error (root and Linux 6.3 with BTF are required).")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Irq,
}

#[derive(Debug, clap::Subcommand)]
enum Irq {
    Top(top::Top),
    Record(record::Record),
    Report(report::Report),
    Guard(guard::Guard),
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.command {
            Irq::Top(top) => top.execute(),
            Irq::Record(record) => record.execute(),
            Irq::Report(report) => report.execute(),
            Irq::Guard(guard) => guard.execute(),
        }
    }
}

/// The shortest interval: reading takes time, too.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Whether the ledger can be read at this interval.
fn check_interval(interval: Duration) -> Result<()> {
    if interval < MIN_INTERVAL {
        return Err(Failure::new(format!(
            "--interval {interval:?} is too short; give 10ms or more"
        )));
    }
    Ok(())
}

//! `onbeat irq`

mod guard;
mod record;
mod report;
mod top;

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use onbeat_irq_core::view::GroupKey;

use onbeat_terminal::exit::{Failure, Result};

/// Account softirq time to the processes that cause it, and schedule it
///
/// The kernel charges packet processing (softirqs, NAPI threads) to the interrupted process, or to no process.
/// top, record and report charge it to the processes that read the packets. guard runs it at the priority of the
/// processes that wait for them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat irq top
  onbeat irq record -o storm.irq --for 30s
  onbeat irq report storm.irq --html storm.html
  onbeat irq guard guard.toml

Exit status: 0 success, 1 negative result (the command of record failed, the accounts of report are incomplete, or \
guard could not restore a setting), 2 error (root and Linux 6.3 with BTF are required).")]
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

/// The values of --by.
fn group_keys() -> PossibleValuesParser {
    PossibleValuesParser::new(GroupKey::ALL.map(|(name, _)| name))
}

/// Parses a percentage as a share of one.
fn parse_share(text: &str) -> std::result::Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match percent {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("not a percentage; use a number from 0 to 100".into()),
    }
}

/// Shortest interval: each reading takes time.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Checks that the ledger can be read at this interval.
fn check_interval(interval: Duration) -> Result<()> {
    if interval < MIN_INTERVAL {
        return Err(Failure::new(format!(
            "--interval {interval:?} is too short; use 10ms or more"
        )));
    }
    Ok(())
}

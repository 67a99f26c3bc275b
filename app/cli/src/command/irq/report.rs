//! `onbeat irq report`

use std::path::PathBuf;

use onbeat_irq_core::view::GroupKey;
use onbeat_irq_run::report;

use super::group_keys;
use onbeat_terminal::exit::{CommandResult, Result};
use onbeat_terminal::output;

/// Print the report of a recording made by `onbeat irq record`
///
/// Prints softirq time by causing and by interrupted process, and time that belongs to no process. Prints user and
/// system time of each process as the kernel accounts it, corrected exactly, and corrected by clock ticks (Zhang
/// and West, RTSS 2006).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat irq report storm.irq
  onbeat irq report storm.irq --html storm.html
  onbeat irq report storm.irq --by unit
  onbeat irq report storm.irq --folded | flamegraph.pl --countname ns > storm.svg
  onbeat irq report storm.irq --json | jq '.figures | keys'

Exit status: 0 the accounts are complete; 1 they are not; 2 error (the file is not a recording, or is damaged). \
Accounts are incomplete if time was lost, more than 1 % is missing, or nothing was recorded.")]
pub(super) struct Report {
    /// Recording to read
    file: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Write a self-contained HTML report with plots to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Add a table with one row for each command, control group, systemd unit, container, Kubernetes pod, user, device,
    /// CPU or NUMA node
    #[arg(long, value_name = "KEY", default_value = "process", value_parser = group_keys())]
    by: String,
    /// Print only folded stacks for flame graphs, "group;command;class N", in nanoseconds; --by selects the group
    #[arg(long, conflicts_with_all = ["json", "html"])]
    folded: bool,
    /// Accept an incomplete recording: truncated, or still being written
    #[arg(long)]
    partial: bool,
}

impl Report {
    pub(super) fn execute(self) -> Result {
        output::check_report(self.html.as_deref())?;
        let by = GroupKey::from_name(&self.by).unwrap_or_default();
        if self.folded {
            output::print_to_reader(&report::folded(&self.file, self.partial, by)?)?;
            return Ok(CommandResult::Success);
        }
        let outcome = report::read(&self.file, self.partial, by)?;
        output::report_and_print(outcome, self.json, self.html.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use crate::command::parse;

    #[test]
    fn requires_one_file() {
        assert!(parse("irq report a.irq --json --html a.html --partial").is_ok());
        assert!(parse("irq report a.irq --by unit --folded").is_ok());
        for line in ["--by color", "--folded --json", "--folded --html b.html"] {
            assert!(parse(&format!("irq report a.irq {line}")).is_err(), "{line}");
        }
        assert!(parse("irq report").is_err());
        assert!(parse("irq report a b").is_err());
    }
}

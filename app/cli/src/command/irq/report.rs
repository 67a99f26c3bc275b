//! `onbeat irq report`

use std::path::PathBuf;

use onbeat_irq_run::report;

use onbeat_terminal::exit::Result;
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
    /// Accept an incomplete recording: truncated, or still being written
    #[arg(long)]
    partial: bool,
}

impl Report {
    pub(super) fn execute(self) -> Result {
        output::check_report(self.html.as_deref())?;
        let outcome = report::read(&self.file, self.partial)?;
        output::report_and_print(outcome, self.json, self.html.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use crate::command::parse;

    #[test]
    fn requires_one_file() {
        assert!(parse("irq report a.irq --json --html a.html --partial").is_ok());
        assert!(parse("irq report").is_err());
        assert!(parse("irq report a b").is_err());
    }
}

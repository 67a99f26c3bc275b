//! `onbeat irq report`

use std::path::PathBuf;

use onbeat_irq_run::report;

use onbeat_terminal::exit::Result;
use onbeat_terminal::output;

/// Show what `onbeat irq record` recorded
///
/// Who caused and who suffered softirq time; what was for no process; user and system time of each
/// process by the kernel, and corrected: exactly, and as the paper's kernel did by ticks of its clock.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat irq report storm.irq
  onbeat irq report storm.irq --html storm.html
  onbeat irq report storm.irq --json | jq '.figures | keys'

Exit status: 0 the accounts add up, 1 they do not (time was lost, more than 1 % is missing, or nothing was \
recorded), 2 error \
(the file is not a recording, or is damaged).")]
pub(super) struct Report {
    /// The recording
    file: PathBuf,
    /// Print the result as JSON (docs/reference/results.md)
    #[arg(long)]
    json: bool,
    /// Write a page with plots, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Report on what there is of a recording that was cut off, or goes on
    #[arg(long)]
    partial: bool,
}

impl Report {
    pub(super) fn execute(self) -> Result {
        output::check_report(self.html.as_deref())?;
        let outcome = report::read(&self.file, self.partial)?;
        output::write_report(self.html.as_deref(), &outcome)?;
        output::print_outcome(outcome, self.json, false)
    }
}

#[cfg(test)]
mod tests {
    use crate::command::parse;

    #[test]
    fn takes_a_file() {
        assert!(parse("irq report a.irq --json --html a.html --partial").is_ok());
        assert!(parse("irq report").is_err());
        assert!(parse("irq report a b").is_err());
    }
}

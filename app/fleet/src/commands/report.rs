//! `onbeat fleet report`

use std::path::PathBuf;

use onbeat_report::Run;
use onbeat_terminal::exit::Result;
use onbeat_terminal::output;

use crate::history::{self, Range};

/// Report losses and availability of paths from the history of agents
///
/// Reads the files that agents wrote with --history, of all nodes whose files are in DIRECTORY.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet report /var/lib/onbeat-fleet/history
  onbeat fleet report ./history --since 2026-11-30T06 --until 2026-11-30T14 -o report.html

Exit status: 0 no packet was lost; 1 packets were lost; 2 error (no files of the range, or a file that cannot be read).")]
pub(crate) struct Report {
    /// Directory of the history
    directory: PathBuf,
    /// Start of the range in UTC, such as 2026-11-30T12
    #[arg(long, value_name = "TIME", value_parser = history::parse_time, default_value = "1970-01-01")]
    since: i64,
    /// End of the range in UTC
    #[arg(long, value_name = "TIME", value_parser = history::parse_time, default_value = "9999-12-31")]
    until: i64,
    /// Rows of the tables of streams and paths
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Write a self-contained HTML report to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Report {
    pub(crate) fn execute(self) -> Result {
        output::check_report(self.output.as_deref())?;
        let run = Run::analysis("fleet-report");
        let mut outcome = run.finish();
        let range = Range { since: self.since, until: self.until };
        history::describe(&mut outcome, &self.directory, range, self.limit)?;
        output::report_and_print(outcome, self.json, self.output.as_deref())
    }
}

//! Options for the output of results.

use std::path::PathBuf;

use onbeat_report::{Outcome, Progress};

use crate::exit::Result;
use crate::output;

/// Options for the output of results.
#[derive(Debug, clap::Args)]
pub struct ResultOptions {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Write a self-contained HTML report with plots to FILE
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Do not print progress
    #[arg(short, long)]
    pub quiet: bool,
}

impl ResultOptions {
    /// Checks the options before any work is done.
    pub fn check(&self) -> Result<()> {
        output::check_report(self.html.as_deref())
    }

    /// Writes the report and prints the result.
    pub fn show(&self, outcome: Outcome) -> Result {
        output::report_and_print(outcome, self.json, self.html.as_deref())
    }

    /// Measures and prints the result.
    pub fn run<E: std::error::Error>(
        &self,
        measure: impl FnOnce(&mut Progress) -> std::result::Result<Outcome, E>,
    ) -> Result {
        self.check()?;
        self.show(measure(&mut Progress::new(self.quiet))?)
    }
}

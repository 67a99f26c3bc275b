//! What can be done with a result.

use std::path::PathBuf;

use onbeat_report::{Outcome, Progress};

use crate::exit::Result;
use crate::output;

/// What can be done with a result.
#[derive(Debug, clap::Args)]
pub struct ResultOptions {
    /// Print the result as JSON (docs/result.schema.json)
    #[arg(long)]
    pub json: bool,
    /// Write a report with plots, in one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print no progress
    #[arg(short, long)]
    pub quiet: bool,
}

impl ResultOptions {
    /// What can be known to be wrong is told before any work is done.
    pub fn check(&self) -> Result<()> {
        output::check_report(self.html.as_deref())
    }

    /// Shows a result that is there.
    pub fn show(&self, outcome: Outcome) -> Result {
        output::write_report(self.html.as_deref(), &outcome)?;
        output::print_outcome(outcome, self.json, false)
    }

    /// Measures, and shows what came of it.
    pub fn run<E: std::error::Error>(
        &self,
        measure: impl FnOnce(&mut Progress) -> std::result::Result<Outcome, E>,
    ) -> Result {
        self.check()?;
        self.show(measure(&mut Progress::new(self.quiet))?)
    }
}

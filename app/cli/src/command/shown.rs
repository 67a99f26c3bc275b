//! What can be done with a result.

use std::path::PathBuf;

use onbeat_report::{Outcome, Progress};

use crate::exit::Result;
use crate::output;

/// What can be done with a result.
#[derive(Debug, clap::Args)]
pub(super) struct Shown {
    /// Print the result as JSON (docs/result.schema.json)
    #[arg(long)]
    pub(super) json: bool,
    /// Write a report with plots, in one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Print no progress
    #[arg(short, long)]
    pub(super) quiet: bool,
}

impl Shown {
    /// What can be known to be wrong is told before any work is done.
    pub(super) fn check(&self) -> Result<()> {
        output::check_report(self.html.as_deref())
    }

    /// Shows a result that is there.
    pub(super) fn show(&self, outcome: Outcome) -> Result {
        output::write_report(self.html.as_deref(), &outcome)?;
        output::print_outcome(outcome, self.json, false)
    }

    /// Measures, and shows what came of it.
    pub(super) fn run(
        &self,
        measure: impl FnOnce(&mut Progress) -> onbeat_lab::Result<Outcome>,
    ) -> Result {
        self.check()?;
        self.show(measure(&mut Progress::new(self.quiet))?)
    }
}

//! `onbeat man`

use crate::exit::{Answer, Result};
use crate::{man, output};

/// Print the manual page
#[derive(Debug, clap::Args)]
#[command(
    hide = true,
    after_help = "\
Examples:
  onbeat man > docs/onbeat.1

Exit status: 0 success, 2 error."
)]
pub(crate) struct Arguments {}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        output::print(&man::page())?;
        Ok(Answer::Good)
    }
}

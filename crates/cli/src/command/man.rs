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

Exit code: 0 it is printed, 2 it could not be."
)]
pub(crate) struct Arguments {}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        output::print(&man::page())?;
        Ok(Answer::Good)
    }
}

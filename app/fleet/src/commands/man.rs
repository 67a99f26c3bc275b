//! `onbeat-fleet man`

use onbeat_terminal::exit::Result;
use onbeat_terminal::manual::{self, Manual};

/// Print the manual page
#[derive(Debug, clap::Args)]
#[command(
    hide = true,
    after_help = "\
Examples:
  onbeat-fleet man out/man

Exit status: 0 success, 2 error."
)]
pub(crate) struct Man {
    #[command(flatten)]
    manual: Manual,
}

impl Man {
    pub(crate) fn execute(self, program: clap::Command) -> Result {
        self.manual.execute(&manual::pages(program, &[]))
    }
}

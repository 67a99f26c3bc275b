//! `onbeat irq`

mod guard;

use crate::exit::Result;

/// Bottom-half time: schedule it by who waits for it
///
/// What the kernel does for packets, it does in bottom halves, on the time of whoever runs then.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat irq guard guard.toml

Exit code: 0 it is done, 1 something could not be put back, 2 it could not run (it needs root).")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Irq,
}

#[derive(Debug, clap::Subcommand)]
enum Irq {
    Guard(guard::Guard),
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.command {
            Irq::Guard(guard) => guard.execute(),
        }
    }
}

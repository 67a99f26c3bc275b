//! The commands, in the order in which help shows them.

mod bench;
mod lab;
mod load;
mod man;

use clap::Subcommand;
use onbeat_terminal::companion::Companion;
use onbeat_terminal::completions::Completions;
use onbeat_terminal::exit::{Answer, Result};
use onbeat_terminal::output;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Lab(lab::Arguments),
    Bench(bench::Arguments),
    Load(load::Arguments),
    /// Print completions for a shell
    #[command(
        hide = true,
        after_help = "\
Examples:
  onbeat-lab completions bash > /etc/bash_completion.d/onbeat-lab

Exit status: 0 success, 2 error (the shell is not supported)."
    )]
    Completions(Completions),
    /// Print the manual page
    #[command(
        hide = true,
        after_help = "\
Examples:
  onbeat-lab man > docs/onbeat-lab.1

Exit status: 0 success, 2 error."
    )]
    Man,
}

impl Command {
    /// `program`: definition of the whole command line.
    pub(crate) fn execute(self, program: impl FnOnce() -> clap::Command) -> Result {
        match self {
            Command::Lab(arguments) => arguments.execute(),
            Command::Bench(arguments) => arguments.execute(),
            Command::Load(arguments) => arguments.execute(),
            Command::Completions(completions) => completions.execute("onbeat-lab", program()),
            Command::Man => output::print(&man::page(program())).map(|()| Answer::Good),
        }
    }
}

/// The program that nodes run.
const ONBEAT: Companion = Companion {
    name: "onbeat",
    directory: "../../bin",
    remedy: "install it with its laboratory (in a checkout: make build)",
};

/// Parses a command line for a test.
#[cfg(test)]
pub(crate) fn parse(line: &str) -> std::result::Result<Command, clap::Error> {
    onbeat_terminal::program::parse(line)
}

//! The commands, in the order in which help shows them.

mod bench;
mod lab;
mod load;
mod man;

use clap::Subcommand;
use onbeat_terminal::companion::Companion;
use onbeat_terminal::exit::Result;

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Lab(lab::Arguments),
    Bench(bench::Arguments),
    Load(load::Arguments),
    Man(man::Arguments),
}

impl Command {
    /// `program`: the definition of the whole command line.
    pub(crate) fn execute(self, program: impl FnOnce() -> clap::Command) -> Result {
        match self {
            Command::Lab(arguments) => arguments.execute(),
            Command::Bench(arguments) => arguments.execute(),
            Command::Load(arguments) => arguments.execute(),
            Command::Man(arguments) => arguments.execute(program()),
        }
    }
}

/// The program of nodes.
const ONBEAT: Companion = Companion {
    name: "onbeat",
    directory: "../../bin",
    remedy: "install it together with onbeat-lab (in a checkout: make build)",
};

/// Parses a command line for a test.
#[cfg(test)]
pub(crate) fn parse(line: &str) -> std::result::Result<Command, clap::Error> {
    onbeat_terminal::program::parse(line)
}

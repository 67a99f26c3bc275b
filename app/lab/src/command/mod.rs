//! The commands, in the order in which help shows them.

mod bench;
mod lab;
mod load;
mod man;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use onbeat_terminal::exit::{Failure, Result};

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Lab(lab::Arguments),
    Bench(bench::Arguments),
    Load(load::Arguments),
    Man(man::Arguments),
}

impl Command {
    /// `program`: definition of the whole command line.
    pub(crate) fn execute(self, program: impl FnOnce() -> clap::Command) -> Result {
        match self {
            Command::Lab(arguments) => arguments.execute(),
            Command::Bench(arguments) => arguments.execute(),
            Command::Load(arguments) => arguments.execute(),
            Command::Man(arguments) => arguments.execute(program()),
        }
    }
}

/// The program that nodes run: `onbeat` beside this program, or in the directory of programs where this
/// one is in libexec.
fn onbeat() -> Result<PathBuf> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::new(format!("this program's own path is not known: {error}")))?;
    let directory = own.parent().unwrap_or(Path::new("/"));
    let places = [directory.join("onbeat"), directory.join("../../bin/onbeat")];
    places.iter().find(|place| place.is_file()).cloned().ok_or_else(|| {
        Failure::new(format!(
            "no onbeat in {} or {}; install it beside the laboratory (in a checkout: make build)",
            directory.display(),
            directory.join("../../bin").display(),
        ))
    })
}

/// The commands as a program, for a test.
#[cfg(test)]
fn program() -> clap::Command {
    Command::augment_subcommands(clap::Command::new("onbeat").subcommand_required(true))
}

/// Parses a command line for a test.
#[cfg(test)]
pub(crate) fn parse(line: &str) -> std::result::Result<Command, clap::Error> {
    use clap::FromArgMatches;
    let words = std::iter::once("onbeat").chain(line.split_whitespace());
    Command::from_arg_matches(&program().try_get_matches_from(words)?)
}

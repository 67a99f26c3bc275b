//! From the command line to the exit status.

use std::fmt::Debug;
use std::process::ExitCode;

use clap::{Arg, CommandFactory, FromArgMatches};
use tracing::Level;

use crate::completions::{self, Values};
use crate::exit::{self, Failure, Result};
use crate::{logging, paths};

/// A program's command line.
pub trait Program: CommandFactory + FromArgMatches + Debug {
    /// How often `--verbose` stands there.
    fn verbose(&self) -> u8;

    /// What is logged without `--verbose`.
    fn log_level(&self) -> Level;

    /// Values of an argument that shells complete from this host, such as its interfaces.
    #[must_use]
    fn values(_argument: &Arg) -> Option<Values> {
        None
    }

    /// Does what is asked for.
    ///
    /// # Errors
    /// What the command says.
    fn execute(self) -> Result;
}

/// The whole of a program: completes words for a shell, or parses, checks the files that are named, executes.
pub fn main<P: Program>() -> ExitCode {
    completions::complete(P::command, P::values);
    let mut command = P::command();
    let parsed = command.try_get_matches_from_mut(std::env::args_os()).and_then(|matches| {
        let program = P::from_arg_matches(&matches);
        Ok((program.map_err(|error| error.format(&mut command))?, matches))
    });
    let (program, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return exit::usage(&error),
    };
    let begun = logging::begin(program.log_level(), program.verbose());
    let answer = begun.and_then(|()| paths::check(&command, &matches)).and_then(|()| {
        tracing::debug!("onbeat {}: {program:?}", env!("CARGO_PKG_VERSION"));
        program.execute()
    });
    answer.map_or_else(Failure::report, ExitCode::from)
}

//! From the command line to the exit status.

use std::fmt::Debug;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use tracing::Level;

use crate::exit::{self, Failure, Result};
use crate::{logging, paths, version};

/// A program's command line.
pub trait Program: CommandFactory + FromArgMatches + Debug {
    /// How often `--verbose` stands there.
    fn verbose(&self) -> u8;

    /// What is logged without `--verbose`.
    fn log_level(&self) -> Level;

    /// Does what is asked for.
    ///
    /// # Errors
    /// What the command says.
    fn execute(self) -> Result;
}

/// The whole of a program: parses, checks the files that are named, executes.
pub fn main<P: Program>() -> ExitCode {
    if let Some(commit) = version::COMMIT {
        onbeat_report::origin::set_commit(commit);
    }
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
        tracing::debug!("onbeat {}: {program:?}", version::line());
        program.execute()
    });
    answer.map_or_else(Failure::report, ExitCode::from)
}

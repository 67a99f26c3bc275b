//! The `onbeat` program: parsing, printing, exit status; no logic.
//!
//! A command is one file under `command/`, with its flags, their help, what it prints, and the
//! tests of its flags.

mod args;
mod command;
mod exit;
mod logging;
mod man;
mod node;
mod output;
mod paths;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::Arguments;
use exit::Failure;

fn main() -> ExitCode {
    let mut command = Arguments::command();
    let parsed = command.try_get_matches_from_mut(std::env::args_os()).and_then(|matches| {
        let arguments = Arguments::from_arg_matches(&matches);
        Ok((arguments.map_err(|error| error.format(&mut command))?, matches))
    });
    let (arguments, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return exit::usage(&error),
    };
    let begun = logging::begin(arguments.command.log_level(), arguments.verbose);
    let answer = begun.and_then(|()| paths::check(&command, &matches)).and_then(|()| {
        tracing::debug!("onbeat {}: {:?}", env!("CARGO_PKG_VERSION"), arguments.command);
        arguments.command.execute()
    });
    answer.map_or_else(Failure::report, ExitCode::from)
}

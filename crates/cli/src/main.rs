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

use std::process::ExitCode;

use clap::Parser;

use args::Arguments;
use exit::Failure;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    let answer = logging::begin(arguments.command.log_level(), arguments.verbose).and_then(|()| {
        tracing::debug!("onbeat {}: {:?}", env!("CARGO_PKG_VERSION"), arguments.command);
        arguments.command.execute()
    });
    answer.map_or_else(Failure::report, ExitCode::from)
}

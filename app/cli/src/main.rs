//! The `onbeat` program: parsing, printing, exit status; no logic.
//!
//! A command is one file under `command/`, with its flags, their help, what it prints, and the
//! tests of its flags.

mod args;
mod command;
mod completion;
mod node;

use std::process::ExitCode;

fn main() -> ExitCode {
    completion::complete_laboratory();
    onbeat_terminal::program::main::<args::Arguments>()
}

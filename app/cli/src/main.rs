//! The `onbeat` program: command line, output and exit status; no logic.
//!
//! Each command is one file under `command/`, with its flags, help, output and tests.

// Doc comments of options are their help texts, in which [[stream]] is a table of TOML.
#![allow(rustdoc::broken_intra_doc_links)]

mod args;
mod command;
mod completion;
mod node;
mod screen;

use std::process::ExitCode;

fn main() -> ExitCode {
    completion::complete_laboratory();
    if let Some(failure) = command::laboratory::help() {
        return failure.report();
    }
    onbeat_terminal::program::main::<args::Arguments>()
}

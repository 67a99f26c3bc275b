//! The `onbeat-lab` program: the laboratory, which `onbeat lab`, `bench` and `load` execute.

mod args;
mod command;

use std::process::ExitCode;

fn main() -> ExitCode {
    onbeat_terminal::program::main::<args::Arguments>()
}

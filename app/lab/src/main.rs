//! The `onbeat-lab` program: the laboratory, which `onbeat lab`, `bench` and `load` execute.

mod args;
mod command;

use std::env;
use std::process::ExitCode;

use onbeat_terminal::exit::Failure;
use onbeat_terminal::{companion, program};

fn main() -> ExitCode {
    let checked = args::check_version(env::var(companion::VERSION).ok().as_deref());
    checked.map_or_else(Failure::report, |()| program::main::<args::Arguments>())
}

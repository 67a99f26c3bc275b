//! The `onbeat-lab` program, which `onbeat lab`, `onbeat bench` and `onbeat load` execute.

mod args;
mod command;

use std::env;
use std::process::ExitCode;

use onbeat_terminal::exit::Failure;
use onbeat_terminal::{companion, program};

fn main() -> ExitCode {
    let of_caller = env::var(companion::VERSION).ok();
    let checked = companion::check_version(of_caller.as_deref(), "onbeat-lab");
    checked.map_or_else(Failure::report, |()| program::main::<args::Arguments>())
}

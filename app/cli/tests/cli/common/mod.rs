//! Running the built program.

use std::path::Path;
use std::process::Command;

use onbeat_testing::{CommandOutput, command};

/// The program under test.
pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_onbeat"))
}

pub(crate) fn onbeat() -> Command {
    command(program())
}

pub(crate) fn run(arguments: &[&str]) -> CommandOutput {
    onbeat().args(arguments).output().expect("it starts").into()
}

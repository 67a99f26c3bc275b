//! Running the built program.

#[path = "../../../../../tests/common/command.rs"]
mod command;
#[path = "../../../../../tests/common/ran.rs"]
mod ran;

use std::path::Path;

pub(crate) use command::{Directory, onbeat, root, run};
pub(crate) use ran::Ran;

/// The program under test.
pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_onbeat"))
}

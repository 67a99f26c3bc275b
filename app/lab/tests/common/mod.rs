//! Running the built program.

#![allow(dead_code, unused_imports, reason = "each test takes what it needs")]

#[path = "../../../../tests/common/command.rs"]
mod command;
#[path = "../../../../tests/common/onbeat.rs"]
mod onbeat;
#[path = "../../../../tests/common/ran.rs"]
mod ran;

pub(crate) use command::{Directory, onbeat, root, run};
pub(crate) use onbeat::program;
pub(crate) use ran::Ran;

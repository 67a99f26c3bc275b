//! Runs of the built programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The result of a program run.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// Its exit status.
    pub code: i32,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        CommandOutput {
            code: output.status.code().expect("the program was killed by a signal"),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }
}

/// Returns a command for a program, without the environment variables that it reads.
#[must_use]
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for name in ["RUST_LOG", "NO_COLOR", "JOURNAL_STREAM", "NOTIFY_SOCKET", "COLUMNS"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Returns the root of the sources.
///
/// # Panics
/// The directory does not exist.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

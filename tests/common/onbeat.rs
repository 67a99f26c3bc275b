//! The product, for tests of the laboratory's crate.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use onbeat_testing::{CommandOutput, command};

/// The program under test, next to that of the laboratory. The caller's test holds a lock on the
/// machine.
pub(crate) fn program() -> &'static Path {
    super::machine::shared();
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let program = Path::new(env!("CARGO_BIN_EXE_onbeat-lab")).with_file_name("onbeat");
        assert!(program.is_file(), "{program:?} is missing; build it: cargo build -p onbeat");
        program
    });
    &PROGRAM
}

/// The program under test, without the environment variables that it reads.
pub(crate) fn onbeat() -> Command {
    command(program())
}

/// Runs the program in the mounts of this thread: those of the `World` of an end-to-end test.
pub(crate) fn run(arguments: &[&str]) -> CommandOutput {
    onbeat().args(arguments).output().expect("it starts").into()
}

//! Running the built program, for the tests of the programs' crates; the including file defines the path of the program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::program;
use super::ran::Ran;

/// The program, with an environment that says nothing to it.
pub(crate) fn onbeat() -> Command {
    let mut command = Command::new(program());
    for name in ["RUST_LOG", "NO_COLOR", "JOURNAL_STREAM", "NOTIFY_SOCKET", "COLUMNS"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs the program in the mounts of this thread: those of the `World` of an end-to-end test.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    onbeat().args(arguments).output().expect("it starts").into()
}

/// The root of the sources.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// A directory that goes with the test.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("onbeat-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for temporary files");
        Directory(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

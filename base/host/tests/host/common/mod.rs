//! Files and processes of tests.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A copy of this program that runs one test. Its path leads through directories that other users
/// may not enter.
pub(crate) fn copy(test: &str, variable: &str, value: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(variable, value);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Waits until a process prints the line.
pub(crate) fn wait_for_line(child: &mut Child, line: &str) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|printed| printed == line), "no {line:?}");
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

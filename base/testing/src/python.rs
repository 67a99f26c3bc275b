//! Programs in Python that judge results by independent libraries.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::feature::require_that;

/// Debian's interpreter, for which its packages of modules are.
const PYTHON: &str = "/usr/bin/python3";

/// Runs a program with this standard input, and returns its standard output. Returns `None`, like
/// [`require_that`](crate::require_that), if one of the modules is missing; `packages` contain them.
///
/// # Panics
/// The program fails.
#[must_use]
pub fn run(program: &str, modules: &str, packages: &str, input: &str) -> Option<String> {
    let start = |arguments: &[&str]| {
        let mut command = Command::new(PYTHON);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn()
    };
    let check = start(&["-c", &format!("import {modules}")]);
    let found = check.and_then(|child| child.wait_with_output());
    let is_found = found.is_ok_and(|output| output.status.success());
    if !require_that(is_found, &format!("{modules} for {PYTHON}: apt-get install {packages}")) {
        return None;
    }
    let mut child = start(&["-c", program]).expect("start Python");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("read the output");
    // A program that fails reads no input to its end.
    let _ = writer.join().expect("the writer does not panic");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("text"))
}

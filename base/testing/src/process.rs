//! Tests that change or measure the state of a whole process.

use std::{env, process::Command};

/// Set in a process that runs one test.
const ALONE: &str = "ONBEAT_TEST_ALONE";

/// Returns whether this process runs only the test of this path. Otherwise runs the test in a copy of the
/// program:
///
/// ```no_run
/// if !onbeat_testing::alone("module::test") {
///     return;
/// }
/// ```
///
/// # Panics
/// The copy fails, or has no such test.
#[must_use]
pub fn alone(test: &str) -> bool {
    if env::var_os(ALONE).is_some() {
        return true;
    }
    let mut copy = Command::new("/proc/self/exe");
    let output = copy.args(["--exact", test]).env(ALONE, test).output().expect("start a copy");
    let [printed, errors] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success() && printed.contains(" 1 passed;"), "{printed}{errors}");
    false
}

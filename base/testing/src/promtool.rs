//! promtool as a judge of metrics.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::require_that;

/// Fails unless promtool accepts metrics in the text format of Prometheus.
///
/// # Panics
/// promtool finds an error, or cannot be run; it is absent, and all tests are required to run.
pub fn check_metrics(text: &str) {
    let has_promtool = Command::new("promtool").arg("--version").output().is_ok();
    if !require_that(has_promtool, "promtool (apt-get install prometheus)") {
        return;
    }
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = promtool.stderr(Stdio::piped()).spawn().expect("promtool starts");
    let mut input = child.stdin.take().expect("it is a pipe");
    input.write_all(text.as_bytes()).expect("promtool reads its input");
    drop(input);
    let judged = child.wait_with_output().expect("promtool exits");
    assert!(
        judged.status.success() && judged.stderr.is_empty() && judged.stdout.is_empty(),
        "{judged:?}\n{text}"
    );
}

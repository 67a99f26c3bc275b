//! Results, judged by an independent validator of JSON Schema.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use onbeat_netdev::testing::require_that;

/// Compares standard input with the schema whose path is the argument.
const VALIDATE: &str = "
import json, sys, jsonschema
jsonschema.validate(json.load(sys.stdin), json.load(open(sys.argv[1])))
";

/// Whether there is a program to compare JSON with a schema; if not, says so.
pub(crate) fn can_validate() -> bool {
    let try_it = Command::new("python3").args(["-c", "import jsonschema"]).output();
    require_that(
        try_it.is_ok_and(|output| output.status.success()),
        "python3 with jsonschema (Debian: python3-jsonschema)",
    )
}

/// Fails where a result is not what docs/result.schema.json describes.
#[track_caller]
pub(crate) fn validate(result: &str) {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/result.schema.json");
    let mut python = Command::new("python3");
    python.args(["-c", VALIDATE]).arg(schema).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut python = python.spawn().expect("python3");
    python.stdin.take().expect("a pipe").write_all(result.as_bytes()).expect("it reads");
    let said = python.wait_with_output().expect("it ends");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

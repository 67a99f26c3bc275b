//! Results: access to values, and validation by an independent validator of JSON Schema.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use onbeat_testing::require_that;
use serde_json::Value;

/// Compares standard input with the schema whose path is the argument.
const VALIDATE: &str = "
import json, sys, jsonschema
jsonschema.validate(json.load(sys.stdin), json.load(open(sys.argv[1])))
";

/// Whether a validator of JSON Schema is installed; if not, prints so.
pub(crate) fn can_validate() -> bool {
    let try_it = Command::new("python3").args(["-c", "import jsonschema"]).output();
    require_that(
        try_it.is_ok_and(|output| output.status.success()),
        "python3 with jsonschema (Debian: python3-jsonschema)",
    )
}

/// Fails if a result does not conform to docs/result.schema.json.
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

/// A cell of a table, by the first text of its row, and its heading; NaN if it is empty.
#[track_caller]
pub(crate) fn cell(result: &Value, figure: &str, row: &str, heading: &str) -> f64 {
    let table = &result["figures"][figure];
    let columns = table["columns"].as_array().unwrap_or_else(|| panic!("{figure}: {result:#}"));
    let column = columns.iter().position(|column| column["name"] == heading).unwrap();
    let rows = table["rows"].as_array().unwrap();
    let row =
        rows.iter().find(|cells| cells[0] == row).unwrap_or_else(|| panic!("{row}: {table:#}"));
    row[column].as_f64().unwrap_or(f64::NAN)
}

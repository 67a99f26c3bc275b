//! Networks of streams, on each data plane.
//!
//! ```text
//!   west --- n0 === ... === n5 --- east         two to six nodes, two to four paths, several streams
//! ```

use onbeat_lab::scenario::chaos;

use super::{is_detected, run_sound};
use crate::common::run;

fn no_rule_is_violated(backend: &str) {
    let Some(result) = run_sound("chaos", "0.25", &["--backend", backend]) else { return };
    let checked = result["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .find(|check| check["name"] == "frames checked");
    assert!(checked.is_some_and(|check| check["value"].as_u64() > Some(1000)), "{checked:?}");
}

#[test]
fn xdp() {
    no_rule_is_violated("xdp");
}

#[test]
fn packet() {
    no_rule_is_violated("packet");
}

#[test]
fn xsk() {
    no_rule_is_violated("xsk");
}

#[test]
fn nodes_without_elimination_are_detected() {
    is_detected("broken", "duplicates delivered", chaos::without_elimination);
}

#[test]
fn an_invalid_run_time_is_rejected() {
    let ran = run(&["lab", "run", "chaos", "--quiet", "--minutes", "0"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("minutes 0"), "{}", ran.err);
}

//! Random networks with random faults on each data plane: captures prove that no rule is violated. A
//! data plane that violates one is detected.
//!
//! ```text
//!   west --- n0 === ... === n5 --- east         two to six nodes, two to four paths, several streams
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::json::{can_validate, validate};
use crate::common::{can_run, machine, program, run};
use onbeat_lab::scenario::{RunSettings, chaos};
use serde_json::Value;

fn captures(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{name}"))
}

fn no_rule_is_violated(backend: &str) {
    if !can_run() {
        return;
    }
    machine::exclusive();
    let directory = captures(backend);
    let options = ["--json", "--quiet", "--minutes", "0.25", "--seed", "1", "--backend", backend];
    let kept = ["--captures", directory.to_str().expect("a path in UTF-8")];
    let ran = run(&[&["lab", "run", "chaos"], &options[..], &kept].concat());
    assert!(ran.code != 2, "{ran:?}");
    let result: Value = serde_json::from_str(&ran.out).expect("a result");
    assert_eq!((ran.code, &result["ok"]), (0, &true.into()), "{}", result["notes"]);
    let checked = result["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .find(|check| check["name"] == "frames checked");
    assert!(checked.is_some_and(|check| check["value"].as_u64() > Some(1000)), "{checked:?}");
    if can_validate() {
        validate(&ran.out);
    }
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
    if !can_run() {
        return;
    }
    machine::exclusive();
    let directory = captures("broken");
    let _ = fs::remove_dir_all(&directory);
    let common = RunSettings { quiet: true, json: true, ..RunSettings::new(program()) };
    let outcome =
        chaos::without_elimination(directory.clone(), &common).expect("the scenario runs");
    assert!(!outcome.ok());
    let failed: Vec<&str> = outcome
        .checks
        .iter()
        .filter(|check| !check.ok())
        .map(|check| check.name.as_str())
        .collect();
    assert!(failed.contains(&"duplicates delivered"), "{failed:?}");
    assert!(!failed.contains(&"inconclusive networks"), "{:?}", outcome.notes);
    // The violation is described, and the captures are kept.
    let note = outcome.notes.iter().find(|note| note.contains("duplicates delivered"));
    assert!(note.is_some_and(|note| note.contains("left again")), "{:?}", outcome.notes);
    let kept: Vec<_> = fs::read_dir(&directory).expect("captures").flatten().collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    for file in ["all.pcapng", "story.txt"] {
        let len = fs::metadata(kept[0].path().join(file)).expect(file).len();
        assert!(len > 1000, "{file}: {len} octets");
    }
}

#[test]
fn an_invalid_run_time_is_rejected() {
    let ran = run(&["lab", "run", "chaos", "--quiet", "--minutes", "0"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("minutes 0"), "{}", ran.err);
}

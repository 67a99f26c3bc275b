//! Random networks with random faults: captures prove that no rule is violated, and defects are detected.

mod prp;
mod streams;

use std::fs;
use std::path::{Path, PathBuf};

use onbeat_lab::Result;
use onbeat_lab::scenario::RunSettings;
use onbeat_report::Outcome;
use serde_json::Value;

use crate::common::json::{can_validate, validate};
use crate::common::{can_run, machine, program, run};

fn captures(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{name}"))
}

/// Runs a scenario with seed 1; `None`: this machine cannot. No rule is violated.
fn run_sound(scenario: &str, minutes: &str, options: &[&str]) -> Option<Value> {
    if !can_run() {
        return None;
    }
    machine::exclusive();
    let directory = captures(&[&[scenario], options].concat().join("-"));
    let usual = ["--json", "--quiet", "--seed", "1", "--minutes", minutes];
    let kept = ["--captures", directory.to_str().expect("a path in UTF-8")];
    let ran = run(&[&["lab", "run", scenario], &usual[..], options, &kept].concat());
    assert!(ran.code != 2, "{ran:?}");
    let result: Value = serde_json::from_str(&ran.out).expect("a result");
    assert_eq!((ran.code, &result["ok"]), (0, &true.into()), "{}", result["notes"]);
    if can_validate() {
        validate(&ran.out);
    }
    Some(result)
}

/// Requires that a network with a defect violates this rule, and that its captures are kept.
fn is_detected(name: &str, rule: &str, run: impl FnOnce(PathBuf, &RunSettings) -> Result<Outcome>) {
    if !can_run() {
        return;
    }
    machine::exclusive();
    let directory = captures(name);
    let _ = fs::remove_dir_all(&directory);
    let common = RunSettings { quiet: true, json: true, ..RunSettings::new(program()) };
    let outcome = run(directory.clone(), &common).expect("the scenario runs");
    let failed: Vec<&str> = outcome
        .checks
        .iter()
        .filter(|check| !check.ok())
        .map(|check| check.name.as_str())
        .collect();
    assert!(failed.contains(&rule), "{failed:?}: {:?}", outcome.notes);
    assert!(!failed.contains(&"inconclusive networks"), "{:?}", outcome.notes);
    // The violation is described, and the captures are kept.
    assert!(outcome.notes.iter().any(|note| note.contains(rule)), "{:?}", outcome.notes);
    let kept: Vec<_> = fs::read_dir(&directory).expect("captures").flatten().collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    for file in ["all.pcapng", "story.txt"] {
        let len = fs::metadata(kept[0].path().join(file)).expect(file).len();
        assert!(len > 1000, "{file}: {len} octets");
    }
}

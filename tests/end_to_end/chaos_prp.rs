//! Random networks of PRP nodes with random faults: captures prove that no rule is violated. Defects are detected.
//!
//! ```text
//!   red0 == n0 ----- LAN A (bridges) ----- n1 == stations
//!             \                           /
//!              `---- LAN B (bridges) ----'          two to four nodes, stations on one LAN
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::json::{can_validate, validate};
use crate::common::{can_run, machine, program, run};
use onbeat_lab::scenario::RunSettings;
use onbeat_lab::scenario::chaos::prp::{Defect, with_defect};
use serde_json::Value;

fn captures(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-prp-{name}"))
}

#[test]
fn no_rule_is_violated() {
    if !can_run() {
        return;
    }
    machine::exclusive();
    let directory = captures("all");
    let options = ["--json", "--quiet", "--minutes", "0.1", "--seed", "1"];
    let kept = ["--captures", directory.to_str().expect("a path in UTF-8")];
    let ran = run(&[&["lab", "run", "chaos-prp"], &options[..], &kept].concat());
    assert!(ran.code != 2, "{ran:?}");
    let result: Value = serde_json::from_str(&ran.out).expect("a result");
    assert_eq!((ran.code, &result["ok"]), (0, &true.into()), "{}", result["notes"]);
    let rows = result["figures"]["checked"]["rows"].as_array().expect("a table");
    let checked = |item: &str| {
        let row = rows.iter().find(|row| row[0] == item).expect("the item");
        row[1].as_u64().expect("a number")
    };
    for (item, least) in [
        ("frames checked", 3000),
        ("delivered by the only copy that arrived", 100),
        ("copies discarded", 500),
        ("numbers compared", 1000),
    ] {
        assert!(checked(item) >= least, "{item}: {rows:?}");
    }
    if can_validate() {
        validate(&ran.out);
    }
}

fn is_detected(defect: Defect, rule: &str) {
    if !can_run() {
        return;
    }
    machine::exclusive();
    let directory = captures(&format!("{defect:?}"));
    let _ = fs::remove_dir_all(&directory);
    let common = RunSettings { quiet: true, json: true, ..RunSettings::new(program()) };
    let outcome = with_defect(defect, directory.clone(), &common).expect("the scenario runs");
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

#[test]
fn connected_lans_are_detected() {
    is_detected(Defect::ConnectedLans, "frames on the wrong LAN");
}

#[test]
fn nodes_that_forget_numbers_are_detected() {
    is_detected(Defect::ShortMemory, "frames delivered twice");
}

#[test]
fn a_lost_frame_is_detected() {
    is_detected(Defect::LostDelivery, "frames lost although a copy arrived");
}

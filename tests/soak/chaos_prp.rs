//! Random networks of PRP nodes with random faults, as in the end-to-end tests but with new seeds and for longer.
//! Control: networks with a defect violate a rule.

use onbeat_lab::scenario::RunSettings;
use onbeat_lab::scenario::chaos::prp::{Defect, with_defect};
use onbeat_testing::TemporaryDirectory;
use serde_json::Value;

use crate::common::{program, run};
use crate::runs::Runs;

pub(crate) fn soak(runs: &mut Runs) {
    let kept = TemporaryDirectory::new("chaos-prp");
    let common = RunSettings { quiet: true, json: true, ..RunSettings::new(program()) };
    for defect in [Defect::ConnectedLans, Defect::ShortMemory, Defect::LostDelivery] {
        let broken = with_defect(defect, kept.path().to_owned(), &common).expect("it runs");
        assert!(!broken.ok(), "{defect:?} passes: the judge sees nothing");
    }
    while let Some(mut random) = runs.next() {
        let seed = random.below(1 << 32).to_string();
        let ran = run(&[
            "lab",
            "run",
            "chaos-prp",
            "--json",
            "--quiet",
            "--minutes",
            "0.5",
            "--seed",
            &seed,
        ]);
        let result: Value = serde_json::from_str(&ran.out).expect("a result");
        assert_eq!(ran.code, 0, "--seed {seed}: {}", result["notes"]);
        let checks = result["checks"].as_array().expect("checks");
        let checked = checks.iter().find(|check| check["name"] == "frames checked");
        let checked = checked.and_then(|check| check["value"].as_u64()).expect("frames checked");
        runs.count("frames checked", checked);
    }
}

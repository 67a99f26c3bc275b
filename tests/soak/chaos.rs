//! Random networks with random faults on each data plane, as in the end-to-end tests but with new seeds
//! and for longer. Control: networks without elimination violate a rule.

use onbeat_lab::scenario::{RunSettings, chaos};
use onbeat_testing::TemporaryDirectory;
use serde_json::Value;

use crate::common::{program, run};
use crate::runs::Runs;

pub(crate) fn soak(runs: &mut Runs) {
    let kept = TemporaryDirectory::new("chaos");
    let common = RunSettings { quiet: true, json: true, ..RunSettings::new(program()) };
    let broken = chaos::without_elimination(kept.path().to_owned(), &common).expect("it runs");
    assert!(!broken.ok(), "nodes that eliminate nothing pass: the checker sees nothing");
    while let Some(mut random) = runs.next() {
        let seed = random.below(1 << 32).to_string();
        for backend in ["xdp", "packet", "xsk"] {
            let ran = run(&[
                "lab",
                "run",
                "chaos",
                "--json",
                "--quiet",
                "--minutes",
                "0.25",
                "--seed",
                &seed,
                "--backend",
                backend,
            ]);
            let result: Value = serde_json::from_str(&ran.out).expect("a result");
            assert_eq!(ran.code, 0, "--seed {seed} --backend {backend}: {}", result["notes"]);
            let checks = result["checks"].as_array().expect("checks");
            let checked = checks.iter().find(|check| check["name"] == "frames checked");
            let checked =
                checked.and_then(|check| check["value"].as_u64()).expect("frames checked");
            runs.count("frames checked", checked);
        }
    }
}

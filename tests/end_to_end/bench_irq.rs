//! `onbeat bench irq`, with few short rounds: every packet is charged to its reader, the accounts add
//! up, and the result conforms to docs/result.schema.json.
//!
//! ```text
//!   s0 ---- r0   two flows, over two devices and over one
//!   s1 ---- r1
//! ```

use crate::common::json::{can_validate, validate};
use crate::common::{can, machine, run};
use onbeat_testing::Feature;

#[test]
fn packets_are_charged_to_their_readers_and_the_result_conforms() {
    if !can(&[Feature::Btf, Feature::Kernel(6, 8)]) || !can_validate() {
        return;
    }
    machine::exclusive();
    let ran = run(&["bench", "irq", "--rounds", "2", "--slice", "100ms", "--quiet", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    validate(&ran.out);
    let result: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let checks = result["checks"].as_array().unwrap();
    let charged = |check: &&serde_json::Value| {
        check["name"].as_str().is_some_and(|name| name.starts_with("small packets charged"))
    };
    assert_eq!(checks.iter().filter(charged).count(), 3);
    assert!(checks.iter().filter(charged).all(|check| check["value"].as_u64() > Some(0)));
    // Absolute speed is not checked.
    let figures = &result["figures"];
    for how in ["threaded NAPI", "softirq"] {
        for what in ["the ledger", "its programs, which return at once"] {
            let ratio = &figures[format!("packets per second with {what}, {how}")]["ratio"];
            assert!(ratio.as_f64() > Some(0.0), "{how}: {ratio}");
        }
        let programs =
            &figures[format!("run time of the ledger's programs, measured separately, {how}")];
        assert!(programs["rows"].as_array().is_some_and(|rows| rows.len() >= 4), "{programs}");
    }
    let together = "attribution error, shared: 64 octets and 64 octets (goal 2)";
    assert!(figures[together].is_object(), "{figures}");
}

//! `onbeat bench port`, with few cycles: every available row responds to every request once, and the
//! result conforms to docs/result.schema.json.
//!
//! ```text
//!   mn ---- to_mn  wire  to_cn ---- cn          once for each back end
//! ```

use crate::common::json::{can_validate, validate};
use crate::common::{can_run, machine, run};

#[test]
fn every_row_answers_every_request_and_the_result_conforms() {
    if !can_run() || !can_validate() {
        return;
    }
    machine::exclusive();
    let ran = run(&["bench", "port", "--cycles", "200", "--periods", "1ms", "--quiet", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    validate(&ran.out);
    let result: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    for row in ["limit", "packet"] {
        let name = format!("{row}: requests answered exactly once");
        let checks = result["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == name.as_str()).expect(&name);
        assert!(check["value"].as_u64().unwrap() > 0, "{check}");
    }
    for load in ["idle", "hackbench"] {
        let figure = &result["figures"][format!("response delay, 1 ms, {load}")];
        let series = figure["series"].as_array().unwrap();
        assert!(series.iter().any(|series| series["name"] == "limit"), "{figure}");
        assert!(series.iter().all(|series| series["lost"] == 0), "{figure}");
    }
}

//! `onbeat doctor` on this host.

use crate::common::run;
use onbeat_testing::documents::check_documented_keys;

#[test]
fn the_exit_status_is_that_of_the_worst_finding() {
    let ran = run(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    assert!(findings.iter().any(|finding| finding["id"] == "kernel-version"), "{}", ran.out);
    let bad = findings.iter().any(|finding| finding["level"] == "bad");
    assert_eq!((ran.code, report["worst"] == "bad"), (i32::from(bad), bad), "{}", ran.out);
    check_documented_keys("Report of doctor", &report);
    for finding in findings {
        check_documented_keys("Finding", finding);
        let wrong = finding["level"] == "bad" || finding["level"] == "warn";
        assert!(!wrong || finding["remedy"].is_string(), "no remedy: {finding}");
    }
}

#[test]
fn a_missing_interface_is_bad() {
    let ran = run(&["doctor", "no-such-device"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let line = ran.out.lines().find(|line| line.contains("no-such-device")).expect("it is named");
    assert!(line.starts_with("BAD "), "{line}");
}

//! `onbeat doctor` on this very host.

use crate::common::run;

#[test]
fn findings_and_exit_code_agree() {
    let ran = run(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    assert!(findings.iter().any(|finding| finding["id"] == "kernel-version"), "{}", ran.out);
    let bad = findings.iter().any(|finding| finding["level"] == "bad");
    assert_eq!((ran.code, report["worst"] == "bad"), (i32::from(bad), bad), "{}", ran.out);
    for finding in findings {
        let wrong = finding["level"] == "bad" || finding["level"] == "warn";
        assert!(!wrong || finding["remedy"].is_string(), "no way out: {finding}");
    }
}

#[test]
fn an_interface_that_is_not_there_is_bad() {
    let ran = run(&["doctor", "no-such-device"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let line = ran.out.lines().find(|line| line.contains("no-such-device")).expect("it is named");
    assert!(line.starts_with("BAD "), "{line}");
}

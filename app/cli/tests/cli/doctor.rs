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

/// Each was examined, also a repeated one: 100,000 words took minutes.
#[test]
fn many_words_are_one_error_and_a_repeated_word_is_one() {
    let names: Vec<String> = (0..100_000).map(|at| format!("e{at}")).collect();
    let mut words = vec!["doctor"];
    words.extend(names.iter().map(String::as_str));
    for option in [None, Some("--fix")] {
        words.extend(option);
        let ran = run(&words);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert!(ran.err.starts_with("onbeat: 100000 interfaces are too many: at most 1024 "));
        assert!(ran.err.len() < 200, "{} octets", ran.err.len());
    }
    let once = run(&["doctor", "lo"]);
    let often = run(&[&["doctor"], &["lo"; 50_000][..]].concat());
    assert_eq!(often.out.lines().count(), once.out.lines().count());
}

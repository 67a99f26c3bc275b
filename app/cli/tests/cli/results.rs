//! Output of results: reports that cannot be written, and hostile names of inputs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use onbeat_testing::{CommandOutput, TemporaryDirectory, root};
use serde_json::Value;

use crate::common::onbeat;

fn capture() -> PathBuf {
    root().join("vectors/powerlink/boot-1cn-stock.pcap")
}

#[test]
fn a_report_that_cannot_be_written_does_not_lose_the_result() {
    let sniff = |json: &[&str], html: &OsStr| -> CommandOutput {
        let mut command = onbeat();
        command.args(["powerlink", "sniff", "--quiet"]).args(json).arg(capture());
        command.arg("--html").arg(html).output().unwrap().into()
    };
    let ran = sniff(&["--json"], OsStr::new("/dev/full"));
    assert_eq!(ran.code, 2, "{ran:?}");
    let result: Value = serde_json::from_str(&ran.out).expect("the result");
    assert_eq!(result["schema"], "onbeat-result/2");
    assert!(
        ran.err.starts_with("onbeat: --html: /dev/full cannot be written: No space"),
        "{ran:?}"
    );
    let ran = sniff(&[], OsStr::new("/dev/full"));
    assert!(ran.code == 2 && ran.out.contains("powerlink"), "{ran:?}");
    // Before the measurement.
    let directory = TemporaryDirectory::new("report");
    let ran = sniff(&[], directory.path().as_os_str());
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.ends_with(" is a directory; use a file in it\n"), "{ran:?}");
}

/// Names of files are octets. A terminal obeys U+009B as the start of a control sequence.
#[test]
fn names_of_inputs_differ_and_do_not_control_the_terminal() {
    let directory = TemporaryDirectory::new("names");
    let names = [&b"in\xff.pcap"[..], b"in\xfe.pcap", "\u{9b}2J\u{7f}.pcap".as_bytes()];
    let [first, second, control] = names.map(|name| directory.file(OsStr::from_bytes(name)));
    for file in [&first, &second, &control] {
        fs::copy(capture(), file).unwrap();
    }
    let matched = |other: &PathBuf, options: &[&str]| {
        let mut command = onbeat();
        command.args(["delay", "match", "--quiet"]).args(options).arg(&first).arg(other);
        let output = command.output().unwrap();
        let all = [&output.stdout[..], &output.stderr].concat();
        let all = String::from_utf8(all).expect("text");
        assert!(!all.contains(|c: char| c.is_control() && c != '\n'), "{all:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let inputs = |out: &str| -> Vec<String> {
        let result: Value = serde_json::from_str(out).expect("the result");
        let inputs = result["origin"]["inputs"].as_array().expect("inputs");
        let name = |input: &Value| input["name"].as_str().unwrap().to_owned();
        inputs.iter().map(name).collect()
    };
    let path = |name: &str| format!("{}/{name}", directory.path().display());
    let found = inputs(&matched(&second, &["--json"]));
    assert_eq!(found, [path("in\\xff.pcap"), path("in\\xfe.pcap")]);
    let out = matched(&control, &["--json"]);
    assert!(out.contains("\\u009b2J\\u007f.pcap"), "{out}");
    assert_eq!(inputs(&out)[1], path("\u{9b}2J\u{7f}.pcap"));
    matched(&control, &[]);
    // In an error.
    fs::remove_file(&control).unwrap();
    matched(&control, &[]);
}

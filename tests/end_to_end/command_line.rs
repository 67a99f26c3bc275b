//! `onbeat lab`: what it prints, and how it ends.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Ran, can_run, make_executable, onbeat, program, root, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_testing::TemporaryDirectory;

#[test]
fn wrong_usage_ends_with_2_and_the_way_out() {
    let lines: [&[&str]; 6] = [
        &["lab", "run"],
        &["lab", "run", "no-such-scenario"],
        &["lab", "shell"],
        &["bench", "no-such-bench"],
        &["bench", "port", "--backends", "no-such-backend"],
        &["lab", "run", "single-hop", "--compare", "switch"],
    ];
    for line in lines {
        let Ran { code, out, err } = run(line);
        assert_eq!((code, out.as_str()), (2, ""), "{line:?}");
        assert!(err.starts_with("onbeat: ") && err.contains("--help"), "{line:?}: {err}");
    }
    for line in [["lab"], ["bench"]] {
        let Ran { code, out, err } = run(&line);
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains("Examples:\n  onbeat "), "{err}");
    }
}

/// It would run with the privileges of the caller.
#[test]
fn the_laboratory_is_never_taken_from_path() {
    let directory = TemporaryDirectory::new("path");
    let bin = directory.file("bin");
    fs::create_dir_all(&bin).expect("a directory");
    make_executable(&bin.join("onbeat"), fs::read(program()).expect("the program"));
    let mark = directory.file("executed");
    let canary = directory.file("onbeat-lab");
    make_executable(&canary, format!("#!/bin/sh\ntouch {}\n", mark.display()));
    let mut command = Command::new(bin.join("onbeat"));
    command.args(["lab", "list"]).env("PATH", canary.parent().expect("its directory"));
    let ran: Ran = command.output().expect("it starts").into();
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("onbeat-lab is not installed"), "{}", ran.err);
    assert!(!mark.exists());
}

#[test]
fn a_laboratory_of_another_version_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat-lab"));
    let ran: Ran = command
        .args(["lab", "list"])
        .env("ONBEAT_VERSION", "0.0.1")
        .output()
        .expect("it starts")
        .into();
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("0.0.1"), "{}", ran.err);
}

/// `REGENERATE=1 cargo test -p onbeat-lab --test end_to_end manual` or `make man` writes it.
#[test]
fn the_manual_page_is_that_of_this_program() {
    let path = root().join("docs/onbeat-lab.1");
    let printed = Command::new(env!("CARGO_BIN_EXE_onbeat-lab")).arg("man").output();
    let page = Ran::from(printed.expect("it starts")).out;
    if std::env::var_os("REGENERATE").is_some() {
        fs::write(&path, &page).expect("docs/onbeat-lab.1 is written");
    }
    let kept = fs::read_to_string(&path).expect("docs/onbeat-lab.1");
    assert!(kept == page, "docs/onbeat-lab.1 is not what onbeat-lab man prints; run: make man");
}

#[test]
fn scenarios_are_listed_for_people_and_programs() {
    let text = run(&["lab", "list"]).out;
    let json: serde_json::Value =
        serde_json::from_str(&run(&["lab", "list", "--json"]).out).expect("JSON");
    let scenarios = json.as_array().expect("a list");
    assert!(scenarios.len() >= 6, "{json}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 * scenarios.len(), "{text}");
    for (scenario, lines) in scenarios.iter().zip(lines.chunks(2)) {
        let line = lines[0];
        let (name, summary) = (scenario["name"].as_str(), scenario["summary"].as_str());
        let (name, summary) = (name.expect("a name"), summary.expect("what it shows"));
        assert!(line.starts_with(name) && line.ends_with(summary), "{line}");
        let options = scenario["options"].as_array().expect("options").iter();
        let options: Vec<_> = options.map(|option| option.as_str().expect("text")).collect();
        assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), options);
    }
}

#[test]
fn a_report_that_cannot_be_written_is_told_at_once() {
    let Ran { code, out, err } =
        run(&["lab", "run", "link-failure", "--html", "/nowhere/at/all.html"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.starts_with("onbeat: --html: ") && err.contains("mkdir -p /nowhere/at"), "{err}");
}

/// It would be ignored, and the result would claim what was not measured.
#[test]
fn an_option_that_the_scenario_does_not_have_is_a_usage_error() {
    for (option, value) in [("--streams", "99"), ("--cycle", "5ms")] {
        let Ran { code, out, err } = run(&["lab", "run", "link-failure", option, value]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert_eq!(
            err,
            format!(
                "onbeat: unexpected argument '{option}' found\n\n\
                 Usage: onbeat lab run link-failure [OPTIONS]\n\n\
                 For more information, try '--help'.\n"
            )
        );
    }
    let help = run(&["lab", "run", "link-failure", "--help"]).out;
    for option in ["--backend", "--rate", "--size", "--seconds", "--html"] {
        assert!(help.contains(option), "{help}");
    }
    assert!(!help.contains("--streams"), "{help}");
}

#[test]
fn a_command_that_moved_names_its_successor() {
    for (line, rest) in [
        (&["delay", "compare"][..], "HOP,..."),
        (&["delay", "compare", "router", "--load", "idle"], "router --load idle"),
    ] {
        let Ran { code, out, err } = run(line);
        assert_eq!((code, out.as_str()), (2, ""), "{line:?}");
        let successor = format!("run: onbeat lab run single-hop --compare {rest}\n");
        assert!(err.starts_with("onbeat: ") && err.ends_with(&successor), "{line:?}: {err}");
    }
}

#[test]
fn a_result_and_its_exit_code_agree() {
    if !can_run() {
        return;
    }
    let directory = TemporaryDirectory::new("result");
    let html = directory.file("report.html");
    let html = html.to_str().expect("a path that is text");
    let line = ["lab", "run", "link-failure", "--seconds", "0.2", "--json", "--quiet"];
    let Ran { code, out, err } = run(&[&line[..], &["--html", html]].concat());
    let result: serde_json::Value =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}\n{err}"));
    assert_eq!(
        (&result["schema"], &result["name"]),
        (&"onbeat-result/1".into(), &"link-failure".into())
    );
    // The machine may be too loaded for the scenario to hold; the code must say which it is.
    assert_eq!(code, i32::from(result["ok"] != true), "{out}");
    let report = std::fs::read_to_string(html).expect("the report");
    assert!(report.starts_with("<!doctype html>") && report.contains("link-failure"));
}

/// Captures of 41 GB are being written: that stops, and they are removed.
#[test]
fn a_bench_that_is_interrupted_exits_and_removes_its_captures() {
    const BOUND: Duration = Duration::from_secs(20);
    let directory = TemporaryDirectory::new("bench");
    let captures = directory.file("captures");
    fs::create_dir_all(&captures).expect("a directory");
    let mut bench = onbeat();
    bench.args(["bench", "delay", "--only", "matching", "--packets", "100000000"]);
    bench.arg("--directory").arg(&captures);
    let mut bench = bench.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let files = || fs::read_dir(&captures).expect("a directory").count();
    let end = Instant::now() + BOUND;
    while files() == 0 {
        assert!(Instant::now() < end, "no captures within {BOUND:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(bench.id() as i32), Signal::SIGINT).expect("it runs");
    let end = Instant::now() + BOUND;
    let status = loop {
        match bench.try_wait().expect("its status") {
            Some(status) => break status,
            None if Instant::now() >= end => {
                bench.kill().expect("it runs");
                bench.wait().expect("its status");
                panic!("it goes on after Ctrl-C");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert_eq!((status.code(), files()), (Some(2), 0));
}

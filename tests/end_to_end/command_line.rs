//! `onbeat lab`: output and exit status.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{CommandOutput, can_run, make_executable, onbeat, program, run};
use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_testing::TemporaryDirectory;
use onbeat_testing::documents::check_documented_keys;

#[test]
fn wrong_usage_exits_with_2_and_a_remedy() {
    let lines: [&[&str]; 6] = [
        &["lab", "run"],
        &["lab", "run", "no-such-scenario"],
        &["lab", "shell"],
        &["bench", "no-such-bench"],
        &["bench", "port", "--backends", "no-such-backend"],
        &["lab", "run", "single-hop", "--compare", "switch"],
    ];
    for line in lines {
        let CommandOutput { code, out, err } = run(line);
        assert_eq!((code, out.as_str()), (2, ""), "{line:?}");
        assert!(err.starts_with("onbeat: ") && err.contains("--help"), "{line:?}: {err}");
    }
    for line in [["lab"], ["bench"]] {
        let CommandOutput { code, out, err } = run(&line);
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains("Examples:\n  onbeat "), "{err}");
    }
}

/// A program found by PATH would run with the privileges of the caller.
#[test]
fn the_laboratory_is_never_executed_by_path() {
    let directory = TemporaryDirectory::new("path");
    let bin = directory.file("bin");
    fs::create_dir_all(&bin).expect("a directory");
    make_executable(&bin.join("onbeat"), fs::read(program()).expect("the program"));
    let mark = directory.file("executed");
    let canary = directory.file("onbeat-lab");
    make_executable(&canary, format!("#!/bin/sh\ntouch {}\n", mark.display()));
    let mut command = Command::new(bin.join("onbeat"));
    command.args(["lab", "list"]).env("PATH", canary.parent().expect("its directory"));
    let ran: CommandOutput = command.output().expect("it starts").into();
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("onbeat-lab is not installed"), "{}", ran.err);
    assert!(!mark.exists());
}

#[test]
fn a_laboratory_of_another_version_is_rejected() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat-lab"));
    let ran: CommandOutput = command
        .args(["lab", "list"])
        .env("ONBEAT_VERSION", "0.0.1")
        .output()
        .expect("it starts")
        .into();
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("0.0.1"), "{}", ran.err);
}

#[test]
fn manual_pages_are_valid() {
    let directory = TemporaryDirectory::new("manual-lab");
    let path = directory.file("pages");
    let written = Command::new(env!("CARGO_BIN_EXE_onbeat-lab")).arg("man").arg(&path).output();
    let ran = CommandOutput::from(written.expect("it starts"));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let pages = ["onbeat-bench.1", "onbeat-lab.1", "onbeat-load.1"].map(|page| path.join(page));
    assert_eq!(onbeat_testing::faults_of_manual_pages(&pages), [""; 0]);
    assert_eq!(onbeat_testing::pages_without_a_link(&pages), [""; 0]);
    assert_eq!(onbeat_testing::missing_documents(&pages), [""; 0]);
}

/// `onbeat` makes the laboratory complete the words of its commands.
#[test]
fn commands_of_the_laboratory_are_completed() {
    for (words, expected) in [
        (&["lab", "run", "link-f"][..], "link-failure"),
        (&["lab", "shell", "link-f"], "link-failure"),
        (&["lab", "run", "link-failure", "--backend", "x"], "xdp\nxsk"),
        (&["lab", "run", "single-hop", "--load", "c"], "cpu"),
        (&["load", "net", "192.0.2.2:9", "--interface", "lo"], "lo"),
        (&["bench", "frer", "--js"], "--json"),
        (&["bench", "frer", "--backend", "xdp,p"], "xdp,packet"),
    ] {
        let mut command = Command::new(program());
        command.args(["--", "onbeat"]).args(words).env("ONBEAT_COMPLETE", "bash");
        command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
        let ran = CommandOutput::from(command.output().expect("it starts"));
        assert_eq!(ran.out, expected, "{words:?}");
    }
}

/// `onbeat help lab run` prints what `onbeat lab run --help` prints.
#[test]
fn help_of_the_laboratory_s_commands_is_theirs() {
    for words in
        [&["lab"][..], &["lab", "run"], &["lab", "run", "link-failure"], &["bench", "frer"]]
    {
        let by_option = run(&[words, &["--help"]].concat());
        assert!(
            by_option.code == 0 && by_option.out.contains("\nExit status: 0 "),
            "{by_option:?}"
        );
        assert_eq!(run(&[&["help"], words].concat()), by_option, "{words:?}");
    }
    let unknown = run(&["help", "lab", "rum"]);
    assert!(unknown.code == 2 && unknown.err.contains("rum"), "{unknown:?}");
}

#[test]
fn scenarios_are_listed_as_text_and_json() {
    let text = run(&["lab", "list"]).out;
    let json: serde_json::Value =
        serde_json::from_str(&run(&["lab", "list", "--json"]).out).expect("JSON");
    let scenarios = json.as_array().expect("a list");
    assert!(scenarios.len() >= 6, "{json}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 * scenarios.len(), "{text}");
    for (scenario, lines) in scenarios.iter().zip(lines.chunks(2)) {
        let line = lines[0];
        check_documented_keys("Scenario", scenario);
        let (name, summary) = (scenario["name"].as_str(), scenario["summary"].as_str());
        let (name, summary) = (name.expect("a name"), summary.expect("a summary"));
        assert!(line.starts_with(name) && line.ends_with(summary), "{line}");
        let options = scenario["options"].as_array().expect("options").iter();
        let options: Vec<_> = options.map(|option| option.as_str().expect("text")).collect();
        assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), options);
    }
}

#[test]
fn an_unwritable_report_fails_before_the_run() {
    let CommandOutput { code, out, err } =
        run(&["lab", "run", "link-failure", "--html", "/nowhere/at/all.html"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.starts_with("onbeat: --html: ") && err.contains("mkdir -p /nowhere/at"), "{err}");
}

#[test]
fn a_report_on_a_full_disk_does_not_lose_the_result() {
    if !can_run() {
        return;
    }
    let run = |options: &[&str]| {
        let line = ["lab", "run", "link-failure", "--backend", "packet", "--seconds", "1", "-q"];
        run(&[&line[..], options, &["--html", "/dev/full"]].concat())
    };
    let CommandOutput { code, out, err } = run(&["--json"]);
    assert_eq!(code, 2, "{err}");
    let result: serde_json::Value = serde_json::from_str(&out).expect("the result");
    assert_eq!(result["name"], "link-failure");
    assert!(err.contains("onbeat: --html: /dev/full cannot be written: "), "{err}");
    let CommandOutput { code, out, .. } = run(&[]);
    assert!(code == 2 && !out.contains("/dev/full") && out.contains("--html FILE"), "{out}");
}

/// An ignored option would make the result claim something that was not measured.
#[test]
fn an_unknown_option_of_a_scenario_is_a_usage_error() {
    for (option, value) in [("--streams", "99"), ("--cycle", "5ms")] {
        let CommandOutput { code, out, err } = run(&["lab", "run", "link-failure", option, value]);
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

/// `delay compare` named a hop in earlier versions.
#[test]
fn a_hop_instead_of_results_names_the_command_of_the_laboratory() {
    let CommandOutput { code, out, err } = run(&["delay", "compare", "router", "bridge"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.starts_with("onbeat: router: "), "{err}");
    assert!(err.contains("`onbeat lab run single-hop --compare HOP`"), "{err}");
}

#[test]
fn result_and_exit_status_agree() {
    if !can_run() {
        return;
    }
    let directory = TemporaryDirectory::new("result");
    let html = directory.file("report.html");
    let html = html.to_str().expect("a path that is text");
    let line = ["lab", "run", "link-failure", "--seconds", "0.2", "--json", "--quiet"];
    let CommandOutput { code, out, err } = run(&[&line[..], &["--html", html]].concat());
    let result: serde_json::Value =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}\n{err}"));
    assert_eq!(
        (&result["schema"], &result["name"]),
        (&"onbeat-result/2".into(), &"link-failure".into())
    );
    // The machine may be too loaded for the checks to hold; the exit status must match the result.
    assert_eq!(code, i32::from(result["ok"] != true), "{out}");
    let (origin, conditions) = (&result["origin"], &result["conditions"]);
    let words = [&["onbeat"][..], &line, &["--html", html]].concat();
    assert_eq!(origin["command"], serde_json::Value::from(words));
    assert!(conditions["kernel"].is_string() && origin["analyzed_on"].is_null(), "{out}");
    let report = std::fs::read_to_string(html).expect("the report");
    assert!(report.starts_with("<!doctype html>") && report.contains("link-failure"));
}

#[test]
fn a_run_prints_one_screen_and_all_tables_with_verbose() {
    if !can_run() {
        return;
    }
    let directory = TemporaryDirectory::new("summary");
    let html = directory.file("report.html");
    let html = html.to_str().expect("a path that is text");
    let line = ["lab", "run", "link-failure", "--seconds", "0.2", "--html", html];
    let CommandOutput { code, out, err } = run(&line);
    assert!(code < 2, "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.len() <= 40, "{} lines:\n{out}", lines.len());
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{out}");
    assert!(lines[0].starts_with("Nodes a and b send each frame"), "{out}");
    for phase in ["both up", "path1 down", "both down", "path1 up", "both up again"] {
        assert!(lines.iter().any(|line| line.starts_with(&format!("{phase} "))), "{phase}: {out}");
    }
    assert!(["PASS", "FAIL"].iter().any(|word| out.contains(&format!("{word} link-failure: "))));
    assert_eq!(lines.last(), Some(&html), "the report is the last line: {out}");
    assert!(Path::new(html).is_file());

    let verbose = run(&[&line[..5], &["--verbose"]].concat());
    assert!(verbose.code < 2, "{verbose:?}");
    for table in
        ["\nnode a\n", "\nnode b\n", "\nstreams\n", "\nwires\n", "\nconditions\n", "p99.99"]
    {
        assert!(verbose.out.contains(table), "{table}: {}", verbose.out);
    }
    assert!(verbose.out.lines().last().is_some_and(|line| line.contains(" link-failure: ")));
    assert!(!verbose.err.contains("INFO"), "the first --verbose logs nothing: {}", verbose.err);
}

/// Runs a command with standard output on a terminal of this size, and returns the lines without colors.
fn lines_on_a_terminal(line: &[&str], rows: &str, columns: &str) -> Vec<String> {
    // Not by openpty: its descriptors go to programs that other tests start meanwhile.
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let mut terminal = posix_openpt(flags).expect("a pseudo terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("a pseudo terminal");
    let name = ptsname_r(&terminal).expect("a name");
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits());
    let end = options.open(name).expect("it opens");
    let mut stty = Command::new("stty");
    stty.args(["rows", rows, "cols", columns]).stdin(end.try_clone().expect("a file"));
    assert!(stty.status().expect("stty of coreutils").success());
    drop(stty);
    let mut command = onbeat();
    command.args(line).env("NO_COLOR", "1").env("TERM", "xterm").stdout(end);
    let mut run = command.stderr(Stdio::null()).spawn().expect("it starts");
    // The terminal's own end is closed with the command: a read then fails with EIO.
    drop(command);
    let mut printed = Vec::new();
    let _ = terminal.read_to_end(&mut printed);
    assert!(run.wait().expect("its status").code() < Some(2));
    String::from_utf8(printed).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn a_summary_has_the_size_of_the_terminal() {
    if !can_run() {
        return;
    }
    let line = ["lab", "run", "link-failure", "--seconds", "0.2"];
    for (rows, columns) in [(30, 80), (60, 132)] {
        let lines = lines_on_a_terminal(&line, &rows.to_string(), &columns.to_string());
        let widest = lines.iter().map(|line| line.chars().count()).max();
        assert!(lines.len() < rows && widest <= Some(columns), "{}: {lines:#?}", lines.len());
        let has = |start: &str| lines.iter().any(|line| line.starts_with(start));
        assert!(has("both up again "), "{lines:#?}");
        assert!(rows == 60 && has("duplicated ") || !has("duplicated "), "{lines:#?}");
    }
}

/// A bench that is writing captures of 41 GB stops, and removes them.
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
                panic!("it continues after Ctrl-C");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert_eq!((status.code(), files()), (Some(2), 0));
}

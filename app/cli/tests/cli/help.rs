//! What the program says about itself.

use onbeat_terminal::version;

use crate::common::{root, run};

/// The commands that a help lists.
fn listed(help: &str) -> Vec<String> {
    let commands = help.split_once("\nCommands:\n").map_or("", |(_, commands)| commands);
    commands
        .lines()
        .take_while(|line| !line.is_empty())
        // A long description goes on in a line that is indented further.
        .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Width of help that is not printed to a terminal.
const WIDTH: usize = 100;

/// Paragraphs that are filled to the width, and lists without gaps.
fn check_layout(help: &str) {
    let lines: Vec<&str> = help.lines().collect();
    for pair in lines.windows(2) {
        let [line, next] = pair else { continue };
        let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
        if is_prose(line) && is_prose(next) {
            let word = next.split(' ').next().unwrap_or_default();
            let width = line.chars().count() + 1 + word.chars().count();
            assert!(width > WIDTH, "{word:?} fits into the line before: {help}");
        }
    }
    let examples = lines.iter().skip_while(|line| **line != "Examples:");
    let mut rest = examples.skip_while(|line| !line.is_empty());
    assert!(rest.all(|line| !line.starts_with("  onbeat ")), "a gap between examples: {help}");
}

/// Commands that another program executes.
const LABORATORY: [&[&str]; 3] = [&["lab"], &["bench"], &["load"]];

fn check(command: &[String]) {
    let words =
        |last: &str| -> Vec<String> { command.iter().cloned().chain([last.to_owned()]).collect() };
    let asked = |words: Vec<String>| run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    for flag in ["-h", "--help"] {
        let ran = asked(words(flag));
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{command:?}");
        assert!(ran.out.contains("\nExamples:\n  onbeat "), "{command:?}: {}", ran.out);
        assert!(ran.out.contains("\nExit status: 0 "), "{command:?}: {}", ran.out);
        check_layout(&ran.out);
        assert!(!ran.out.contains('\x1b'), "colours into a pipe: {:?}", ran.out);
    }
    for name in listed(&asked(words("--help")).out) {
        let words = words(&name);
        // Help of the laboratory is the laboratory's.
        if !LABORATORY.iter().any(|command| words == *command) {
            check(&words);
        }
    }
}

#[test]
fn every_command_has_help_with_an_example_and_its_exit_status() {
    let top = listed(&run(&["--help"]).out);
    for command in [
        "doctor",
        "run",
        "show",
        "reset",
        "reload",
        "down",
        "irq",
        "delay",
        "powerlink",
        "lab",
        "bench",
    ] {
        assert!(top.iter().any(|name| name == command), "{command} in {top:?}");
    }
    assert!(!top.iter().any(|name| name == "man"), "{top:?}");
    check(&[]);
}

/// `onbeat 0.1.0 (c9f3a56b1234)`, without a commit where the build knew none.
#[test]
fn version() {
    for flag in ["--version", "-V"] {
        let ran = run(&[flag]);
        assert_eq!((ran.code, ran.out), (0, format!("onbeat {}\n", version::line())));
    }
    assert!(version::line().starts_with(env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = run(&["completions", shell]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{shell}");
        assert!(ran.out.contains("doctor") && ran.out.contains("replace"), "{shell}");
    }
}

/// `REGENERATE=1 cargo test -p onbeat help` or `make man` writes it anew.
#[test]
fn the_manual_page_is_that_of_this_program() {
    let path = root().join("docs/onbeat.1");
    let page = run(&["man"]).out;
    if std::env::var_os("REGENERATE").is_some() {
        std::fs::write(&path, &page).expect("docs/onbeat.1 is written");
    }
    let kept = std::fs::read_to_string(&path).expect("docs/onbeat.1");
    assert!(kept == page, "docs/onbeat.1 is not what onbeat man prints; run: make man");
}

#[test]
fn the_manual_page_is_sound() {
    let mandoc = std::process::Command::new("mandoc")
        .args(["-Tlint", "-Wwarning"])
        .args(["onbeat.1", "onbeat-lab.1"].map(|page| root().join("docs").join(page)))
        .output();
    if !onbeat_testing::require_that(mandoc.is_ok(), "mandoc (apt-get install mandoc)") {
        return;
    }
    let said = String::from_utf8(mandoc.expect("it is there").stdout).expect("text");
    // The page is the same whenever it is made, so it has no date.
    let faults: Vec<_> = said.lines().filter(|line| !line.contains("missing date")).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

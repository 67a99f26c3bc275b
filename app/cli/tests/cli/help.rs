//! Help, version, completions and manual pages.

use onbeat_terminal::version;
use onbeat_testing::{CommandOutput, TemporaryDirectory};

use crate::common::{onbeat, run};

/// The commands listed in a help text.
fn listed(help: &str) -> Vec<String> {
    let commands = help.split_once("\nCommands:\n").map_or("", |(_, commands)| commands);
    commands
        .lines()
        .take_while(|line| !line.is_empty())
        // Continuation lines of descriptions are indented further.
        .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Width of help that is not printed to a terminal.
const WIDTH: usize = 100;

/// Checks that paragraphs fill the width and examples have no gaps.
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
const LABORATORY: [&[&str]; 4] = [&["lab"], &["bench"], &["load"], &["fleet"]];

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
        assert!(!ran.out.contains('\x1b'), "colors in a pipe: {:?}", ran.out);
    }
    for name in listed(&asked(words("--help")).out) {
        let words = words(&name);
        // The laboratory prints its own help.
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
        "top",
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

/// `onbeat 0.1.0 (c9f3a56b1234)`, without a commit if it was unknown at build time.
#[test]
fn version() {
    for flag in ["--version", "-V"] {
        let ran = run(&[flag]);
        assert_eq!((ran.code, ran.out), (0, format!("onbeat {}\n", version::line())));
    }
    assert!(version::line().starts_with(env!("CARGO_PKG_VERSION")));
}

/// Completions of the last word, as requested by the script for bash.
fn offered(words: &[&str]) -> Vec<String> {
    offered_by("bash", words)
}

/// Completions of the last word, as requested by the script for a shell.
fn offered_by(shell: &str, words: &[&str]) -> Vec<String> {
    let mut command = onbeat();
    command.env("ONBEAT_COMPLETE", shell).args(["--", "onbeat"]).args(words);
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    let ran = CommandOutput::from(command.output().expect("it starts"));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{words:?}");
    ran.out.lines().map(str::to_owned).collect()
}

#[test]
fn completions_are_commands_options_and_values_of_this_host() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = run(&["completions", shell]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{shell}");
        assert!(ran.out.contains("ONBEAT_COMPLETE") && ran.out.contains("onbeat"), "{}", ran.out);
    }
    assert_eq!(offered(&["doc"]), ["doctor"]);
    assert_eq!(offered(&["run", "--rep"]), ["--replace"]);
    assert_eq!(offered(&["doctor", "lo"]), ["lo"]);
    assert_eq!(offered(&["show", "--json", "no-such-no"]), [""; 0]);
}

/// Options with a fixed set of values, and these.
const ENUMERATED: [(&[&str], &str); 9] = [
    (&["run", "--backend"], "xdp packet xsk"),
    (
        &["doctor", "--fix", "--only"],
        "governor rt-throttling offloads coalescing energy-efficient packet-steering threaded-napi \
         irq-affinity napi-priority napi-affinity manager",
    ),
    (&["irq", "top", "--sort"], "caused suffered packets per-packet pid command"),
    (&["delay", "mirror", "--stamps"], "best nic kernel"),
    (&["powerlink", "mn", "--backend"], "packet xsk xdp txtime module"),
    (&["powerlink", "mn", "--soc"], "process automatic"),
    (&["powerlink", "cn", "--backend"], "packet xsk xdp txtime module"),
    (&["powerlink", "cn", "--response"], "process automatic"),
    (&["completions"], "bash elvish fish powershell zsh"),
];

#[test]
fn values_of_options_are_completed_in_each_shell() {
    for shell in ["bash", "fish", "zsh"] {
        for (words, values) in ENUMERATED {
            let offered = offered_by(shell, &[words, &[""]].concat());
            // zsh and fish receive options and descriptions as well.
            let names: Vec<&str> = offered
                .iter()
                .filter_map(|line| line.split([':', '\t']).next())
                .filter(|name| !name.starts_with('-'))
                .collect();
            assert_eq!(names.join(" "), values, "{shell}: {words:?}");
        }
    }
    assert_eq!(offered(&["doctor", "--fix", "--only", "governor,off"]), ["governor,offloads"]);
}

/// The last word as the script for bash completes it.
#[test]
fn the_script_for_bash_completes_words() {
    for (words, completed) in [("doctor --on", "--only"), ("run --backend x", "xdp xsk")] {
        let script = format!(
            "eval \"$(\"$0\" completions bash)\"; PATH=$1:$PATH; COMP_WORDS=(onbeat {words})
            COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) COMP_TYPE=9
            _clap_complete_onbeat onbeat \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"
            echo \"${{COMPREPLY[*]}}\""
        );
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_onbeat"));
        let mut bash = std::process::Command::new("bash");
        bash.arg("-c").arg(script).arg(program).arg(program.parent().expect("a directory"));
        let ran = CommandOutput::from(bash.output().expect("bash starts"));
        assert_eq!(ran.out, format!("{completed}\n"), "{}", ran.err);
    }
}

#[test]
fn manual_pages_have_no_errors() {
    let directory = TemporaryDirectory::new("manual");
    let path = directory.file("pages");
    let ran = run(&["man", path.to_str().expect("text")]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let pages: Vec<_> =
        std::fs::read_dir(&path).unwrap().map(|page| page.unwrap().path()).collect();
    let printed = run(&["man"]).out;
    let length: usize = pages.iter().map(|page| std::fs::read(page).unwrap().len()).sum();
    assert_eq!(printed.len(), length, "the same pages");
    for name in ["onbeat.1", "onbeat-run.1", "onbeat-delay.1"] {
        assert!(pages.contains(&path.join(name)), "{pages:?}");
    }
    assert_eq!(onbeat_testing::faults_of_manual_pages(&pages), [""; 0]);
    assert_eq!(onbeat_testing::missing_documents(&pages), [""; 0]);
    assert_eq!(onbeat_testing::pages_without_a_link(&pages), [""; 0]);
}

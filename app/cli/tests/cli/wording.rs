//! Wording of messages in the sources.

use std::fs;
use std::path::{Path, PathBuf};

use onbeat_testing::root;

/// Nouns that messages count.
const NOUNS: [&str; 18] = [
    "frames",
    "packets",
    "streams",
    "nodes",
    "probes",
    "events",
    "delays",
    "samples",
    "cycles",
    "rounds",
    "ports",
    "processes",
    "threads",
    "entries",
    "datagrams",
    "times",
    "settings",
    "limits",
];

/// Numbers that are never 1, and names of figures, which stay.
const EXCEPTIONS: [&str; 16] = [
    "the longest {count} delays are equal",
    "{rows} processes; tables list the first",
    "if *count > 1 { write!(f, \", {count} times\") }",
    "path lost: {packets} packets passed",
    "path restored after {packets} packets",
    "egress: {count} ports; use 1 to",
    "more than {most} ports",
    "it has {} settings, more than the limit",
    "all {processes} limits are in use",
    "{} streams change at once",
    "{} of {streams} streams",
    "per stream of {streams} streams",
    "_ => format!(\"{streams} streams\")",
    "{backend}: {} streams relative to",
    "{}, {}, {} streams",
    "the table is full with {processes} processes",
];

/// The directories of all crates, from Cargo.toml.
fn crates() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let members = manifest.split_once("\nmembers = [").expect("members of the workspace").1;
    let members = members.split_once(']').expect("the end of the list").0;
    members.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

fn sources(directory: &Path, to: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, to);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            to.push(path);
        }
    }
}

/// The counted plural of a line: `} frames`, outside assertions, which show only where a test fails.
fn counted_plural(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let is_message = text.contains('"') || text.contains('{');
    if !is_message || ["//", "assert", "panic"].iter().any(|start| text.starts_with(start)) {
        return None;
    }
    NOUNS.into_iter().find(|noun| {
        text.match_indices("} ").any(|(at, brace)| {
            let (before, rest) = (&text[..at], &text[at + brace.len()..]);
            // A constant is not 1.
            if before.ends_with(|last: char| last.is_ascii_uppercase()) {
                return false;
            }
            rest.strip_prefix(noun).is_some_and(|rest| {
                // A rate has no singular.
                !rest.starts_with(|next: char| next.is_alphanumeric() || next == '/')
            })
        })
    })
}

#[test]
fn numbers_of_things_are_in_singular_and_plural() {
    let mut files = Vec::new();
    let crates = crates();
    crates.iter().for_each(|name| sources(&root().join(name).join("src"), &mut files));
    assert!(crates.len() > 25 && files.len() > 500, "{crates:?}: {files:?}");
    let mut found = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("a source");
        for (number, line) in text.lines().enumerate() {
            let excepted = EXCEPTIONS.iter().any(|exception| line.contains(exception));
            if let Some(noun) = counted_plural(line).filter(|_| !excepted) {
                found.push(format!("{}:{}: {noun}", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "use onbeat_report::format::count:\n{}", found.join("\n"));
}

#[test]
fn a_counted_plural_is_found() {
    assert_eq!(counted_plural("    \"{} frames lost\","), Some("frames"));
    assert_eq!(counted_plural("    \"{lost} frames\","), Some("frames"));
    for line in [
        "\"{} frame\"",
        "// {} frames",
        "assert!(n > 9, \"{n} frames\");",
        "{} framesets",
        "{n} frames/s",
    ] {
        assert_eq!(counted_plural(line), None, "{line}");
    }
}

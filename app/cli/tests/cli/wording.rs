//! Wording of messages in the sources.

use std::fs;
use std::path::{Path, PathBuf};

use onbeat_testing::root;

/// Crates whose messages are checked.
const CRATES: [&str; 12] = [
    "app/cli",
    "app/lab",
    "app/terminal",
    "base/config",
    "base/report",
    "delay/core",
    "delay/hooks",
    "delay/probe",
    "powerlink/core",
    "powerlink/node",
    "powerlink/sim",
    "powerlink/xdd",
];

/// Nouns that messages count.
const NOUNS: [&str; 16] = [
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
];

/// Numbers that are never 1, and names of figures, which stay.
const EXCEPTIONS: [&str; 8] = [
    "the longest {count} delays are equal",
    "{rows} processes took part",
    "{} streams change at once",
    "{} of {streams} streams",
    "per stream of {streams} streams",
    "_ => format!(\"{streams} streams\")",
    "{backend}: {} streams relative to",
    "{}, {}, {} streams",
];

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
    CRATES.iter().for_each(|name| sources(&root().join(name).join("src"), &mut files));
    assert!(files.len() > 100, "{files:?}");
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

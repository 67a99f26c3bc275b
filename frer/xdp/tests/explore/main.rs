//! Runs all interleavings of a few packets through `bpf/recover.h`, with fewer bits than the programs have, and
//! compares each end with the sequential algorithm: `explore.c`, which this test compiles in several geometries.
//!
//! Changes of the history (`bpf/history.h`) take place meanwhile in some runs, by the steps of the loader.
//!
//! The proof has its control: known mistakes are inserted into the text of these files, and each must be found. Around a
//! reset or a timeout, an end may be that of several sequential orders; it must not have a number less than one of them,
//! nor a number more often than all of them, but for the exceptions of decision 21. It does not distinguish the order of
//! time stamp and commit, nor the search for claims ahead of the window.

#[path = "../discard/mod.rs"]
mod discard;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use onbeat_testing::TemporaryDirectory;

/// Bits of a number, bits of the position in a word, words of the ring; the length of the history.
type Geometry = (u32, u32, u32, u32);

/// The longest histories of their rings: two windows and one word.
const GEOMETRIES: [Geometry; 4] = [(5, 2, 4, 6), (5, 1, 4, 3), (4, 2, 2, 2), (5, 2, 4, 3)];

/// What one run explores: CPUs, packets of each, starts, and options.
type Run<'a> = (u32, u32, u32, &'a [&'a str]);

const RUNS: [Run<'_>; 11] = [
    (2, 2, 400, &[]),
    (2, 4, 30, &[]),
    (3, 2, 2, &[]),
    (2, 2, 200, &["reset"]),
    (2, 2, 20, &["timeout", "exceptions"]),
    (2, 2, 10, &["timeout", "individual", "exceptions"]),
    (2, 3, 60, &["match"]),
    (2, 2, 60, &["match", "reset"]),
    (2, 2, 60, &["match", "reset", "individual"]),
    (2, 2, 4, &["match", "timeout", "individual", "exceptions"]),
    (3, 3, 2, &["preemptions=2"]),
];

/// A two-word ring: 3 CPUs with 4 packets. More of them are a soak (tests/soak/explore).
const FOUR_PREEMPTIONS: (Geometry, Run<'_>) = ((4, 2, 2, 2), (3, 4, 1, &["preemptions=4"]));

/// Packets at the instant of a timeout: one that restarts the timer just in time, one for which it has expired.
const TIMEOUT: (Geometry, Run<'_>) = ((4, 2, 2, 2), (2, 2, 60, &["timeout", "exceptions"]));

/// Changes of the history: their states are many. A packet that has read the head before a reset, and a shorter length
/// after it, is refused by both; no sequential order refuses it.
const CHANGES: [(Geometry, Run<'_>); 4] = [
    ((4, 2, 2, 2), (2, 2, 6, &["shorter"])),
    ((4, 2, 2, 2), (2, 2, 2, &["longer"])),
    ((5, 1, 4, 3), (2, 2, 3, &["shorter"])),
    ((5, 1, 4, 3), (2, 2, 2, &["longer"])),
];

/// All geometries with their runs.
fn runs() -> impl Iterator<Item = (Geometry, Run<'static>)> {
    let usual = GEOMETRIES.into_iter().flat_map(|geometry| RUNS.map(|run| (geometry, run)));
    let usual = [TIMEOUT, FOUR_PREEMPTIONS].into_iter().chain(usual);
    usual.chain(CHANGES)
}

/// The sources to explore.
const SOURCES: [&str; 3] = ["recover.h", "recover_head.h", "history.h"];

/// The folder of the crate.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Writes texts of `SOURCES` to a directory.
fn write(directory: &Path, texts: &[String; 3]) {
    for (name, text) in SOURCES.iter().zip(texts) {
        fs::write(directory.join(name), text).unwrap();
    }
}

/// Compiles the explorer with the sources of a directory, unless it has been.
fn compile(directory: &Path, (number, shift, ring, _): Geometry) -> PathBuf {
    let program = directory.join(format!("explore-{number}-{shift}-{ring}"));
    if program.exists() {
        return program;
    }
    let output = Command::new(root().join("tests/explore/build"))
        .arg(directory)
        .args([number, shift, ring].map(|bits| bits.to_string()))
        .output()
        .expect("a shell");
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "clang, which also compiles the BPF programs: {report}");
    program
}

/// Calls a function for each item, on all CPUs.
fn for_each<T: Sync>(items: &[T], call: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            call(item);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
}

/// Runs the explorer; `Err` has its report of a wrong end.
fn explore(
    program: &Path,
    length: u32,
    (cpus, packets, starts, options): Run<'_>,
) -> Result<String, String> {
    // With these starts, the mistakes are found.
    let seed = match options {
        _ if options.contains(&"timeout") => 3,
        ["longer", ..] => 4,
        ["shorter", ..] => 7,
        _ => 1,
    };
    let numbers = [cpus, packets, length, starts, seed].map(|number| number.to_string());
    let output = Command::new(program).args(numbers).args(options).output().unwrap();
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(text(&output.stderr))
}

fn sources() -> [String; 3] {
    SOURCES.map(|name| fs::read_to_string(root().join("bpf").join(name)).unwrap())
}

#[test]
fn every_interleaving_ends_as_a_sequential_order() {
    let directory = TemporaryDirectory::new("explore");
    write(directory.path(), &sources());
    for geometry in GEOMETRIES {
        compile(directory.path(), geometry);
    }
    // The longest are last.
    let runs: Vec<_> = runs().collect::<Vec<_>>().into_iter().rev().collect();
    for_each(&runs, |&(geometry, run)| {
        match explore(&compile(directory.path(), geometry), geometry.3, run) {
            Ok(counts) => eprint!("{geometry:?} {run:?}: {counts}"),
            Err(report) => panic!("{geometry:?} {run:?}: {report}"),
        }
    });
}

/// The text from `from` on, up to `to`.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap_or_else(|| panic!("no {from:?}: {text}"));
    let length = text[start..].find(to).unwrap_or_else(|| panic!("no {to:?}: {text}"));
    &text[start..start + length]
}

/// A bound on preemptions leaves out interleavings, and nothing else: with a high one the same ends are reached, without
/// preemptions only those of sequential orders are.
#[test]
fn a_bound_leaves_out_only_preemptions() {
    let directory = TemporaryDirectory::new("bound");
    write(directory.path(), &sources());
    let (geometry, _) = TIMEOUT;
    let program = compile(directory.path(), geometry);
    let explore = |options: &[&str], bound| {
        let options: Vec<_> = options.iter().copied().chain(bound).collect();
        explore(&program, geometry.3, (2, 2, 20, &options)).unwrap()
    };
    for options in [&[][..], &["reset"], &["timeout", "exceptions"], &["match"], &["individual"]] {
        let all = explore(options, None);
        let bounded = explore(options, Some("preemptions=31"));
        assert_eq!(between(&bounded, "ends", "\n"), between(&all, "ends", "\n"), "{options:?}");
        let sequential = explore(options, Some("preemptions=0"));
        assert!(sequential.contains("wrong 0 imprecise 0 "), "{options:?}: {sequential}");
        // A late packet has several times, and each of them its order.
        if !options.contains(&"timeout") {
            assert!(sequential.contains("orders 1 "), "{options:?}: {sequential}");
            assert!(!all.contains("orders 1 "), "{options:?}: {all}");
        }
    }
}

#[test]
fn mistakes_are_found_with_two_preemptions() {
    for name in [
        "the usual path does not read the head again",
        "a timeout is decided without a mark in the head",
    ] {
        let directory = TemporaryDirectory::new(&name.replace(' ', "_"));
        let (_, text, mistake) = MISTAKES.into_iter().find(|(known, ..)| *known == name).unwrap();
        write(directory.path(), &sources().map(|source| source.replace(text, mistake)));
        let (geometry, (cpus, packets, starts, _)) = TIMEOUT;
        let program = compile(directory.path(), geometry);
        let found = |bound| {
            explore(
                &program,
                geometry.3,
                (cpus, packets, starts, &["timeout", "exceptions", bound]),
            )
            .is_err()
        };
        assert!(!found("preemptions=0"), "{name}");
        assert!(found("preemptions=2"), "{name}");
    }
}

/// A number that passes on both sides of a reset, of which only the exceptions (decision 21) have an order.
#[test]
fn a_claim_that_a_reset_supersedes_opens_the_window() {
    let directory = TemporaryDirectory::new("superseded");
    write(directory.path(), &sources());
    let geometry = GEOMETRIES[2];
    let program = compile(directory.path(), geometry);
    let explore = |options: &[&str]| explore(&program, geometry.3, (2, 4, 30, options));
    assert!(explore(&["reset", "preemptions=4"]).is_err());
    explore(&["reset", "preemptions=4", "exceptions"]).unwrap();
}

/// A mistake: its text, and what it replaces.
const MISTAKES: [(&str, &str, &str); 14] = [
    (
        "the head is stored",
        "if (recover_cas(&f->r->head, head, next) != head)\n\t\treturn false;",
        "recover_store(&f->r->head, next);",
    ),
    (
        "numbers are recorded without an atomic operation",
        "if (recover_cas(at, word, next) != word)\n\t\treturn RECOVER_AGAIN;",
        "recover_store(at, next);",
    ),
    (
        "tags have no lap",
        "return position >> FRER_SEEN_SHIFT;",
        "return (position & FRER_NUMBER_MASK) >> FRER_SEEN_SHIFT;",
    ),
    ("a later word is replaced", "if (is_later(", "if (0 && is_later("),
    (
        "the head is not loaded again after the time stamp",
        "head = recover_load(&r->head);\n\t\tif (head & ~before & FRER_HEAD_RUNNING)\n\t\t\treturn RECOVER_AGAIN;",
        "",
    ),
    (
        "a duplicate ahead leaves the head as it is",
        "if (delta <= 0)\n\t\t\t\treturn RECOVER_DUPLICATE;",
        "if (1)\n\t\t\t\treturn RECOVER_DUPLICATE;",
    ),
    (
        "the usual path records numbers without an atomic operation",
        "if (unlikely(recover_cas(at, word, word | bit) != word))",
        "recover_store(at, word | bit);\n\tif (0)",
    ),
    (
        "the usual path does not read the head again",
        "if (likely(recover_load(&r->head) == head))",
        "if (1)",
    ),
    (
        "the usual path continues while a CPU decides on a timeout",
        "if (unlikely((head & FRER_HEAD_FLAGS) != FRER_HEAD_RUNNING || back < 0))",
        "if (unlikely((head & FRER_HEAD_FLAGS & ~FRER_HEAD_EXPIRING) != FRER_HEAD_RUNNING || back < 0))",
    ),
    (
        "a timeout is decided without a mark in the head",
        "touched(head) | FRER_HEAD_EXPIRING",
        "(head | 0)",
    ),
    (
        "the usual path takes any number ahead",
        "((word & FRER_SEEN_MASK) ^ bit >> 1) >= bit >> 1",
        "0",
    ),
    (
        "the usual path of match recovery stores the head",
        "if (unlikely(recover_cas(&r->head, head, touched(at_position(head, number))) != head))",
        "recover_store(&r->head, touched(at_position(head, number)));\n\tif (0)",
    ),
    (
        "RecovSeqNum is that of the head",
        "return at ? advanced(head, recover_load(at)) : head;",
        "return at && 0 ? advanced(head, recover_load(at)) : head;",
    ),
    (
        "the first number is not recorded",
        "if (head & FRER_HEAD_YOUNG && position ==",
        "if (0 && position ==",
    ),
];

/// Mistakes that show only while the history changes.
const MISTAKES_OF_CHANGES: [(&str, &str, &str); 8] = [
    (
        "the former ring does not decide",
        "at = deciding_word(f, moving, epoch);\n\tif (!at)",
        "at = ring_word(f, epoch);\n\tif (!at)",
    ),
    ("there is no second claim", "if (moving && uses_second(f)) {", "if (0) {"),
    (
        "the usual path does not stop",
        "if (unlikely(recovery_flags(f) & FRER_RECOVERY_MOVING))",
        "if (0)",
    ),
    (
        "a copied claim is that of another packet",
        "if (recovery_flags(&f) & FRER_RECOVERY_BOTH) {",
        "if (0) {",
    ),
    (
        "no word is copied",
        "bpf_loop(f->r->config.former_mask + 1,",
        "bpf_loop(0 * f->r->config.former_mask,",
    ),
    (
        "a copied word replaces later claims",
        "next = bits | (word & FRER_SEEN_MASK);",
        "next = bits;",
    ),
    (
        "older numbers do not count as seen",
        "(!fill_ring(slot, before, from, to) ||",
        "(0 * from * to ||",
    ),
    (
        "the counters of lost numbers are not corrected",
        "difference = (__s64)(old - length);",
        "difference = 0;",
    ),
];

#[test]
fn known_mistakes_are_found() {
    let mistakes: Vec<_> = MISTAKES_OF_CHANGES.into_iter().chain(MISTAKES).collect();
    for_each(&mistakes, |&(name, text, mistake)| {
        let directory = TemporaryDirectory::new(&name.replace(' ', "-"));
        let mut wrong = sources();
        let changed = wrong.iter_mut().find(|source| source.contains(text));
        let changed = changed.unwrap_or_else(|| panic!("{name}: no source has this text"));
        *changed = changed.replace(text, mistake);
        write(directory.path(), &wrong);
        let of_changes = MISTAKES_OF_CHANGES.iter().any(|(mistake, ..)| *mistake == name);
        let mut runs = runs().filter(|run| CHANGES.contains(run) == of_changes);
        let found = runs.any(|(geometry, run)| {
            match explore(&compile(directory.path(), geometry), geometry.3, run) {
                Ok(_) => false,
                Err(report) => {
                    eprintln!("{name}: {geometry:?} {run:?}: {report}");
                    true
                }
            }
        });
        assert!(found, "not found: {name}");
    });
}

#[test]
fn a_short_ring_is_found() {
    let directory = TemporaryDirectory::new("short-ring");
    write(directory.path(), &sources());
    // Four words of four numbers hold a history of 6.
    let program = compile(directory.path(), (5, 2, 4, 8));
    let found = RUNS.iter().any(|&run| explore(&program, 8, run).is_err());
    assert!(found, "a ring that is shorter than two windows and one word");
}

#[test]
fn a_step_without_a_grace_period_is_found() {
    let directory = TemporaryDirectory::new("hasty");
    write(directory.path(), &sources());
    let found = CHANGES.iter().any(|(geometry, (cpus, packets, _, options))| {
        let program = compile(directory.path(), *geometry);
        let hasty = [*options, &["hasty"]].concat();
        explore(&program, geometry.3, (*cpus, *packets, 20, &hasty)).is_err()
    });
    assert!(found, "packets of steps that are not adjacent");
}

//! Runs all interleavings of copies of a few frames through `bpf/discard.h`: no frame is lost, and none passes twice
//! whose copies arrive in adjacent periods. See `discard.c`, which this test compiles.
//!
//! The proof has its control: known mistakes are inserted into the text of this file, and each must be found. It does not
//! distinguish what a word of a later lap does: frames within 32,767 numbers have none.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, thread};

use onbeat_testing::TemporaryDirectory;

/// CPUs, packets of each, starts, options.
type Run<'a> = (u32, u32, u32, &'a [&'a str]);

const RUNS: [Run<'_>; 6] = [
    (2, 2, 4000, &[]),
    (2, 2, 600, &["words"]),
    (2, 3, 200, &[]),
    (2, 4, 60, &[]),
    (2, 4, 20, &["words"]),
    (3, 2, 10, &[]),
];

const SEED: u32 = 3;

fn source() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/discard.h");
    fs::read_to_string(path).unwrap()
}

/// The explorer of a text of `discard.h`, in a directory of its own.
struct Explorer {
    program: PathBuf,
    _directory: TemporaryDirectory,
}

impl Explorer {
    fn new(name: &str, source: &str) -> Self {
        let directory = TemporaryDirectory::new(&format!("discard-{}", name.replace(' ', "-")));
        fs::write(directory.path().join("discard.h"), source).unwrap();
        let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/discard/build");
        let output = Command::new(build).arg(directory.path()).output().expect("a shell");
        let report = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "clang, which also compiles the BPF programs: {report}");
        Self { program: directory.path().join("explore-discard"), _directory: directory }
    }

    /// Returns the counts; `Err` has the report of a rule that was broken.
    fn run(&self, (cpus, packets, starts, options): Run<'_>) -> Result<String, String> {
        let numbers = [cpus, packets, starts, SEED].map(|number| number.to_string());
        let output = Command::new(&self.program).args(numbers).args(options).output().unwrap();
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        match output.status.code() {
            Some(0) => Ok(text(&output.stdout)),
            Some(1) => Err(text(&output.stderr)),
            _ => panic!("{}", text(&output.stderr)),
        }
    }
}

#[test]
fn every_interleaving_accepts_each_frame_once() {
    let explorer = Explorer::new("right", &source());
    thread::scope(|scope| {
        for run in RUNS {
            let explorer = &explorer;
            scope.spawn(move || match explorer.run(run) {
                Ok(counts) => eprint!("{run:?}: {counts}"),
                Err(report) => panic!("{run:?}: {report}"),
            });
        }
    });
}

/// How a mistake shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Lost,
    Twice,
}

/// A mistake: its name, effect, text, and what it replaces.
const MISTAKES: [(&str, Effect, &str, &str); 12] = [
    (
        "words are stored",
        Effect::Twice,
        "if (after == word || recover_cas(at, word, after) == word)",
        "if (after != word)\n\t\t\trecover_store(at, after);\n\t\tif (1)",
    ),
    (
        "the newest number is stored",
        Effect::Twice,
        "if (next == head || recover_cas(newest_at, head, next) == head)",
        "if (next != head)\n\t\t\trecover_store(newest_at, next);\n\t\tif (1)",
    ),
    ("words have no lap", Effect::Lost, "extended >> 16,", "extended * 0,"),
    ("a silence adds no lap", Effect::Lost, "silence >= FORGET_PERIODS", "0"),
    (
        "after a silence numbers follow the former ones",
        Effect::Twice,
        "newest = ((newest >> 16) + 2) << 16 | number;",
        "newest += 1 << 16;",
    ),
    (
        "present and before are swapped",
        Effect::Twice,
        "(__u64)before << DISCARD_NUMBERS | present",
        "(__u64)present << DISCARD_NUMBERS | before",
    ),
    (
        "the period before is forgotten",
        Effect::Twice,
        "before = present;\n\t\tpresent = 0;",
        "before = present = 0;",
    ),
    ("a former time makes the word older", Effect::Twice, "if (age == -1)\n\t\tperiod++;", ""),
    ("the first number has lap 0", Effect::Twice, "newest = 1 << 16 | number;", "newest = number;"),
    ("the newest number stays", Effect::Twice, "newest = extended;", ";"),
    (
        "all tries of the newest number failed",
        Effect::Lost,
        "if (i == DISCARD_TRIES)\n\t\treturn true;",
        "if (i == DISCARD_TRIES)\n\t\treturn false;",
    ),
    (
        "all tries of the word failed",
        Effect::Lost,
        "return true;\n}\n\n#endif",
        "return false;\n}\n\n#endif",
    ),
];

/// With one try, what follows failed ones is reached. Frames then pass twice.
fn with_one_try(source: &str) -> String {
    let text = "#define DISCARD_TRIES 8";
    assert!(source.contains(text));
    source.replace(text, "#define DISCARD_TRIES 1")
}

#[test]
fn failed_tries_lose_no_frame() {
    let explorer = Explorer::new("one try", &with_one_try(&source()));
    assert!(explorer.run((2, 2, 100, &[])).unwrap_err().starts_with("twice"));
    for (cpus, packets) in [(2, 2), (2, 4), (3, 2)] {
        explorer.run((cpus, packets, 10, &["twice"])).unwrap();
    }
}

#[test]
fn known_mistakes_are_found() {
    thread::scope(|scope| {
        for (name, effect, text, mistake) in MISTAKES {
            scope.spawn(move || {
                let mut wrong = source();
                assert!(wrong.contains(text), "{name}: the source has no such text");
                wrong = wrong.replace(text, mistake);
                let mut options: &[&str] = &[];
                if name.starts_with("all tries") {
                    (wrong, options) = (with_one_try(&wrong), &["twice"]);
                }
                let explorer = Explorer::new(name, &wrong);
                let report = RUNS.iter().find_map(|&(cpus, packets, starts, of_run)| {
                    let options = [of_run, options].concat();
                    explorer.run((cpus, packets, starts, &options)).err()
                });
                let report = report.unwrap_or_else(|| panic!("not found: {name}"));
                eprintln!("{name}: {report}");
                // Another effect may be found first.
                assert!(report.starts_with("lost") || effect == Effect::Twice, "{name}: {report}");
            });
        }
    });
}

/// The limit of the format: a copy that is late by more than half of all numbers is one ahead, and that frame is then
/// discarded if it arrives within the forget time.
#[test]
fn a_copy_behind_more_than_half_of_all_numbers_is_mistaken_for_one_ahead() {
    let explorer = Explorer::new("beyond", &source());
    let report = explorer.run((2, 2, 20, &["beyond"])).unwrap_err();
    assert!(report.starts_with("lost"), "{report}");
}

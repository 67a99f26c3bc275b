//! The tutorials of docs/tutorials, executed: files and commands in order, in network namespaces
//! instead of boxes, with comparison of the shown output.
//!
//! A block `console` has prompts: `a# ip link` runs on box a. A block `toml` whose first line is
//! `# a.toml on a, b.toml on b` is a file. A block whose first line is `# needs hardware: ...` is left out.
//!
//! Output matches line by line; `...` stands for any lines (at the end of a line: for its rest).
//! Numbers match any other number, except 0, with any unit of the quantity. A daemon may log at any
//! time: shown log lines are awaited, others are ignored.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use crate::common::{build, can, can_run, machine, program, root, run, wait_for};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use onbeat_lab::{Topology, World};
use onbeat_testing::documents::{Block, Document, documents, prompt};
use onbeat_testing::{Feature, TemporaryDirectory, require_that};

/// End mark of a command's output, before its exit status.
const MARK: &str = "--- exit status";

/// A command of a tutorial with its shown output.
#[derive(Debug)]
struct Step {
    line: usize,
    station: String,
    command: String,
    shown: Vec<String>,
}

fn steps(block: &Block) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (line, text) in (block.line..).zip(&block.lines) {
        match prompt(text) {
            Some((station, command)) => {
                let (station, command) = (station.to_owned(), command.to_owned());
                steps.push(Step { line, station, command, shown: Vec::new() });
            }
            None => {
                let step =
                    steps.last_mut().unwrap_or_else(|| panic!("line {line}: no prompt: {text}"));
                step.shown.push(text.clone());
            }
        }
    }
    steps
}

/// Files of a block and their boxes: `# NAME on BOX[ and BOX][, NAME on BOX ...]`.
fn files(block: &Block) -> Vec<(String, String)> {
    let Some(title) = block.lines.first().and_then(|line| line.strip_prefix("# ")) else {
        return Vec::new();
    };
    let parts = title.split(", ").filter_map(|part| part.split_once(" on "));
    let files = parts.flat_map(|(name, stations)| {
        stations.split(" and ").map(move |station| (name.to_owned(), station.to_owned()))
    });
    files.collect()
}

/// Whether a line is a log line of a daemon: it starts with a time.
fn is_log(line: &str) -> bool {
    let start = line.as_bytes();
    start.len() > 20 && start[4] == b'-' && start[10] == b'T' && start[0].is_ascii_digit()
}

/// The compared form of a line: numbers except 0 become N, with units, and white space and table rules
/// have a fixed width.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    let mut rest = line.trim();
    while let Some(c) = rest.chars().next() {
        let length = if c.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && !",.".contains(c));
            let number = rest[..end.unwrap_or(rest.len())].trim_end_matches([',', '.']);
            shape.push(if number.chars().all(|c| "0.,".contains(c)) { '0' } else { 'N' });
            let units = [" ns", " µs", " ms", " s"].iter();
            let unit = units.filter(|unit| {
                let after = rest[number.len()..].strip_prefix(**unit);
                after.is_some_and(|after| !after.starts_with(char::is_alphanumeric))
            });
            number.len() + unit.map(|unit| unit.len()).max().unwrap_or(0)
        } else if c == ' ' || c == '─' {
            shape.push(c);
            rest.len() - rest.trim_start_matches(c).len()
        } else {
            shape.push(c);
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    shape
}

/// Whether a line of output matches the shown one.
fn is_line(shown: &str, line: &str) -> bool {
    match shown.strip_suffix("...") {
        Some(start) => shape(line).starts_with(shape(start).trim_end()),
        None => shape(shown) == shape(line),
    }
}

/// Whether a line of a log matches the shown one, at any time.
fn is_log_line(shown: &str, line: &str) -> bool {
    let text = |line| str::split_once(line, ' ').map_or("", |(_, text)| text);
    is_log(line) && is_line(text(shown), text(line))
}

/// Whether output matches the shown one.
fn is_output(shown: &[&str], output: &[&str]) -> bool {
    match (shown.split_first(), output.split_first()) {
        (None, None) => true,
        (Some((&"...", rest)), _) => {
            (0..=output.len()).any(|skipped| is_output(rest, &output[skipped..]))
        }
        (Some((line, rest)), Some((first, output))) => {
            is_line(line, first) && is_output(rest, output)
        }
        _ => false,
    }
}

/// A shell in the namespace of a box, with its output so far.
struct Station {
    shell: Child,
    printed: Arc<Mutex<Vec<String>>>,
    directory: PathBuf,
}

impl Station {
    fn start(world: &World, name: &str, directory: &Path) -> Station {
        let directory = directory.join(name);
        fs::create_dir_all(&directory).expect("a directory");
        let programs = program().parent().expect("a directory of programs");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell
            .current_dir(&directory)
            .env("PATH", format!("{}:{path}:/usr/sbin:/sbin", programs.display()));
        shell.env_remove("RUST_LOG").env("LC_ALL", "C.UTF-8").process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let namespace = world.namespace(name).expect("a box of the tutorial");
        let mut shell = namespace.start_in(&mut shell).spawn().expect("a shell");
        let output = BufReader::new(shell.stdout.take().expect("its output"));
        let printed = Arc::<Mutex<Vec<String>>>::default();
        let lines = Arc::clone(&printed);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        let mut station = Station { shell, printed, directory };
        station.write("exec 2>&1");
        station
    }

    fn write(&mut self, line: &str) {
        let input = self.shell.stdin.as_mut().expect("its input");
        writeln!(input, "{line}").expect("the shell reads");
    }

    fn printed(&self) -> Vec<String> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn play(&mut self, place: &str, step: &Step) {
        let before = self.printed().len();
        self.write(&format!("{{ {}\n}} < /dev/null\necho \"{MARK} $?\"", step.command));
        let end = || {
            let printed = self.printed();
            let end = printed[before..].iter().position(|line| line.starts_with(MARK));
            end.map(|end| (printed[before..before + end].to_vec(), printed[before + end].clone()))
        };
        wait_for(&format!("{place}: end of {:?}", step.command), || end().is_some());
        let (output, status) = end().expect("its end");
        assert_eq!(status, format!("{MARK} 0"), "{place}: {:?} printed {output:#?}", step.command);
        let (logged, shown): (Vec<&str>, Vec<&str>) =
            step.shown.iter().map(String::as_str).partition(|line| is_log(line));
        let output: Vec<&str> =
            output.iter().map(String::as_str).filter(|line| !is_log(line)).collect();
        assert!(
            is_output(&shown, &output),
            "{place}: {:?} is to print {shown:#?}, and printed {output:#?}",
            step.command
        );
        for line in logged {
            wait_for(&format!("{place}: {line}; the log has {:#?}", self.printed()), || {
                self.printed()[before..].iter().any(|printed| is_log_line(line, printed))
            });
        }
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        let group = Pid::from_raw(i32::try_from(self.shell.id()).expect("a process identifier"));
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.shell.wait();
    }
}

fn document(path: &Path) -> Document {
    let mut all = documents(&root()).into_iter();
    all.find(|document| document.path == path).expect("the document")
}

/// Executes a tutorial on boxes connected by these links.
fn follow(name: &str, stations: &[&str], links: &[(&str, &str)]) {
    follow_document(&Path::new("docs/tutorials").join(name), stations, links, |_| {});
}

/// Follows a document; `prepare` writes files into the directory of each box first.
fn follow_document(
    document: &Path,
    stations: &[&str],
    links: &[(&str, &str)],
    prepare: impl Fn(&Path),
) {
    let mut network = Topology::default();
    for (column, station) in (0..).zip(stations) {
        network.host(station, column, 0);
    }
    for (number, (one, other)) in links.iter().enumerate() {
        network.link(&format!("cable{}", number + 1), one, other);
    }
    let world = build(&network);
    let name = document.file_stem().expect("a name").to_string_lossy();
    let directory = TemporaryDirectory::new(&name);
    let directory = directory.file("boxes");
    let mut boxes: BTreeMap<&str, Station> = stations
        .iter()
        .map(|station| (*station, Station::start(&world, station, &directory)))
        .collect();
    boxes.values().for_each(|station| prepare(&station.directory));
    let mut played = 0;
    for block in self::document(document).blocks() {
        if block.lines.first().is_some_and(|line| line.starts_with("# needs hardware: ")) {
            continue;
        }
        match block.language.as_str() {
            "toml" => {
                for (file, station) in files(&block) {
                    let path = boxes[station.as_str()].directory.join(file);
                    fs::write(path, block.lines.join("\n")).expect("a file of the tutorial");
                }
            }
            "console" => {
                for step in steps(&block) {
                    let station =
                        boxes.get_mut(step.station.as_str()).expect("a box of the tutorial");
                    station.play(&format!("{}:{}", document.display(), step.line), &step);
                    played += 1;
                }
            }
            _ => {}
        }
    }
    assert!(played > 5, "{played} commands were found");
}

#[test]
fn two_boxes_tutorial() {
    if can_run() {
        follow("two-boxes.md", &["a", "b"], &[("a:eth1", "b:eth1"), ("a:eth2", "b:eth2")]);
    }
}

/// The two boxes of the README use the example that the package installs.
#[test]
fn the_readme() {
    let has_ping = Command::new("ping").arg("-V").output().is_ok();
    if can_run() && require_that(has_ping, "ping (apt-get install iputils-ping)") {
        let links = [("a:eth1", "b:eth1"), ("a:eth2", "b:eth2")];
        let example = root().join("examples/two-boxes.toml");
        follow_document(Path::new("README.md"), &["a", "b"], &links, |directory| {
            fs::copy(&example, directory.join("two-boxes.toml")).expect("the example");
        });
    }
}

/// But for the title of the file.
#[test]
fn the_example_is_the_file_of_the_tutorial() {
    let example = fs::read_to_string(root().join("examples/two-boxes.toml")).expect("the example");
    let blocks = document(Path::new("docs/tutorials/two-boxes.md")).blocks();
    let block = blocks.iter().find(|block| !files(block).is_empty()).expect("its file");
    assert_eq!(block.lines[1..], example.lines().skip(1).collect::<Vec<_>>());
}

#[test]
fn powerlink_tutorial() {
    // Its nodes run at real-time priority.
    machine::exclusive();
    if can_run() {
        follow("powerlink.md", &["a", "b"], &[("a:eth1", "b:eth1")]);
    }
}

#[test]
fn softirq_time_tutorial() {
    if can(&[Feature::Btf, Feature::Kernel(6, 3)]) {
        follow("softirq-time.md", &["a", "b"], &[("a:eth1", "b:eth1")]);
    }
}

#[test]
fn switch_delay_tutorial() {
    let has_tcpdump = Command::new("tcpdump").arg("--version").output().is_ok();
    if can_run() && require_that(has_tcpdump, "tcpdump (apt-get install tcpdump)") {
        follow(
            "switch-delay.md",
            &["a", "hop", "b"],
            &[("a:eth1", "hop:eth1"), ("hop:eth2", "b:eth1")],
        );
    }
}

/// Configuration files in all pages; partial files have no stream.
#[test]
fn configurations_in_the_book_are_valid() {
    let directory = TemporaryDirectory::new("configurations");
    let file = directory.file("node.toml");
    let mut checked = 0;
    for document in documents(&root()).iter().filter(|document| document.path.starts_with("docs")) {
        for block in document.blocks() {
            let is_node = block.lines.iter().any(|line| line.starts_with("[[stream]]"));
            if block.language != "toml" || !is_node {
                continue;
            }
            fs::write(&file, block.lines.join("\n")).expect("a file");
            let ran = run(&["run", "--check", &file.to_string_lossy()]);
            assert_eq!(ran.code, 0, "{}:{}: {}", document.path.display(), block.line, ran.err);
            checked += 1;
        }
    }
    assert!(checked > 2, "{checked} configurations were found");
}

#[test]
fn shown_output_matches_output_with_other_numbers() {
    let output = ["probes", "sent   4,000", "lost       0", "mean delay  3.35 µs", "PASS in 3.7 s"];
    assert!(is_output(&["...", "sent  3", "lost 0", "mean delay 1 ms", "..."], &output));
    assert!(is_output(&["probes", "sent ...", "...", "PASS in 99.9 s"], &output));
    for wrong in [
        &["...", "sent  0", "..."][..],
        &["...", "lost  1", "..."],
        &["sent  3", "..."],
        &["...", "sent 3"],
        &["...", "lost  0", "sent 3", "..."],
        &["...", "sent 3", "mean delay 1 s", "..."],
    ] {
        assert!(!is_output(wrong, &output), "{wrong:?}");
    }
    assert!(is_log("2026-11-23T21:25:31.890547Z  INFO node") && !is_log("node a"));
    let shown = "2026-11-23T21:25:31.890547Z  INFO node a";
    assert!(is_log_line(shown, "2026-11-24T00:00:00.000000Z  INFO node a"));
    assert!(!is_log_line(shown, "2026-11-24T21:25:31.890547Z  INFO node b"));
    assert_eq!(shape("─────  ────"), shape("──  ─"));
    assert_eq!(shape("0 %  0.00 ms"), "0 % 0");
}

//! Pages of the book, executed: files and commands in order, in network namespaces instead of boxes, with
//! comparison of the shown output.
//!
//! A block `console` has prompts: `a# ip link` runs on box a, `# ip link` on the first box. A block `toml` whose
//! first line is `# a.toml on a, b.toml on b` is a file, `# a.toml` one of the first box. A block whose first line
//! is `# needs hardware: ...` or `# not run: requires ...` is left out.
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

use crate::common::{build, program, root, wait_for};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use onbeat_lab::{Topology, World};
use onbeat_testing::TemporaryDirectory;
use onbeat_testing::documents::{Block, Document, documents, prompt};

/// A page, and its boxes.
pub(crate) struct Page<'a> {
    /// Its path in the tree.
    pub(crate) document: &'a str,
    /// The boxes; the first one runs commands whose prompt names none.
    pub(crate) stations: &'a [&'a str],
    /// Cables between interfaces: `("a:eth1", "b:eth1")`.
    pub(crate) links: &'a [(&'a str, &'a str)],
    /// Writes files into the directory of a box.
    pub(crate) prepare: &'a dyn Fn(&Path),
    /// Commands before those of the page: box and command.
    pub(crate) setup: &'a [(&'a str, &'a str)],
    /// Commands that start with this text need more than their exit status 0 and the shown output.
    pub(crate) special: &'a [(&'a str, Expectation<'a>)],
    /// Parts of commands that leave a reader time to type, and shorter ones that are executed instead.
    pub(crate) shorter: &'a [(&'a str, &'a str)],
    /// Whether the page shows all output. Otherwise a command without shown output may print any, and times of
    /// whole seconds are reduced: they are those of a user.
    pub(crate) shows_all: bool,
    /// Whether each box has its own run-time directory and processes, so that nodes of all boxes can have one name.
    pub(crate) separate: bool,
}

/// A deviation of a command from the page.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expectation<'a> {
    /// Its exit status depends on the machine: 0 or 1.
    AnyResult,
    /// It is repeated until it succeeds: another command of the page starts in the background.
    Repeated,
    /// Before it, this box runs this command.
    After(&'a str, &'a str),
    /// After it, this file of its box has this text.
    Writes(&'a str, &'a str),
}

impl Page<'_> {
    /// A page of one box without a network, without particulars.
    pub(crate) const DEFAULT: Page<'static> = Page {
        document: "",
        stations: &["host"],
        links: &[],
        prepare: &|_| (),
        setup: &[],
        special: &[],
        shorter: &[],
        shows_all: false,
        separate: false,
    };
}

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

/// Whether the first line of a block states why no test runs it.
pub(crate) fn is_left_out(block: &Block) -> bool {
    const MARKS: [&str; 2] = ["# needs hardware: ", "# not run: requires "];
    let first = block.lines.first();
    first.is_some_and(|line| MARKS.iter().any(|mark| line.starts_with(mark)))
}

/// The command with its times of whole seconds reduced to 300 ms: `--for 60s`, `100 for 10s`.
fn shortened(command: &str) -> String {
    let mut parts = command.split("for ");
    let mut short = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_time = rest.len() < part.len() && rest.starts_with('s');
        short += "for ";
        short += &if is_time { format!("300m{rest}") } else { part.to_owned() };
    }
    short
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

/// Files of a block and their boxes: `# NAME on BOX[ and BOX][, NAME on BOX ...]`; `# NAME` on the first box.
pub(crate) fn files(block: &Block, first: &str) -> Vec<(String, String)> {
    let Some(title) = block.lines.first().and_then(|line| line.strip_prefix("# ")) else {
        return Vec::new();
    };
    if title.ends_with(".toml") && !title.contains(' ') {
        return vec![(title.to_owned(), first.to_owned())];
    }
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

/// Length of a MAC address in text.
const MAC_LENGTH: usize = 17;

fn starts_with_mac(text: &str) -> bool {
    let mut octets = text.bytes().take(MAC_LENGTH).enumerate();
    let is_octet = |(at, octet): (usize, u8)| {
        if at % 3 == 2 { octet == b':' } else { octet.is_ascii_hexdigit() }
    };
    text.len() >= MAC_LENGTH && octets.all(is_octet)
}

/// The compared form of a line: numbers except 0 become N, with units, MAC addresses become M, and white space and
/// table rules have a fixed width.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    let mut rest = line.trim();
    while let Some(c) = rest.chars().next() {
        let length = if starts_with_mac(rest) {
            shape.push('M');
            MAC_LENGTH
        } else if c.is_ascii_digit() {
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
    fn start(world: &World, name: &str, directory: &Path, separate: bool) -> Station {
        let directory = directory.join(name);
        fs::create_dir_all(&directory).expect("a directory");
        let programs = program().parent().expect("a directory of programs");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new(if separate { "unshare" } else { "sh" });
        if separate {
            // Its processes end with the shell.
            shell.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]);
            shell.arg(
                "mkdir -p /run/onbeat && mount -t tmpfs -o mode=0700 tmpfs /run/onbeat && exec sh",
            );
        }
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

    /// Runs a command, and returns its output and exit status.
    fn run(&mut self, place: &str, command: &str) -> (Vec<String>, String) {
        let before = self.printed().len();
        self.write(&format!("{{ {command}\n}} < /dev/null\necho \"{MARK} $?\""));
        let end = || {
            let printed = self.printed();
            let end = printed[before..].iter().position(|line| line.starts_with(MARK));
            end.map(|end| (printed[before..before + end].to_vec(), printed[before + end].clone()))
        };
        wait_for(&format!("{place}: end of {command:?}"), || end().is_some());
        end().expect("its end")
    }

    /// Runs the command of a step and checks its exit status and output; returns the fault.
    fn play(&mut self, place: &str, step: &Step, page: &Page<'_>) -> Result<(), String> {
        let before = self.printed().len();
        let (output, status) = self.run(place, &page.executed(&step.command));
        let may_fail = page.of(step).any(|special| matches!(special, Expectation::AnyResult));
        let status = status.trim_start_matches(MARK).trim();
        if !(status == "0" || may_fail && status == "1") {
            return Err(format!("{:?} exits with {status}: {output:#?}", step.command));
        }
        let (logged, shown): (Vec<&str>, Vec<&str>) =
            step.shown.iter().map(String::as_str).partition(|line| is_log(line));
        let output: Vec<&str> =
            output.iter().map(String::as_str).filter(|line| !is_log(line)).collect();
        if (page.shows_all || !shown.is_empty()) && !is_output(&shown, &output) {
            let command = &step.command;
            return Err(format!("{command:?} is to print {shown:#?}, and printed {output:#?}"));
        }
        for line in logged {
            wait_for(&format!("{place}: {line}; the log has {:#?}", self.printed()), || {
                self.printed()[before..].iter().any(|printed| is_log_line(line, printed))
            });
        }
        Ok(())
    }
}

impl<'a> Page<'a> {
    /// The particulars of a command.
    fn of(&self, step: &Step) -> impl Iterator<Item = Expectation<'a>> {
        let special = self.special.iter().filter(|(start, _)| step.command.starts_with(start));
        special.map(|(_, expectation)| *expectation)
    }

    /// The executed form of a command.
    fn executed(&self, command: &str) -> String {
        let command = if self.shows_all { command.to_owned() } else { shortened(command) };
        let replace = |command: String, (long, short): &(&str, &str)| command.replace(long, short);
        self.shorter.iter().fold(command, replace)
    }

    /// Builds the network, and executes the page.
    pub(crate) fn follow(&self) {
        let mut network = Topology::default();
        for (column, station) in (0..).zip(self.stations) {
            network.host(station, column, 0);
        }
        for (number, (one, other)) in self.links.iter().enumerate() {
            network.link(&format!("cable{}", number + 1), one, other);
        }
        let world = build(&network);
        let document = Path::new(self.document);
        let name = document.file_stem().expect("a name").to_string_lossy();
        let directory = TemporaryDirectory::new(&name);
        let directory = directory.file("boxes");
        let start = |station: &&'a str| {
            (*station, Station::start(&world, station, &directory, self.separate))
        };
        let mut boxes: BTreeMap<&str, Station> = self.stations.iter().map(start).collect();
        boxes.values().for_each(|station| (self.prepare)(&station.directory));
        for (station, command) in self.setup {
            let (output, status) = boxes.get_mut(station).expect("a box").run("setup", command);
            assert_eq!(status, format!("{MARK} 0"), "{command:?}: {output:#?}");
        }
        let first = self.stations[0];
        let mut played = Vec::new();
        for block in self::document(document).blocks() {
            if is_left_out(&block) {
                continue;
            }
            match block.language.as_str() {
                "toml" => {
                    for (file, station) in files(&block, first) {
                        let path = boxes[station.as_str()].directory.join(file);
                        fs::write(path, block.lines.join("\n")).expect("a file of the page");
                    }
                }
                "console" => {
                    for step in steps(&block) {
                        self.play(&mut boxes, &step);
                        played.push(step.command);
                    }
                }
                _ => {}
            }
        }
        assert!(!played.is_empty(), "{}: no command", self.document);
        for (start, _) in self.special {
            let is_used = played.iter().any(|command| command.starts_with(start));
            assert!(is_used, "{}: no command {start:?}", self.document);
        }
        for (long, _) in self.shorter {
            let is_used = played.iter().any(|command| command.contains(long));
            assert!(is_used, "{}: no command with {long:?}", self.document);
        }
    }

    fn play(&self, boxes: &mut BTreeMap<&str, Station>, step: &Step) {
        let place = format!("{}:{}", self.document, step.line);
        let name = if step.station.is_empty() { self.stations[0] } else { step.station.as_str() };
        let mut is_repeated = false;
        for special in self.of(step) {
            match special {
                Expectation::After(station, command) => {
                    let (output, status) =
                        boxes.get_mut(station).expect("a box").run(&place, command);
                    assert_eq!(status, format!("{MARK} 0"), "{command:?}: {output:#?}");
                }
                Expectation::Repeated => is_repeated = true,
                Expectation::AnyResult | Expectation::Writes(..) => {}
            }
        }
        let station = boxes.get_mut(name).expect("a box of the page");
        if is_repeated {
            wait_for(&format!("{place}: {:?}", step.command), || {
                station.play(&place, step, self).is_ok()
            });
        } else if let Err(fault) = station.play(&place, step, self) {
            panic!("{place}: {fault}");
        }
        for special in self.of(step) {
            if let Expectation::Writes(file, text) = special {
                let file = station.directory.join(file);
                wait_for(&format!("{place}: {text:?} in {}", file.display()), || {
                    fs::read_to_string(&file).is_ok_and(|content| content.contains(text))
                });
            }
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

pub(crate) fn document(path: &Path) -> Document {
    let mut all = documents(&root()).into_iter();
    all.find(|document| document.path == path).expect("the document")
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
    assert_eq!(shape("red0 (26:7d:a7:32:43:a9) is up"), "redN (M) is up".replace('N', "0"));
}

#[test]
fn times_of_whole_seconds_are_reduced() {
    let command =
        "onbeat delay ping a --for 60s --profile \"100 for 10s,1 for 300ms\" # wait for it";
    let short =
        "onbeat delay ping a --for 300ms --profile \"100 for 300ms,1 for 300ms\" # wait for it";
    assert_eq!(shortened(command), short);
}

//! Random and mutated command lines of every command, as an unprivileged user in an empty network
//! namespace: the program neither panics nor is killed by a signal, it exits, at the latest on SIGINT,
//! and changes nothing outside of its directory.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use onbeat_lab::world::Mounts;
use onbeat_netdev::Namespace;
use onbeat_wire::random::Random;

use crate::common::process::Process;
use crate::common::{program, run};
use crate::runs::{Runs, one_of};

const OTHER_USER: u32 = 65534;
const HOME: &str = "/run/soak/home";
const PROGRAM: &str = "/run/soak/onbeat";
const OUTPUT: &str = "/run/soak/output";
/// Directories that any user may write to; new ones in the mounts of the soak.
const WRITABLE: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Run time of a command until it is interrupted.
const TIME: Duration = Duration::from_millis(500);
/// Maximum time to exit on SIGINT.
const EXIT: Duration = Duration::from_secs(20);
/// Address space limit of the program: bounds the memory that one argument or file can allocate.
const MEMORY: u64 = 2 << 30;

/// A command with its words, options and examples from the manual page.
#[derive(Debug, Default)]
struct Usage {
    command: Vec<OsString>,
    options: Vec<OsString>,
    examples: Vec<Vec<OsString>>,
}

fn words(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(|word| word.trim_matches(['"', '\'']).into()).collect()
}

fn usages() -> Vec<Usage> {
    let page = run(&["man"]).out;
    let page = page.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "").replace("\\fI", "");
    let mut usages = Vec::new();
    for line in page.lines() {
        if let Some(command) = line.strip_prefix(".SS \"onbeat ") {
            let command = words(command.trim_end_matches('"'));
            usages.push(Usage { command, ..Usage::default() });
        }
        let Some(usage) = usages.last_mut() else { continue };
        if line.starts_with('-') {
            let options = line.split([',', ' ']).filter(|word| word.starts_with('-'));
            usage.options.extend(options.map(OsString::from));
        } else if let Some(example) = line.trim().strip_prefix("onbeat ") {
            usage.examples.push(words(example.split(['|', '>']).next().unwrap_or_default()));
        }
    }
    assert!(usages.len() > 25, "{usages:?}");
    assert!(usages.iter().map(|usage| usage.options.len()).sum::<usize>() > 150, "{usages:?}");
    usages
}

/// Values that are hostile, or valid, for some option.
fn value(random: &mut Random) -> OsString {
    let texts = [
        "",
        "-",
        "--",
        "0",
        "1",
        "-1",
        "1.5",
        "NaN",
        "1e309",
        "18446744073709551616",
        "4096",
        "1ms",
        "10ms",
        "-1s",
        "99999999999999h",
        "1us",
        "10,20",
        ",",
        "1-0",
        "0-65536",
        "127.0.0.1",
        "::1",
        "127.0.0.1:9",
        "[::1]:0",
        "lo",
        "nothing",
        "a b",
        "ü€𝄞",
        "\u{1b}[31m",
        "%s%n",
        "{}",
        "\"'<&>",
        "100 for 10ms",
        "1..1e9 for 1ms quadratic",
        "17±1us",
        "02:00:00:00:00:01",
        "best",
        "xdp",
        "bash",
        "true",
        "node.toml",
        "bus.toml",
        "in.pcap",
        "out.pcap",
        "broken.pcap",
        "garbage",
        "empty",
        "directory",
        "missing/file",
        "/dev/null",
        "/dev/full",
        "/dev/zero",
        "/proc/self/mem",
        "/proc/self/environ",
        "new.html",
    ];
    match random.below(20) {
        0 => {
            OsString::from_vec((0..random.below(40)).map(|_| 1 + random.below(255) as u8).collect())
        }
        1 => "9".repeat(random.below(100_000) as usize).into(),
        _ => (*one_of(random, &texts)).into(),
    }
}

fn arguments(random: &mut Random, usages: &[Usage]) -> Vec<OsString> {
    let usage = one_of(random, usages);
    let mut arguments = if usage.examples.is_empty() || random.chance(0.5) {
        let mut arguments = usage.command.clone();
        for _ in 0..random.below(4) {
            if !usage.options.is_empty() {
                arguments.push(one_of(random, &usage.options).clone());
            }
            arguments.push(value(random));
        }
        arguments
    } else {
        one_of(random, &usage.examples).clone()
    };
    // A third unchanged.
    for _ in 0..random.below(6).saturating_sub(1) {
        let at = random.below(arguments.len() as u64 + 1) as usize;
        match random.below(6) {
            0 => arguments.insert(at, value(random)),
            1 if at < arguments.len() => drop(arguments.remove(at)),
            2 if at < arguments.len() => arguments[at] = value(random),
            3 if at < arguments.len() => arguments.push(arguments[at].clone()),
            4 if !usage.options.is_empty() => {
                let mut option = one_of(random, &usage.options).clone();
                option.push("=");
                option.push(value(random));
                arguments.insert(at, option);
            }
            5 if at < arguments.len() => {
                let mut octets = arguments[at].as_bytes().to_vec();
                if !octets.is_empty() {
                    let place = random.below(octets.len() as u64) as usize;
                    octets[place] = 1 + random.below(255) as u8;
                }
                arguments[at] = OsString::from_vec(octets);
            }
            _ => {}
        }
    }
    // An argument has no NUL and at most 128 KiB.
    arguments
}

/// Content of directories that the program must not change.
fn outside() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut add = |directory: &Path| {
        found.extend(
            fs::read_dir(directory).into_iter().flatten().flatten().map(|file| file.path()),
        );
    };
    WRITABLE.iter().for_each(|directory| add(Path::new(directory)));
    add(Path::new("/run"));
    add(Path::new("/run/onbeat"));
    found.sort();
    found
}

/// The directory of the user: a few files to name.
struct HomeDirectory(Vec<(String, Vec<u8>)>);

impl HomeDirectory {
    fn read(examples: &Path, usages: &[Usage]) -> HomeDirectory {
        let read = |name: &str| fs::read(examples.join(name)).expect("an example");
        let capture = read("../delay/core/tests/data/nanoseconds.pcap");
        let (node, bus) = (read("talker-end-system.toml"), read("powerlink/drives.toml"));
        let mut files: Vec<(String, Vec<u8>)> = vec![
            ("broken.pcap".into(), capture[..capture.len() * 2 / 3].to_vec()),
            ("garbage".into(), b"\0\xff[[[node]\n\x1b".to_vec()),
            ("empty".into(), Vec::new()),
            ("node.toml".into(), node.clone()),
        ];
        // The files in the examples of the manual page.
        let words = usages.iter().flat_map(|usage| usage.examples.iter().flatten());
        for word in words.filter_map(|word| word.to_str()) {
            let octets = match word.rsplit_once('.') {
                Some((_, "pcap")) => &capture,
                Some(("bus", "toml")) => &bus,
                Some((_, "toml")) => &node,
                _ => continue,
            };
            if !word.contains('/') {
                files.push((word.into(), octets.clone()));
            }
        }
        HomeDirectory(files)
    }

    /// Restores its initial content.
    fn write(&self) {
        let _ = fs::remove_dir_all(HOME);
        let directory = Path::new(HOME).join("directory");
        fs::create_dir_all(&directory).unwrap();
        for path in [Path::new(HOME), &directory] {
            chown(path, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
        }
        for (name, octets) in &self.0 {
            let path = Path::new(HOME).join(name);
            fs::write(&path, octets).unwrap();
            chown(path, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
        }
    }
}

/// Runs a program as the user; returns how it exited, or the violation.
fn judge(program: &str, arguments: &[OsString]) -> Result<&'static str, String> {
    let before = outside();
    let mut command = Command::new(program);
    let output = File::create(OUTPUT).unwrap();
    command.env_clear().env("HOME", HOME).current_dir(HOME).args(arguments);
    command.stdout(output.try_clone().unwrap()).stderr(output);
    command.uid(OTHER_USER).gid(OTHER_USER);
    // SAFETY: between fork and exec the closure makes one system call.
    unsafe {
        command.pre_exec(|| Ok(setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY)?));
    }
    let mut process = Process::spawn(command);
    let mut status = process.wait(TIME);
    if status.is_none() {
        process.signal(Signal::SIGINT);
        status = process.wait(EXIT);
    }
    let output = String::from_utf8_lossy(&fs::read(OUTPUT).unwrap()).into_owned();
    let tail: String =
        output.chars().rev().take(600).collect::<Vec<_>>().into_iter().rev().collect();
    let Some(status) = status else { return Err(format!("does not exit on Ctrl-C: {tail}")) };
    // Interrupted before it had a handler, it is terminated by the signal.
    let interrupted = std::os::unix::process::ExitStatusExt::signal(&status) == Some(2);
    if output.contains("panicked at") {
        return Err(format!("panic: {tail}"));
    }
    let exit = match status.code() {
        Some(0) => "exit 0",
        Some(1) => "exit 1",
        Some(2) => "exit 2",
        None if interrupted => "interrupted",
        _ => return Err(format!("{status}: {tail}")),
    };
    let after = outside();
    if after != before {
        return Err(format!("changed: {before:?} -> {after:?}"));
    }
    Ok(exit)
}

/// Control: violations are detected.
fn control() {
    let shell = |script: &str| judge("/bin/sh", &["-c".into(), script.into()]);
    assert_eq!(shell("exit 2"), Ok("exit 2"));
    assert_eq!(judge(PROGRAM, &["--version".into()]), Ok("exit 0"));
    for script in ["exit 101", "kill -ABRT $$", "echo thread panicked at x", "echo > /tmp/control"]
    {
        assert!(shell(script).is_err(), "control: {script}");
    }
    fs::remove_file("/tmp/control").unwrap();
}

pub(crate) fn soak(runs: &mut Runs) {
    let _mounts = Mounts::enter().expect("mounts of its own");
    // Outside of the directories of the product and of the laboratory, which only root may enter. The
    // user may not be able to access the checkout.
    fs::create_dir("/run/soak").unwrap();
    fs::set_permissions("/run/soak", Permissions::from_mode(0o755)).unwrap();
    fs::write(PROGRAM, b"").unwrap();
    mount(Some(program()), PROGRAM, None::<&str>, MsFlags::MS_BIND, None::<&str>).expect("a mount");
    Namespace::new().and_then(|empty| empty.enter_thread()).expect("a network namespace");
    let usages = usages();
    let home =
        HomeDirectory::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"), &usages);
    for directory in WRITABLE {
        let kind = Some("tmpfs");
        mount(kind, directory, kind, MsFlags::empty(), Some("mode=1777")).expect("a tmpfs");
    }
    home.write();
    control();
    while let Some(mut random) = runs.next() {
        if random.chance(0.02) {
            home.write();
        }
        let arguments = arguments(&mut random, &usages);
        match judge(PROGRAM, &arguments) {
            Ok(exit) => runs.count(exit, 1),
            Err(why) => panic!("onbeat {arguments:?}\n{why}"),
        }
    }
}

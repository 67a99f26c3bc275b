//! Files of a command line or configuration: a FIFO, a device, an endless file and a file with very many
//! errors are refused, with bounded memory and without blocking.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::onbeat;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use onbeat_testing::{CommandOutput, Feature, TemporaryDirectory, require_all};

const MEMORY: u64 = 1 << 30;
const BOUND: Duration = Duration::from_secs(20);

/// Exit status and standard error of a program that may not take more than 1 GiB of address space.
fn refused(arguments: &[&str]) -> String {
    let mut command: Command = onbeat();
    let input = File::open("/dev/zero").unwrap();
    command.args(arguments).stdin(input).stdout(Stdio::null()).stderr(Stdio::piped());
    // SAFETY: setrlimit is async-signal-safe.
    unsafe {
        command.pre_exec(|| Ok(setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY)?));
    }
    let mut child = command.spawn().unwrap();
    let mut error = child.stderr.take().unwrap();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        error.read_to_string(&mut text).map(|_| text)
    });
    let bound = Instant::now() + BOUND;
    while !reader.is_finished() && Instant::now() < bound {
        thread::sleep(Duration::from_millis(5));
    }
    if !reader.is_finished() {
        child.kill().unwrap();
    }
    let text = reader.join().unwrap().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{arguments:?}: {text}");
    text
}

#[test]
fn only_regular_files_are_read() {
    let directory = TemporaryDirectory::new("files");
    let path = |name: &str| directory.file(name).to_str().unwrap().to_owned();
    mkfifo(directory.file("fifo").as_path(), Mode::S_IRWXU).unwrap();
    symlink("/dev/zero", directory.file("link")).unwrap();
    File::create(directory.file("sparse")).unwrap().set_len(1 << 40).unwrap();
    let kinds = [
        (path("fifo"), "it is a FIFO, not a regular file"),
        ("/dev/zero".to_owned(), "it is a device, not a regular file"),
        (path("link"), "it is a device, not a regular file"),
        (path(""), "it is a directory, not a regular file"),
        (path("sparse"), "it is longer than the limit of"),
    ];
    for (file, expected) in &kinds {
        for arguments in [
            &["run", "--check", file][..],
            &["powerlink", "cn", file, "--node", "1", "--interface", "lo"],
            &["powerlink", "mn", "--cdc", file, "--interface", "lo"],
            &["irq", "guard", "--dry-run", file],
            &["stream", "add", file],
            &["delay", "ping", "127.0.0.1", "--count", "1", "--key", file],
        ] {
            let error = refused(arguments);
            let key = arguments.contains(&"--key") && expected.contains("longer");
            assert!(error.contains(expected) || key, "{arguments:?}: {error}");
        }
    }
    for arguments in [["irq", "report"], ["delay", "scope"]] {
        for (file, expected) in &kinds[..4] {
            let error = refused(&[&arguments[..], &[file]].concat());
            assert!(error.contains(expected), "{arguments:?}: {error}");
        }
    }
    for (file, expected) in [("/proc/kmsg", "it is a file of /proc"), ("/dev/zero", "a device")] {
        let error = refused(&["delay", "match", file, file]);
        assert!(error.contains(expected), "{error}");
    }
    let error = refused(&["stream", "add", "-"]);
    assert!(error.contains("standard input cannot be read: it is longer"), "{error}");
}

/// It has the status of a regular file; reading it blocks until events occur, and consumes them.
#[test]
fn a_trace_of_the_kernel_is_refused() {
    let known = fs::read_to_string("/proc/filesystems").unwrap();
    if !require_all(&[Feature::Root]) || !known.contains("tracefs") {
        eprintln!("not tested: root and a kernel with tracefs are required");
        return;
    }
    let directory = TemporaryDirectory::new("trace");
    fs::create_dir(directory.file("trace")).unwrap();
    let trace = directory.file("trace");
    for arguments in ["run --check PIPE", "delay match PIPE PIPE", "irq report PIPE"] {
        let arguments = arguments.replace("PIPE", "\"$1/trace_pipe\"");
        let script = format!("mount -t tracefs none \"$1\" && exec timeout 20 \"$0\" {arguments}");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]).arg(onbeat().get_program()).arg(&trace);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {error}");
        assert!(error.contains("it is a file of tracefs, not a regular file"), "{error}");
    }
}

#[test]
fn a_file_with_very_many_errors_is_reported_in_bounded_memory() {
    let directory = TemporaryDirectory::new("faults");
    let file = directory.file("many.toml");
    let keys: String = (0..100_000).map(|n| format!("k{n}=1\n")).collect();
    for (text, expected) in [("x\n".repeat(4 << 20), ":1:2: "), (keys, "more than the first 1000")]
    {
        fs::write(&file, text).unwrap();
        let error = refused(&["run", "--check", file.to_str().unwrap()]);
        assert!(error.contains(expected) && error.len() < 1 << 20, "{}", error.len());
    }
}

/// Generated files have lines of any length.
#[test]
fn a_fault_in_a_very_long_line_is_reported_in_part() {
    let directory = TemporaryDirectory::new("long-line");
    let file = directory.file("long.toml");
    let long = "a".repeat(20 << 20);
    for text in [
        format!("[node]\nname = \"{long}\n"),
        format!("[node]\nname = \"{long}\"\n"),
        format!("{long} = 1\n"),
        format!("[{long}]\nx = 1\n"),
        format!("[[port]]\nname = \"a\"\ninterface = \"b\"\n[[stream]]\nname = \"{long}\"\n"),
    ] {
        fs::write(&file, &text).unwrap();
        let error = refused(&["run", "--check", file.to_str().unwrap()]);
        assert!(error.contains("long.toml:") && error.contains("aaa"), "{}", error.len());
        assert!(error.len() < 64 << 10, "{} octets", error.len());
    }
}

/// Runs a command whose `option` names a file that the command reads or writes by another argument.
fn refused_to_overwrite(line: &str, option: &str, output: &str) {
    // Two tests call this at a time.
    let test = thread::current().name().unwrap_or_default().replace(':', "-");
    let directory = TemporaryDirectory::new(&format!("overwrite-{test}"));
    let file = directory.file("input");
    fs::write(&file, "precious").unwrap();
    for (name, link) in [("symbolic", true), ("hard", false)] {
        let name = directory.file(name);
        let _ = fs::remove_file(&name);
        if link { symlink("input", name).unwrap() } else { fs::hard_link(&file, name).unwrap() }
    }
    let path = |name: &str| directory.file(name).to_str().unwrap().to_owned();
    let words = line.split(' ').map(|word| match word {
        "INPUT" | "OTHER" | "NEW" => path(&word.to_lowercase()),
        word => word.to_owned(),
    });
    let output = path(output);
    let words: Vec<String> = words.chain([option.to_owned(), output.clone()]).collect();
    let stdin = File::open(&file).unwrap();
    let ran: CommandOutput = onbeat().args(&words).stdin(stdin).output().unwrap().into();
    let expected = format!("onbeat: {option} {output:?}: ");
    assert!(ran.code == 2 && ran.err.starts_with(&expected), "{words:?}: {}", ran.err);
    assert!(ran.err.contains("; use another file"), "{words:?}: {}", ran.err);
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious", "{words:?}");
    assert!(!directory.file("new").exists(), "{words:?}");
}

#[test]
fn an_input_is_not_overwritten() {
    let samples = ["--csv", "--parquet", "--html"];
    let key = "delay ping 127.0.0.1 --count 1 --key INPUT";
    for (line, options) in [
        ("delay match INPUT OTHER", &samples[..]),
        ("delay match OTHER INPUT", &samples),
        ("delay match OTHER -", &samples),
        ("delay match OTHER OTHER --correct INPUT", &samples),
        ("delay mirror INPUT --direction", &samples),
        ("delay mirror - --direction", &samples),
        ("delay scope INPUT", &samples),
        ("delay compare INPUT OTHER", &["--html"]),
        (key, &samples),
        ("delay ping 127.0.0.1 --count 1 --profile INPUT", &samples),
        ("delay calibrate match OTHER INPUT --output NEW", &samples),
        ("delay calibrate match INPUT OTHER", &["--output"]),
        ("delay calibrate mirror INPUT --direction", &["--output"]),
        ("delay calibrate scope INPUT", &["--output"]),
        ("delay calibrate ping 127.0.0.1 --count 1 --key INPUT", &["--output"]),
        ("irq report INPUT", &["--html"]),
        ("powerlink sniff INPUT", &["--html"]),
        ("powerlink sniff -", &["--html"]),
    ] {
        for option in options {
            for output in ["input", "symbolic", "hard"] {
                refused_to_overwrite(line, option, output);
            }
        }
    }
    // Standard output overwrites files as well.
    let directory = TemporaryDirectory::new("overwrite-stdout");
    let file = directory.file("input");
    fs::write(&file, "precious").unwrap();
    let append = File::options().append(true).open(&file).unwrap();
    let ran = onbeat().args(["irq", "report"]).arg(&file).stdout(append).output().unwrap();
    let error = String::from_utf8(ran.stderr).unwrap();
    assert!(error.starts_with("onbeat: standard output: "), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn two_outputs_to_one_file_are_refused() {
    for (line, option) in [
        ("delay match OTHER OTHER --csv NEW", "--html"),
        ("delay match OTHER OTHER --csv NEW", "--parquet"),
        ("delay scope OTHER --parquet NEW", "--html"),
        ("delay ping 127.0.0.1 --count 1 --csv NEW", "--html"),
        ("delay hooks lo --csv NEW", "--parquet"),
        ("delay calibrate scope OTHER --output NEW", "--csv"),
    ] {
        refused_to_overwrite(line, option, "new");
    }
    refused_to_overwrite("delay match OTHER OTHER --csv INPUT", "--html", "hard");
    // Devices, and files that are appended to, can be named twice.
    for device in ["/dev/null", "/dev/stdout", "/proc/self/fd/1"] {
        let directory = TemporaryDirectory::new("twice");
        let stdout = File::create(directory.file("stdout")).unwrap();
        let command = ["delay", "match", "/no/such", "/no/such", "--csv", device, "--html", device];
        let ran = onbeat().args(command).stdout(stdout).output().unwrap();
        let error = String::from_utf8(ran.stderr).unwrap();
        assert!(error.starts_with("onbeat: /no/such: "), "{device}: {error}");
    }
}

//! Exit status, standard error, and outputs that cannot be written.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};

use crate::common::{onbeat, run};
use onbeat_testing::CommandOutput;

#[test]
fn wrong_usage_exits_with_2_and_a_remedy() {
    let lines: [&[&str]; 9] = [
        &["frobnicate"],
        &["--frobnicate"],
        &["run"],
        &["run", "--check", "--replace", "a.toml"],
        &["show", "a", "b"],
        &["reset"],
        &["reload", "a", "b"],
        &["down"],
        &["completions", "sh"],
    ];
    for line in lines {
        let CommandOutput { code, out, err } = run(line);
        assert_eq!((code, out.as_str()), (2, ""), "{line:?}");
        assert!(err.starts_with("onbeat: "), "{line:?}: {err}");
        assert!(err.contains("--help"), "{line:?}: {err}");
        assert!(!err.contains('\x1b'), "{line:?}: {err:?}");
    }
}

#[test]
fn a_missing_command_prints_help_as_an_error() {
    let CommandOutput { code, out, err } = run(&[]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("Examples:\n  onbeat "), "{err}");
}

#[test]
fn a_misspelled_command_gets_a_suggestion() {
    let CommandOutput { err, .. } = run(&["docter"]);
    assert!(err.contains("doctor"), "{err}");
}

#[test]
fn a_closed_pipe_is_no_error() {
    for line in [&["man"][..], &["--help"], &["completions", "bash"]] {
        let (reader, writer) = nix::unistd::pipe().expect("a pipe");
        drop(reader);
        let ran: CommandOutput =
            onbeat().args(line).stdout(writer).output().expect("it starts").into();
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{line:?}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let ran: CommandOutput = onbeat().arg("man").stdout(full).output().expect("it starts").into();
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with("onbeat: standard output cannot be written: "), "{}", ran.err);
}

#[test]
fn a_closed_standard_error_causes_no_panic() {
    let (reader, writer) = nix::unistd::pipe().expect("a pipe");
    drop(reader);
    let status = onbeat().arg("frobnicate").stderr(writer).status().expect("it starts");
    assert_eq!(status.code(), Some(2));
}

#[test]
fn an_invalid_log_level_is_refused() {
    let ran: CommandOutput =
        onbeat().arg("doctor").env("RUST_LOG", "a=b=c").output().expect("it starts").into();
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.starts_with("onbeat: RUST_LOG=\"a=b=c\" is invalid: "), "{}", ran.err);
}

/// Returns the output on a terminal.
fn on_a_terminal(no_color: Option<&str>) -> String {
    // Not by openpty: its descriptors go to programs that other tests start meanwhile.
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let mut terminal = posix_openpt(flags).expect("a pseudo terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("a pseudo terminal");
    let name = ptsname_r(&terminal).expect("a name");
    let mut options = OpenOptions::new();
    let end =
        options.write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(name).expect("it opens");
    let mut command = onbeat();
    command.arg("frobnicate").env("TERM", "xterm").stdout(Stdio::null()).stderr(end);
    if let Some(value) = no_color {
        command.env("NO_COLOR", value);
    }
    assert_eq!(command.status().expect("it starts").code(), Some(2));
    // The terminal's own end is closed with the command: a read then fails with EIO.
    drop(command);
    let mut said = Vec::new();
    let _ = terminal.read_to_end(&mut said);
    String::from_utf8(said).expect("text")
}

#[test]
fn colors_are_printed_only_on_terminals_with_colors() {
    let said = on_a_terminal(None);
    assert!(said.contains('\x1b') && said.contains("onbeat:"), "{said:?}");
    assert!(on_a_terminal(Some("")).contains('\x1b'), "set to nothing is not set");
    let said = on_a_terminal(Some("1"));
    assert!(said.starts_with("onbeat: ") && !said.contains('\x1b'), "{said:?}");
}

/// Returns the log of a command whose standard error is, or is not, the journal.
fn logged(to_journal: bool) -> String {
    let (mut journal, writer) = UnixStream::pair().expect("a socket");
    let is = std::fs::File::from(writer.as_fd().try_clone_to_owned().expect("a descriptor"))
        .metadata()
        .expect("metadata");
    let inode = if to_journal { is.ino() } else { is.ino() + 1 };
    let mut command = onbeat();
    command.args(["-vv", "man"]);
    command.env("JOURNAL_STREAM", format!("{}:{inode}", is.dev()));
    command.stdout(Stdio::null()).stderr(std::os::fd::OwnedFd::from(writer));
    assert_eq!(command.status().expect("it starts").code(), Some(0));
    drop(command);
    let mut said = String::new();
    journal.read_to_string(&mut said).expect("text");
    said
}

#[test]
fn the_journal_receives_priorities_and_others_receive_time_stamps() {
    let said = logged(true);
    assert!(said.starts_with("<7>"), "{said:?}");
    let said = logged(false);
    assert!(!said.contains("<7>") && said.contains("DEBUG"), "{said:?}");
    assert!(said.starts_with("20"), "a line starts with the time: {said:?}");
}

//! `onbeat lab shell`: its namespaces, output and exit, and removal of the network.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::common::{CommandOutput, can_run, onbeat, root, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_realtime::interrupt::wait_until;
use onbeat_testing::TemporaryDirectory;

/// Runs a script in the network of a scenario; requires exit status 0.
fn script(network: &str, at: &[&str], script: &str) -> String {
    let line =
        [&["lab", "shell", network, "--quiet"], at, &["--", "/bin/sh", "-ec", script]].concat();
    let CommandOutput { code, out, err } = run(&line);
    assert_eq!((code, err.as_str()), (0, ""), "{script}: {out}");
    out
}

/// Interfaces in the format of /proc/net/dev.
fn interfaces(table: &str) -> Vec<&str> {
    let mut names: Vec<_> =
        table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_shell_runs_at_the_requested_host_and_finds_the_nodes() {
    if !can_run() {
        return;
    }
    let out = script("link-failure", &["--at", "a"], "cat /proc/net/dev");
    assert_eq!(interfaces(&out), ["host", "lo", "path1", "path2"]);
    let out = script("link-failure", &["--at", "talker"], "cat /proc/net/dev");
    assert_eq!(interfaces(&out), ["eth0", "lo"]);
    let here = std::fs::read_to_string("/proc/net/dev").expect("interfaces");
    let out = script("link-failure", &[], "cat /proc/net/dev");
    assert_eq!(interfaces(&out), interfaces(&here), "without --at, this machine's");
    let out = script("link-failure", &[], "nsenter --net=/run/netns/listener cat /proc/net/dev");
    assert_eq!(interfaces(&out), ["eth0", "lo"]);
    let out = script("link-failure", &[], "onbeat show a; echo $ONBEAT_LAB");
    assert!(out.starts_with("node a ") && out.ends_with("\nlink-failure\n"), "{out}");
}

#[test]
fn a_shell_shows_the_network_and_how_to_enter_it() {
    if !can_run() {
        return;
    }
    let CommandOutput { code, out, err } =
        run(&["lab", "shell", "link-failure", "--at", "a", "--", "true"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("path1") && out.contains('\u{2500}'), "a picture: {out}");
    for way in [
        "\nhost talker    nsenter --net=/run/netns/talker    eth0\n",
        "\nnode a         nsenter --net=/run/netns/a         host path1 path2 (the shell is here)\n",
        "\nfrom another terminal, first: nsenter --mount=/proc/",
    ] {
        assert!(out.contains(way), "{way:?} in {out}");
    }
}

#[test]
fn the_topology_of_the_examples_is_valid() {
    if !can_run() {
        return;
    }
    let file = root().join("examples/lab/end-systems.toml");
    let file = file.to_str().expect("a path that is text");
    let out = script(file, &[], "onbeat show talker; onbeat show listener");
    assert!(out.contains("node talker ") && out.contains("node listener "), "{out}");
    assert_eq!(out.matches("\naxis-1 ").count(), 2, "{out}");
}

#[test]
fn the_exit_status_is_that_of_the_command() {
    if !can_run() {
        return;
    }
    let line = ["lab", "shell", "link-failure", "--quiet", "--"];
    let CommandOutput { code, out, err } = run(&[&line[..], &["false"]].concat());
    assert_eq!((code, out.as_str(), err.as_str()), (1, "", ""));
    let CommandOutput { code, out, err } = run(&[&line[..], &["/nowhere/at-all"]].concat());
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.starts_with("onbeat: cannot start \"/nowhere/at-all\": "), "{err}");
    // The exit status of an interactive shell's last command is ignored.
    let mut shell = onbeat();
    shell.args(&line[..4]).env("SHELL", "/bin/sh").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().expect("it starts");
    shell.stdin.take().expect("a pipe").write_all(b"onbeat show b\nfalse\n").expect("it reads");
    let ran: CommandOutput = shell.wait_with_output().expect("it ends").into();
    assert_eq!(ran.code, 0);
    assert!(ran.out.starts_with("node b "), "{}", ran.out);
}

#[test]
fn errors_for_unknown_networks_and_hosts_list_the_known_ones() {
    let CommandOutput { code, out, err } = run(&["lab", "shell", "link-failur"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        err.contains("\"link-failur\" is neither a file nor a scenario") && err.contains("ladder"),
        "{err}"
    );
    let CommandOutput { code, out, err } =
        run(&["lab", "shell", "link-failure", "-q", "--at", "c"]);
    assert_eq!((code, out.as_str()), (2, ""));
    let expected = "onbeat: unknown host or node \"c\"; use one of: talker, listener, a, b\n";
    assert_eq!(err, expected);
    let directory = TemporaryDirectory::new("topology");
    let file = directory.file("net.toml");
    std::fs::write(&file, "[[host]]\nname = \"a\"\n[[hosts]]\n").expect("a file");
    let CommandOutput { code, err, .. } =
        run(&["lab", "shell", file.to_str().expect("a path that is text")]);
    assert_eq!(code, 2);
    assert!(err.starts_with(&format!("onbeat: {}: topology: ", file.display())), "{err}");
}

/// Waits until a process has exited, or is a zombie.
#[track_caller]
fn wait_gone(pid: &str) {
    let gone = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    let bound = Duration::from_secs(60);
    assert!(wait_until(bound, gone).expect("no signal"), "process {pid} is still there");
}

/// Starts processes that do not exit: one in the network's mounts, one in a namespace and mounts of its
/// own; prints their ids.
const LEAVES_BEHIND: &str = "sleep 600 >/dev/null & echo $!
unshare --mount nsenter --net=/run/netns/b \\
    sh -c 'echo $$ > /run/pid; exec sleep 600 >/dev/null' &
until [ -s /run/pid ]; do sleep 0.01; done; cat /run/pid";

#[test]
fn processes_in_a_network_exit_with_it() {
    if !can_run() {
        return;
    }
    let out = script("link-failure", &[], LEAVES_BEHIND);
    assert_eq!(out.lines().count(), 2, "{out}");
    out.lines().for_each(wait_gone);
}

/// A shell that has printed a line and waits.
struct WaitingShell {
    shell: Child,
    said: Vec<String>,
    out: BufReader<ChildStdout>,
}

impl WaitingShell {
    fn start(begin: &str) -> WaitingShell {
        let script = format!("{begin}\necho ready; exec sleep 600");
        let mut shell = onbeat();
        shell.args(["lab", "shell", "link-failure", "-q", "--", "/bin/sh", "-ec", &script]);
        shell.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut shell = shell.spawn().expect("it starts");
        let mut out = BufReader::new(shell.stdout.take().expect("a pipe"));
        let mut said = Vec::new();
        loop {
            let mut line = String::new();
            assert!(out.read_line(&mut line).expect("text") > 0, "it exited after {said:?}");
            match line.trim_end() {
                "ready" => return WaitingShell { shell, said, out },
                line => said.push(line.to_owned()),
            }
        }
    }

    fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        kill(Pid::from_raw(self.shell.id() as i32), signal).expect("it lives");
        let mut err = String::new();
        let mut stderr = self.shell.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut err).expect("text");
        let _ = self.out.read_to_end(&mut Vec::new());
        (self.shell.wait().expect("it ends").code(), err)
    }
}

#[test]
fn a_network_can_be_entered_from_another_terminal() {
    if !can_run() {
        return;
    }
    let waiting = WaitingShell::start("");
    let mounts = format!("--mount=/proc/{}/ns/mnt", waiting.shell.id());
    let enter = |command: &[&str]| -> CommandOutput {
        Command::new("nsenter").arg(&mounts).args(command).output().expect("nsenter").into()
    };
    let ran =
        enter(&[crate::common::program().to_str().expect("a path that is text"), "show", "b"]);
    assert!(ran.code == 0 && ran.out.starts_with("node b "), "{ran:?}");
    let ran = enter(&["nsenter", "--net=/run/netns/b", "cat", "/proc/net/dev"]);
    assert_eq!(interfaces(&ran.out), ["host", "lo", "path1", "path2"]);
    waiting.end(Signal::SIGTERM);
}

#[test]
fn a_signal_terminates_a_shell_and_its_processes() {
    if !can_run() {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let waiting = WaitingShell::start(&format!("echo $$\n{LEAVES_BEHIND}"));
        let pids = waiting.said.clone();
        assert_eq!(pids.len(), 3);
        let (code, err) = waiting.end(signal);
        assert_eq!(code, Some(2), "{signal}: {err}");
        assert!(err.starts_with("onbeat: interrupted; "), "{signal}: {err}");
        pids.iter().for_each(|pid| wait_gone(pid));
    }
    assert!(!Path::new("/run/netns/listener").exists());
}

#[test]
fn a_shell_is_killed_with_its_lab() {
    if !can_run() {
        return;
    }
    let waiting = WaitingShell::start("echo $$");
    let pid = waiting.said[0].clone();
    waiting.end(Signal::SIGKILL);
    wait_gone(&pid);
}

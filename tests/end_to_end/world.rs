//! Creation of a world, and its complete removal.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use onbeat_lab::fault::Impairment;
use onbeat_lab::world::CutEnds;
use onbeat_lab::{Error, Topology};
use onbeat_realtime::interrupt::Interruption;
use onbeat_realtime::interrupt::wait_until;
use onbeat_testing::TemporaryDirectory;

use crate::common::{build, can, make_executable, sources};

/// Maximum wait for an event that is expected at once.
const BOUND: Duration = Duration::from_secs(30);

fn network() -> Topology {
    let config = r#"
        [[port]]
        name = "host"
        interface = "host"
    "#;
    let mut network = Topology::default();
    network.host("talker", 0, 0).node("a", 1, 0, config).host("listener", 2, 0);
    network.link("access", "talker:eth0", "a:host");
    network.link("exit", "a:out", "listener:eth0").impaired(Impairment::default());
    network
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// `common::build` waits for the lock of its test.
#[test]
fn tests_build_worlds_by_common_build_only() {
    let call = ["World", "::build("].concat();
    assert!(sources().iter().all(|text| !text.contains(&call)), "use common::build");
}

#[test]
fn a_cut_removes_the_carrier_and_restore_restores_it() {
    if !can(&[]) {
        return;
    }
    let world = build(&network());
    let carrier = || world.handle("talker").unwrap().link("eth0").unwrap().carrier;
    assert!(carrier());
    for ends in [CutEnds::Both, CutEnds::First, CutEnds::Second] {
        world.cut("access", ends).unwrap();
        assert!(wait_until(BOUND, || !carrier()).unwrap(), "{ends:?}");
        world.restore("access").unwrap();
        assert!(carrier(), "{ends:?}");
    }
}

#[test]
fn unknown_names_are_reported() {
    if !can(&[]) {
        return;
    }
    let mut world = build(&network());
    let error = world.handle("unknown").unwrap_err().to_string();
    assert_eq!(error, "unknown host or node \"unknown\"; use one of: a, listener, talker");
    assert!(world.wire("access").unwrap_err().to_string().ends_with("use one of: exit"));
    assert!(matches!(world.status("a"), Err(Error::Node { .. })));
    let error = world.start("a", Path::new("/nonexistent/onbeat")).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/onbeat"), "{error}");
}

#[test]
fn a_node_that_exits_at_once_is_reported_with_its_log() {
    if !can(&[]) {
        return;
    }
    let mut world = build(&network());
    let error = world.start("a", Path::new("/bin/false")).unwrap_err().to_string();
    assert_eq!(error, "node \"a\": it exited with exit status 1");
    let error = world.start("a", Path::new("/bin/cat")).unwrap_err().to_string();
    assert!(error.contains("its log:\n") && error.contains("run"), "{error}");
}

/// The number of namespaces that processes of this machine hold open or live in.
fn namespaces() -> usize {
    let mut found = std::collections::HashSet::new();
    let here = fs::read_dir("/proc/self/fd").unwrap();
    for entry in here.flatten() {
        if let Ok(target) = fs::read_link(entry.path()) {
            if target.to_string_lossy().starts_with("net:[") {
                found.insert(target);
            }
        }
    }
    found.len()
}

#[test]
fn a_world_is_removed_completely() {
    if !can(&[]) {
        return;
    }
    // Other tests of this binary hold namespaces at the same time: count in a separate process.
    if std::env::var_os("ONBEAT_TEST_ALONE").is_none() {
        let alone = Command::new(std::env::current_exe().unwrap())
            .args(["world::a_world_is_removed_completely", "--exact", "--test-threads=1"])
            .env("ONBEAT_TEST_ALONE", "1")
            .output()
            .unwrap();
        assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stdout));
        return;
    }
    let (threads_before, namespaces_before) = (threads(), namespaces());
    // A joined thread may be listed for a moment longer.
    let all_gone = || {
        assert!(wait_until(BOUND, || threads() == threads_before).unwrap());
        assert_eq!(namespaces(), namespaces_before);
    };
    let mounts = || fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let mounts_before = mounts();
    let world = build(&network());
    assert!(threads() > threads_before && namespaces() >= namespaces_before + 4);
    drop(world);
    all_gone();
    assert_eq!(mounts(), mounts_before);
    let panicked = std::panic::catch_unwind(|| {
        let _world = build(&network());
        panic!("intended by the test");
    });
    assert!(panicked.is_err());
    all_gone();
    assert_eq!(mounts(), mounts_before);
}

#[test]
fn a_daemon_is_killed_with_its_parent() {
    if !can(&[]) {
        return;
    }
    // In a separate process: a world whose node is a program that does not exit; then SIGKILL.
    if std::env::var_os("ONBEAT_TEST_VICTIM").is_some() {
        let mut world = build(&network());
        let script = std::env::var("ONBEAT_TEST_VICTIM").unwrap();
        let _ = world.start("a", Path::new(&script));
        unreachable!("the program is never ready, and the process is killed");
    }
    let directory = TemporaryDirectory::new("lab");
    let (script, pid_file) = (directory.file("node"), directory.file("pid"));
    let text = format!(
        "#!/bin/sh\necho $$ > {0}.new\nmv {0}.new {0}\nexec sleep 600\n",
        pid_file.display()
    );
    make_executable(&script, text);
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["world::a_daemon_is_killed_with_its_parent", "--exact", "--test-threads=1"])
        .env("ONBEAT_TEST_VICTIM", &script)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    assert!(wait_until(BOUND, || pid_file.exists()).unwrap(), "the node was not started");
    let pid = fs::read_to_string(&pid_file).unwrap().trim().to_owned();
    victim.kill().unwrap();
    assert_eq!(victim.wait().unwrap().signal(), Some(9));
    let gone = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // A zombie counts as exited.
        stat.is_empty() || stat.contains(") Z ")
    };
    assert!(wait_until(BOUND, gone).unwrap(), "process {pid} is still there");
}

#[test]
fn an_interrupt_stops_waits_and_removes_the_world() {
    if !can(&[]) {
        return;
    }
    // In a separate process: signals affect the whole process.
    if let Some(mark) = std::env::var_os("ONBEAT_TEST_INTERRUPTED") {
        let _signals = onbeat_realtime::interrupt::Guard::install();
        let world = build(&network());
        fs::write(mark, "").unwrap();
        let waited = wait_until(BOUND, || false);
        assert!(matches!(waited, Err(Interruption)), "{waited:?}");
        drop(world);
        assert_eq!(namespaces(), 0);
        return;
    }
    let directory = TemporaryDirectory::new("interrupt");
    let mark = directory.file("mark");
    let mut waiting = Command::new(std::env::current_exe().unwrap())
        .args([
            "world::an_interrupt_stops_waits_and_removes_the_world",
            "--exact",
            "--test-threads=1",
        ])
        .env("ONBEAT_TEST_INTERRUPTED", &mark)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    assert!(wait_until(BOUND, || mark.exists()).unwrap(), "the world was not built");
    let pid = nix::unistd::Pid::from_raw(waiting.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(waiting.wait().unwrap().success());
}

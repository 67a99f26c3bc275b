//! What a world makes, and that nothing of it stays.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use onbeat_lab::fault::Impairment;
use onbeat_lab::world::Ends;
use onbeat_lab::{Error, Topology};
use onbeat_realtime::interrupt::Interrupted;
use onbeat_realtime::interrupt::wait_until;
use onbeat_testing::TemporaryDirectory;

use crate::common::{build, can, make_executable, sources};

/// Longest wait for something that comes at once unless it never comes.
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

/// `common::build` waits for the turn of its test.
#[test]
fn no_test_builds_a_world_by_itself() {
    let call = ["World", "::build("].concat();
    assert!(sources().iter().all(|text| !text.contains(&call)), "use common::build");
}

#[test]
fn a_cut_takes_the_carrier_and_a_repair_brings_it_back() {
    if !can(&[]) {
        return;
    }
    let world = build(&network());
    let carrier = || world.handle("talker").unwrap().link("eth0").unwrap().carrier;
    assert!(carrier());
    for ends in [Ends::Both, Ends::First, Ends::Second] {
        world.cut("access", ends).unwrap();
        assert!(wait_until(BOUND, || !carrier()).unwrap(), "{ends:?}");
        world.restore("access").unwrap();
        assert!(carrier(), "{ends:?}");
    }
}

#[test]
fn what_is_not_there_is_named() {
    if !can(&[]) {
        return;
    }
    let mut world = build(&network());
    let error = world.handle("nobody").unwrap_err().to_string();
    assert_eq!(error, "there is no host or node \"nobody\"; there are: a, listener, talker");
    assert!(world.wire("access").unwrap_err().to_string().ends_with("there are: exit"));
    assert!(matches!(world.status("a"), Err(Error::Node { .. })));
    let error = world.start("a", Path::new("/nonexistent/onbeat")).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/onbeat"), "{error}");
}

#[test]
fn a_node_that_ends_at_once_is_told_with_what_it_said() {
    if !can(&[]) {
        return;
    }
    let mut world = build(&network());
    let error = world.start("a", Path::new("/bin/false")).unwrap_err().to_string();
    assert_eq!(error, "node \"a\": it ended with exit status 1");
    let error = world.start("a", Path::new("/bin/cat")).unwrap_err().to_string();
    assert!(error.contains("it said:\n") && error.contains("run"), "{error}");
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
fn nothing_stays_of_a_world() {
    if !can(&[]) {
        return;
    }
    // Other tests of this binary hold namespaces at the same time: count in a process of its own.
    if std::env::var_os("ONBEAT_TEST_ALONE").is_none() {
        let alone = Command::new(std::env::current_exe().unwrap())
            .args(["world::nothing_stays_of_a_world", "--exact", "--test-threads=1"])
            .env("ONBEAT_TEST_ALONE", "1")
            .output()
            .unwrap();
        assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stdout));
        return;
    }
    let (threads_before, namespaces_before) = (threads(), namespaces());
    // A thread that has been joined may be listed for a moment more.
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
        panic!("as the test wants");
    });
    assert!(panicked.is_err());
    all_gone();
    assert_eq!(mounts(), mounts_before);
}

#[test]
fn a_daemon_dies_with_a_process_that_is_killed() {
    if !can(&[]) {
        return;
    }
    // In a process of its own: a world whose node is a program that never ends; then kill -9.
    if std::env::var_os("ONBEAT_TEST_VICTIM").is_some() {
        let mut world = build(&network());
        let script = std::env::var("ONBEAT_TEST_VICTIM").unwrap();
        let _ = world.start("a", Path::new(&script));
        unreachable!("the program never says that it is ready, and the process is killed");
    }
    let directory = TemporaryDirectory::new("lab");
    let (script, pid_file) = (directory.file("node"), directory.file("pid"));
    let text = format!(
        "#!/bin/sh\necho $$ > {0}.new\nmv {0}.new {0}\nexec sleep 600\n",
        pid_file.display()
    );
    make_executable(&script, text);
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["world::a_daemon_dies_with_a_process_that_is_killed", "--exact", "--test-threads=1"])
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
        // A zombie that nobody has waited for yet is as dead as one that is gone.
        stat.is_empty() || stat.contains(") Z ")
    };
    assert!(wait_until(BOUND, gone).unwrap(), "process {pid} is still there");
}

#[test]
fn an_interrupt_ends_what_waits_and_the_world_goes() {
    if !can(&[]) {
        return;
    }
    // In a process of its own: signals are the process's.
    if let Some(mark) = std::env::var_os("ONBEAT_TEST_INTERRUPTED") {
        let _signals = onbeat_realtime::interrupt::Guard::install();
        let world = build(&network());
        fs::write(mark, "").unwrap();
        let waited = wait_until(BOUND, || false);
        assert!(matches!(waited, Err(Interrupted)), "{waited:?}");
        drop(world);
        assert_eq!(namespaces(), 0);
        return;
    }
    let directory = TemporaryDirectory::new("interrupt");
    let mark = directory.file("mark");
    let mut waiting = Command::new(std::env::current_exe().unwrap())
        .args([
            "world::an_interrupt_ends_what_waits_and_the_world_goes",
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

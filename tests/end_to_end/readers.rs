//! Unprivileged members of a group read the state of a node, and change nothing.
//!
//! ```text
//!   host eth0 --- host [ a ] path1 --- eth0 path1
//!                            path2 --- eth0 path2
//! ```

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;

use crate::common::process::Process;
use crate::common::{
    CommandOutput, GROUP, PORTS, TemporaryFile, VLAN, can_run, log, make_executable, one_node,
    program, replicate, run, run_in, show, start, wait_for,
};
use onbeat_testing::command;
use serde_json::Value;

/// An unprivileged user, and another one.
const READER: u32 = 65534;
const OTHER: u32 = 65533;

fn config(readers: &str) -> String {
    format!("[node]\n{readers}{PORTS}{}", replicate("axis", GROUP, VLAN))
}

#[test]
fn a_member_of_the_group_reads_a_node_and_changes_nothing() {
    if !can_run() {
        return;
    }
    // A directory in which all users may execute it.
    let copy = TemporaryFile::new("onbeat");
    make_executable(copy.path(), fs::read(program()).expect("the program"));
    let run_as = |user: u32, arguments: &[&str]| -> CommandOutput {
        let mut command = command(copy.path());
        command.args(arguments).current_dir("/").uid(user).gid(user);
        command.output().expect("it starts").into()
    };
    let stream = TemporaryFile::with("stream.toml", replicate("axis-2", GROUP, VLAN + 1));
    let mut world = start(&one_node(&config("readers = \"nogroup\"\n")));
    let before = show("a");

    let shown = run_as(READER, &["show", "--json"]);
    assert_eq!((shown.code, shown.err.as_str()), (0, ""));
    assert!(shown.out.contains("\"axis\""), "{}", shown.out);
    for arguments in [
        &["show", "a"][..],
        &["show", "a", "--stream", "axis"],
        &["show", "a", "--paths"],
        &["show", "a", "--events", "--json"],
        &["yang", "get", "a"],
    ] {
        let shown = run_as(READER, arguments);
        assert_eq!((shown.code, shown.err.as_str()), (0, ""), "{arguments:?}");
        assert!(!shown.out.is_empty(), "{arguments:?}");
    }
    for arguments in [
        &["reload", "a"][..],
        &["reset", "axis", "--node", "a"],
        &["stream", "add", stream.name(), "--node", "a"],
        &["stream", "remove", "axis", "--node", "a"],
    ] {
        let refused = run_as(READER, arguments);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{arguments:?}: {}", refused.err);
        assert!(
            refused.err.contains("accepts no changes; run the command as root"),
            "{}",
            refused.err
        );
    }
    let refused = run_as(READER, &["down", "a"]);
    assert!(refused.code == 2 && refused.err.contains("root"), "{}", refused.err);

    let refused = run_as(OTHER, &["show", "a"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    let remedy = "permission denied; run the command as root, or, to read the state of a node, as a member of group \
                  \"onbeat\" (usermod -aG onbeat USER, then log in again)";
    assert!(refused.err.contains(remedy), "{}", refused.err);

    for (user, level) in [(READER, "ok"), (OTHER, "info")] {
        let doctor = run_as(user, &["doctor", "--json"]).out;
        let report: serde_json::Value = serde_json::from_str(&doctor).expect(&doctor);
        let findings = report["findings"].as_array().unwrap();
        let of_node = findings.iter().find(|finding| finding["what"] == "node a");
        assert_eq!(of_node.expect(&doctor)["level"], level, "{user}");
    }

    let after = show("a");
    assert_eq!((after.streams, after.pid), (before.streams, before.pid));

    // A killed daemon cannot remove its socket.
    let socket = "/run/onbeat-readers/a.sock";
    world.daemon("a").unwrap().kill().unwrap();
    assert!(fs::exists(socket).unwrap());
    let down = run_in(world.namespace("a").unwrap(), &["down", "a"]);
    assert_eq!((down.code, down.err.as_str()), (0, ""), "{}", down.out);
    assert!(!fs::exists(socket).unwrap());
    drop(world);
}

#[test]
fn a_node_runs_without_its_readers() {
    if !can_run() {
        return;
    }
    let world = start(&one_node(&config("readers = \"no-such-group\"\n")));
    assert!(
        log("a").contains("socket for readers: group \"no-such-group\" is not in /etc/group"),
        "{}",
        log("a")
    );
    assert_eq!(show("a").streams.len(), 1);
    drop(world);
}

/// A program that an unprivileged reader starts for each event, and not for more than ten at once.
#[test]
fn a_program_for_each_event_is_started_without_privileges_and_not_for_a_flood() {
    const BURST: u64 = 10;
    if !can_run() {
        return;
    }
    let copy = TemporaryFile::new("onbeat-of-hook");
    make_executable(copy.path(), fs::read(program()).expect("the program"));
    let log = TemporaryFile::with("hook.log", "");
    chown(log.path(), Some(READER), Some(READER)).unwrap();
    let hook = TemporaryFile::new("hook");
    let script = format!(
        "#!/bin/sh\necho \"$(id -u) $ONBEAT_EVENT $ONBEAT_STREAM $ONBEAT_SKIPPED $(cat)\" >> {}\n",
        log.name()
    );
    make_executable(hook.path(), script.into_bytes());
    let mut world = start(&one_node(&config("readers = \"nogroup\"\n")));
    let follow = ["show", "a", "--events", "--follow", "--exec", hook.name()];
    let refused = run(&follow);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    assert!(refused.err.contains("starts no program as root"), "{}", refused.err);

    let mut reader = command(copy.path());
    reader.args(follow).current_dir("/").uid(READER).gid(READER);
    let _reader = Process::spawn(reader);
    let lines = || -> Vec<String> {
        fs::read_to_string(log.path()).unwrap().lines().map(str::to_owned).collect()
    };
    let stream = TemporaryFile::with("stream.toml", replicate("axis-2", GROUP, VLAN + 1));
    let change = |verb: &str, what: &str| {
        let ran = run(&["stream", verb, what, "--node", "a"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
    };
    // Stored events are of the past: the first event that it passes shows that it follows.
    wait_for("an event of the hook", || {
        change("add", stream.name());
        change("remove", "axis-2");
        !lines().is_empty()
    });
    let started = std::time::Instant::now();
    for _ in 0..2 * BURST {
        change("add", stream.name());
        change("remove", "axis-2");
    }
    // Each event is passed or counted, and the last one is passed.
    let events = run(&["show", "a", "--events", "--json"]).out;
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    let passed = || -> Vec<(u64, u64)> {
        let event = |line: &String| {
            let fields: Vec<&str> = line.splitn(5, ' ').collect();
            let json: Value = serde_json::from_str(fields[4]).expect("an event");
            assert_eq!(fields[..3], ["65534", "streams", "axis-2"], "{line}");
            assert_eq!(json["stream"], "axis-2");
            (json["number"].as_u64().unwrap(), fields[3].parse().unwrap())
        };
        lines().iter().map(event).collect()
    };
    wait_for("the last event", || Some(passed().last().unwrap().0) == last["number"].as_u64());
    let passed = passed();
    let (first, last) = (passed[0].0, passed[passed.len() - 1].0);
    let events: u64 = passed.iter().map(|(_, skipped)| 1 + skipped).sum();
    assert_eq!(events, last - first + 1, "{passed:?}");
    let possible = BURST + started.elapsed().as_secs() / 6 + 2;
    assert!((passed.len() as u64) <= possible, "{passed:?}");

    // A new daemon has all its events passed. Without one, the command waits.
    world.daemon("a").unwrap().kill().unwrap();
    world.start("a", program()).unwrap();
    wait_for("the events of the new daemon", || {
        lines().iter().any(|line| line.starts_with("65534 started"))
    });
}

//! Unprivileged members of a group read the state of a node, and change nothing.
//!
//! ```text
//!   host eth0 --- host [ a ] path1 --- eth0 path1
//!                            path2 --- eth0 path2
//! ```

use std::fs;
use std::os::unix::process::CommandExt;

use crate::common::{
    CommandOutput, GROUP, PORTS, TemporaryFile, VLAN, can_run, log, make_executable, one_node,
    program, replicate, run_in, show, start,
};
use onbeat_testing::command;

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
        log("a").contains("group \"no-such-group\" of readers is not in /etc/group"),
        "{}",
        log("a")
    );
    assert_eq!(show("a").streams.len(), 1);
    drop(world);
}

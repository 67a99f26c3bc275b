//! Streams are added, changed and removed one by one while others flow without loss. Invalid requests
//! are rejected with the errors of a file, and change nothing; the next reload applies the file.
//!
//! ```text
//!                                  path1
//!   talker                       /-------\                      listener
//!   eth0 ---- "axis" -------- [ a ]     [ b ] -------- "axis" ---- eth0
//!        ---- "guest" (at times) \-------/    "guest" (at times) ----
//!                                  path2
//! ```

use std::fs;

use crate::common::{
    CommandOutput, Flow, PORTS, VLAN, build, can_run, eliminate, eliminate_to, program, replicate,
    run, show, start, two_paths,
};
use onbeat_node::config::Backend;
use onbeat_node::control::PortStatus;

const AXIS: &str = "01:00:5e:00:00:01";
const GUEST: &str = "01:00:5e:00:00:02";
const OTHER_VLAN: u16 = 103;
const WHILE: u64 = 400;

fn names(node: &str) -> Vec<String> {
    show(node).streams.into_iter().map(|stream| stream.name).collect()
}

/// Writes streams to a file, and makes a node add or change them.
fn put(how: &str, node: &str, streams: &str) -> CommandOutput {
    let file = format!("/run/onbeat/lab/{how}.part");
    fs::write(&file, streams).unwrap();
    run(&["stream", how, &file, "--node", node])
}

#[track_caller]
fn good(ran: &CommandOutput, out: &str) {
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, out, ""));
}

fn come_change_and_go(backend: Option<Backend>) {
    let a = format!("{PORTS}{}", replicate("axis", AXIS, VLAN));
    let b = format!("{PORTS}{}", eliminate("axis", AXIS, VLAN));
    let mut world = build(&two_paths(&a, &b));
    world.set_backend(backend);
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    let flow = |number, group| {
        Flow::start(&world, ("talker", "listener"), number, (group, VLAN), 2000, None)
    };
    let axis = flow(1, AXIS);
    axis.advance(WHILE);

    let added = "streams: 1 added, 0 changed, 0 removed\n";
    good(&put("add", "b", &eliminate("guest", GUEST, VLAN)), added);
    good(&put("add", "a", &replicate("guest", GUEST, VLAN)), added);
    assert_eq!(names("b"), ["axis", "guest"]);
    let guest = flow(2, GUEST);
    guest.advance(WHILE);
    axis.advance(WHILE);

    let host = format!("tag = \"none\", vlan = {OTHER_VLAN}");
    let recover = "{ history-length = 256, reset-timeout-ms = 0 }";
    let other = eliminate_to("guest", GUEST, &host, recover);
    good(&put("change", "b", &other), "streams: 0 added, 1 changed, 0 removed\n");
    // When a later frame has arrived, all frames with the former VLAN have arrived.
    guest.advance(0);
    let changed = crate::common::sink(&world, "listener", 2, OTHER_VLAN);
    guest.advance(WHILE);
    let changed = changed.stop().unwrap().take(2).unwrap();
    assert!(changed.delivered() >= WHILE);
    assert_eq!((changed.wrong_vlan, changed.duplicated()), (0, 0));

    let removed = "streams: 0 added, 0 changed, 1 removed\n";
    let lasted_to = guest.begun();
    let before = ["a", "b"].map(port_counters);
    good(&run(&["stream", "remove", "guest", "--node", "a"]), removed);
    let gone = guest.finish();
    assert_eq!(gone.delivery.lost_in(0..lasted_to), 0, "{:?}", gone.delivery.lost);
    good(&run(&["stream", "remove", "guest", "--node", "b"]), removed);
    assert_eq!(names("b"), ["axis"]);
    for (before, after) in before.iter().flatten().zip(["a", "b"].iter().flat_map(port_counters)) {
        let falls = before.1.iter().zip(&after.1).any(|(before, after)| after < before);
        assert!(before.0 == after.0 && !falls, "{before:?}, then {after:?}");
    }
    axis.advance(WHILE);
    axis.finish_whole();

    // A renamed stream is a new stream each time.
    let before = ["a", "b"].map(port_counters);
    assert!(before.iter().flatten().all(|(_, counters)| *counters != [0; 4]), "{before:?}");
    for name in ["renamed", "axis"] {
        for (node, text) in [("a", &a), ("b", &b)] {
            let text = text.replace("name = \"axis\"", &format!("name = \"{name}\""));
            world.daemon(node).unwrap().reload(&text).unwrap();
        }
        assert_eq!(names("b"), [name]);
        assert_eq!(["a", "b"].map(port_counters), before, "{name}");
    }
}

/// Counters of each port of a node: input, output, passed, discarded.
fn port_counters(node: impl AsRef<str>) -> Vec<(String, [u64; 4])> {
    let counters = |port: PortStatus| {
        let counters = [port.input_packets, port.output_packets, port.passed, port.discard];
        (port.name, counters)
    };
    show(node.as_ref()).ports.into_iter().map(counters).collect()
}

#[test]
fn streams_are_added_changed_and_removed_one_by_one() {
    if !can_run() {
        return;
    }
    come_change_and_go(None);
    come_change_and_go(Some(Backend::Packet));
}

#[test]
fn invalid_requests_change_nothing_and_a_reload_applies_the_file() {
    if !can_run() {
        return;
    }
    let a = format!("{PORTS}{}", replicate("axis", AXIS, VLAN));
    let _world = start(&two_paths(&a, &format!("{PORTS}{}", eliminate("axis", AXIS, VLAN))));
    let guest = replicate("guest", GUEST, VLAN);
    for (how, streams, said) in [
        ("add", replicate("axis", GUEST, VLAN), "already"),
        ("add", replicate("guest", AXIS, VLAN), "same frames on port \"host\" as stream \"axis\""),
        ("add", guest.replace("vlan = 11", "vlan = 4095"), "4095"),
        ("add", guest.replace("\"path2\"", "\"path7\""), "\"path7\""),
        ("add", guest.replace("generate", "generated"), "unknown key \"generated\""),
        ("add", format!("{PORTS}{guest}"), "unknown key \"port\""),
        ("add", guest.replace("\"path1\"", "\"host\""), "MTU 1500"),
        ("add", format!("{guest}{guest}"), "another stream is named \"guest\""),
        ("change", guest.clone(), "no stream \"guest\""),
        ("change", String::new(), "no stream found"),
    ] {
        let CommandOutput { code, out, err } = put(how, "a", &streams);
        assert_eq!((code, out.as_str()), (2, ""), "{streams}: {err}");
        assert!(err.contains(said) && err.contains(&format!("/{how}.part:")), "{said} in {err}");
        assert_eq!(names("a"), ["axis"], "{said}");
    }
    let CommandOutput { code, err, .. } =
        run(&["stream", "remove", "axis", "guest", "--node", "a"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("no stream \"guest\""), "{err}");
    assert_eq!(names("a"), ["axis"], "all or none");

    good(&put("add", "a", &guest), "streams: 1 added, 0 changed, 0 removed\n");
    assert_eq!(names("a"), ["axis", "guest"]);
    let reported = run(&["show", "a", "--events", "--stream", "guest"]).out;
    assert!(reported.contains("stream \"guest\": added"), "{reported}");
    assert_eq!(run(&["reload", "a"]).code, 0);
    assert_eq!(names("a"), ["axis"]);
    // Its resources are free again.
    good(&put("add", "a", &guest), "streams: 1 added, 0 changed, 0 removed\n");
}

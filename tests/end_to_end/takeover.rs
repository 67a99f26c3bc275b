//! The daemons of both nodes are killed, stopped and restarted under traffic: frames flow without
//! interruption, also without daemons, and numbers and counters continue.
//!
//! ```text
//!                        path1
//!                      /-------\
//!   talker eth0 --- [ a ]     [ b ] --- eth0 listener         5,000 frames/s
//!                      \-------/
//!                        path2
//! ```

use std::fs;

use crate::common::{
    Flow, GROUP, PORTS, VLAN, assert_gone, build, can_run, eliminate, input, one_node, program,
    replicate, run, show, start, stream, two_paths, wait_for,
};
use onbeat_lab::World;
use onbeat_node::control::NodeStatus;

const STREAM: &str = "axis";
const RATE: u64 = 5000;
/// Frames that pass between one event and the next.
const WHILE: u64 = 1000;

/// Counters that must continue.
#[derive(Debug)]
struct NodeCounters {
    generated: u64,
    passed: u64,
    discarded: u64,
    output: u64,
    resets: (u64, u64),
}

fn counted() -> NodeCounters {
    let (a, b): (NodeStatus, NodeStatus) = (show("a"), show("b"));
    let (there, arrived) = (stream(&a, STREAM), stream(&b, STREAM));
    let generation = there.generation.as_ref().expect("a generates");
    let recovery = arrived.recovery.as_ref().expect("b recovers");
    NodeCounters {
        generated: input(there),
        passed: recovery.counters.passed,
        discarded: recovery.counters.discarded,
        output: arrived.egress[0].output_packets,
        resets: (generation.seq_gen_resets, recovery.counters.resets),
    }
}

/// Stops both daemons, lets frames pass without them, and restarts them.
#[track_caller]
fn without_daemons(world: &mut World, flow: &Flow, end: impl Fn(&mut World, &str)) {
    let before = counted();
    flow.advance(WHILE);
    for node in ["a", "b"] {
        end(world, node);
    }
    for node in ["a", "b"] {
        let output = run(&["show", node]);
        assert_eq!(output.code, 2, "no daemon answers: {output:?}");
    }
    flow.advance(WHILE);
    for node in ["a", "b"] {
        flow.advance(WHILE);
        world.start(node, program()).unwrap_or_else(|error| panic!("{error}"));
    }
    flow.advance(WHILE);
    let after = counted();
    assert_eq!(after.resets, before.resets, "{before:?} {after:?}");
    // Three times this number was sent without one of the daemons, or both.
    let more = |counter: fn(&NodeCounters) -> u64| counter(&after) >= counter(&before) + 5 * WHILE;
    assert!(more(|counted| counted.generated), "{before:?} {after:?}");
    assert!(more(|counted| counted.passed), "{before:?} {after:?}");
    assert!(more(|counted| counted.discarded), "{before:?} {after:?}");
    assert!(more(|counted| counted.output), "{before:?} {after:?}");
}

#[test]
fn stopped_and_restarted_daemons_do_not_affect_frames() {
    if !can_run() {
        return;
    }
    let a = format!("{PORTS}{}", replicate(STREAM, GROUP, VLAN));
    let b = format!("{PORTS}{}", eliminate(STREAM, GROUP, VLAN));
    let mut world = start(&two_paths(&a, &b));
    let flow = Flow::start(&world, ("talker", "listener"), 1, (GROUP, VLAN), RATE, None);
    flow.advance(WHILE);

    without_daemons(&mut world, &flow, |world, node| {
        world.daemon(node).unwrap().kill().unwrap();
    });
    without_daemons(&mut world, &flow, |world, node| {
        world.daemon(node).unwrap().terminate().unwrap();
    });
    // Again with a daemon that itself took over.
    without_daemons(&mut world, &flow, |world, node| {
        world.daemon(node).unwrap().kill().unwrap();
    });

    let sent = flow.finish_whole();
    wait_for("the second replicas, too", || input(stream(&show("b"), STREAM)) == 2 * sent);
    let (a, b) = (show("a"), show("b"));
    let there = stream(&a, STREAM);
    let generation = there.generation.clone().unwrap();
    assert_eq!((input(there), generation.gen_seq_num), (sent, sent as u16));
    let arrived = stream(&b, STREAM);
    let recovery = arrived.recovery.clone().unwrap();
    assert_eq!(
        (input(arrived), recovery.counters.passed, recovery.counters.discarded),
        (2 * sent, sent, sent)
    );
    assert_eq!((recovery.counters.rogue, recovery.really_lost()), (0, 0));
    assert_eq!(recovery.recov_seq_num, (sent - 1) as u16);
    assert_eq!(arrived.egress[0].output_packets, sent);
}

/// A port that the file no longer contains is released: at the next start, and at a reload.
#[test]
fn a_port_removed_from_the_file_is_released() {
    if !can_run() {
        return;
    }
    // host eth0 --- host [ a ] path1 --- eth0 path1
    //                          path2 --- eth0 path2
    let whole = format!("{PORTS}{}", replicate(STREAM, GROUP, VLAN));
    let part = whole
        .replace("[[port]]\nname = \"path2\"\ninterface = \"path2\"\nmtu = 1506\n", "")
        .replace("  { port = \"path2\", tag = \"r-tag\", vlan = 12 },\n", "");
    assert_eq!(part.matches("path2").count(), 0, "{part}");
    let mut network = one_node("");
    network.nodes[0].config_text = None;
    network.nodes[0].config = Some("/run/onbeat/lab/own.toml".into());
    let mut world = build(&network);
    let write = |text: &str| fs::write("/run/onbeat/lab/own.toml", text).unwrap();
    let state = |world: &World, interface| {
        let link = world.handle("a").unwrap().link(interface).unwrap();
        (link.xdp.len(), link.mtu)
    };
    let start = |world: &mut World| {
        world.start("a", program()).unwrap_or_else(|error| panic!("{error}"));
    };
    write(&whole);
    start(&mut world);
    assert_eq!((state(&world, "path1"), state(&world, "path2")), ((1, 1506), (1, 1506)));

    world.daemon("a").unwrap().terminate().unwrap();
    write(&part);
    start(&mut world);
    assert_eq!((state(&world, "path1"), state(&world, "path2")), ((1, 1506), (0, 1500)));

    world.daemon("a").unwrap().reload(&whole).unwrap();
    assert_eq!((state(&world, "path1"), state(&world, "path2")), ((1, 1506), (1, 1506)));
    world.daemon("a").unwrap().reload(&part).unwrap();
    assert_eq!((state(&world, "path1"), state(&world, "path2")), ((1, 1506), (0, 1500)));

    world.daemon("a").unwrap().interrupt().unwrap();
    assert_eq!((state(&world, "path1"), state(&world, "path2")), ((0, 1500), (0, 1500)));
    assert_gone("a");
}

//! The configuration changes while frames flow: a stream is added, changed, removed, and an invalid
//! file changes nothing. Other streams lose and duplicate no frame.
//!
//! ```text
//!                                        path1
//!   talker                             /-------\                            listener
//!   eth0 ---- "first", "second" --- [ a ]     [ b ] --- "first", "second" ---- eth0
//!        ---- "third" (at times)       \-------/        "third" (at times) ----
//!                                        path2
//! ```

use std::fs;

use crate::common::{
    Capture, Flow, FrameText, Injector, PORTS, VLAN, can_run, eliminate, eliminate_to, input, log,
    one_node, port, replicate, run, show, start, stream, two_paths, wait_for,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_lab::World;

const FIRST: &str = "01:00:5e:00:00:01";
const SECOND: &str = "01:00:5e:00:00:02";
const THIRD: &str = "01:00:5e:00:00:03";

/// Frames per second of each stream.
const RATE: u64 = 2000;

/// Frames that pass between one change and the next.
const WHILE: u64 = 400;

/// The VLAN of the third stream after it was changed.
const OTHER_VLAN: u16 = 103;

const ENDS: (&str, &str) = ("talker", "listener");

#[test]
fn streams_are_added_changed_and_removed_while_others_flow() {
    if !can_run() {
        return;
    }
    let a =
        format!("{PORTS}{}{}", replicate("first", FIRST, VLAN), replicate("second", SECOND, VLAN));
    let b =
        format!("{PORTS}{}{}", eliminate("first", FIRST, VLAN), eliminate("second", SECOND, VLAN));
    let a_with_third = format!("{a}{}", replicate("third", THIRD, VLAN));
    let b_with_third = format!("{b}{}", eliminate("third", THIRD, VLAN));
    let recover = "{ history-length = 256, reset-timeout-ms = 0 }";
    let host = format!("tag = \"none\", vlan = {OTHER_VLAN}");
    let b_with_changed = format!("{b}{}", eliminate_to("third", THIRD, &host, recover));

    let mut world = start(&two_paths(&a, &b));
    let flow = |world: &_, number, destination| {
        Flow::start(world, ENDS, number, (destination, VLAN), RATE, None)
    };
    let untouched = [flow(&world, 1, FIRST), flow(&world, 2, SECOND)];
    let advance = || untouched.iter().for_each(|flow| flow.advance(WHILE));
    advance();

    // Add a stream.
    world.daemon("b").unwrap().reload(&b_with_third).unwrap();
    world.daemon("a").unwrap().reload(&a_with_third).unwrap();
    let third = flow(&world, 3, THIRD);
    third.advance(WHILE);
    advance();

    // Change it: its frames leave in another VLAN, from one frame to the next.
    world.daemon("b").unwrap().reload(&b_with_changed).unwrap();
    // When a later frame has arrived, all frames with the former VLAN have arrived.
    third.advance(0);
    let changed = crate::common::sink(&world, "listener", 3, OTHER_VLAN);
    third.advance(WHILE);
    let changed = changed.stop().unwrap().take(3).unwrap();
    assert!(changed.delivered() >= WHILE);
    assert_eq!((changed.wrong_vlan, changed.duplicated()), (0, 0));
    advance();

    a_broken_file_changes_nothing(&mut world, &a);
    third.advance(WHILE);
    advance();

    // Remove it while its frames arrive.
    let lasted_to = third.begun();
    world.daemon("a").unwrap().reload(&a).unwrap();
    let gone = third.finish();
    assert_eq!(gone.delivery.lost_in(0..lasted_to), 0, "{:?}", gone.delivery.lost);
    assert_eq!(gone.delivery.record.duplicated(), 0);
    world.daemon("b").unwrap().reload(&b).unwrap();
    advance();

    frames_of_a_removed_stream_reach_the_stack(&world);

    let sent = untouched.map(Flow::finish_whole);
    assert!(sent.iter().all(|&sent| sent > 5 * WHILE), "{sent:?}");
    for (node, streams) in [("a", ["first", "second"]), ("b", ["first", "second"])] {
        let status = show(node);
        let names: Vec<_> = status.streams.iter().map(|stream| stream.name.as_str()).collect();
        assert_eq!(names, streams, "node {node}");
    }
    // No counter or sequence number was reset.
    let arrived = |name: &str| input(stream(&show("b"), name));
    wait_for("the second replicas, too", || {
        arrived("first") == 2 * sent[0] && arrived("second") == 2 * sent[1]
    });
    let (a, b) = (show("a"), show("b"));
    for (name, sent) in [("first", sent[0]), ("second", sent[1])] {
        let generation = stream(&a, name).generation.clone().unwrap();
        assert_eq!((generation.gen_seq_num, generation.seq_gen_resets), (sent as u16, 1));
        let recovery = stream(&b, name).recovery.clone().unwrap();
        assert_eq!(
            (recovery.counters.passed, recovery.counters.discarded, recovery.counters.resets),
            (sent, sent, 1)
        );
        assert_eq!((recovery.counters.rogue, recovery.really_lost()), (0, 0));
    }
}

/// Checks both a reload by command and a reload by signal.
fn a_broken_file_changes_nothing(world: &mut World, text: &str) {
    let file = "/run/onbeat/lab/a.toml";
    fs::write(file, text.replace("vlan = 11", "vlan = 4095")).unwrap();
    let refused = run(&["reload", "a"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
    let line =
        1 + fs::read_to_string(file).unwrap().lines().position(|l| l.contains("4095")).unwrap();
    assert!(refused.err.contains(&format!("{file}:{line}:")), "{}", refused.err);
    assert!(refused.err.contains("4095"), "{}", refused.err);
    let refusals = || log("a").matches("reload failed").count();
    let before = refusals();
    kill(Pid::from_raw(world.daemon("a").unwrap().pid() as i32), Signal::SIGHUP).unwrap();
    wait_for("the refusal of the broken file in the log", || refusals() > before);
    assert!(log("a").contains(&format!("{file}:{line}:")), "{}", log("a"));
}

/// Frames without a stream reach the network stack unchanged.
fn frames_of_a_removed_stream_reach_the_stack(world: &World) {
    let unmatched = || port(&show("a"), "host").unmatched;
    let mut stack = Capture::open(world, "a", "host");
    let talker = Injector::open(world, "talker", "eth0");
    let frame = FrameText::new(THIRD, &[VLAN], None).octets();
    const FRAMES: usize = 50;
    let before = unmatched();
    (0..FRAMES).for_each(|_| talker.send(&frame));
    assert!(stack.wait(FRAMES, "at the stack of a").iter().all(|octets| *octets == frame));
    assert_eq!(unmatched(), before + FRAMES as u64);
}

#[test]
fn warnings_are_logged_at_start_and_at_reload() {
    if !can_run() {
        return;
    }
    let file =
        |recover| format!("{PORTS}{}", eliminate_to("axis", FIRST, "tag = \"none\"", recover));
    let (trap, sound) = (file("{}"), file("{ history-length = 64 }"));
    let mut world = start(&one_node(&trap));
    let line = 1 + trap.lines().position(|line| line == "recover = {}").unwrap();
    let warning =
        format!("/run/onbeat/lab/a.toml:{line}:11: stream[\"axis\"].recover: history-length 2");
    let warnings = || log("a").matches(&warning).count();
    assert_eq!(warnings(), 1, "{}", log("a"));
    // The MTU of the host's interface is smaller than that of the paths.
    let narrow = sound.replacen("interface = \"host\"", "interface = \"host\"\nmtu = 1400", 1);
    for (text, expected) in [(&sound, 1), (&trap, 2), (&narrow, 2)] {
        world.daemon("a").unwrap().reload(text).unwrap();
        assert_eq!(warnings(), expected, "{}", log("a"));
    }
    assert!(log("a").contains("port \"host\" (host) has MTU 1400"), "{}", log("a"));
}

/// The NodesTable of PRP in XDP does not grow: neither a stream of that file is added, nor one of the node removed.
#[test]
fn a_larger_nodes_table_is_refused_before_anything_changes() {
    if !can_run() {
        return;
    }
    let ports = PORTS
        .replace("interface = \"path1\"", "interface = \"path1\"\nlan = \"a\"")
        .replace("interface = \"path2\"", "interface = \"path2\"\nlan = \"b\"");
    let node = |max_nodes: u16, streams: &str| {
        format!(
            "[node]\nprotocol = \"prp\"\nbackend = \"xdp\"\n{ports}\n[prp]\nmax-nodes = {max_nodes}\n{streams}"
        )
    };
    let mut world = start(&one_node(&node(8, &replicate("first", FIRST, VLAN))));
    fs::write("/run/onbeat/lab/a.toml", node(9, &replicate("second", SECOND, VLAN))).unwrap();
    let refused = run(&["reload", "a"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
    assert!(refused.err.contains("max-nodes = 8"), "{}", refused.err);
    let names = || show("a").streams.iter().map(|stream| stream.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(), ["first"]);
    let mut at_path = Capture::open(&world, "path1", "eth0");
    let frame = FrameText::new(FIRST, &[VLAN], None).octets();
    Injector::open(&world, "host", "eth0").send(&frame);
    at_path.wait(1, "of the stream");
    let is_in_stream = |octets: &Vec<u8>| octets[..6] == frame[..6] && octets[15] == 11;
    assert!(at_path.frames.iter().any(is_in_stream), "{:02x?}", at_path.frames);
    world.daemon("a").unwrap().reload(&node(7, &replicate("second", SECOND, VLAN))).unwrap();
    assert_eq!(names(), ["second"]);
}

//! Wildcards of FRER nodes beside a named stream: while a path is cut and the file is reloaded, frames of the stream, of a
//! VLAN and all others arrive once; what is in no wildcard is not forwarded.
//!
//! ```text
//!                                  path1
//! talker eth0 --- named, VLAN   /-------\
//!             --- 200, others [ a ]    [ b ] --- eth0 listener
//!                               \-------/
//!                                  path2
//! ```

use crate::common::{
    Capture, Flow, FrameText, GROUP, Injector, PORTS, TemporaryFile, VLAN, can_run, eliminate,
    input, one_node, port, replicate, run, show, start, stream, two_paths, wait_for,
};
use onbeat_lab::world::CutEnds;
use onbeat_node::control::{NodeStatus, WildcardStatus};

const OTHER: &str = "01:00:5e:00:00:02";
const THIRD: &str = "01:00:5e:00:00:03";

/// Frames per second of each flow.
const RATE: u64 = 2000;

/// Frames that pass between one change and the next.
const WHILE: u64 = 400;

/// Frames that can have passed by one path and not the other when their wildcard is removed.
const MOVED_AT_ONCE: u64 = 20;

const ENDS: (&str, &str) = ("talker", "listener");

/// A node with this data plane, these wildcards and streams.
fn node(backend: &str, streams: &str) -> String {
    format!("[node]\nbackend = \"{backend}\"\n{PORTS}{streams}")
}

fn wildcard(name: &str, identify: &str) -> String {
    format!(
        r#"
[[stream]]
name = "{name}"
generate = true
member = [{{ port = "host", identify = {{ {identify} }} }}]
egress = [{{ port = "path1", tag = "r-tag" }}, {{ port = "path2", tag = "r-tag" }}]
"#
    )
}

fn of<'a>(status: &'a NodeStatus, name: &str) -> &'a WildcardStatus {
    let found = status.wildcards.iter().find(|wildcard| wildcard.name == name);
    found.unwrap_or_else(|| panic!("no wildcard {name}: {status:?}"))
}

#[test]
fn frames_of_a_stream_a_vlan_and_all_others_arrive_once_while_paths_are_cut() {
    if can_run() {
        frames_arrive_once("packet");
    }
}

#[test]
fn programs_in_the_kernel_deliver_frames_of_wildcards_once() {
    if can_run() {
        frames_arrive_once("xdp");
    }
}

fn frames_arrive_once(backend: &str) {
    let rest = wildcard("rest", "type = \"all\"");
    let wildcards = rest.clone() + &wildcard("axes", "type = \"vlan\", vlan = 200");
    let a = node(backend, &(wildcards.clone() + &replicate("named", GROUP, VLAN)));
    let b = node(backend, &(wildcards + &eliminate("named", GROUP, VLAN)));
    let mut world = start(&two_paths(&a, &b));
    wait_for("the silence after the start ends", || {
        show("a").wildcards.iter().all(|wildcard| wildcard.silence_ms.is_none())
    });
    let flows = [(1, GROUP, VLAN), (2, OTHER, 200), (3, THIRD, 300)];
    let flows = flows.map(|(number, destination, vlan)| {
        Flow::start(&world, ENDS, number, (destination, vlan), RATE, None)
    });
    let advance = || flows.iter().for_each(|flow| flow.advance(WHILE));
    advance();
    for path in ["path1", "path2"] {
        world.cut(path, CutEnds::Both).unwrap();
        advance();
        world.restore(path).unwrap();
        advance();
    }
    let before = show("b");
    // The wildcard of a VLAN is removed: its frames are those of the other one. Nothing else is affected.
    let of_rest = |node: &str, file: &str| {
        file.replace(&wildcard("axes", "type = \"vlan\", vlan = 200"), node)
    };
    for (node, file) in [("b", &b), ("a", &a)] {
        world.daemon(node).unwrap().reload(&of_rest("", file)).unwrap();
        advance();
    }
    let after = show("b");
    assert_eq!(after.wildcards.len(), 1);
    let accepted = |status: &NodeStatus| {
        of(status, "rest").paths.iter().map(|path| path.accepted).sum::<u64>()
    };
    assert!(accepted(&after) > accepted(&before), "{after:?}");
    for (before, after) in before.ports.iter().zip(&after.ports) {
        assert!(after.input_packets >= before.input_packets, "{after:?}");
        assert!(after.passed >= before.passed, "{after:?}");
    }
    assert_eq!(of(&before, "axes").vlan, Some(200));
    assert!(of(&before, "axes").senders[0].mac.ends_with(":02"), "{before:?}");
    let names: Vec<_> = before.wildcards.iter().map(|wildcard| wildcard.name.as_str()).collect();
    assert_eq!(names, ["axes", "rest"], "by precedence");
    let [named, moved, others] = flows;
    // A frame between its copies when the wildcard was removed: the other one has not seen the first.
    let twice = moved.finish_without_loss().record.duplicated();
    assert!(twice <= MOVED_AT_ONCE, "{twice} frames twice");
    let [named, _] = [named, others].map(|flow| flow.finish_complete().sent());
    // The stream has numbers and counters of its own.
    let generation = stream(&show("a"), "named").generation.clone().unwrap();
    assert_eq!(generation.gen_seq_num, named as u16);
    assert!(input(stream(&show("b"), "named")) > named);
    let file = TemporaryFile::with("wildcard.toml", wildcard("more", "type = \"vlan\", vlan = 7"));
    let refused = run(&["stream", "add", file.name(), "--node", "b"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    assert!(refused.err.contains("onbeat reload"), "{}", refused.err);
    let refused = run(&["stream", "remove", "rest", "--node", "b"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    assert!(refused.err.contains("is a wildcard of the file"), "{}", refused.err);
}

#[test]
fn frames_in_no_wildcard_are_not_forwarded() {
    if can_run() {
        ["packet", "xdp"].into_iter().for_each(only_frames_of_the_wildcard_are_forwarded);
    }
}

fn only_frames_of_the_wildcard_are_forwarded(backend: &str) {
    let text = node(backend, &wildcard("axes", "type = \"vlan\", vlan = 200"));
    let world = start(&one_node(&text));
    wait_for("the silence after the start ends", || {
        show("a").wildcards.iter().all(|wildcard| wildcard.silence_ms.is_none())
    });
    let host = Injector::open(&world, "host", "eth0");
    let path = Injector::open(&world, "path1", "eth0");
    let mut at_paths = ["path1", "path2"].map(|port| Capture::open(&world, port, "eth0"));
    let mut at_host = Capture::open(&world, "host", "eth0");
    let frame = |vlans: &[u16], number| FrameText::new(OTHER, vlans, number).octets();
    // In no wildcard: another VLAN, none, that of an inner tag; without an R-TAG on a path.
    for vlans in [&[][..], &[201], &[201, 200]] {
        host.send(&frame(vlans, None));
        path.send(&frame(vlans, Some(7)));
    }
    path.send(&frame(&[200], None));
    // Frames of it follow.
    for _ in 0..3 {
        host.send(&frame(&[200], None));
    }
    path.send(&frame(&[200], Some(9)));
    path.send(&frame(&[200], Some(9)));
    for capture in &mut at_paths {
        let of_node = |octets: &&Vec<u8>| octets[..6] == frame(&[], None)[..6];
        wait_for("three frames", || capture.take().iter().filter(of_node).count() >= 3);
        let frames: Vec<_> = capture.frames.iter().filter(of_node).collect();
        let expected = [0, 1, 2].map(|number| frame(&[200], Some(number)));
        assert!(frames.into_iter().eq(&expected), "{:02x?}", capture.frames);
    }
    at_host.wait(1, "of the path");
    wait_for("the second copy is discarded", || port(&show("a"), "path1").discard == 1);
    let of_path: Vec<_> =
        at_host.take().iter().filter(|octets| octets[..6] == frame(&[], None)[..6]).collect();
    assert_eq!(of_path, [&frame(&[200], None)]);
    let status = show("a");
    assert_eq!(port(&status, "host").unmatched, 3);
    assert!(port(&status, "path1").unmatched >= 4);
    assert_eq!(of(&status, "axes").host.counters.numbered, 3);
}

/// A file names another path, and then the former ones in the other order: frames leave by the paths of the file.
#[test]
fn a_reload_moves_a_wildcard_to_other_paths() {
    if can_run() {
        ["packet", "xdp"].into_iter().for_each(frames_leave_by_the_paths_of_the_file);
    }
}

fn frames_leave_by_the_paths_of_the_file(backend: &str) {
    const THIRD_PATH: &str = "\n[[port]]\nname = \"path3\"\ninterface = \"path3\"\nmtu = 1506\n";
    let by = |paths: [&str; 2]| {
        let rest = wildcard("rest", "type = \"all\"");
        let rest = rest.replace("\"path1\"", "FIRST").replace("\"path2\"", "SECOND");
        let [first, second] = paths.map(|path| format!("\"{path}\""));
        node(
            backend,
            &(THIRD_PATH.to_owned() + &rest.replace("FIRST", &first).replace("SECOND", &second)),
        )
    };
    let mut network = one_node(&by(["path1", "path2"]));
    network.host("path3", 2, 3);
    network.link("path3", "path3:eth0", "a:path3");
    let mut world = start(&network);
    let host = Injector::open(&world, "host", "eth0");
    let frame = |number| FrameText::new(OTHER, &[], number).octets();
    let names = ["path1", "path2", "path3"];
    let mut at_paths = names.map(|name| Capture::open(&world, name, "eth0"));
    let mut number = 0;
    for paths in [["path1", "path2"], ["path1", "path3"], ["path3", "path2"], ["path2", "path1"]] {
        world.daemon("a").unwrap().reload(&by(paths)).unwrap();
        wait_for("the paths of the file, and the end of the silence", || {
            let status = show("a");
            let wildcard = of(&status, "rest");
            let used = wildcard.paths.iter().map(|path| path.port.as_str());
            used.eq(paths) && wildcard.silence_ms.is_none()
        });
        host.send(&frame(None));
        let expected = frame(Some(number));
        number += 1;
        for (name, capture) in names.iter().zip(&mut at_paths) {
            if paths.contains(name) {
                wait_for(&format!("frame {number} at {name} of {paths:?}"), || {
                    capture.take();
                    capture.frames.contains(&expected)
                });
            }
        }
        // A frame that would leave by a former path has left: both others were sent by the same redirect.
        for (name, capture) in names.iter().zip(&mut at_paths) {
            capture.take();
            assert_eq!(
                capture.frames.contains(&expected),
                paths.contains(name),
                "{name} of {paths:?}"
            );
        }
    }
}

//! State kept and state removed by reloads and restarts of the daemon, and refused changes.

mod layout;
mod pin;
mod private_bpffs;
mod refused;
mod reload;

use std::path::Path;

use onbeat_frer::reading::StreamReading;
use onbeat_frer::spec::{Algorithm, MAX_EGRESS, Recovery, Stream, VlanAction};
use onbeat_frer_xdp::Options;

use crate::harness::{
    Node, XDP_DROP, XDP_PASS, XDP_REDIRECT, can_run, egress, frame, member, pins, stream, talker,
};
pub(crate) use private_bpffs::with_private_bpffs;

const PORTS: usize = 2;
const MAX_STREAMS: u32 = 16;

pub(crate) const VECTOR: Recovery = Recovery::vector(64);

fn open(directory: &Path) -> Node {
    let directory = pins(directory);
    Node::open(
        PORTS,
        &Options { directory, max_streams: MAX_STREAMS, test_clock: true, count_output: true },
    )
}

/// A stream that numbers frames, and one that eliminates replicas.
fn streams() -> Vec<Stream> {
    let members = vec![member(0, 20, Some(VECTOR)), member(1, 20, None)];
    vec![talker("talker", vec![member(0, 10, None)]), stream("listener", members, Some(VECTOR))]
}

fn readings(node: &Node, streams: &[Stream]) -> Vec<StreamReading> {
    streams.iter().map(|stream| node.read(&stream.name)).collect()
}

/// Runs frames of every kind, so that no relevant counter is 0.
fn run_some(node: &Node) {
    let (first, second) = (node.ingress(0), node.ingress(1));
    for number in 0..100 {
        assert_eq!(first.verdict(&frame(10, None)), XDP_REDIRECT);
        assert_eq!(first.verdict(&frame(20, Some(2 * number))), XDP_REDIRECT);
        assert_eq!(second.verdict(&frame(20, Some(2 * number))), XDP_DROP);
    }
    assert_eq!(second.verdict(&frame(20, Some(40_000))), XDP_DROP);
    assert_eq!(second.verdict(&frame(20, None)), XDP_DROP);
    assert_eq!(first.verdict(&frame(30, None)), XDP_PASS);
}

/// Starts a node and sends it some frames; returns its streams, and their readings.
fn run_before(directory: &Path) -> (Vec<Stream>, Node, Vec<StreamReading>) {
    let streams = streams();
    let mut node = open(directory);
    node.apply(&streams);
    run_some(&node);
    let before = readings(&node, &streams);
    (streams, node, before)
}

#[test]
fn a_restart_keeps_numbers_history_and_counters() {
    with_private_bpffs(|directory| {
        let (streams, node, before) = run_before(directory);
        assert_eq!(before[0].generation.unwrap().next, 100);
        drop(node);

        for _ in 0..3 {
            let mut node = open(directory);
            node.apply(&streams);
            assert_eq!(readings(&node, &streams), before);
        }
        let mut node = open(directory);
        node.apply(&streams);
        let run = node.ingress(0).run(&[], &frame(10, None));
        assert_eq!(run.frame, frame(10, Some(100)));
        let first = node.ingress(1);
        // Seen before the restart; not seen; ahead.
        assert_eq!(first.verdict(&frame(20, Some(198))), XDP_DROP);
        assert_eq!(first.verdict(&frame(20, Some(197))), XDP_REDIRECT);
        assert_eq!(first.verdict(&frame(20, Some(199))), XDP_REDIRECT);
    });
}

#[test]
fn another_algorithm_restarts_the_changed_stream_only() {
    with_private_bpffs(|directory| {
        let (mut streams, mut node, before) = run_before(directory);

        streams[1].recover = Some(Recovery { algorithm: Algorithm::Match, ..VECTOR });
        for restart in [false, true] {
            if restart {
                drop(node);
                node = open(directory);
            }
            node.apply(&streams);
            let after = readings(&node, &streams);
            assert_eq!(after[0], before[0], "the talker did not change");
            assert_eq!(after[1].members, before[1].members);
            assert_eq!(after[1].output, before[1].output);
            // The function with another algorithm was reset once and keeps its counters.
            let (old, new) = (before[1].recovery.unwrap(), after[1].recovery.unwrap());
            assert!(new.take_any);
            assert_eq!(new.counters.resets, old.counters.resets + 1);
            assert_eq!(new.counters.passed, old.counters.passed);
        }
    });
}

#[test]
fn another_history_keeps_the_state() {
    with_private_bpffs(|directory| {
        let (mut streams, mut node, before) = run_before(directory);
        // Longer and shorter, within the ring of a function and in another one, and over restarts.
        for (round, history_length) in
            [128, 1024, 65, 64, 1000, 300, 512, 64].into_iter().enumerate()
        {
            let algorithm = Algorithm::Vector { history_length };
            streams[1].recover = Some(Recovery { algorithm, ..VECTOR });
            if round % 3 == 2 {
                drop(node);
                node = open(directory);
            }
            node.apply(&streams);
            assert_eq!(readings(&node, &streams), before, "{history_length}");
        }
        let first = node.ingress(1);
        // Seen; not seen; older than the first history; ahead.
        assert_eq!(first.verdict(&frame(20, Some(198))), XDP_DROP);
        assert_eq!(first.verdict(&frame(20, Some(197))), XDP_REDIRECT);
        assert_eq!(first.verdict(&frame(20, Some(199))), XDP_REDIRECT);
    });
}

/// Also if the last numbers have not moved the head, which is at another place in its epoch then.
#[test]
fn a_number_that_left_the_history_is_not_in_a_longer_one() {
    with_private_bpffs(|directory| {
        let mut streams = streams();
        let mut node = open(directory);
        let set = |streams: &mut Vec<Stream>, history_length| {
            let algorithm = Algorithm::Vector { history_length };
            streams[1].recover = Some(Recovery { algorithm, ..VECTOR });
        };
        for last in 150..190 {
            set(&mut streams, 64);
            node.apply(&streams);
            assert!(node.plane.reset(&streams[1].name).unwrap());
            let first = node.ingress(1);
            let lost = last - 64;
            for number in (1..=last).filter(|number| *number != lost) {
                assert_eq!(first.verdict(&frame(20, Some(number))), XDP_REDIRECT);
            }
            let before = readings(&node, &streams)[1].recovery;
            for longer in [100, 1024] {
                set(&mut streams, longer);
                node.apply(&streams);
                assert_eq!(readings(&node, &streams)[1].recovery, before, "{last} {longer}");
            }
            assert_eq!(node.ingress(1).verdict(&frame(20, Some(lost))), XDP_DROP, "{last}");
        }
    });
}

#[test]
fn another_timeout_keeps_the_state() {
    with_private_bpffs(|directory| {
        let (mut streams, mut node, before) = run_before(directory);
        for reset_timeout_ms in [10, 0, 5000] {
            streams[1].recover =
                Some(Recovery { reset_timeout_ms, take_no_sequence: true, ..VECTOR });
            node.apply(&streams);
            assert_eq!(readings(&node, &streams), before, "{reset_timeout_ms}");
        }
        // The latest one applies.
        let expired = |now_ns| {
            node.plane.set_test_clock(now_ns).unwrap();
            node.plane.expire().unwrap();
            readings(&node, &streams)[1].recovery.unwrap().take_any
        };
        assert!(!expired(4_000_000_000));
        assert!(expired(6_000_000_000));
    });
}

#[test]
fn a_removed_stream_restarts_at_begin() {
    with_private_bpffs(|directory| {
        let streams = streams();
        let mut node = open(directory);
        node.apply(&streams);
        run_some(&node);
        for restart in [false, true] {
            if restart {
                drop(node);
                node = open(directory);
            }
            node.apply(&streams[1..]);
            assert!(node.plane.read_stream("talker").unwrap().is_none());
            assert_eq!(node.ingress(0).verdict(&frame(10, None)), XDP_PASS);

            node.apply(&streams);
            let begin = node.read("talker");
            assert_eq!((begin.output, begin.members[0].input), (0, 0));
            assert_eq!(begin.generation.map(|g| (g.next, g.resets)), Some((0, 1)));
            assert_eq!(node.ingress(0).verdict(&frame(10, None)), XDP_REDIRECT);
        }
    });
}

/// The maximum number of streams, each identified by its own frame; all of them changed at once, with the
/// maximum number of replicas.
#[test]
fn four_thousand_streams() {
    if !can_run() {
        return;
    }
    const STREAMS: u16 = 4_096;
    let mut node = Node::new(MAX_EGRESS, STREAMS.into());
    // Identified by VLAN and, as there are fewer VLANs than streams, by port.
    let place = |index: u16| (index / 2_048, 1 + index % 2_048);
    let mut streams: Vec<Stream> = (0..STREAMS)
        .map(|index| {
            let (port, vid) = place(index);
            let members = vec![member(port as u8, vid, None)];
            let name = format!("stream{index}");
            let mut stream = match index % 3 {
                0 => talker(&name, members),
                _ => stream(&name, members, Some(VECTOR)),
            };
            let tag = stream.egress[0].tag;
            stream.egress = (0..MAX_EGRESS as u8).map(|port| egress(port, tag)).collect();
            for (priority, egress) in stream.egress.iter_mut().enumerate() {
                egress.rewrite.priority = Some(priority as u8 % 8);
            }
            stream
        })
        .collect();
    for round in 0..2u64 {
        node.apply(&streams);
        let ports = [node.ingress(0), node.ingress(1)];
        for index in 0..STREAMS {
            let (port, vid) = place(index);
            // Stream number n gets 1 + n % 3 packets.
            for packet in 0..=index % 3 {
                let number = (index % 3 != 0).then_some(packet + 10 * round as u16);
                let verdict = ports[usize::from(port)].verdict(&frame(vid, number));
                assert_eq!(verdict, XDP_REDIRECT, "stream {index}");
            }
        }
        for (index, stream) in streams.iter().enumerate() {
            let reading = node.read(&stream.name);
            let expected = (round + 1) * (1 + index as u64 % 3);
            assert_eq!((reading.members[0].input, reading.output), (expected, expected));
            let next = reading.generation.map(|generation| u64::from(generation.next));
            assert_eq!(next, (index % 3 == 0).then_some(expected));
        }
        for stream in &mut streams {
            stream.egress[0].rewrite.vlan = VlanAction::Remove;
        }
    }
}

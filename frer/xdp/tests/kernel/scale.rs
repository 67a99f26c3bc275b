//! The maximum number of streams, of all kinds of identification, added and removed under traffic: other
//! streams are not affected.

mod crash;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use onbeat_frer::dataplane::Changes;
use onbeat_frer::spec::{Identification, PortId, Stream, VlanAction};
use onbeat_frer_xdp::Error;
use onbeat_wire::random::Random;

use super::restart::VECTOR;
use crate::harness::{
    Node, Program, XDP_DROP, XDP_PASS, XDP_REDIRECT, can_run, frame, member, stream, talker,
};
use crate::mixed_streams::{self, PORTS, STREAMS};

const SEED: u64 = 0x5ca1e;

fn ingresses(node: &Node) -> Vec<Program> {
    (0..node.names.len()).map(|port| node.ingress(port)).collect()
}

fn input(node: &Node, index: u32) -> u64 {
    node.read(&format!("stream{index}")).members[0].input
}

#[test]
fn sixty_five_thousand_streams_under_traffic() {
    if !can_run() {
        return;
    }
    const CHANGES: u32 = 3_000;
    const RELOADED: u32 = 10_000;
    let mut node = Node::new(PORTS as usize, STREAMS);
    let all: Vec<Stream> = (0..STREAMS).map(mixed_streams::stream).collect();
    node.apply(&all);
    let ports = ingresses(&node);
    let find_all = |node: &Node, before: u64| {
        for index in 0..STREAMS {
            let verdict = ports[mixed_streams::port(index)].verdict(&mixed_streams::frame(index));
            assert_eq!(verdict, XDP_REDIRECT, "stream {index}");
        }
        for index in 0..STREAMS {
            assert_eq!(input(node, index), before + 1, "stream {index}");
        }
    };
    find_all(&node, 0);

    // Streams of the first tenth have traffic, the others are added and removed.
    let steady = STREAMS / 10;
    let ended = AtomicBool::new(false);
    let begun = Barrier::new(3);
    let names = node.names.clone();
    let sent: Vec<Vec<u64>> = thread::scope(|scope| {
        let traffic = |first: u32| {
            let (ended, begun, ports) = (&ended, &begun, &ports);
            scope.spawn(move || {
                let frames: Vec<_> = (first..steady)
                    .step_by(2)
                    .map(|index| (index, mixed_streams::frame(index)))
                    .collect();
                let mut sent = vec![0; steady as usize];
                begun.wait();
                while !ended.load(Ordering::Relaxed) {
                    for (index, frame) in &frames {
                        let verdict = ports[mixed_streams::port(*index)].verdict(frame);
                        assert_eq!(verdict, XDP_REDIRECT, "stream {index} while others change");
                        sent[*index as usize] += 1;
                    }
                }
                sent
            })
        };
        let threads = [traffic(0), traffic(1)];
        begun.wait();
        let _stop = Stop(&ended);
        let mut random = Random::new(SEED);
        for _ in 0..CHANGES {
            let index = steady + random.below((STREAMS - steady).into()) as u32;
            let name = format!("stream{index}");
            let mut changed = mixed_streams::stream(index);
            changed.egress[0].rewrite.priority = Some(random.below(8) as u8);
            let mut change = |gone: &[&str], streams: &[Stream]| {
                node.plane.change(&names, gone, streams).expect("a change within the capacity")
            };
            assert_eq!(change(&[], &[changed]).changed, 1);
            assert_eq!(change(&[&name], &[]).removed, 1);
            assert_eq!(change(&[], &[mixed_streams::stream(index)]).added, 1);
        }
        let mut reloaded = all.clone();
        for stream in &mut reloaded[steady as usize..][..RELOADED as usize] {
            stream.egress[0].rewrite.priority = Some(7);
        }
        let changes = node.plane.apply(&names, &reloaded).expect("a reload within the capacity");
        let kept = (STREAMS - RELOADED) as usize;
        let changed = RELOADED as usize;
        assert_eq!(changes, Changes { kept, changed, ..Changes::default() });
        ended.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("a thread of the test")).collect()
    });
    let mut numbers = 0;
    for index in 0..steady {
        let sent: u64 = sent.iter().map(|by| by[index as usize]).sum();
        let reading = node.read(&format!("stream{index}"));
        assert_eq!((reading.members[0].input, reading.output), (1 + sent, 1 + sent), "{index}");
        if let Some(generation) = reading.generation {
            assert_eq!((generation.next, generation.resets), ((1 + sent) as u16, 1), "{index}");
            numbers += sent;
        }
    }
    assert!(numbers > 0);
    node.apply(&[]);
    node.apply(&all);
    find_all(&node, 0);
}

/// Stops threads when a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `change` repeatedly while `check` verifies the processing of frames.
fn while_frames_flow(mut change: impl FnMut(u32), check: impl Fn() + Sync) {
    const CHANGES: u32 = 2_000;
    let (ended, begun) = (AtomicBool::new(false), Barrier::new(2));
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            begun.wait();
            while !ended.load(Ordering::Relaxed) {
                check();
            }
        });
        begun.wait();
        let stop = Stop(&ended);
        (0..CHANGES).for_each(&mut change);
        drop(stop);
        thread.join().expect("correct frames");
    });
}

/// Alternates between a form that numbers frames and one that does not: each frame matches one of the two.
#[test]
fn a_change_is_atomic_for_each_frame() {
    if !can_run() {
        return;
    }
    const VIDS: [u16; 2] = [100, 200];
    let form = |round: u32| {
        let members = vec![member(0, 10, None)];
        let mut form = match round % 2 {
            0 => talker("stream", members),
            _ => stream("stream", members, None),
        };
        form.egress[0].rewrite.vlan = VlanAction::Set(VIDS[round as usize % 2]);
        form
    };
    let mut node = Node::new(1, 4);
    node.apply(&[form(0)]);
    let (ingress, names) = (node.ingress(0), node.names.clone());
    let sent = std::sync::atomic::AtomicU64::new(0);
    while_frames_flow(
        |round| {
            node.plane
                .change(&names, &[], &[form(round + 1)])
                .expect("a change within the capacity");
        },
        || {
            let run = ingress.run(&[], &frame(10, None));
            assert_eq!(run.verdict, XDP_REDIRECT);
            sent.fetch_add(1, Ordering::Relaxed);
            let vid = u16::from_be_bytes([run.frame[14], run.frame[15]]);
            let numbered = run.frame[16..18] == [0xf1, 0xc1];
            let whole = [(VIDS[0], true), (VIDS[1], false)];
            assert!(whole.contains(&(vid, numbered)), "{:02x?}", run.frame);
        },
    );
    // Counters of one form continue in the other.
    let reading = node.read("stream");
    let sent = sent.into_inner();
    assert_eq!((reading.members[0].input, reading.output), (sent, sent));
}

/// Streams added where another was removed, in the same lines of the index.
#[test]
fn a_reused_entry_matches_no_frame_of_the_former_stream() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(1, 1);
    let (ingress, names) = (node.ingress(0), node.names.clone());
    let new = |round: u32| stream("new", vec![member(0, 100 + (round % 3_000) as u16, None)], None);
    while_frames_flow(
        |round| {
            let old = stream("old", vec![member(0, 10, None)], None);
            node.plane.change(&names, &["new"], &[old]).expect("a change within the capacity");
            node.plane
                .change(&names, &["old"], &[new(round)])
                .expect("a change within the capacity");
            assert_eq!(node.read("new").members[0].input, 0, "round {round}");
        },
        || {
            let verdict = ingress.verdict(&frame(10, None));
            assert!([XDP_REDIRECT, XDP_PASS].contains(&verdict), "{verdict}");
        },
    );
}

/// The reading of all streams is that of each, also after streams were removed, changed and added.
#[test]
fn all_streams_are_read_as_each_of_them() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(2, 200);
    let of = |number: u16, changed: bool| {
        let name = format!("stream{number}");
        let individual = changed.then_some(VECTOR);
        let members = vec![member(0, number, individual), member(1, number, None)];
        match number % 3 {
            0 => talker(&name, members),
            _ => stream(&name, members, (number % 3 == 1).then_some(VECTOR)),
        }
    };
    let mut streams: Vec<Stream> = (1..=100).map(|number| of(number, false)).collect();
    node.apply(&streams);
    let check = |node: &Node, streams: &[Stream]| {
        for number in 1..=120 {
            for (port, times) in [(0, 1), (1, number % 4)] {
                let tag = (number % 3 != 0).then_some(number);
                node.ingress(port).verdict_on(&frame(number, tag), times.max(1).into());
            }
        }
        let mut read = Vec::new();
        node.plane.read_all(|stream, reading| read.push((stream.clone(), reading.clone())));
        read.sort_by_key(|(stream, _)| stream.name.clone());
        let mut each: Vec<_> =
            streams.iter().map(|stream| (stream.clone(), node.read(&stream.name))).collect();
        each.sort_by_key(|(stream, _)| stream.name.clone());
        assert!(each.iter().all(|(_, reading)| reading.members[0].input > 0));
        assert_eq!(read, each);
    };
    check(&node, &streams);
    streams.retain(|stream| !stream.name.ends_with('7'));
    streams[40] = of(45, true);
    streams.extend((101..=120).map(|number| of(number, number % 2 == 0)));
    node.apply(&streams);
    check(&node, &streams);
}

/// A change that fails in part has no effect.
#[test]
fn a_refused_change_changes_nothing() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(2, 4);
    let streams = ["a", "b"].map(|name| {
        let vid = 10 + u16::from(name.as_bytes()[0]);
        stream(name, vec![member(0, vid, Some(VECTOR))], Some(VECTOR))
    });
    node.apply(&streams);
    let vid = |stream: &Stream| match stream.members[0].identification {
        Identification::Null { vlan, .. } => vlan.vlan,
        _ => unreachable!("no other kind"),
    };
    let (ingress, names) = (node.ingress(0), node.names.clone());
    for stream in &streams {
        assert_eq!(ingress.verdict(&frame(vid(stream), Some(1))), XDP_REDIRECT);
    }
    let before = streams.clone().map(|stream| node.read(&stream.name));
    // "a" may be removed and "c" added, but "d" requests a key of "b".
    let c = stream("c", vec![member(0, vid(&streams[0]), None)], Some(VECTOR));
    let d = stream("d", vec![member(1, 7, None), member(0, vid(&streams[1]), None)], None);
    let error = node.plane.change(&names, &["a"], &[c.clone(), d]).expect_err("a conflict");
    let Error::Conflict(conflict) = error else { panic!("{error}") };
    assert_eq!((conflict.first.as_str(), conflict.second.as_str()), ("b", "d"));
    assert_eq!(conflict.port, PortId(0));
    assert_eq!(streams.clone().map(|stream| node.read(&stream.name)), before);
    assert_eq!(ingress.verdict(&frame(vid(&streams[0]), Some(1))), XDP_DROP);

    // Without "d" the change is valid, and the stream restarts.
    let changes =
        node.plane.change(&names, &["a", "unknown"], &[c]).expect("a change within the capacity");
    assert_eq!(changes, Changes { added: 1, removed: 1, ..Changes::default() });
    assert_eq!(ingress.verdict(&frame(vid(&streams[0]), Some(1))), XDP_REDIRECT);
    assert_eq!(ingress.verdict(&frame(vid(&streams[1]), Some(1))), XDP_DROP);
    assert!(node.plane.read_stream("a").unwrap().is_none());
}

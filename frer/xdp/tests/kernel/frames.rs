//! Frames through ingress and egress programs, compared octet by octet with those of the plane in user space.

pub(crate) mod random;

use crate::harness::{
    Node, Program, Run, XDP_DROP, XDP_PASS, XDP_REDIRECT, can_run, egress, frame, member, talker,
    user_space,
};
use onbeat_frer::plane::{Disposition, Plane};
use onbeat_frer::spec::{PortId, SequenceTag, Stream};
use onbeat_wire::random::Random;

const SEED: u64 = 0x9_1cb;
const PORTS: usize = 17;
const WORLDS: u64 = 60;
const FRAMES: u64 = 2_500;

/// Returns the replica of each of these ports, after the egress programs.
fn replicas(node: &Ports<'_>, run: &Run, ports: impl Iterator<Item = u8>) -> Vec<(u8, Vec<u8>)> {
    if run.meta.is_empty() {
        return ports.map(|port| (port, run.frame.clone())).collect();
    }
    ports
        .map(|port| {
            let replica = node.egress[usize::from(port)].run(&run.meta, &run.frame);
            assert_eq!((replica.verdict, replica.meta.len()), (XDP_PASS, 0));
            (port, replica.frame)
        })
        .collect()
}

struct Ports<'a> {
    node: &'a Node,
    ingress: Vec<Program>,
    egress: Vec<Program>,
}

impl<'a> Ports<'a> {
    fn of(node: &'a Node) -> Self {
        Self {
            node,
            ingress: (0..PORTS).map(|port| node.ingress(port)).collect(),
            egress: (0..PORTS).map(|port| node.egress(port)).collect(),
        }
    }

    /// Passes a frame to both implementations and compares the results.
    fn check(&self, plane: &mut Plane, port: u8, octets: &[u8], context: &dyn Fn() -> String) {
        let fate = plane.frame(PortId(port), 1, octets);
        let run = self.ingress[usize::from(port)].run(&[], octets);
        let context = || format!("{}, port {port}, frame {octets:02x?}", context());
        let verdict = match fate {
            Disposition::Unmatched => XDP_PASS,
            Disposition::Dropped => XDP_DROP,
            Disposition::Sent(_) => XDP_REDIRECT,
            Disposition::Copied(_) => unreachable!("the node has no link redundancy entity"),
        };
        assert_eq!(run.verdict, verdict, "{}", context());
        let Disposition::Sent(expected) = fate else {
            // The frame is unmodified.
            assert_eq!((&run.meta[..], &run.frame[..]), (&[][..], octets), "{}", context());
            return;
        };
        let expected: Vec<_> = expected
            .map(|replica| {
                let mut out = vec![0xa5; replica.max_len()];
                let len = replica.write(&mut out).expect("a buffer that suffices");
                out.truncate(len);
                if let Some(unchanged) = replica.unchanged() {
                    assert_eq!(out, unchanged, "{}", context());
                }
                (replica.port.0, out)
            })
            .collect();
        let ports = expected.iter().map(|(port, _)| *port);
        assert_eq!(replicas(self, &run, ports), expected, "{}", context());
    }
}

#[test]
fn replicas_agree_with_user_space() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(PORTS, 64);
    let mut random = Random::new(SEED);
    let (mut sent, mut unmatched, mut dropped) = (0u64, 0u64, 0u64);
    for world in 0..WORLDS {
        let streams = random::streams(&mut random, PORTS as u8);
        node.apply(&[]);
        node.apply(&streams);
        let mut plane = user_space(&streams, PORTS);
        let ports = Ports::of(&node);
        for number in 0..FRAMES {
            let octets = random::frame(&mut random);
            let port = random.below(3) as u8;
            let context = || format!("seed {SEED:#x}, world {world}, frame {number}");
            ports.check(&mut plane, port, &octets, &context);
        }
        for stream in &streams {
            let reading = ports.node.read(&stream.name);
            let input: u64 = reading.members.iter().map(|member| member.input).sum();
            sent += reading.output;
            dropped += input - reading.output;
            assert_eq!(plane.read(&stream.name, 1), Some(reading), "world {world}, {stream:?}");
        }
        unmatched += (0..PORTS as u8).map(|port| plane.unmatched(PortId(port))).sum::<u64>();
    }
    let counted: u64 = node.names.iter().map(|n| node.plane.read_port(n).unwrap().unmatched).sum();
    assert_eq!(counted, unmatched);
    eprintln!("seed {SEED:#x}: {sent} frames sent, {dropped} dropped, {unmatched} of no stream");
    assert!(sent > 1_000 && dropped > 1_000 && unmatched > 1_000, "frames of one kind only");
}

/// Every length of a frame with all tags, from 14 octets, in every kind of stream.
#[test]
fn a_frame_truncated_at_any_octet() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(PORTS, 64);
    let mut random = Random::new(SEED);
    let mut whole = 0;
    for world in 0..12 {
        let streams = random::streams(&mut random, PORTS as u8);
        node.apply(&[]);
        node.apply(&streams);
        let mut plane = user_space(&streams, PORTS);
        let ports = Ports::of(&node);
        for _ in 0..24 {
            let octets = random::frame(&mut random);
            whole += usize::from(octets.len() > 40);
            for length in 14..=octets.len() {
                let context = || format!("seed {SEED:#x}, world {world}, {length} octets");
                ports.check(&mut plane, 0, &octets[..length], &context);
            }
        }
    }
    assert!(whole > 10);
}

/// The maximum number of egress ports of a stream, each with a different replica.
#[test]
fn sixteen_different_replicas() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(PORTS, 4);
    let mut stream = talker("talker", vec![member(16, 10, None)]);
    stream.egress = (0..16u8).map(|port| egress(port, SequenceTag::RTag)).collect();
    for (vid, egress) in (100..).zip(&mut stream.egress) {
        egress.rewrite.vlan = onbeat_frer::spec::VlanAction::Set(vid);
    }
    // In an order different from that of the ports.
    stream.egress.rotate_left(5);
    let streams: [Stream; 1] = [stream];
    node.apply(&streams);
    let mut plane = user_space(&streams, PORTS);
    let ports = Ports::of(&node);
    for _ in 0..3 {
        ports.check(&mut plane, 16, &frame(10, None), &|| "sixteen".into());
    }
}

/// The cases of vectors/frames.toml that a stream supports, each as the rewrite of one stream.
#[test]
fn edits_of_the_vectors() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(2, 4);
    let mut done = 0;
    for case in random::edit_cases() {
        let Some(stream) = case.stream() else { continue };
        node.apply(&[]);
        node.apply(std::slice::from_ref(&stream));
        // Sequence numbers start at 0: draw those before the required one.
        for _ in 0..case.number() {
            assert_eq!(node.ingress(0).verdict(&case.octets), XDP_REDIRECT);
        }
        let run = node.ingress(0).run(&[], &case.octets);
        assert_eq!((run.verdict, &run.frame), (XDP_REDIRECT, &case.result), "{}", case.name);
        done += 1;
    }
    eprintln!("{done} cases");
    assert!(done >= 15);
}

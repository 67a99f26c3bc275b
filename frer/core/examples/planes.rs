//! Processing time of the streams of two nodes per frame, without sockets: one node numbers frames, the other
//! eliminates replicas and removes the number. Batches of frames, streams in turn.
//!
//! `planes [ROUNDS [KIB]]`: the shortest time of ROUNDS rounds, and their median; before each batch KIB KiB
//! of other memory are touched, like a kernel that delivers frames.

use std::hint::black_box;
use std::time::Instant;

use onbeat_frer::plane::{Disposition, FrameIdentity, Plane};
use onbeat_frer::spec::{
    Egress, Identification, Member, PortId, Recovery, Rewrite, SequenceTag, Stream, TagMatch,
    VlanMatch,
};
use onbeat_wire::MacAddress;

const BATCH: usize = 32;
const OCTETS: usize = 200;
const HEADER: [u8; 18] = [1, 0, 0x5e, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 100, 0x88, 0xb5];

const HOST: PortId = PortId(0);
const PATH: PortId = PortId(1);

fn main() {
    let argument = |n, usual| std::env::args().nth(n).map_or(usual, |text| text.parse().unwrap());
    let (rounds, kib) = (argument(1, 15), argument(2, 0));
    let mut others = vec![0; kib << 10];
    let case = |streams| (streams, nodes(streams), Vec::new());
    let mut cases = [1, 10_000, 65_536].map(case);
    for _ in 0..rounds {
        for (streams, nodes, times) in &mut cases {
            times.push(frame_ns(nodes, *streams, &mut others));
        }
    }
    for (streams, _, mut times) in cases {
        times.sort_by(f64::total_cmp);
        println!("{streams} streams: {:.0} ns, median {:.0} ns", times[0], times[times.len() / 2]);
    }
}

fn nodes(streams: u32) -> [Plane; 2] {
    let mut nodes = [(); 2].map(|()| Plane::with_room(2, streams as usize));
    for number in 0..streams {
        let [_, _, high, low] = number.to_be_bytes();
        let identification = Identification::Null {
            destination: MacAddress([1, 0, 0x5e, 0, high, low]),
            vlan: VlanMatch { tagged: TagMatch::Tagged, vlan: 100 },
        };
        let stream = |from, to, tag| Stream {
            name: format!("stream-{number}"),
            members: vec![Member {
                port: from,
                identification: identification.clone(),
                individual: None,
            }],
            generate: false,
            recover: None,
            egress: vec![Egress { port: to, tag, rewrite: Rewrite::default() }],
        };
        let recover = Some(Recovery { reset_timeout_ms: 1000, ..Recovery::vector(64) });
        let numbers = Stream { generate: true, ..stream(HOST, PATH, SequenceTag::RTag) };
        let eliminates = Stream { recover, ..stream(PATH, HOST, SequenceTag::Remove) };
        for (node, stream) in nodes.iter_mut().zip([numbers, eliminates]) {
            node.set(&stream).expect("a valid stream");
        }
    }
    nodes
}

/// Runs each stream once or more to warm up, then the same number of times to measure.
fn frame_ns(nodes: &mut [Plane; 2], streams: u32, others: &mut [u8]) -> f64 {
    let [a, b] = nodes;
    let mut sent = vec![[0; OCTETS].to_vec(); BATCH];
    let [mut on_path, mut received] = [(); 2].map(|()| vec![Vec::<u8>::new(); BATCH]);
    sent.iter_mut().for_each(|frame| frame[..HEADER.len()].copy_from_slice(&HEADER));
    let batches = streams.max(10_000) as usize / BATCH;
    let (mut stream, mut ns) = (0, 0);
    for batch in 0..2 * batches {
        for frame in &mut sent {
            frame[4..6].copy_from_slice(&(stream as u16).to_be_bytes());
            stream = (stream + 1) % streams;
        }
        let mut timed = |node: &mut Plane, port, from: &Vec<Vec<u8>>, to: &mut [Vec<u8>]| {
            others.iter_mut().step_by(64).for_each(|octet: &mut u8| *octet = octet.wrapping_add(1));
            let begin = Instant::now();
            forward(node, port, from, to);
            ns += if batch < batches { 0 } else { begin.elapsed().as_nanos() };
        };
        timed(a, HOST, &sent, &mut on_path);
        timed(b, PATH, &on_path, &mut received);
        black_box(&received);
    }
    ns as f64 / (batches * BATCH) as f64
}

fn forward(node: &mut Plane, port: PortId, frames: &[Vec<u8>], to: &mut [Vec<u8>]) {
    let mut identities = [FrameIdentity::default(); BATCH];
    node.identify_all(port, frames.iter().map(Vec::as_slice), &mut identities);
    for ((octets, identity), out) in frames.iter().zip(identities).zip(to) {
        let Disposition::Sent(replicas) = node.decide(port, identity, 1, octets) else {
            panic!("the node sends no such frame");
        };
        for replica in replicas {
            let parts = replica.parts();
            out.clear();
            out.extend_from_slice(&parts.head);
            // The remaining octets are the same in all frames and not read by the node.
            out.extend_from_slice(&parts.rest[..64]);
        }
    }
}

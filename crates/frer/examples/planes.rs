//! What the two nodes of a chain cost a frame, planes alone: A numbers, B eliminates nothing.
//! Arguments: rounds.
use std::hint::black_box;
use std::time::Instant;

use onbeat_frer::plane::{Fate, Identity, Plane};
use onbeat_frer::spec::*;
use onbeat_wire::{MacAddress};

const BATCH: usize = 32;
const LEN: usize = 200;

fn identification(stream: u32) -> Identification {
    let [_, _, high, low] = stream.to_be_bytes();
    Identification::Null {
        destination: MacAddress([1, 0, 0x5e, 0, high, low]),
        vlan: VlanMatch { tagged: Tagged::Tagged, vlan: 100 },
    }
}

fn planes(streams: u32) -> [Plane; 2] {
    let mut planes = [Plane::with_room(3, streams as usize), Plane::with_room(3, streams as usize)];
    for number in 0..streams {
        let name = format!("stream-{number}");
        let egress = |port, tag| Egress { port: PortId(port), tag, rewrite: Rewrite::default() };
        let member = |port| Member { port: PortId(port), identification: identification(number), individual: None };
        planes[0].set(&Stream { name: name.clone(), members: vec![member(0)], generate: true, recover: None, egress: vec![egress(1, SequenceTag::RTag)] }).unwrap();
        planes[1].set(&Stream { name, members: vec![member(1)], generate: false, recover: Some(Recovery { algorithm: Algorithm::Vector { history_length: 64 }, reset_timeout_ms: 1000, take_no_sequence: false, latent: None }), egress: vec![egress(0, SequenceTag::Remove)] }).unwrap();
    }
    planes
}

struct Frames { octets: Vec<[u8; 256]>, lens: [usize; BATCH] }

fn pass(plane: &mut Plane, port: u8, from: &Frames, to: &mut Frames) {
    let mut identities = [Identity::default(); BATCH];
    let octets = from.octets.iter().zip(from.lens).map(|(octets, len)| &octets[..len]);
    plane.identify_all(PortId(port), octets, &mut identities);
    for (n, identity) in identities.into_iter().enumerate() {
        let octets = &from.octets[n][..from.lens[n]];
        let Fate::Sent(replicas) = plane.decide(PortId(port), identity, 5, octets) else { panic!() };
        for replica in replicas {
            let parts = replica.parts();
            let head = parts.head.len();
            to.octets[n][..head].copy_from_slice(&parts.head);
            to.octets[n][head..head + 16].copy_from_slice(&parts.rest[..16]);
            to.lens[n] = head + parts.rest.len();
        }
    }
}

fn run(planes: &mut [Plane; 2], streams: u32, pollution: &mut [u8]) -> f64 {
    let [a, b] = planes;
    let frames = || Frames { octets: vec![[0; 256]; BATCH], lens: [LEN; BATCH] };
    let (mut talker, mut path, mut listener) = (frames(), frames(), frames());
    for octets in &mut talker.octets {
        octets[..18].copy_from_slice(&[1, 0, 0x5e, 0, 0, 0, 2, 11, 255, 0, 0, 1, 0x81, 0, 0, 100, 0x88, 0xb5]);
    }
    let batches = 2 * streams.max(10_000) as usize / BATCH;
    let mut stream = 0;
    let mut ns = 0;
    for batch in 0..batches {
        for octets in &mut talker.octets {
            octets[4..6].copy_from_slice(&(stream as u16).to_be_bytes());
            stream = (stream + 1) % streams;
        }
        for line in pollution.chunks_mut(64) { line[0] += 1; }
        let begin = Instant::now();
        pass(a, 0, &talker, &mut path);
        for line in pollution.chunks_mut(64) { line[8] += 1; }
        pass(b, 1, &path, &mut listener);
        if batch >= batches / 2 { ns += begin.elapsed().as_nanos(); }
        black_box(&listener.octets);
    }
    ns as f64 / (batches / 2 * BATCH) as f64
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(15, |rounds| rounds.parse().unwrap());
    let kib = std::env::args().nth(2).map_or(0, |rounds| rounds.parse().unwrap());
    let mut pollution = vec![0u8; kib << 10];
    let counts = std::env::args().nth(3).map_or(vec![1, 10_000], |n| vec![n.parse().unwrap()]);
    let mut cases: Vec<_> = counts.into_iter().map(|streams| (streams, planes(streams), Vec::new())).collect();
    for _ in 0..rounds {
        for (streams, planes, times) in &mut cases {
            times.push(run(planes, *streams, &mut pollution));
        }
    }
    for (streams, _, times) in &mut cases {
        times.sort_by(f64::total_cmp);
        print!("{streams}: {:.0} ({:.0})   ", times[0], times[times.len() / 2]);
    }
    println!();
}

//! The link redundancy entity of PRP: known mistakes of others, random worlds, tables, events and vectors.

mod events;
mod mistakes;
mod redboxes;
mod tables;
mod vectors;
mod world;
mod worlds;

use onbeat_frer::prp::{Copies, Lan, LanPort, Lre, Outcome, Parameters, Reading};
use onbeat_frer::spec::PortId;
use onbeat_testing::prp::supervision_of;
use onbeat_wire::prp::Tail;
use onbeat_wire::{Frame, MacAddress};

const A: PortId = PortId(0);
const B: PortId = PortId(1);
const HOST: PortId = PortId(2);
const LANS: [PortId; 2] = [A, B];

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

/// After the silence of an entity that started at 0.
const READY: u64 = 500 * MS;

const BROADCAST: MacAddress = MacAddress([0xff; 6]);

fn mac(station: u16) -> MacAddress {
    let [high, low] = station.to_be_bytes();
    MacAddress([2, 0, 0, 0, high, low])
}

/// The address of the interface of a LAN.
fn interface(lan: usize, node: u16) -> MacAddress {
    let [high, low] = node.to_be_bytes();
    MacAddress([2, 0, 0, 0xa + lan as u8, high, low])
}

fn parameters(node: u16) -> Parameters {
    Parameters {
        a: LanPort { port: A, mac: interface(0, node) },
        b: LanPort { port: B, mac: interface(1, node) },
        host: HOST,
        mac: mac(node),
        is_segment: false,
        entry_forget_ms: 400,
        node_forget_ms: 60_000,
        max_nodes: 512,
    }
}

fn lre(node: u16) -> Lre {
    Lre::new(parameters(node), 0)
}

/// A frame with an identity, as short as possible.
fn frame(destination: MacAddress, source: MacAddress, id: u64) -> Vec<u8> {
    [&destination.0[..], &source.0, &[0x88, 0xb5], &id.to_be_bytes()].concat()
}

/// Inserts a VLAN tag.
fn in_vlan(frame: &[u8], vlan: u8) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0xe0, vlan], &frame[12..]].concat()
}

/// The frame as a node with this number sends it.
fn tagged(frame: &[u8], number: u16, lan: Lan) -> Vec<u8> {
    let tail = Tail::of(&Frame::parse(frame).unwrap(), number, lan).unwrap();
    [frame, &tail].concat()
}

/// The frame as sent by both ports of a LAN.
fn both(copies: Copies<'_>) -> [Vec<u8>; 2] {
    let sent: Vec<_> =
        copies.map(|copy| (copy.port, [copy.octets, copy.tail()].concat())).collect();
    let [(A, a), (B, b)] = <[_; 2]>::try_from(sent).unwrap() else {
        panic!("one copy on each LAN")
    };
    [a, b]
}

/// Sends a frame of the host.
fn send(lre: &mut Lre, now_ns: u64, frame: &[u8]) -> [Vec<u8>; 2] {
    match lre.frame(HOST, now_ns, frame) {
        Outcome::Send(copies) => both(copies),
        other => panic!("{other:?}"),
    }
}

/// Receives a frame of a LAN; returns what the host receives.
fn receive(lre: &mut Lre, lan: PortId, now_ns: u64, octets: &[u8]) -> Option<Vec<u8>> {
    match lre.frame(lan, now_ns, octets) {
        Outcome::Send(copies) => {
            let copies: Vec<_> = copies.collect();
            let [copy] = &copies[..] else { panic!("{copies:?}") };
            assert_eq!((copy.port, copy.tail()), (HOST, &[][..]), "never from LAN to LAN");
            Some(copy.octets.to_vec())
        }
        Outcome::Discard => None,
        Outcome::Pass => panic!("passed"),
    }
}

/// Whether a LAN's frame is delivered.
fn delivers(lre: &mut Lre, lan: PortId, now_ns: u64, octets: &[u8]) -> bool {
    receive(lre, lan, now_ns, octets).is_some()
}

/// Sends the supervision frames that are due; returns the copies of each.
fn supervise(lre: &mut Lre, now_ns: u64) -> Vec<[Vec<u8>; 2]> {
    let due = lre.supervise(now_ns);
    due.frames.iter().map(|frame| both(lre.send(now_ns, frame).unwrap())).collect()
}

/// Every frame has exactly one reason of its end.
fn check_balance(reading: &Reading) {
    for lan in &reading.lans {
        let ends = lan.passed
            + lan.own
            + lan.accepted
            + lan.duplicates
            + lan.untagged
            + lan.blocked
            + lan.supervision
            + lan.invalid_supervision
            + lan.unread_supervision;
        assert_eq!(lan.received, ends, "{lan:?}");
        assert!(lan.own_of_other_lan <= lan.own, "{lan:?}");
    }
    let host = &reading.host;
    let ends = host.numbered
        + host.silent
        + host.link_local
        + host.local
        + host.blocked
        + host.too_long
        + host.tagged;
    assert_eq!(host.received, ends, "{host:?}");
}

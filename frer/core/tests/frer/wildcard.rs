//! Wildcards: precedence, what stays on a path, loops, changes, random worlds, and frames as tshark reads them.

mod tshark;
mod vectors;
mod world;

use onbeat_frer::plane::{Disposition, Plane};
use onbeat_frer::prp::{LanPort, Parameters, Reading};
use onbeat_frer::spec::{
    Egress, Identification, Member, PortId, Recovery, Rewrite, SequenceTag, Stream, TagMatch,
    VlanMatch,
};
use onbeat_frer::wildcard::{Scope, Wildcard};
use onbeat_wire::{Frame, MacAddress};

const HOST: PortId = PortId(0);
const A: PortId = PortId(1);
const B: PortId = PortId(2);
const PORTS: usize = 5;

const MS: u64 = 1_000_000;

/// After the silence of a node that started at 0.
const READY: u64 = 500 * MS;

const BROADCAST: MacAddress = MacAddress([0xff; 6]);
/// Destination of a named stream.
const NAMED: MacAddress = MacAddress([1, 0, 0x5e, 9, 9, 9]);

fn mac(station: u16) -> MacAddress {
    let [high, low] = station.to_be_bytes();
    MacAddress([2, 0, 0, 0, high, low])
}

/// The address of the interface of a path.
fn interface(port: PortId, node: u16) -> MacAddress {
    let [high, low] = node.to_be_bytes();
    MacAddress([2, 0, 0, 0xa0 + port.0, high, low])
}

fn link(node: u16, host: PortId, [a, b]: [PortId; 2]) -> Parameters {
    let path = |port| LanPort { port, mac: interface(port, node) };
    Parameters {
        a: path(a),
        b: path(b),
        host,
        mac: mac(node),
        is_segment: false,
        entry_forget_ms: 400,
        node_forget_ms: 60_000,
        max_nodes: 512,
    }
}

fn wildcard(name: &str, scope: Scope, node: u16) -> Wildcard {
    Wildcard { name: name.to_owned(), scope, link: link(node, HOST, [A, B]) }
}

fn plane(wildcards: &[Wildcard]) -> Plane {
    let mut plane = Plane::new(PORTS);
    plane.set_wildcards(wildcards, 0);
    plane
}

fn all(node: u16) -> Plane {
    plane(&[wildcard("all", Scope::All, node)])
}

/// Both directions of a stream of frames to [`NAMED`].
fn named() -> [Stream; 2] {
    let vlan = VlanMatch { tagged: TagMatch::All, vlan: 0 };
    let member = |port| Member {
        port,
        identification: Identification::Null { destination: NAMED, vlan },
        individual: None,
    };
    let egress = |port, tag| Egress { port, tag, rewrite: Rewrite::default() };
    let talker = Stream {
        name: "talker".into(),
        members: vec![member(HOST)],
        generate: true,
        recover: None,
        egress: vec![egress(A, SequenceTag::RTag), egress(B, SequenceTag::RTag)],
    };
    let listener = Stream {
        name: "listener".into(),
        members: vec![member(A), member(B)],
        generate: false,
        recover: Some(Recovery::vector(32_768)),
        egress: vec![egress(HOST, SequenceTag::Remove)],
    };
    [talker, listener]
}

/// A frame with an identity, as short as possible.
fn frame(destination: MacAddress, source: MacAddress, id: u64) -> Vec<u8> {
    [&destination.0[..], &source.0, &[0x88, 0xb5], &id.to_be_bytes()].concat()
}

/// Inserts a VLAN tag.
fn in_vlan(frame: &[u8], vlan: u8) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0xe0, vlan], &frame[12..]].concat()
}

/// Inserts an R-TAG, after the VLAN tags.
fn tagged(frame: &[u8], number: u16) -> Vec<u8> {
    let at = Frame::parse(frame).unwrap().msdu_offset();
    let [high, low] = number.to_be_bytes();
    [&frame[..at], &[0xf1, 0xc1, 0, 0, high, low], &frame[at..]].concat()
}

fn number(octets: &[u8]) -> Option<u16> {
    Frame::parse(octets).unwrap().sequence_tag().map(|tag| tag.sequence())
}

/// Frames that a plane sends: port and octets. `None`: no stream and no wildcard takes the frame.
fn process(
    plane: &mut Plane,
    port: PortId,
    now_ns: u64,
    octets: &[u8],
) -> Option<Vec<(PortId, Vec<u8>)>> {
    match plane.frame(port, now_ns, octets) {
        Disposition::Unmatched => None,
        Disposition::Dropped => Some(Vec::new()),
        Disposition::Sent(replicas) => {
            let octets = |replica: onbeat_frer::plane::Replica<'_>| {
                let parts = replica.parts();
                (replica.port, [&parts.head[..], parts.rest].concat())
            };
            Some(replicas.map(octets).collect())
        }
        Disposition::Copied(copies) => {
            let octets = |copy: onbeat_frer::prp::Copy<'_>| {
                assert_eq!(copy.parts().concat(), [copy.head(), copy.octets, copy.tail()].concat());
                (copy.port, copy.parts().concat())
            };
            Some(copies.map(octets).collect())
        }
    }
}

/// Every frame has exactly one reason of its end.
fn check_balance(reading: &Reading) {
    for path in &reading.lans {
        let ends = path.passed + path.own + path.accepted + path.duplicates;
        assert_eq!(path.received, ends, "{path:?}");
        assert_eq!((path.untagged, path.supervision, path.wrong_lan), (0, 0, 0), "{path:?}");
    }
    let host = &reading.host;
    let ends = host.numbered + host.silent + host.link_local + host.local + host.tagged;
    assert_eq!((host.received, host.too_long), (ends, 0), "{host:?}");
}

#[test]
fn both_paths_send_each_frame_with_one_number_and_one_copy_is_delivered() {
    let (mut sender, mut receiver) = (all(1), all(2));
    let short = frame(mac(2), mac(1), 0);
    let mut long = short.clone();
    long.resize(9000, 0x55);
    let frames = [
        short.clone(),
        in_vlan(&short, 5),
        in_vlan(&in_vlan(&short, 5), 6),
        frame(BROADCAST, mac(1), 0),
        frame(MacAddress([1, 0, 0x5e, 0, 0, 1]), mac(7), 0),
        // The address of the receiver's interface: its own stack reads no R-TAG.
        frame(interface(A, 2), mac(1), 0),
        long,
    ];
    for (n, octets) in frames.iter().enumerate() {
        let sent = process(&mut sender, HOST, READY, octets).unwrap();
        let expected = tagged(octets, n as u16);
        assert_eq!(sent, [(A, expected.clone()), (B, expected.clone())], "{n}");
        let received = process(&mut receiver, B, READY, &expected).unwrap();
        assert_eq!(received, [(HOST, octets.clone())], "{n}");
        assert_eq!(process(&mut receiver, A, READY, &expected), Some(vec![]), "{n}");
    }
    let reading = &receiver.read_wildcards(READY)[0];
    assert_eq!((reading.name.as_str(), reading.silence_ms), ("all", None));
    check_balance(&reading.link);
    assert_eq!((reading.link.lans[0].duplicates, reading.link.lans[1].accepted), (7, 7));
    assert_eq!(sender.read_wildcards(READY)[0].link.next, 7);
    assert_eq!(sender.read_wildcards(READY)[0].link.nodes, []);
}

#[test]
fn numbers_continue_over_their_end() {
    let (mut sender, mut receiver) = (all(1), all(2));
    let octets = frame(mac(2), mac(1), 0);
    for sent in 0..140_000_u32 {
        let now_ns = READY + u64::from(sent) * 10_000;
        let [(_, a), (_, b)] = &process(&mut sender, HOST, now_ns, &octets).unwrap()[..] else {
            panic!("two copies")
        };
        assert_eq!(number(a), Some(sent as u16));
        assert_eq!(process(&mut receiver, A, now_ns, a).unwrap().len(), 1, "{sent}");
        assert_eq!(process(&mut receiver, B, now_ns, b).unwrap().len(), 0, "{sent}");
    }
}

/// 1,000 numbers went to others, and the only copy of a frame is late.
#[test]
fn a_gap_before_a_late_frame_loses_it_by_vector_recovery_and_not_here() {
    let mut receiver = all(2);
    let deliver = |receiver: &mut Plane, number| {
        process(receiver, A, READY, &tagged(&frame(mac(2), mac(1), 0), number)).unwrap().len()
    };
    for number in [0, 1000, 2000, 2001, 1, 999, 1999] {
        assert_eq!(deliver(&mut receiver, number), 1, "{number}");
        assert_eq!(deliver(&mut receiver, number), 0, "{number}");
    }
    let mut vector = Plane::new(PORTS);
    let [_, mut listener] = named();
    listener.recover = Some(Recovery::vector(64));
    vector.set(&listener).unwrap();
    let mut deliver = |number| {
        process(&mut vector, A, READY, &tagged(&frame(NAMED, mac(1), 0), number)).unwrap().len()
    };
    assert_eq!([0, 1000, 2000, 2001, 1].map(&mut deliver), [1, 0, 0, 0, 1]);
}

#[test]
fn a_frame_belongs_to_its_named_stream_then_to_its_vlan_then_to_all() {
    let (a, b) = (PortId(3), PortId(4));
    // The order of the configuration does not matter.
    let of_all = Wildcard { link: link(1, HOST, [a, b]), ..wildcard("rest", Scope::All, 1) };
    let mut plane = plane(&[of_all, wildcard("vlan", Scope::Vlan(5), 1)]);
    let [talker, listener] = named();
    plane.set(&talker).unwrap();
    plane.set(&listener).unwrap();
    let mut sent = |octets: &[u8]| {
        let sent = process(&mut plane, HOST, READY, octets).unwrap();
        let [(first, octets), (second, others)] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(octets, others);
        ([*first, *second], number(octets))
    };
    let any = frame(mac(2), mac(1), 0);
    assert_eq!(sent(&in_vlan(&any, 5)), ([A, B], Some(0)));
    assert_eq!(sent(&any), ([a, b], Some(1)));
    assert_eq!(sent(&in_vlan(&any, 6)), ([a, b], Some(2)));
    // The outer tag determines the VLAN. A priority tag is no VLAN.
    assert_eq!(sent(&in_vlan(&in_vlan(&any, 5), 6)), ([a, b], Some(3)));
    assert_eq!(sent(&in_vlan(&in_vlan(&any, 6), 5)), ([A, B], Some(4)));
    assert_eq!(sent(&in_vlan(&any, 0)), ([a, b], Some(5)));
    // The stream has numbers of its own.
    assert_eq!(sent(&frame(NAMED, mac(1), 0)), ([A, B], Some(0)));
    assert_eq!(sent(&in_vlan(&frame(NAMED, mac(1), 0), 5)), ([A, B], Some(1)));
    assert_eq!(sent(&any), ([a, b], Some(6)));
    // On a path, a wildcard takes the frames in its scope only.
    let received = |plane: &mut Plane, port, octets: &[u8]| {
        process(plane, port, READY, octets).map(|sent| sent.len())
    };
    let foreign = tagged(&frame(mac(1), mac(2), 0), 7);
    let foreign_in_vlan = tagged(&in_vlan(&frame(mac(1), mac(2), 0), 5), 8);
    assert_eq!(received(&mut plane, A, &foreign), None);
    assert_eq!(received(&mut plane, A, &foreign_in_vlan), Some(1));
    assert_eq!(received(&mut plane, a, &foreign), Some(1));
    assert_eq!(received(&mut plane, B, &tagged(&frame(NAMED, mac(2), 0), 7)), Some(1));
    let names: Vec<_> =
        plane.read_wildcards(READY).into_iter().map(|reading| reading.name).collect();
    assert_eq!(names, ["vlan", "rest"]);
}

/// A sender with one wildcard and a receiver with two, or the other way round: a number identifies a frame.
#[test]
fn wildcards_of_both_ends_need_not_be_the_same() {
    let both =
        |node| plane(&[wildcard("vlan", Scope::Vlan(5), node), wildcard("all", Scope::All, node)]);
    for (mut sender, mut receiver) in [(both(1), all(2)), (all(1), both(2)), (both(1), both(2))] {
        for id in 0..1000 {
            let mut octets = frame(BROADCAST, mac(1), id);
            if id % 3 == 0 {
                octets = in_vlan(&octets, 5);
            }
            let sent = process(&mut sender, HOST, READY, &octets).unwrap();
            for ((_, copy), count) in sent.iter().zip([1, 0]) {
                assert_eq!(process(&mut receiver, A, READY, copy).unwrap().len(), count, "{id}");
            }
        }
    }
}

#[test]
fn frames_of_a_path_and_of_link_local_protocols_stay() {
    let mut plane = plane(&[wildcard("all", Scope::All, 1), wildcard("vlan", Scope::Vlan(5), 1)]);
    let own = frame(interface(A, 1), mac(9), 0);
    let hsr = [&own[..12], &[0x89, 0x2f, 0, 14, 0, 1], &own[12..]].concat();
    let truncated = &tagged(&own, 1)[..18];
    for octets in [&own[..], &in_vlan(&own, 5), &frame(BROADCAST, mac(9), 0), &hsr, truncated] {
        assert_eq!(process(&mut plane, A, READY, octets), None);
    }
    let lldp = MacAddress([1, 0x80, 0xc2, 0, 0, 0xe]);
    let mut ptp = frame(MacAddress([1, 0x1b, 0x19, 0, 0, 0]), mac(9), 0);
    ptp[12..14].copy_from_slice(&[0x88, 0xf7]);
    for octets in [frame(lldp, mac(9), 0), in_vlan(&frame(lldp, mac(9), 0), 5), ptp] {
        assert_eq!(process(&mut plane, HOST, READY, &octets), Some(vec![]));
        assert_eq!(process(&mut plane, A, READY, &octets), None);
        // No sender of R-TAGs does this.
        assert_eq!(process(&mut plane, A, READY, &tagged(&octets, 1)), None);
    }
    assert_eq!(plane.unmatched(A), 5 + 2 * 3);
    let readings = plane.read_wildcards(READY);
    let count = |count: fn(&Reading) -> u64| readings.iter().map(|r| count(&r.link)).sum::<u64>();
    assert_eq!(count(|reading| reading.host.link_local), 3);
    assert_eq!(count(|reading| reading.lans[0].passed), 3);
    readings.iter().for_each(|reading| check_balance(&reading.link));
}

#[test]
fn a_frame_that_has_a_tag_is_not_numbered_again() {
    let mut sender = all(1);
    let octets = frame(mac(2), mac(1), 0);
    let hsr = [&octets[..12], &[0x89, 0x2f, 0, 14, 0, 1], &octets[12..]].concat();
    for octets in [tagged(&octets, 7), tagged(&in_vlan(&octets, 5), 7), hsr] {
        assert_eq!(process(&mut sender, HOST, READY, &octets), Some(vec![]));
    }
    let reading = &sender.read_wildcards(READY)[0].link;
    assert_eq!((reading.host.tagged, reading.next), (3, 0));
    check_balance(reading);
}

#[test]
fn a_start_is_silent_and_a_changed_node_is_not() {
    let mut sender = all(1);
    let octets = frame(mac(2), mac(1), 0);
    let sent = |plane: &mut Plane, now_ns| process(plane, HOST, now_ns, &octets).unwrap().len();
    assert_eq!(sent(&mut sender, READY - 1), 0);
    assert_eq!(sender.read_wildcards(READY - MS)[0].silence_ms, Some(1));
    assert_eq!(sent(&mut sender, READY), 2);
    // Another wildcard draws from the same numbers: there is nothing to forget.
    let wildcards = [wildcard("all", Scope::All, 1), wildcard("vlan", Scope::Vlan(5), 1)];
    sender.set_wildcards(&wildcards, READY);
    assert_eq!(sent(&mut sender, READY), 2);
    assert_eq!(sender.read_wildcards(READY)[0].link.next, 2);
    sender.set_wildcards(&[], READY);
    assert_eq!(process(&mut sender, HOST, READY, &octets), None);
    assert_eq!(process(&mut sender, A, READY, &tagged(&octets, 1)), None);
    sender.set_wildcards(&wildcards, READY);
    assert_eq!(sent(&mut sender, READY), 2);
    assert_eq!(sender.read_wildcards(READY)[0].link.next, 3);
}

#[test]
fn an_unchanged_wildcard_keeps_its_state() {
    let mut receiver = all(2);
    let copy = |number| tagged(&frame(mac(2), mac(1), 0), number);
    let delivers = |plane: &mut Plane, port, octets: &[u8]| {
        process(plane, port, READY, octets).map(|sent| sent.len())
    };
    assert_eq!(delivers(&mut receiver, A, &copy(0)), Some(1));
    let others = [wildcard("vlan", Scope::Vlan(5), 2), wildcard("all", Scope::All, 2)];
    receiver.set_wildcards(&others, READY);
    assert_eq!(delivers(&mut receiver, B, &copy(0)), Some(0));
    receiver.set_wildcards(&others[1..], READY);
    assert_eq!(delivers(&mut receiver, B, &copy(0)), Some(0));
    let reading = &receiver.read_wildcards(READY)[0].link;
    assert_eq!((reading.lans[0].accepted, reading.lans[1].duplicates), (1, 2));
    assert_eq!(reading.nodes[0].lans.map(|path| path.tagged), [1, 2]);
    // With another name, it is another one.
    receiver.set_wildcards(&[wildcard("every", Scope::All, 2)], READY);
    assert_eq!(delivers(&mut receiver, B, &copy(0)), Some(1));
}

/// Both paths are one segment: own frames return on both, also those of stations behind the host port.
#[test]
fn own_frames_that_return_are_discarded_and_counted() {
    let mut node = all(1);
    for id in 0..1000 {
        let station = if id % 2 == 0 { 1 } else { 101 };
        let sent = process(&mut node, HOST, READY, &frame(BROADCAST, mac(station), id)).unwrap();
        for (port, copy) in sent {
            let other = if port == A { B } else { A };
            assert_eq!(process(&mut node, other, READY, &copy), Some(vec![]), "{id}");
        }
    }
    let reading = &node.read_wildcards(READY)[0].link;
    assert_eq!(reading.lans.map(|path| path.own), [1000, 1000]);
    assert_eq!((reading.nodes.len(), reading.proxies.len()), (0, 1));
    check_balance(reading);
    // A station that moved to a path.
    let moved = tagged(&frame(BROADCAST, mac(101), 0), 40_000);
    assert_eq!(process(&mut node, A, READY, &moved).unwrap().len(), 1);
    assert!(node.read_wildcards(READY)[0].link.proxies.is_empty());
}

#[test]
fn tables_age_and_a_restarted_sender_is_heard() {
    let mut receiver = all(2);
    let copy = |number| tagged(&frame(mac(2), mac(1), 0), number);
    for number in 0..1000 {
        assert_eq!(process(&mut receiver, A, READY, &copy(number)).unwrap().len(), 1);
    }
    // It is silent for 500 ms, and starts at 0.
    for number in 0..1000 {
        let now_ns = 2 * READY;
        assert_eq!(process(&mut receiver, A, now_ns, &copy(number)).unwrap().len(), 1, "{number}");
        assert_eq!(process(&mut receiver, B, now_ns, &copy(number)).unwrap().len(), 0, "{number}");
    }
    assert!(receiver.expire_wildcards(2 * READY + 59_999 * MS));
    assert_eq!(receiver.read_wildcards(READY)[0].link.nodes.len(), 1);
    assert!(receiver.expire_wildcards(2 * READY + 60_000 * MS));
    assert_eq!(receiver.read_wildcards(READY)[0].link.nodes.len(), 0);
}

//! A change without room is refused as a whole: existing streams are not affected.

use onbeat_frer::spec::{
    Identification, IpMatch, MaskAndMatch, Member, NextProtocol, PortId, Stream, TagMatch,
    VlanAction, VlanMatch,
};
use onbeat_frer_xdp::Error;
use onbeat_wire::MacAddress;

use super::VECTOR;
use crate::harness::{
    DESTINATION, Node, XDP_DROP, XDP_REDIRECT, can_run, frame, member, stream, talker,
};

const PORTS: usize = 3;
const ROOM: u32 = 4;

/// Existing streams with some history.
fn occupied() -> (Node, Vec<Stream>) {
    let mut node = Node::new(PORTS, ROOM);
    let listener = stream("listener", vec![member(0, 20, Some(VECTOR))], Some(VECTOR));
    let streams = vec![talker("talker", vec![member(0, 10, None)]), listener];
    node.apply(&streams);
    for number in 0..10 {
        assert_eq!(node.ingress(0).verdict(&frame(10, None)), XDP_REDIRECT);
        assert_eq!(node.ingress(0).verdict(&frame(20, Some(number))), XDP_REDIRECT);
    }
    (node, streams)
}

/// Applies an invalid configuration: `new` before the existing streams, all of those changed. Returns the
/// message after checking that nothing else changed.
fn refusal(new: Vec<Stream>) -> Error {
    let (mut node, streams) = occupied();
    let before: Vec<_> = streams.iter().map(|stream| node.read(&stream.name)).collect();
    let mut wanted = streams.clone();
    for stream in &mut wanted {
        stream.egress[0].rewrite.vlan = VlanAction::Set(99);
        if let Some(recover) = &mut stream.recover {
            recover.take_no_sequence = true;
        }
    }
    wanted.extend(new);
    let error = node.plane.apply(&node.names, &wanted).expect_err("more than the capacity");
    let after: Vec<_> = streams.iter().map(|stream| node.read(&stream.name)).collect();
    assert_eq!(after, before, "{error}");

    // The existing streams continue unchanged.
    let run = node.ingress(0).run(&[], &frame(10, None));
    assert_eq!((run.verdict, run.frame), (XDP_REDIRECT, frame(10, Some(10))), "{error}");
    assert_eq!(node.ingress(0).verdict(&frame(20, Some(9))), XDP_DROP, "{error}");
    let run = node.ingress(0).run(&[], &frame(20, Some(10)));
    assert_eq!((run.verdict, run.frame), (XDP_REDIRECT, frame(20, Some(10))), "{error}");
    // After a refused reload, one within the capacity succeeds and keeps their state.
    for _ in 0..20 {
        node.plane.apply(&node.names, &wanted).expect_err("still above the capacity");
    }
    node.apply(&streams);
    assert_eq!(node.read("talker").generation.unwrap().next, 11);
    assert_eq!(node.read("listener").recovery.unwrap().counters.resets, 1);
    error
}

fn is_full(error: &Error, of: &str) {
    assert!(matches!(error, Error::Full { what, .. } if *what == of), "{error}");
}

#[test]
fn too_many_of_each_kind() {
    if !can_run() {
        return;
    }
    let many = |count: u16, make: &dyn Fn(&str, u16) -> Stream| -> Vec<Stream> {
        (0..count).map(|index| make(&format!("new{index}"), 100 + index)).collect()
    };
    let talkers = many(5, &|name, vid| talker(name, vec![member(1, vid, None)]));
    is_full(&refusal(talkers), "sequence generators");

    let members = many(5, &|name, vid| {
        let members = (0..3).map(|port| member(port, vid, None)).collect();
        stream(name, members, None)
    });
    is_full(&refusal(members), "identification entries");

    let recoveries = many(4, &|name, vid| {
        let members = (0..2).map(|port| member(port, vid, Some(VECTOR))).collect();
        stream(name, members, Some(VECTOR))
    });
    is_full(&refusal(recoveries), "recovery functions");
}

/// Masks and their length are limited too.
#[test]
fn too_many_masks_and_too_long_ones() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(1, 64);
    let masked = |name: &str, msdu_mask: Vec<u8>| {
        let [destination_mask, source_mask] = [MacAddress([0xff; 6]), MacAddress([0; 6])];
        let identification = Identification::MaskAndMatch(MaskAndMatch {
            destination_mask,
            destination_match: DESTINATION,
            source_mask,
            source_match: source_mask,
            msdu_match: vec![0; msdu_mask.len()],
            msdu_mask,
        });
        stream(name, vec![Member { port: PortId(0), identification, individual: None }], None)
    };
    let masks: Vec<_> =
        (0..9).map(|n| masked(&format!("mask{n}"), vec![1 << (n % 8), n / 8])).collect();
    let error = node.plane.apply(&node.names, &masks).expect_err("9 sets of masks");
    assert!(error.to_string().contains("mask8"), "{error}");
    assert!(error.to_string().contains("more than 8 sets of masks"), "{error}");
    node.apply(&masks[..8]);

    let longest = masked("longest", [vec![0; 63], vec![1]].concat());
    let longer = masked("longer", [vec![0; 64], vec![1]].concat());
    let error = node.plane.apply(&node.names, &[longer]).expect_err("65 octets");
    assert!(error.to_string().contains("msdu-mask: 65 octets; XDP reads at most 64"), "{error}");
    node.apply(&[]);
    node.apply(&[longest]);
}

/// A table of shapes is searched for each frame: its size is limited.
#[test]
fn too_many_kinds_of_identification() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(1, 64);
    let kinds: Vec<Stream> = (0..33u16)
        .map(|kind| {
            let looks_at = |field: u16| kind >> field & 1 == 1;
            let vlan = match kind {
                0..16 => VlanMatch { tagged: TagMatch::Tagged, vlan: 0 },
                16..32 => VlanMatch { tagged: TagMatch::All, vlan: 0 },
                _ => VlanMatch { tagged: TagMatch::Priority, vlan: 0 },
            };
            let identification = Identification::Ip(IpMatch {
                destination: DESTINATION,
                vlan,
                ip_source: looks_at(0).then(|| [10, 0, 0, 1].into()),
                ip_destination: [10, 0, 0, 2].into(),
                dscp: looks_at(1).then_some(46),
                next_protocol: NextProtocol::Udp {
                    source: looks_at(2).then_some(5000),
                    destination: looks_at(3).then_some(6000),
                },
            });
            let members = vec![Member { port: PortId(0), identification, individual: None }];
            stream(&format!("kind{kind}"), members, None)
        })
        .collect();
    let error = node.plane.apply(&node.names, &kinds).expect_err("33 kinds");
    assert!(error.to_string().contains("kind32"), "{error}");
    assert!(error.to_string().contains("more than 32 kinds"), "{error}");
    node.apply(&kinds[..32]);
    // Thirty-two others at once are refused, but accepted in two steps.
    let others: Vec<Stream> = kinds[1..].to_vec();
    node.plane.apply(&node.names, &others).expect_err("both at once");
    node.apply(&kinds[1..32]);
    node.apply(&others);
}

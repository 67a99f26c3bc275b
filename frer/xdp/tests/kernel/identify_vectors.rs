//! Runs vectors/identify.toml in the kernel.

use onbeat_frer::spec::{Identification, Member, PortId, Stream, TagMatch, VlanMatch};
use onbeat_frer_xdp::Error;
use onbeat_testing::vectors::octets;
use onbeat_wire::MacAddress;

use crate::harness::{Node, XDP_PASS, XDP_REDIRECT, can_run, frame, stream};
use crate::identify_cases::{MemberCase, identification, vectors};

const PORT: u8 = 3;
const ELSEWHERE: usize = 2;

/// A stream for each member.
fn streams(members: &[MemberCase]) -> Vec<Stream> {
    let member = |case: &MemberCase| Member {
        port: PortId(PORT),
        identification: identification(case),
        individual: None,
    };
    let members = members.iter().map(member).enumerate();
    members.map(|(index, member)| stream(&format!("stream{index}"), vec![member], None)).collect()
}

/// Returns the number of frames that each stream has received.
fn taken(node: &Node, streams: &[Stream]) -> Vec<u64> {
    streams.iter().map(|stream| node.read(&stream.name).members[0].input).collect()
}

#[test]
fn identify() {
    if !can_run() {
        return;
    }
    let vectors = vectors();
    let mut node = Node::new(usize::from(PORT) + 1, 16);
    let mut run = 0;
    for case in &vectors.identify {
        let context = format!("identify {} ({})", case.number, case.name);
        let streams = streams(&case.members);
        node.apply(&[]);
        node.apply(&streams);
        let (ingress, elsewhere) = (node.ingress(PORT.into()), node.ingress(ELSEWHERE));
        for (name, expected) in &case.expect {
            let octets = octets(&vectors.frames[name]);
            let mut counted = taken(&node, &streams);
            let verdict = match usize::try_from(*expected) {
                Ok(index) => {
                    counted[index] += 1;
                    XDP_REDIRECT
                }
                Err(_) => XDP_PASS,
            };
            let result = ingress.run(&[], &octets);
            assert_eq!(result.frame, octets, "{context}: frame {name}");
            assert_eq!(result.verdict, verdict, "{context}: frame {name}");
            assert_eq!(taken(&node, &streams), counted, "{context}: frame {name}");
            assert_eq!(elsewhere.verdict(&octets), XDP_PASS, "{context}: frame {name} elsewhere");
        }
        run += 1;
    }
    eprintln!("{run} cases run");
    assert!(run >= 70);
}

#[test]
fn conflict() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(usize::from(PORT) + 1, 16);
    for case in vectors().conflict {
        node.apply(&[]);
        let result = node.plane.apply(&node.names, &streams(&case.members));
        let context = format!("conflict {} ({})", case.number, case.name);
        match result {
            Err(Error::Conflict(_)) => assert!(case.conflict, "{context}"),
            Err(error) => panic!("{context}: {error}"),
            Ok(_) => assert!(!case.conflict, "{context}"),
        }
    }
}

/// Addresses and ports that share a line of the index, more of them than fit into one line.
#[test]
fn keys_overflow_a_line_of_the_index() {
    const VID: u16 = 10;
    const KEYS: u8 = 24;
    if !can_run() {
        return;
    }
    // So small that all keys belong to one of eight lines.
    let ports = 3;
    let mut node = Node::new(ports, 8);
    let address = |key: u8| MacAddress([2, 0, 0, 0, 0, key / 3]);
    let member = |key: u8| Member {
        port: PortId(key % 3),
        identification: Identification::Null {
            destination: address(key),
            vlan: VlanMatch { tagged: TagMatch::Tagged, vlan: VID },
        },
        individual: None,
    };
    let name = |key: u8| format!("stream{key}");
    let some = |first: u8| (0..KEYS).filter(move |key| key % 2 == first % 2);
    let verdict = |node: &Node, key: u8| {
        let mut frame = frame(VID, None);
        frame[..6].copy_from_slice(&address(key).0);
        node.ingress((key % 3).into()).verdict(&frame)
    };
    for round in 0..6 {
        let streams: Vec<Stream> =
            some(round).map(|key| stream(&name(key), vec![member(key)], None)).collect();
        node.apply(&streams);
        for key in 0..KEYS {
            let here = key % 2 == round % 2;
            let expected = if here { XDP_REDIRECT } else { XDP_PASS };
            assert_eq!(verdict(&node, key), expected, "key {key}, round {round}");
            assert_eq!(here, node.plane.read_stream(&name(key)).unwrap().is_some());
        }
        for key in some(round) {
            assert_eq!(node.read(&name(key)).members[0].input, 1, "key {key}, round {round}");
        }
    }
}

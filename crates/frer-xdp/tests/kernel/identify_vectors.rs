//! Runs vectors/identify.toml in the kernel.

use onbeat_frer::spec::{Identification, Member, PortId, Stream, Tagged, VlanMatch};
use onbeat_frer_xdp::Error;
use onbeat_wire::MacAddress;

use crate::harness::{Node, XDP_PASS, XDP_REDIRECT, can_run, frame, stream};
use crate::identify_cases::{MemberCase, hex, identification, vectors};

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

/// How many frames each stream has taken.
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
            let octets = hex(&vectors.frames[name]);
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

/// The index tells keys apart by 31 bits of a hash, and then looks at the whole key. These addresses
/// have the same hash, found by trying; frames of one are not the other's.
#[test]
fn an_address_with_the_hash_of_another() {
    const VID: u16 = 10;
    const ALIKE: [[u8; 6]; 2] = [[2, 0, 0, 0, 0x17, 0x0b], [2, 0, 0, 0, 0xb7, 0x99]];
    if !can_run() {
        return;
    }
    // So small that all keys stand in one line.
    let mut node = Node::new(1, 1);
    let member = |address| Member {
        port: PortId(0),
        identification: Identification::Null {
            destination: MacAddress(address),
            vlan: VlanMatch { tagged: Tagged::Tagged, vlan: VID },
        },
        individual: None,
    };
    let verdict = |node: &Node, address: [u8; 6]| {
        let mut frame = frame(VID, None);
        frame[..6].copy_from_slice(&address);
        node.ingress(0).verdict(&frame)
    };
    for (ours, other) in [(ALIKE[0], ALIKE[1]), (ALIKE[1], ALIKE[0])] {
        node.apply(&[]);
        node.apply(&[stream("ours", vec![member(ours)], None)]);
        assert_eq!(verdict(&node, ours), XDP_REDIRECT);
        assert_eq!(verdict(&node, other), XDP_PASS);
    }
    // That they have the same hash shows where both are wanted and a line has room for one.
    let both = ALIKE.map(member).to_vec();
    let error = node.plane.apply(&node.names, &[stream("ours", both, None)]).expect_err("no room");
    assert!(matches!(error, Error::Full { .. }), "{error}");
    assert_eq!(verdict(&node, ALIKE[1]), XDP_REDIRECT);
}

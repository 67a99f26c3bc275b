//! Runs vectors/identify.toml; its header defines the fields.

use onbeat_frer::identify::{Fields, Table};
use onbeat_frer::spec::{IdentificationKind, Member, PortId, Stream};
use onbeat_testing::vectors::octets;
use onbeat_wire::Frame;

use crate::identify_cases::{MemberCase, identification, vectors};

const PORT: PortId = PortId(3);

/// A stream for each member.
fn streams(members: &[MemberCase]) -> Vec<Stream> {
    let members = members.iter().map(|case| Member {
        port: PORT,
        identification: identification(case),
        individual: None,
    });
    members
        .enumerate()
        .map(|(index, member)| Stream {
            name: format!("stream{index}"),
            members: vec![member],
            generate: false,
            recover: None,
            egress: vec![],
        })
        .collect()
}

#[test]
fn identify() {
    let vectors = vectors();
    for case in &vectors.identify {
        let context = format!("identify {} ({})", case.number, case.name);
        let streams = streams(&case.members);
        for member in streams.iter().flat_map(|stream| &stream.members) {
            assert_eq!(member.validate(), Ok(()), "{context}");
        }
        let table = Table::new(&streams, PORT).expect(&context);
        let elsewhere = Table::new(&streams, PortId(4)).expect(&context);
        for (name, expected) in &case.expect {
            let octets = octets(vectors.frames.get(name).expect(name));
            let fields = Fields::from(&Frame::parse(&octets).expect(name));
            let found = table.lookup(&fields).map_or(-1, |at| at.stream as i32);
            assert_eq!(found, *expected, "{context}: frame {name}");
            assert_eq!(elsewhere.lookup(&fields), None, "{context}: frame {name} elsewhere");
        }
    }
}

#[test]
fn conflict() {
    for case in vectors().conflict {
        let table = Table::new(&streams(&case.members), PORT);
        assert_eq!(table.is_err(), case.conflict, "conflict {} ({})", case.number, case.name);
    }
}

#[test]
fn a_conflict_names_both_streams_and_the_port() {
    let case = &vectors().conflict[0];
    let conflict = Table::new(&streams(&case.members), PORT).unwrap_err();
    assert_eq!(
        conflict.to_string(),
        "streams \"stream0\" and \"stream1\": members on port 3 with the same identification; a \
         frame is of one stream, so change one of them or remove it"
    );
}

#[test]
fn cases_are_numbered_and_every_frame_is_used() {
    let vectors = vectors();
    assert!(vectors.identify.len() >= 40);
    assert!(vectors.identify.iter().zip(1..).all(|(case, number)| case.number == number));
    assert!(vectors.conflict.iter().zip(1..).all(|(case, number)| case.number == number));
    assert!(vectors.identify.iter().any(|case| case.mistake == Some(7)));
    for name in vectors.frames.keys() {
        let used = vectors.identify.iter().any(|case| case.expect.contains_key(name));
        assert!(used, "frame {name} is in no case");
    }
}

#[test]
fn every_type_has_vectors_and_an_example() {
    let reference = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/reference.toml");
    let reference = std::fs::read_to_string(reference).expect(reference);
    let vectors = vectors();
    let members = vectors.identify.iter().flat_map(|case| &case.members);
    let tested: Vec<_> = members.map(|member| identification(member).kind()).collect();
    for kind in IdentificationKind::ALL {
        assert!(tested.contains(&kind), "{kind:?} has no case in vectors/identify.toml");
        let example = format!("type = {:?}", kind.name());
        assert!(reference.contains(&example), "{example} is not in examples/reference.toml");
    }
    for kind in tested {
        assert!(IdentificationKind::ALL.contains(&kind), "{kind:?} is not in ALL");
    }
}

//! Runs vectors/identify.toml; its head says what the fields mean.

use std::collections::BTreeMap;
use std::net::IpAddr;

use onbeat_frer::identify::{Fields, Table};
use onbeat_frer::spec::{
    Identification, IpMatch, MaskAndMatch, Member, NextProtocol, PortId, Rewrite, Stream, Tagged,
    VlanMatch,
};
use onbeat_wire::{Frame, MacAddress};
use serde::Deserialize;

const PORT: PortId = PortId(3);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    frames: BTreeMap<String, String>,
    identify: Vec<IdentifyCase>,
    conflict: Vec<ConflictCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IdentifyCase {
    number: usize,
    name: String,
    mistake: Option<u8>,
    members: Vec<MemberCase>,
    expect: BTreeMap<String, i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConflictCase {
    number: usize,
    name: String,
    members: Vec<MemberCase>,
    conflict: bool,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum MemberCase {
    Null {
        destination: String,
        tagged: TaggedCase,
        vlan: u16,
    },
    Source {
        source: String,
        tagged: TaggedCase,
        vlan: u16,
    },
    Active {
        destination: String,
        tagged: TaggedCase,
        vlan: u16,
    },
    Ip {
        destination: String,
        tagged: TaggedCase,
        vlan: u16,
        ip_source: Option<IpAddr>,
        ip_destination: IpAddr,
        dscp: Option<u8>,
        protocol: Option<String>,
        source_port: Option<u16>,
        destination_port: Option<u16>,
    },
    Mask {
        destination_mask: String,
        destination_match: String,
        source_mask: String,
        source_match: String,
        msdu_mask: String,
        msdu_match: String,
    },
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum TaggedCase {
    Tagged,
    Priority,
    All,
}

fn vectors() -> Vectors {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/identify.toml");
    toml::from_str(&std::fs::read_to_string(path).expect(path)).expect(path)
}

fn hex(text: &str) -> Vec<u8> {
    assert!(text.len() % 2 == 0, "{text}");
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex"))
        .collect()
}

fn mac(text: &str) -> MacAddress {
    MacAddress(hex(&text.replace(':', "")).try_into().expect("six octets"))
}

fn vlan(tagged: TaggedCase, vlan: u16) -> VlanMatch {
    let tagged = match tagged {
        TaggedCase::Tagged => Tagged::Tagged,
        TaggedCase::Priority => Tagged::Priority,
        TaggedCase::All => Tagged::All,
    };
    VlanMatch { tagged, vlan }
}

fn identification(case: &MemberCase) -> Identification {
    match case {
        MemberCase::Null { destination, tagged, vlan: vid } => {
            Identification::Null { destination: mac(destination), vlan: vlan(*tagged, *vid) }
        }
        MemberCase::Source { source, tagged, vlan: vid } => {
            Identification::SourceMacVlan { source: mac(source), vlan: vlan(*tagged, *vid) }
        }
        MemberCase::Active { destination, tagged, vlan: vid } => {
            Identification::ActiveDestination {
                destination: mac(destination),
                vlan: vlan(*tagged, *vid),
                up: Rewrite::default(),
            }
        }
        MemberCase::Ip {
            destination,
            tagged,
            vlan: vid,
            ip_source,
            ip_destination,
            dscp,
            protocol,
            source_port,
            destination_port,
        } => {
            let (source, to) = (*source_port, *destination_port);
            Identification::Ip(IpMatch {
                destination: mac(destination),
                vlan: vlan(*tagged, *vid),
                ip_source: *ip_source,
                ip_destination: *ip_destination,
                dscp: *dscp,
                next_protocol: match protocol.as_deref() {
                    None => NextProtocol::None,
                    Some("udp") => NextProtocol::Udp { source, destination: to },
                    Some("tcp") => NextProtocol::Tcp { source, destination: to },
                    Some("sctp") => NextProtocol::Sctp { source, destination: to },
                    Some(other) => panic!("protocol {other:?}"),
                },
            })
        }
        MemberCase::Mask {
            destination_mask,
            destination_match,
            source_mask,
            source_match,
            msdu_mask,
            msdu_match,
        } => Identification::MaskAndMatch(MaskAndMatch {
            destination_mask: mac(destination_mask),
            destination_match: mac(destination_match),
            source_mask: mac(source_mask),
            source_match: mac(source_match),
            msdu_mask: hex(msdu_mask),
            msdu_match: hex(msdu_match),
        }),
    }
}

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
            let octets = hex(vectors.frames.get(name).expect(name));
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

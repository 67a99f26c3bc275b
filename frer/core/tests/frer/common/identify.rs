//! Reads vectors/identify.toml for every implementation.

use std::collections::BTreeMap;
use std::net::IpAddr;

use onbeat_frer::spec::{
    Identification, IpMatch, MaskAndMatch, NextProtocol, Rewrite, TagMatch, VlanMatch,
};
use onbeat_testing::vectors::{self, octets};
use onbeat_wire::MacAddress;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vectors {
    pub(crate) frames: BTreeMap<String, String>,
    pub(crate) identify: Vec<IdentifyCase>,
    pub(crate) conflict: Vec<ConflictCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IdentifyCase {
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) mistake: Option<u8>,
    pub(crate) members: Vec<MemberCase>,
    pub(crate) expect: BTreeMap<String, i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConflictCase {
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) members: Vec<MemberCase>,
    pub(crate) conflict: bool,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum MemberCase {
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
pub(crate) enum TaggedCase {
    Tagged,
    Priority,
    All,
}

pub(crate) fn vectors() -> Vectors {
    vectors::read("identify.toml")
}

fn mac(text: &str) -> MacAddress {
    MacAddress(octets(text).try_into().expect("six octets"))
}

fn vlan(tagged: TaggedCase, vlan: u16) -> VlanMatch {
    let tagged = match tagged {
        TaggedCase::Tagged => TagMatch::Tagged,
        TaggedCase::Priority => TagMatch::Priority,
        TaggedCase::All => TagMatch::All,
    };
    VlanMatch { tagged, vlan }
}

pub(crate) fn identification(case: &MemberCase) -> Identification {
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
            msdu_mask: octets(msdu_mask),
            msdu_match: octets(msdu_match),
        }),
    }
}

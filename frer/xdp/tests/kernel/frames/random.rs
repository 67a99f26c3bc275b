//! Random streams and random frames with few values for each field, so that many frames match.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use onbeat_frer::identify::Table;
use onbeat_frer::spec::{
    Algorithm, Egress, Identification, IpMatch, MaskAndMatch, Member, NextProtocol, PortId,
    Recovery, Rewrite, SequenceTag, Stream, TagMatch, VlanAction, VlanMatch,
};
use onbeat_testing::vectors::{self, octets};
use onbeat_wire::MacAddress;
use onbeat_wire::random::Random;
use serde::Deserialize;

use crate::harness::egress;

fn mac(random: &mut Random) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, random.below(3) as u8])
}

fn vlan(random: &mut Random) -> VlanMatch {
    let tagged = *random.pick(&[TagMatch::Tagged, TagMatch::Priority, TagMatch::All]);
    let vlan = if tagged == TagMatch::Priority { 0 } else { random.below(4) as u16 };
    VlanMatch { tagged, vlan }
}

fn address(random: &mut Random, v6: bool) -> IpAddr {
    let last = random.below(2) as u8;
    match v6 {
        false => Ipv4Addr::new(10, 0, 0, last).into(),
        // The same octets, as an IPv6 packet carries them.
        true if random.one_in(3) => Ipv4Addr::new(10, 0, 0, last).to_ipv6_mapped().into(),
        true => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()).into(),
    }
}

fn ip(random: &mut Random) -> IpMatch {
    let v6 = random.one_in(2);
    let mut port = || random.one_in(2).then(|| random.below(2) as u16);
    let (source, destination) = (port(), port());
    IpMatch {
        destination: mac(random),
        vlan: vlan(random),
        ip_source: random.one_in(2).then(|| address(random, v6)),
        ip_destination: address(random, v6),
        dscp: random.one_in(2).then(|| random.below(2) as u8),
        next_protocol: match random.below(4) {
            0 => NextProtocol::None,
            1 => NextProtocol::Tcp { source, destination },
            2 => NextProtocol::Sctp { source, destination },
            _ => NextProtocol::Udp { source, destination },
        },
    }
}

/// Returns one of six sets of masks, with values that occur in frames.
fn mask_and_match(random: &mut Random) -> MaskAndMatch {
    let last = |octet| MacAddress([0, 0, 0, 0, 0, octet]);
    let mut long = vec![0; 64];
    (long[0], long[63]) = (0xff, 0x01);
    let [all, none] = [MacAddress([0xff; 6]), MacAddress([0; 6])];
    let (destination_mask, source_mask, msdu_mask) = match random.below(6) {
        0 => (all, none, vec![]),
        1 => (none, last(0x03), vec![]),
        2 => (last(0x03), last(0x03), vec![0xff, 0xff]),
        3 => (none, none, vec![0xff, 0xff]),
        4 => (last(0x01), none, vec![0xff, 0x00, 0x00, 0x00, 0x00, 0x01]),
        _ => (none, none, long),
    };
    let masked = |value: MacAddress, mask: MacAddress| {
        MacAddress(std::array::from_fn(|i| value.0[i] & mask.0[i]))
    };
    let ethertype = *random.pick(&[[0x08, 0x00], [0x86, 0xdd], [0xf1, 0xc1], [0x88, 0xb5]]);
    let octets = ethertype.into_iter().chain((2..).map(|i| u8::from(i == 63)));
    let msdu_match = octets.zip(&msdu_mask).map(|(octet, mask)| octet & mask).collect();
    MaskAndMatch {
        destination_match: masked(mac(random), destination_mask),
        source_match: masked(mac(random), source_mask),
        destination_mask,
        source_mask,
        msdu_mask,
        msdu_match,
    }
}

fn identification(random: &mut Random) -> Identification {
    match random.below(6) {
        0 => Identification::SourceMacVlan { source: mac(random), vlan: vlan(random) },
        1 => Identification::Null { destination: mac(random), vlan: vlan(random) },
        2 => Identification::ActiveDestination {
            destination: mac(random),
            vlan: vlan(random),
            up: rewrite(random),
        },
        3 if random.one_in(2) => Identification::MaskAndMatch(mask_and_match(random)),
        _ => Identification::Ip(ip(random)),
    }
}

fn rewrite(random: &mut Random) -> Rewrite {
    Rewrite {
        destination: random
            .one_in(3)
            .then(|| MacAddress(random.number().to_be_bytes()[..6].try_into().unwrap())),
        vlan: match random.below(3) {
            0 => VlanAction::Keep,
            1 => VlanAction::Set(random.between(1, 4094) as u16),
            _ => VlanAction::Remove,
        },
        priority: random.one_in(3).then(|| random.below(8) as u8),
    }
}

fn recovery(random: &mut Random) -> Recovery {
    Recovery {
        algorithm: match random.below(4) {
            0 => Algorithm::Match,
            _ => Algorithm::Vector { history_length: random.between(2, 1024) as u16 },
        },
        reset_timeout_ms: 0,
        take_no_sequence: random.one_in(2),
        ..Recovery::vector(2)
    }
}

fn egresses(random: &mut Random, ports: u8, generate: bool) -> Vec<Egress> {
    let mut all: Vec<u8> = (0..ports).collect();
    let count = if random.one_in(4) { random.between(1, 16) } else { random.between(1, 3) };
    let same = random.one_in(2).then(|| rewrite(random));
    let tags = [SequenceTag::RTag, SequenceTag::Remove, SequenceTag::Keep];
    let tags = if generate { &tags[..2] } else { &tags[..] };
    let same_tag = random.one_in(2).then(|| *random.pick(tags));
    (0..count.min(ports.into()))
        .map(|_| {
            let port = all.swap_remove(random.below(all.len() as u64) as usize);
            let tag = same_tag.unwrap_or_else(|| *random.pick(tags));
            Egress { rewrite: same.unwrap_or_else(|| rewrite(random)), ..egress(port, tag) }
        })
        .collect()
}

fn stream(random: &mut Random, index: usize, ports: u8) -> Stream {
    let generate = random.one_in(2);
    let members = (0..random.between(1, 2)).map(|_| Member {
        port: PortId(random.below(3) as u8),
        identification: identification(random),
        individual: (!generate && random.one_in(4)).then(|| recovery(random)),
    });
    Stream {
        name: format!("stream{index}"),
        members: members.collect(),
        generate,
        recover: (!generate && random.one_in(2)).then(|| recovery(random)),
        egress: egresses(random, ports, generate),
    }
}

/// Returns streams with members at ports 0 to 2; no two have the same identification.
pub(crate) fn streams(random: &mut Random, ports: u8) -> Vec<Stream> {
    let mut streams = Vec::new();
    let wanted = random.between(1, 24) as usize;
    while streams.len() < wanted {
        streams.push(stream(random, streams.len(), ports));
        if (0..ports).any(|port| Table::new(&streams, PortId(port)).is_err()) {
            streams.pop();
        }
    }
    streams
}

/// Returns a frame of addresses, up to three VLAN tags, an optional sequence tag, optional IP headers,
/// possibly truncated or invalid.
pub(crate) fn frame(random: &mut Random) -> Vec<u8> {
    let mut octets = [mac(random).0, mac(random).0].concat();
    let vlans = *random.pick(&[0, 0, 1, 1, 1, 2, 2]);
    for _ in 0..vlans {
        octets.extend(if random.one_in(4) { [0x88, 0xa8] } else { [0x81, 0] });
        let tci = (random.number() as u16 & 0xf000) | random.below(4) as u16;
        octets.extend(tci.to_be_bytes());
    }
    match random.below(8) {
        0..3 => octets.extend(r_tag(random)),
        3 => octets.extend([0x89, 0x2f, 0x10, 0x10, 0, random.below(8) as u8]),
        // Nested incorrectly: a tag after the R-TAG is payload.
        4 => octets.extend([&r_tag(random)[..], &r_tag(random), &[0x81, 0, 0, 1]].concat()),
        _ => {}
    }
    match random.below(4) {
        0 => octets.extend([0x88, 0xb5]),
        1 | 2 => octets.extend(v4(random)),
        _ => octets.extend(v6(random)),
    }
    octets.extend((0..random.below(24)).map(|n| n as u8));
    if random.one_in(6) {
        octets.truncate(14 + random.below(octets.len() as u64 - 13) as usize);
    }
    octets
}

fn r_tag(random: &mut Random) -> [u8; 6] {
    let reserved = if random.one_in(4) { 0x5a } else { 0 };
    [0xf1, 0xc1, 0, reserved, 0, random.below(8) as u8]
}

/// Returns an octet of a header; sometimes a value near it, or any other.
fn perhaps(random: &mut Random, octet: u8) -> u8 {
    match random.below(16) {
        0 => random.number() as u8,
        1 => octet.wrapping_add(random.between(-4, 4) as u8),
        _ => octet,
    }
}

fn upper(random: &mut Random) -> (u8, Vec<u8>) {
    let ports = [0, random.below(2) as u8, 0, random.below(2) as u8];
    let length = if random.one_in(8) { random.below(4) as usize } else { 4 };
    (*random.pick(&[17, 17, 6, 132, 1]), ports[..length].to_vec())
}

fn v4(random: &mut Random) -> Vec<u8> {
    let (protocol, payload) = upper(random);
    let options = if random.one_in(4) { random.below(11) as u8 } else { 0 };
    let total = 20 + options * 4 + payload.len() as u8;
    let (IpAddr::V4(source), IpAddr::V4(destination)) =
        (address(random, false), address(random, false))
    else {
        unreachable!("IPv4 was requested")
    };
    let fragment = if random.one_in(6) { random.below(3) as u8 } else { 0 };
    let first = perhaps(random, 0x45 + options);
    let total = perhaps(random, total);
    let more = if random.one_in(6) { 0x20 } else { 0 };
    let mut octets = vec![8, 0, first, (random.below(2) as u8) << 2 | random.below(4) as u8, 0];
    octets.extend([total, 0, 0, more, fragment, 64, protocol, 0, 0]);
    octets.extend(source.octets());
    octets.extend(destination.octets());
    octets.extend(vec![1; usize::from(options) * 4]);
    octets.extend(payload);
    octets
}

fn v6(random: &mut Random) -> Vec<u8> {
    let (protocol, payload) = upper(random);
    let extensions = if random.one_in(2) { 0 } else { random.below(9) };
    let mut chain: Vec<(u8, Vec<u8>)> = Vec::new();
    for _ in 0..extensions {
        let kind = *random.pick(&[0u8, 43, 44, 51, 60]);
        let units = random.below(3) as u8;
        let mut octets = match kind {
            44 => {
                vec![0, random.number() as u8, 0, if random.one_in(4) { 8 } else { 1 }, 0, 0, 0, 0]
            }
            51 => vec![0; 8 + usize::from(units) * 4],
            _ => vec![0; 8 + usize::from(units) * 8],
        };
        if kind != 44 {
            octets[1] = perhaps(random, units);
        }
        chain.push((kind, octets));
    }
    let mut kinds: Vec<u8> = chain.iter().map(|(kind, _)| *kind).collect();
    kinds.push(protocol);
    for ((_, octets), next) in chain.iter_mut().zip(&kinds[1..]) {
        octets[0] = *next;
    }
    let body: Vec<u8> = chain.into_iter().flat_map(|(_, octets)| octets).chain(payload).collect();
    let (IpAddr::V6(source), IpAddr::V6(destination)) =
        (address(random, true), address(random, true))
    else {
        unreachable!("IPv6 was requested")
    };
    // The traffic class spans two octets: DSCP 0 or 1, any ECN.
    let class = (random.below(2) as u8) << 2 | random.below(4) as u8;
    let mut octets = vec![0x86, 0xdd, perhaps(random, 0x60 | class >> 4), class << 4, 0, 0, 0];
    // Sometimes the packet ends earlier, and the rest is padding.
    let cut = if random.one_in(6) { random.below(16) as u8 } else { 0 };
    octets.extend([perhaps(random, (body.len() as u8).saturating_sub(cut)), kinds[0], 64]);
    octets.extend(source.octets());
    octets.extend(destination.octets());
    octets.extend(body);
    octets
}

/// A case of vectors/frames.toml, codec `edit`.
pub(crate) struct EditCase {
    pub(crate) name: String,
    pub(crate) octets: Vec<u8>,
    pub(crate) result: Vec<u8>,
    edit: Edit,
}

#[derive(Deserialize)]
struct Vectors {
    case: Vec<Case>,
}

/// The fields of a case that this test uses; base/wire checks that the file contains no others.
#[derive(Deserialize)]
struct Case {
    number: u32,
    name: String,
    octets: String,
    edit: Option<Edit>,
    result: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Edit {
    destination: Option<String>,
    priority: Option<u8>,
    set_vlan: Option<u16>,
    push_vlan: Option<toml::Table>,
    remove_vlan: bool,
    push_rtag: Option<u16>,
    remove_rtag: bool,
}

/// Returns cases with a result; those with an error cannot be configured.
pub(crate) fn edit_cases() -> Vec<EditCase> {
    let vectors: Vectors = vectors::read("frames.toml");
    vectors
        .case
        .into_iter()
        .filter_map(|case| {
            Some(EditCase {
                name: format!("frames {} ({})", case.number, case.name),
                octets: octets(&case.octets),
                result: octets(&case.result?),
                edit: case.edit?,
            })
        })
        .collect()
}

impl EditCase {
    /// Returns the number of frames to draw numbers for before this one.
    pub(crate) fn number(&self) -> u16 {
        self.edit.push_rtag.unwrap_or(0)
    }

    /// Returns a stream that takes the frame and makes this edit; `None`: a stream cannot push VLAN tags onto
    /// others.
    pub(crate) fn stream(&self) -> Option<Stream> {
        let edit = &self.edit;
        if edit.push_vlan.is_some() {
            return None;
        }
        let rewrite = Rewrite {
            destination: edit.destination.as_ref().map(|text| text.parse().expect("a MAC")),
            vlan: match edit.set_vlan {
                Some(vid) => VlanAction::Set(vid),
                None if edit.remove_vlan => VlanAction::Remove,
                None => VlanAction::Keep,
            },
            priority: edit.priority,
        };
        let tag = match edit {
            Edit { push_rtag: Some(_), .. } => SequenceTag::RTag,
            Edit { remove_rtag: true, .. } => SequenceTag::Remove,
            _ => SequenceTag::Keep,
        };
        let destination = MacAddress(self.octets[..6].try_into().expect("six octets"));
        let vlan = VlanMatch { tagged: TagMatch::All, vlan: 0 };
        let identification = Identification::Null { destination, vlan };
        Some(Stream {
            name: "stream".into(),
            members: vec![Member { port: PortId(0), identification, individual: None }],
            generate: edit.push_rtag.is_some(),
            recover: None,
            egress: vec![Egress { port: PortId(1), tag, rewrite }],
        })
    }
}

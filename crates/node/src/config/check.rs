//! What only shows when all streams are looked at together.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use onbeat_frer::spec::{Identification, NextProtocol, PortId, Stream, VlanMatch};
use onbeat_wire::MacAddress;

use super::reader::Faults;
use super::stream::Block;
use super::{Mode, PortConfig};

/// What an identification function looks at: two that are equal take the same frames. Null and
/// active identification look at the same.
#[derive(PartialEq, Eq, Hash)]
enum Match<'a> {
    Destination(MacAddress, VlanMatch),
    Source(MacAddress, VlanMatch),
    Ip(MacAddress, VlanMatch, Option<IpAddr>, IpAddr, Option<u8>, NextProtocol),
    Mask([MacAddress; 4], &'a [u8], &'a [u8]),
}

impl<'a> From<&'a Identification> for Match<'a> {
    fn from(identification: &'a Identification) -> Match<'a> {
        match identification {
            Identification::Null { destination, vlan }
            | Identification::ActiveDestination { destination, vlan, .. } => {
                Match::Destination(*destination, *vlan)
            }
            Identification::SourceMacVlan { source, vlan } => Match::Source(*source, *vlan),
            Identification::Ip(ip) => Match::Ip(
                ip.destination,
                ip.vlan,
                ip.ip_source,
                ip.ip_destination,
                ip.dscp,
                ip.next_protocol,
            ),
            Identification::MaskAndMatch(mask) => Match::Mask(
                [
                    mask.destination_mask,
                    mask.destination_match,
                    mask.source_mask,
                    mask.source_match,
                ],
                &mask.msdu_mask,
                &mask.msdu_match,
            ),
        }
    }
}

/// In generic mode the kernel's copies of a frame share one buffer: what leaves is alike. Where the
/// mode is left open this shows when the interface does; said here, nothing need be tried.
pub(super) fn replicas(
    streams: &[(usize, Stream)],
    blocks: &[Block],
    ports: &[PortConfig],
    faults: &Faults,
) {
    let mut told = HashSet::new();
    for (block, stream) in streams {
        let differs = stream.egress.iter().position(|egress| {
            (egress.tag, egress.rewrite) != (stream.egress[0].tag, stream.egress[0].rewrite)
        });
        let generic = stream.members.iter().find_map(|member| {
            let port = ports.get(usize::from(member.port.0))?;
            (port.mode == Mode::Generic).then_some(&port.name)
        });
        let (Some(differs), Some(port)) = (differs, generic) else { continue };
        if !told.insert(*block) {
            continue;
        }
        let place = &blocks[*block].egress[differs];
        faults.note(
            place.span.clone(),
            &place.path,
            format!(
                "stream {:?} comes in by port {port:?}, which is to run XDP in generic mode, where \
                 all replicas of a frame are alike",
                stream.name
            ),
            "give each egress port the same tag, vlan, priority and destination, or leave mode out \
             and use an interface whose driver has native XDP",
        );
    }
}

/// No frame may be of two streams.
pub(super) fn all(
    streams: &[(usize, Stream)],
    blocks: &[Block],
    ports: &[PortConfig],
    faults: &Faults,
) {
    let mut owners: HashMap<(PortId, Match<'_>), (usize, usize, &str)> = HashMap::new();
    // Tables with `count` may collide a thousand times: once is told.
    let mut told = HashSet::new();
    for (block, stream) in streams {
        for (n, member) in stream.members.iter().enumerate() {
            let key = (member.port, Match::from(&member.identification));
            let Some((other_block, other_n, other)) = owners.insert(key, (*block, n, &stream.name))
            else {
                continue;
            };
            if !told.insert((*block, n, other_block, other_n)) {
                continue;
            }
            let place = &blocks[*block].members[n];
            let port = ports.get(usize::from(member.port.0)).map_or("", |port| &port.name);
            let help = if *block == other_block && blocks[*block].repeat.count > 1 {
                "let step advance what the identification looks at"
            } else {
                "let them differ in address, VLAN or port"
            };
            faults.note(
                place.span.clone(),
                &place.path,
                format!(
                    "stream {:?} takes the same frames on port {port:?} as stream {other:?}",
                    stream.name
                ),
                help,
            );
        }
    }
}

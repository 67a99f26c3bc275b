//! The maximum number of streams of a node, of all kinds of identification, on all of its ports.

use std::net::{IpAddr, Ipv4Addr};

use onbeat_frer::spec::{
    Algorithm, Egress, Identification, IpMatch, MaskAndMatch, Member, NextProtocol, PortId,
    Recovery, Rewrite, SequenceTag, Stream, TagMatch, VlanMatch,
};
use onbeat_wire::MacAddress;

pub(crate) const PORTS: u32 = 64;
pub(crate) const STREAMS: u32 = 65_536;

/// Returns the ingress port of stream number `index`.
pub(crate) fn port(index: u32) -> usize {
    (index % PORTS) as usize
}

/// Returns stream number `index`, which leaves by port 0: three of five are identified by address and
/// numbered, one is identified by IP, one by a mask and eliminates replicas but not frames without a number.
pub(crate) fn stream(index: u32) -> Stream {
    let port = PortId(port(index) as u8);
    let [_, _, high, low] = (index / PORTS).to_be_bytes();
    let destination = MacAddress([0x01, 0, 0x5e, 0, high, low]);
    let vlan = VlanMatch { tagged: TagMatch::All, vlan: 0 };
    let (mut generate, mut recover, mut tag) = (false, None, SequenceTag::Keep);
    let identification = match index / PORTS % 5 {
        0..3 => {
            (generate, tag) = (true, SequenceTag::RTag);
            Identification::Null { destination, vlan }
        }
        3 => Identification::Ip(IpMatch {
            destination,
            vlan,
            ip_source: None,
            ip_destination: IpAddr::V4(Ipv4Addr::new(239, 0, high, low)),
            dscp: None,
            next_protocol: NextProtocol::None,
        }),
        _ => {
            let algorithm = Algorithm::Vector { history_length: 64 };
            let (reset_timeout_ms, take_no_sequence, latent) = (0, true, None);
            recover = Some(Recovery {
                algorithm,
                reset_timeout_ms,
                take_no_sequence,
                latent,
                ..Recovery::vector(2)
            });
            Identification::MaskAndMatch(MaskAndMatch {
                destination_mask: MacAddress([0xff; 6]),
                destination_match: destination,
                source_mask: MacAddress([0; 6]),
                source_match: MacAddress([0; 6]),
                msdu_mask: vec![0xff, 0xff],
                msdu_match: vec![0x88, 0xb5],
            })
        }
    };
    Stream {
        name: format!("stream{index}"),
        members: vec![Member { port, identification, individual: None }],
        generate,
        recover,
        egress: vec![Egress { port: PortId(0), tag, rewrite: Rewrite::default() }],
    }
}

/// Returns a frame of that stream, without a number.
pub(crate) fn frame(index: u32) -> Vec<u8> {
    let [_, _, high, low] = (index / PORTS).to_be_bytes();
    let head = [0x01, 0, 0x5e, 0, high, low, 2, 0, 0, 0, 0, 0x0a];
    if index / PORTS % 5 == 3 {
        let ip = [0x45, 0, 0, 24, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 239, 0, high, low];
        [&head[..], &[8, 0], &ip, &[1, 2, 3, 4]].concat()
    } else {
        [&head[..], &[0x88, 0xb5, 1, 2, 3, 4]].concat()
    }
}

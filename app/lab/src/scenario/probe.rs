//! Frames without a stream, of each kind that must pass through a node unchanged.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use onbeat_wire::{
    EmitError, EtherType, MacAddress, Ports, Protocol, VlanTag, arp, ethernet, ipv4, ipv6, rtag,
    udp,
};

/// The nearest-bridge group address of LLDP: no bridge forwards it.
const LLDP_GROUP: MacAddress = MacAddress([0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e]);
const ICMPV6: Protocol = Protocol(58);

/// A frame without a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) name: &'static str,
    pub(super) octets: Vec<u8>,
}

/// Frames of a host to other hosts behind the nodes. `stream` is the group address of a stream and
/// `vlan` its VLAN: only a frame with both belongs to the stream.
pub(super) fn to_hosts(
    source: MacAddress,
    stream: MacAddress,
    vlan: u16,
) -> Result<Vec<Probe>, EmitError> {
    let other = MacAddress([0x01, 0x00, 0x5e, 0x7f, 0x00, 0x01]);
    let filler: Vec<u8> = (0..100).collect();
    // Of no path: streams have the next VLANs there, where a frame without an R-TAG is refused.
    let other_vlan = tagged(&[VlanTag::new(vlan + 90)], EtherType::IPV4, &ipv4_packet()?)?;
    let double = VlanTag { tpid: EtherType::S_VLAN, pcp: 5, dei: true, vid: vlan };
    let double = tagged(&[double, VlanTag::new(vlan)], EtherType::IPV4, &ipv4_packet()?)?;
    let mut r_tag = vec![0; rtag::TAG_LEN];
    rtag::Repr { sequence: 7 }.emit(&mut r_tag)?;
    r_tag.extend(EtherType::IPV4.to_octets());
    r_tag.extend(ipv4_packet()?);
    let frame = |name: &'static str, destination, rest: Vec<u8>| {
        let octets = [&address_pair(destination, source), rest.as_slice()].concat();
        // Frames that end within a header stay short.
        let octets = if name.starts_with("truncated") { octets } else { padded(octets) };
        Probe { name, octets }
    };
    Ok(vec![
        frame("ARP", MacAddress::BROADCAST, typed(EtherType::ARP, &arp_request(source)?)),
        frame("IPv4", other, typed(EtherType::IPV4, &ipv4_packet()?)),
        frame(
            "IPv6 neighbor discovery",
            MacAddress([0x33, 0x33, 0xff, 0, 0, 9]),
            typed(EtherType::IPV6, &neighbor_solicitation(source)?),
        ),
        frame("unknown EtherType", other, typed(EtherType(0x88b6), &filler)),
        frame("802.3 length", other, typed(EtherType(100), &filler)),
        frame("the stream's address untagged", stream, typed(EtherType::IPV4, &ipv4_packet()?)),
        frame("the stream's address in another VLAN", stream, other_vlan),
        frame("two VLAN tags", other, double),
        frame("R-TAG without a stream", other, r_tag),
        frame("truncated R-TAG", other, [&EtherType::R_TAG.to_octets()[..], &[0, 0]].concat()),
    ])
}

/// An LLDP frame, which the next node receives.
pub(super) fn lldp(source: MacAddress) -> Probe {
    // Chassis id, port id, time to live, end (802.1AB clause 8).
    let mut data = vec![0x02, 7, 4];
    data.extend(source.0);
    data.extend([0x04, 7, 3]);
    data.extend(source.0);
    data.extend([0x06, 2, 0, 120, 0, 0]);
    let octets =
        [&address_pair(LLDP_GROUP, source), typed(EtherType::LLDP, &data).as_slice()].concat();
    Probe { name: "LLDP", octets: padded(octets) }
}

fn address_pair(destination: MacAddress, source: MacAddress) -> [u8; 12] {
    let mut octets = [0; 12];
    octets[..6].copy_from_slice(&destination.0);
    octets[6..].copy_from_slice(&source.0);
    octets
}

fn typed(ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    [&ethertype.to_octets(), payload].concat()
}

fn tagged(tags: &[VlanTag], ethertype: EtherType, payload: &[u8]) -> Result<Vec<u8>, EmitError> {
    let mut octets = Vec::new();
    for tag in tags {
        let mut buffer = [0; 4];
        tag.emit(&mut buffer)?;
        octets.extend(buffer);
    }
    octets.extend(typed(ethertype, payload));
    Ok(octets)
}

fn padded(mut octets: Vec<u8>) -> Vec<u8> {
    octets.resize(octets.len().max(ethernet::MIN_FRAME_LEN), 0);
    octets
}

fn arp_request(source: MacAddress) -> Result<Vec<u8>, EmitError> {
    let mut octets = vec![0; arp::PACKET_LEN];
    arp::Repr {
        operation: arp::Operation::REQUEST,
        sender_mac: source,
        sender_ip: Ipv4Addr::new(192, 0, 2, 1),
        target_mac: MacAddress::ZERO,
        target_ip: Ipv4Addr::new(192, 0, 2, 9),
    }
    .emit(&mut octets)?;
    Ok(octets)
}

fn ipv4_packet() -> Result<Vec<u8>, EmitError> {
    let (from, to) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(239, 255, 0, 1));
    let payload = [0x5a; 40];
    let datagram = udp::HEADER_LEN + payload.len();
    let mut octets = vec![0; ipv4::HEADER_LEN + datagram];
    ipv4::Repr::new(from, to, datagram as u16).emit(&mut octets)?;
    let (_, rest) = octets.split_at_mut(ipv4::HEADER_LEN);
    let ports = Ports { source: 4000, destination: 4001 };
    udp::Repr { ports, payload_len: payload.len() as u16 }.emit(rest)?;
    rest[udp::HEADER_LEN..].copy_from_slice(&payload);
    // The datagram is complete, so that its checksum can be computed.
    let _ = udp::fill_checksum(rest, from.into(), to.into());
    Ok(octets)
}

fn neighbor_solicitation(source: MacAddress) -> Result<Vec<u8>, EmitError> {
    let from = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    let target = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 9);
    // Type 135, code, checksum, reserved, target, option 1: source link-layer address (RFC 4861).
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    message.extend([1, 1]);
    message.extend(source.0);
    let len = message.len() as u32;
    let mut sum = onbeat_wire::checksum::Checksum::pseudo_header(
        IpAddr::V6(from),
        IpAddr::V6(group),
        ICMPV6,
        len,
    );
    sum.add(&message);
    message[2..4].copy_from_slice(&sum.finish().to_be_bytes());
    let mut header = ipv6::Repr::new(from, group, len as u16);
    header.next_header = ICMPV6;
    header.hop_limit = 255;
    let mut octets = vec![0; ipv6::HEADER_LEN];
    header.emit(&mut octets)?;
    octets.extend(message);
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_wire::Frame;

    const SOURCE: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const STREAM: MacAddress = MacAddress([1, 0, 0x5e, 0, 0, 1]);

    #[test]
    fn probes_have_their_type_and_match_no_stream() {
        let probes = to_hosts(SOURCE, STREAM, 10).unwrap();
        for probe in &probes {
            let Ok(frame) = Frame::parse(&probe.octets) else {
                assert!(probe.name.starts_with("truncated"), "{}", probe.name);
                continue;
            };
            let vlan = frame.vlan().map_or(0, |tag| tag.vid);
            assert!(frame.destination() != STREAM || vlan != 10, "{}", probe.name);
            assert!(probe.octets.len() >= ethernet::MIN_FRAME_LEN);
            assert_eq!(frame.sequence_tag().is_some(), probe.name.starts_with("R-TAG"));
            assert!(frame.ip().is_ok(), "{}", probe.name);
        }
        assert!(lldp(SOURCE).octets.starts_with(&LLDP_GROUP.0));
    }

    #[test]
    fn probes_are_distinct() {
        let probes = to_hosts(SOURCE, STREAM, 10).unwrap();
        for (place, probe) in probes.iter().enumerate() {
            assert!(probes[..place].iter().all(|other| other.octets != probe.octets));
        }
    }
}

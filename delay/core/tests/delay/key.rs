//! Packet keys: changes by a hop make no difference, all others do.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use onbeat_delay::capture::{LinkType, Packet};
use onbeat_delay::key::{NoKeyReason, Recognition};
use onbeat_delay::pairing::Side;
use onbeat_wire::edit::{Edit, RTagAction, VlanAction, edit};
use onbeat_wire::{
    EtherType, Frame, MacAddress, Ports, Protocol, VlanTag, ethernet, ipv4, ipv6, udp,
};

const PLAIN: Recognition = Recognition { nat: false, reply: false, octets: usize::MAX };
const NAT: Recognition = Recognition { nat: true, ..PLAIN };
const REPLY: Recognition = Recognition { reply: true, ..PLAIN };

fn key_of(recognition: &Recognition, link: LinkType, octets: &[u8]) -> Result<u64, NoKeyReason> {
    cut_key_of(recognition, link, octets, octets.len())
}

fn cut_key_of(
    recognition: &Recognition,
    link: LinkType,
    octets: &[u8],
    wire_len: usize,
) -> Result<u64, NoKeyReason> {
    recognition.key(&packet(link, octets, wire_len))
}

fn packet(link: LinkType, octets: &[u8], wire_len: usize) -> Packet<'_> {
    Packet {
        number: 1,
        time_ns: 0,
        interface: 0,
        interface_name: None,
        direction: None,
        link,
        wire_len: wire_len as u32,
        octets,
    }
}

fn departure_key(recognition: &Recognition, octets: &[u8]) -> u64 {
    let packet = packet(LinkType::ETHERNET, octets, octets.len());
    recognition.key_on(Side::Departures, &packet).unwrap()
}

fn key(recognition: &Recognition, octets: &[u8]) -> u64 {
    key_of(recognition, LinkType::ETHERNET, octets).unwrap()
}

fn frame(ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let header = ethernet::Repr {
        destination: MacAddress([2, 0, 0, 0, 0, 1]),
        source: MacAddress([2, 0, 0, 0, 0, 2]),
        ethertype,
    };
    let mut octets = vec![0; header.buffer_len()];
    header.emit(&mut octets).unwrap();
    [&octets, payload].concat()
}

/// A datagram between these ends, checksums right.
fn datagram(source: (IpAddr, u16), destination: (IpAddr, u16), payload: &[u8]) -> Vec<u8> {
    let len = (udp::HEADER_LEN + payload.len()) as u16;
    let mut octets = vec![0; 40];
    let (ethertype, header_len) = match (source.0, destination.0) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let header = ipv4::Repr { identification: 9, ..ipv4::Repr::new(from, to, len) };
            (EtherType::IPV4, header.emit(&mut octets).unwrap())
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = ipv6::Repr {
                dscp: 0,
                ecn: 0,
                flow_label: 5,
                next_header: Protocol::UDP,
                hop_limit: 64,
                source: from,
                destination: to,
                payload_len: len,
            };
            (EtherType::IPV6, header.emit(&mut octets).unwrap())
        }
        _ => unreachable!("both ends of one kind"),
    };
    octets.truncate(header_len);
    let ports = Ports { source: source.1, destination: destination.1 };
    let mut transport = vec![0; udp::HEADER_LEN];
    let header = udp::Repr { ports, payload_len: payload.len() as u16 };
    header.emit(&mut transport).unwrap();
    transport.extend(payload);
    udp::fill_checksum(&mut transport, source.0, destination.0).unwrap();
    octets.extend(transport);
    frame(ethertype, &octets)
}

const V4: [(IpAddr, u16); 2] = [
    (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 5000),
    (IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1)), 5001),
];
const V6: [(IpAddr, u16); 2] = [
    (IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)), 5000),
    (IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 1)), 5001),
];
const PAYLOAD: &[u8] = b"a payload of some length, longer than the padding";

/// Tags come and go, addresses change, whatever the frame holds.
#[test]
fn tags_and_addresses_are_ignored() {
    for octets in [
        datagram(V4[0], V4[1], PAYLOAD),
        datagram(V6[0], V6[1], PAYLOAD),
        frame(EtherType(0x88ab), PAYLOAD),
    ] {
        let parsed = Frame::parse(&octets).unwrap();
        for change in [
            Edit { rtag: RTagAction::Push(4711), ..Edit::default() },
            Edit { vlan: VlanAction::Push(VlanTag::new(7)), ..Edit::default() },
            Edit {
                rtag: RTagAction::Push(1),
                vlan: VlanAction::Push(VlanTag::new(7)),
                destination: Some(MacAddress([2, 0, 0, 0, 0, 9])),
                ..Edit::default()
            },
        ] {
            let mut changed = vec![0; octets.len() + 16];
            let len = edit(&parsed, &change, &mut changed).unwrap();
            changed.truncate(len);
            assert_ne!(changed, octets);
            assert_eq!(key(&PLAIN, &changed), key(&PLAIN, &octets));
        }
    }
}

/// A router decrements TTL, marks, and rewrites checksums; a NIC has not inserted them yet.
#[test]
fn fields_that_a_router_rewrites_are_ignored() {
    let octets = datagram(V4[0], V4[1], PAYLOAD);
    for at in [1, 8, 10, 11, 20 + 6, 20 + 7] {
        let mut changed = octets.clone();
        changed[14 + at] ^= 0x41;
        assert_eq!(key(&PLAIN, &changed), key(&PLAIN, &octets), "octet {at} of the packet");
    }
    let octets = datagram(V6[0], V6[1], PAYLOAD);
    for at in [1, 2, 3, 7, 40 + 6, 40 + 7] {
        let mut changed = octets.clone();
        changed[14 + at] ^= 0x0f;
        assert_eq!(key(&PLAIN, &changed), key(&PLAIN, &octets), "octet {at} of the packet");
    }
}

/// Every other octet makes another packet.
#[test]
fn every_other_octet_counts() {
    let octets = datagram(V4[0], V4[1], PAYLOAD);
    let left_out = [0, 1, 2, 3, 6, 7, 8, 10, 11, 26, 27];
    for at in (0..octets.len() - 14).filter(|at| !left_out.contains(at)) {
        let mut changed = octets.clone();
        changed[14 + at] ^= 1;
        assert_ne!(key(&PLAIN, &changed), key(&PLAIN, &octets), "octet {at} of the packet");
    }
    // More fragments, and where the fragment belongs; but not whether there may be any.
    for (bit, counts) in [(0x20, true), (0x01, true), (0x40, false)] {
        let mut changed = octets.clone();
        changed[14 + 6] ^= bit;
        assert_eq!(key(&PLAIN, &changed) != key(&PLAIN, &octets), counts, "{bit:#x}");
    }
}

#[test]
fn padding_is_no_part_of_a_packet() {
    for octets in [datagram(V4[0], V4[1], b"a"), frame(EtherType(0x88ab), b"abc")] {
        let mut padded = octets.clone();
        padded.resize(60, 0);
        assert_eq!(key(&PLAIN, &padded), key(&PLAIN, &octets));
        let mut other = padded.clone();
        *other.last_mut().unwrap() = 1;
        // Behind an IP packet's end nothing counts; any other protocol's end is not known.
        let is_ip = octets[12] == 8;
        assert_eq!(key(&PLAIN, &other) == key(&PLAIN, &octets), is_ip);
    }
}

#[test]
fn translated_addresses() {
    let octets = datagram(V4[0], V4[1], PAYLOAD);
    let translated = datagram((Ipv4Addr::new(192, 0, 2, 1).into(), 61_000), V4[1], PAYLOAD);
    assert_ne!(key(&PLAIN, &octets), key(&PLAIN, &translated));
    assert_eq!(key(&NAT, &octets), key(&NAT, &translated));
    let other = datagram(V4[0], V4[1], b"another payload");
    assert_ne!(key(&NAT, &octets), key(&NAT, &other));
}

#[test]
fn replies() {
    for [here, there] in [V4, V6] {
        let request = datagram(here, there, PAYLOAD);
        let mut reply = datagram(there, here, PAYLOAD);
        reply[14 + 5] ^= if reply[12] == 8 { 0x55 } else { 0 };
        assert_ne!(key(&PLAIN, &request), key(&PLAIN, &reply));
        assert_eq!(key(&REPLY, &request), departure_key(&REPLY, &reply));
        assert_ne!(key(&REPLY, &request), departure_key(&REPLY, &request), "forwarded");
        assert_eq!(key(&PLAIN, &request), departure_key(&PLAIN, &request));
    }
    // ICMP: a request of type 8, its reply of type 0.
    let echo = |kind: u8, number: u8, [source, destination]: [(IpAddr, u16); 2]| {
        let mut octets = datagram(source, destination, &[number; 24]);
        octets[14 + 9] = 1;
        octets[34..42].copy_from_slice(&[kind, 0, kind, 9, 0, 7, 0, number]);
        octets
    };
    let (there, back) = (V4, [V4[1], V4[0]]);
    assert_eq!(key(&REPLY, &echo(8, 1, there)), departure_key(&REPLY, &echo(0, 1, back)));
    assert_ne!(key(&REPLY, &echo(8, 1, there)), departure_key(&REPLY, &echo(0, 2, back)));
    assert_ne!(key(&REPLY, &echo(8, 1, there)), departure_key(&REPLY, &echo(8, 1, there)));
    assert_ne!(key(&PLAIN, &echo(8, 1, there)), key(&PLAIN, &echo(0, 1, there)));
}

/// The same packet behind any link header.
#[test]
fn link_types() {
    let octets = datagram(V4[0], V4[1], PAYLOAD);
    let packet = &octets[14..];
    let cooked = [&[0; 14][..], &[8, 0], packet].concat();
    let cooked_2 = [&[8, 0][..], &[0; 18], packet].concat();
    for (link, octets) in [
        (LinkType::RAW_IP, packet),
        (LinkType::LINUX_SLL, &cooked[..]),
        (LinkType::LINUX_SLL2, &cooked_2[..]),
    ] {
        assert_eq!(key_of(&PLAIN, link, octets), Ok(key(&PLAIN, &octets_of(&cooked[16..]))));
    }
    let radio = LinkType(127);
    assert_eq!(key_of(&PLAIN, radio, &octets), Err(NoKeyReason::Link(radio)));
}

fn octets_of(packet: &[u8]) -> Vec<u8> {
    frame(EtherType::IPV4, packet)
}

/// A capture that cut packets can be matched with one that did not, by the octets that both hold.
#[test]
fn cut_packets() {
    let octets = datagram(V4[0], V4[1], PAYLOAD);
    let prefix = Recognition { octets: 40, ..PLAIN };
    let whole = key(&prefix, &octets);
    assert_eq!(cut_key_of(&prefix, LinkType::ETHERNET, &octets[..54], octets.len()), Ok(whole));
    let cut = cut_key_of(&prefix, LinkType::ETHERNET, &octets[..53], octets.len());
    assert_eq!(cut, Err(NoKeyReason::Cut { captured: 39 }));
    for len in 0..octets.len() {
        let cut = cut_key_of(&PLAIN, LinkType::ETHERNET, &octets[..len], octets.len());
        assert!(matches!(cut, Err(NoKeyReason::Cut { .. })), "{len}: {cut:?}");
    }
    // Where the wire had no more, there is no such packet.
    for len in (0..octets.len()).filter(|len| *len != 14) {
        let ended = key_of(&PLAIN, LinkType::ETHERNET, &octets[..len]);
        assert_eq!(ended, Err(NoKeyReason::Malformed), "{len}");
    }
}

#[test]
fn packets_that_contradict_themselves() {
    let octets = datagram(V4[0], V4[1], PAYLOAD);
    for (at, octet) in [(14, 0x44), (16, 0xff), (17, 19)] {
        let mut wrong = octets.clone();
        wrong[at] = octet;
        let found = key_of(&PLAIN, LinkType::ETHERNET, &wrong);
        assert_eq!(found, Err(NoKeyReason::Malformed), "octet {at}");
    }
    let mut wrong = datagram(V6[0], V6[1], PAYLOAD);
    wrong[14 + 4] = 0xff;
    assert_eq!(key_of(&PLAIN, LinkType::ETHERNET, &wrong), Err(NoKeyReason::Malformed));
}

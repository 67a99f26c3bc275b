//! No octets make a codec panic, and emitted octets are parsed again. The targets in fuzz/ search longer;
//! these run with every test.

use onbeat_wire::edit::{Edit, EditError, MAX_GROWTH, RTagAction, VlanAction, edit};
use onbeat_wire::prp::supervision::{self, SupervisionError};
use onbeat_wire::prp::{Lan, Tail};
use onbeat_wire::{
    EmitError, EtherType, Frame, Ip, MacAddress, Ports, Protocol, SequenceTag, VlanTag, arp,
    ethernet, hsr, ipv4, ipv6, prp, rtag, udp, vlan,
};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Octets, any of which may start with a known EtherType.
fn octets() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..24),
        1 => Just(vec![0x81, 0x00]),
        1 => Just(vec![0x88, 0xa8]),
        1 => Just(vec![0xf1, 0xc1]),
        1 => Just(vec![0x89, 0x2f]),
        1 => Just(vec![0x08, 0x00, 0x45]),
        1 => Just(vec![0x86, 0xdd, 0x60]),
        1 => Just(vec![0x88, 0xfb]),
        1 => Just(vec![0; 4]),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

fn mac() -> impl Strategy<Value = MacAddress> {
    any::<[u8; 6]>().prop_map(MacAddress)
}

fn vlan_tag() -> impl Strategy<Value = VlanTag> {
    let tpid = prop_oneof![Just(EtherType::C_VLAN), Just(EtherType::S_VLAN)];
    (tpid, 0..=7u8, any::<bool>(), 0..=4095u16).prop_map(|(tpid, pcp, dei, vid)| VlanTag {
        tpid,
        pcp,
        dei,
        vid,
    })
}

fn sequence_tag() -> impl Strategy<Value = SequenceTag> {
    let rtag = any::<u16>().prop_map(|sequence| SequenceTag::RTag(rtag::Repr { sequence }));
    let hsr = (0..=15u8, 0..=4095u16, any::<u16>()).prop_map(|(path, lsdu_size, sequence)| {
        SequenceTag::Hsr(hsr::Repr { path, lsdu_size, sequence })
    });
    prop_oneof![rtag, hsr]
}

/// The parts of a frame with valid headers.
#[derive(Debug, Clone)]
struct Parts {
    destination: MacAddress,
    source: MacAddress,
    vlans: Vec<VlanTag>,
    sequence: Option<SequenceTag>,
    ethertype: EtherType,
    payload: Vec<u8>,
}

impl Parts {
    fn octets(&self) -> Vec<u8> {
        let mut octets = [self.destination.0, self.source.0].concat();
        for tag in &self.vlans {
            octets.extend(emitted(|buffer| tag.emit(buffer)));
        }
        match self.sequence {
            Some(SequenceTag::RTag(tag)) => octets.extend(emitted(|buffer| tag.emit(buffer))),
            Some(SequenceTag::Hsr(tag)) => octets.extend(emitted(|buffer| tag.emit(buffer))),
            None => {}
        }
        octets.extend(self.ethertype.to_octets());
        octets.extend(&self.payload);
        octets
    }
}

fn parts() -> impl Strategy<Value = Parts> {
    let payload = prop_oneof![
        octets().prop_map(|payload| (EtherType(0x88b5), payload)),
        any::<([u8; 4], [u8; 4], [u8; 8])>().prop_map(|(source, destination, data)| {
            let repr = ipv4::Repr::new(Ipv4Addr::from(source), Ipv4Addr::from(destination), 8);
            (EtherType::IPV4, [emitted(|buffer| repr.emit(buffer)), data.to_vec()].concat())
        }),
        any::<([u8; 16], [u8; 16], [u8; 8])>().prop_map(|(source, destination, data)| {
            let repr = ipv6::Repr::new(Ipv6Addr::from(source), Ipv6Addr::from(destination), 8);
            (EtherType::IPV6, [emitted(|buffer| repr.emit(buffer)), data.to_vec()].concat())
        }),
    ];
    let vlans = prop::collection::vec(vlan_tag(), 0..=2);
    (mac(), mac(), vlans, prop::option::of(sequence_tag()), payload).prop_map(
        |(destination, source, vlans, sequence, (ethertype, payload))| Parts {
            destination,
            source,
            vlans,
            sequence,
            ethertype,
            payload,
        },
    )
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let vlan = prop_oneof![
        Just(VlanAction::Keep),
        (0..=4096u16).prop_map(VlanAction::Set),
        vlan_tag().prop_map(VlanAction::Push),
        Just(VlanAction::Remove),
    ];
    let rtag = prop_oneof![
        Just(RTagAction::Keep),
        any::<u16>().prop_map(RTagAction::Push),
        Just(RTagAction::Remove),
    ];
    (prop::option::of(mac()), vlan, prop::option::of(0..=8u8), rtag)
        .prop_map(|(destination, vlan, priority, rtag)| Edit { destination, vlan, priority, rtag })
}

/// A TLV of a supervision frame, whose length may be that of its type.
fn tlv() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![
        4 => prop::sample::select(vec![20, 21, 23, 30]),
        1 => any::<u8>(),
    ];
    let len = prop_oneof![4 => Just(6), 1 => 0..=20usize];
    (kind, len, any::<[u8; 20]>())
        .prop_map(|(kind, len, value)| [&[kind, len as u8], &value[..len]].concat())
}

fn supervision(octets: &[u8]) -> Result<supervision::Repr, SupervisionError> {
    supervision::View::new_checked(octets).map(|view| supervision::Repr::parse(&view))
}

/// Returns the octets that `emit` writes into a buffer of 0xa5.
fn emitted(emit: impl Fn(&mut [u8]) -> Result<usize, EmitError>) -> Vec<u8> {
    let mut buffer = [0xa5; 64];
    let len = emit(&mut buffer).expect("values that fit");
    assert!(buffer[len..].iter().all(|octet| *octet == 0xa5));
    buffer[..len].to_vec()
}

proptest! {
    #[test]
    fn parsers(octets in octets()) {
        if let Ok(view) = ethernet::Header::new_checked(&octets) {
            let repr = ethernet::Repr::parse(&view);
            prop_assert_eq!(&emitted(|buffer| repr.emit(buffer)), &octets[..14]);
        }
        if let Ok(view) = vlan::View::new_checked(&octets) {
            let repr = VlanTag::parse(&view);
            prop_assert_eq!(&emitted(|buffer| repr.emit(buffer)), &octets[..4]);
        }
        if let Ok(view) = rtag::View::new_checked(&octets) {
            let repr = rtag::Repr::parse(&view);
            prop_assert_eq!(&emitted(|buffer| repr.emit(buffer))[4..], &octets[4..6]);
        }
        if let Ok(view) = hsr::View::new_checked(&octets) {
            let repr = hsr::Repr::parse(&view);
            prop_assert_eq!(&emitted(|buffer| repr.emit(buffer)), &octets[..6]);
        }
        if let Ok(view) = arp::View::new_checked(&octets) {
            let repr = arp::Repr::parse(&view);
            prop_assert_eq!(&emitted(|buffer| repr.emit(buffer)), &octets[..28]);
        }
        if let Ok(view) = udp::View::new_checked(&octets) {
            let repr = udp::Repr::parse(&view);
            prop_assert_eq!(&emitted(|buffer| repr.emit(buffer))[..6], &octets[..6]);
        }
        if let Ok(ports) = Ports::parse(&octets) {
            prop_assert_eq!(&emitted(|buffer| ports.emit(buffer)), &octets[..4]);
        }
        let _ = prp::View::new_checked(&octets).map(|view| prp::Repr::parse(&view));
        let _ = supervision(&octets).map_err(|error| error.to_string());
        let _ = Ip::parse(EtherType::IPV4, &octets);
        let _ = Ip::parse(EtherType::IPV6, &octets);
    }

    #[test]
    fn ip_versions(mut octets in octets(), len in 0..80u16) {
        octets.resize(octets.len().max(40), 0);
        octets[0] = 0x45;
        octets[2..4].copy_from_slice(&len.to_be_bytes());
        if let Ok(view) = ipv4::View::new_checked(&octets) {
            prop_assert_eq!(view.payload().len() + 20, usize::from(len));
            let repr = ipv4::Repr::parse(&view);
            let again = [&emitted(|buffer| repr.emit(buffer)), view.payload()].concat();
            let view = ipv4::View::new_checked(&again).unwrap();
            prop_assert!(view.verify_checksum());
            prop_assert_eq!(ipv4::Repr::parse(&view), repr);
        }
        octets[0] = 0x60;
        octets[4..6].copy_from_slice(&len.to_be_bytes());
        if let Ok(view) = ipv6::View::new_checked(&octets) {
            prop_assert_eq!(view.payload().len(), usize::from(len));
            let repr = ipv6::Repr::parse(&view);
            prop_assert_eq!(&emitted(|buffer| repr.emit(buffer)), &octets[..40]);
            for next in 0..=255 {
                let mut octets = octets.clone();
                octets[6] = next;
                let view = ipv6::View::new_checked(&octets).unwrap();
                if let Ok(upper) = view.upper() {
                    prop_assert!(view.payload().ends_with(upper.payload));
                }
            }
        }
    }

    #[test]
    fn frames_of_any_octets(octets in octets(), edit_ in any_edit()) {
        if let Ok(frame) = Frame::parse(&octets) {
            let _ = (frame.to_string(), frame.ip(), frame.prp());
            prop_assert!(octets.ends_with(frame.payload()));
            let mut out = vec![0xa5; octets.len() + MAX_GROWTH];
            let result = edit(&frame, &edit_, &mut out);
            let no_room = matches!(result, Err(EditError::Emit(EmitError::NoRoom { .. })));
            prop_assert!(!no_room, "MAX_GROWTH is enough for every edit");
        } else {
            prop_assert!(octets.len() < 28);
        }
    }

    #[test]
    fn frames_of_parts(parts in parts()) {
        let octets = parts.octets();
        let frame = Frame::parse(&octets).unwrap();
        prop_assert_eq!(frame.destination(), parts.destination);
        prop_assert_eq!(frame.source(), parts.source);
        prop_assert_eq!(frame.vlans().collect::<Vec<_>>(), parts.vlans);
        prop_assert_eq!(frame.sequence_tag(), parts.sequence);
        prop_assert_eq!(frame.ethertype(), parts.ethertype);
        prop_assert_eq!(frame.payload(), parts.payload);
        let is_ip = matches!(parts.ethertype, EtherType::IPV4 | EtherType::IPV6);
        match frame.ip() {
            Ok(Some(ip)) => {
                prop_assert!(is_ip && ip.protocol == Protocol::UDP);
                prop_assert!(ip.ports.is_some());
            }
            other => prop_assert!(!is_ip && other == Ok(None)),
        }
    }

    #[test]
    fn frames_cut_off_at_every_octet(parts in parts(), edit_ in any_edit()) {
        let octets = parts.octets();
        let headers = octets.len() - parts.payload.len();
        for len in 0..=octets.len() {
            let cut = &octets[..len];
            match Frame::parse(cut) {
                Ok(frame) => {
                    prop_assert!(len >= headers);
                    // Whatever is cut off an IP packet here is missing in it.
                    let is_ip = frame.ip().is_ok_and(|ip| ip.is_some());
                    prop_assert!(!is_ip || len == octets.len());
                    let mut out = vec![0xa5; len + MAX_GROWTH];
                    if let Ok(written) = edit(&frame, &edit_, &mut out) {
                        prop_assert!(out[written..].iter().all(|octet| *octet == 0xa5));
                    }
                }
                Err(error) => {
                    prop_assert!(len < headers);
                    prop_assert!(error.len < error.needed);
                }
            }
        }
    }

    #[test]
    fn edits_have_their_defined_effect(parts in parts(), edit_ in any_edit()) {
        let octets = parts.octets();
        let frame = Frame::parse(&octets).unwrap();
        let mut out = vec![0xa5; octets.len() + MAX_GROWTH];
        let result = edit(&frame, &edit_, &mut out);

        // The same on the parts.
        let mut expected = parts.clone();
        expected.destination = edit_.destination.unwrap_or(parts.destination);
        match edit_.vlan {
            VlanAction::Keep => {}
            VlanAction::Set(vid) => match expected.vlans.first_mut() {
                Some(outer) => outer.vid = vid,
                None => expected.vlans.push(VlanTag::new(vid)),
            },
            VlanAction::Push(tag) => expected.vlans.insert(0, tag),
            VlanAction::Remove => {
                expected.vlans.drain(..1.min(parts.vlans.len()));
            }
        }
        if let (Some(outer), Some(pcp)) = (expected.vlans.first_mut(), edit_.priority) {
            outer.pcp = pcp;
        }
        let too_many = expected.vlans.len() > 2;
        let too_wide = expected.vlans.iter().any(|tag| tag.vid > 4095 || tag.pcp > 7);
        let mut tagged_already = false;
        match (edit_.rtag, parts.sequence) {
            (RTagAction::Push(_), Some(_)) => tagged_already = true,
            (RTagAction::Push(sequence), None) => {
                expected.sequence = Some(SequenceTag::RTag(rtag::Repr { sequence }));
            }
            (RTagAction::Remove, Some(SequenceTag::RTag(_))) => expected.sequence = None,
            _ => {}
        }
        match result {
            Ok(len) => prop_assert_eq!(&out[..len], expected.octets()),
            Err(EditError::TooManyVlans) => prop_assert!(too_many),
            Err(EditError::AlreadyTagged(tag)) => {
                prop_assert!(tagged_already && Some(tag) == parts.sequence);
            }
            Err(EditError::Emit(error)) => {
                let out_of_range = matches!(error, EmitError::OutOfRange { .. });
                prop_assert!(too_wide && out_of_range, "{}", error);
            }
        }
        prop_assert_eq!(result.is_ok(), !(too_many || too_wide || tagged_already));
    }

    #[test]
    fn supervision_frames(
        head in (0..=2u8, any::<u16>()),
        tlvs in prop::collection::vec(tlv(), 0..4),
        rest in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let head = [&[0, head.0][..], &head.1.to_be_bytes()].concat();
        let octets = [head, tlvs.concat(), vec![0, 0], rest].concat();
        let whole = supervision(&octets);
        for len in 0..octets.len() {
            match supervision(&octets[..len]) {
                Err(SupervisionError::Truncated(error)) => prop_assert!(error.len < error.needed),
                other => prop_assert_eq!(other, whole),
            }
        }
        if let Ok(repr) = whole {
            let again = emitted(|buffer| repr.emit(buffer));
            prop_assert_eq!(again.len(), repr.buffer_len());
            prop_assert_eq!(supervision(&again), Ok(repr));
        }
    }

    #[test]
    fn frames_with_tails(parts in parts(), sequence: u16, lan in prop_oneof![Just(Lan::A), Just(Lan::B)]) {
        let octets = parts.octets();
        let tail = Tail::of(&Frame::parse(&octets).unwrap(), sequence, lan).unwrap();
        let sent = [&octets[..], &tail].concat();
        let trailer = Frame::parse(&sent).unwrap().prp().unwrap();
        prop_assert_eq!((trailer.sequence, trailer.lan), (sequence, lan));
        let min_len = if parts.vlans.is_empty() { 60 } else { 64 };
        prop_assert_eq!(sent.len(), octets.len().max(min_len) + trailer.buffer_len());
    }

    #[test]
    fn addresses_as_text(address in mac(), text in "\\PC*") {
        prop_assert_eq!(address.to_string().parse(), Ok(address));
        let _ = text.parse::<MacAddress>();
    }
}

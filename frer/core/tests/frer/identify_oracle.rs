//! Compares the table with a search through all members in the documented order, for random members.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr};

use onbeat_frer::identify::{Fields, IpFields, MemberRef, Table};
use onbeat_frer::spec::{
    Identification, IpMatch, MaskAndMatch, Member, NextProtocol, PortId, Rewrite, Stream, TagMatch,
    VlanMatch,
};
use onbeat_wire::MacAddress;
use proptest::prelude::*;

// Few values for each field, so that members overlap and frames match several.

fn mac() -> impl Strategy<Value = MacAddress> {
    (0..2u8).prop_map(|last| MacAddress([2, 0, 0, 0, 0, last]))
}

fn address() -> impl Strategy<Value = IpAddr> {
    (1..3u8).prop_map(|last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)))
}

fn vlan() -> impl Strategy<Value = VlanMatch> {
    let tagged = prop_oneof![Just(TagMatch::Tagged), Just(TagMatch::Priority), Just(TagMatch::All)];
    (tagged, 0..3u16).prop_map(|(tagged, vlan)| VlanMatch {
        tagged,
        vlan: if tagged == TagMatch::Priority { 0 } else { vlan },
    })
}

fn next_protocol() -> impl Strategy<Value = NextProtocol> {
    let port = || prop::option::of(1..3u16);
    (0..3u8, port(), port()).prop_map(|(protocol, source, destination)| match protocol {
        0 => NextProtocol::None,
        1 => NextProtocol::Udp { source, destination },
        _ => NextProtocol::Tcp { source, destination },
    })
}

fn mask_and_match() -> impl Strategy<Value = MaskAndMatch> {
    let mask = prop_oneof![Just(0u8), Just(1u8), Just(3u8)];
    let msdu = prop_oneof![
        Just((vec![], vec![])),
        Just((vec![0xff, 0xff], vec![8, 0])),
        Just((vec![0xff, 0], vec![8, 0])),
    ];
    (mask, 0..2u8, msdu).prop_map(|(mask, value, (msdu_mask, msdu_match))| MaskAndMatch {
        destination_mask: MacAddress([0, 0, 0, 0, 0, mask]),
        destination_match: MacAddress([0, 0, 0, 0, 0, value & mask]),
        source_mask: MacAddress([0; 6]),
        source_match: MacAddress([0; 6]),
        msdu_mask,
        msdu_match,
    })
}

fn identification() -> impl Strategy<Value = Identification> {
    let ip = (mac(), vlan(), prop::option::of(address()), address(), next_protocol());
    prop_oneof![
        (mac(), vlan()).prop_map(|(destination, vlan)| Identification::Null { destination, vlan }),
        (mac(), vlan()).prop_map(|(source, vlan)| Identification::SourceMacVlan { source, vlan }),
        (mac(), vlan()).prop_map(|(destination, vlan)| Identification::ActiveDestination {
            destination,
            vlan,
            up: Rewrite::default()
        }),
        mask_and_match().prop_map(Identification::MaskAndMatch),
        (ip, prop::option::of(0..2u8)).prop_map(
            |((destination, vlan, ip_source, ip_destination, next_protocol), dscp)| {
                Identification::Ip(IpMatch {
                    destination,
                    vlan,
                    ip_source,
                    ip_destination,
                    dscp,
                    next_protocol,
                })
            }
        ),
    ]
}

#[derive(Debug, Clone)]
struct OwnedFrame {
    destination: MacAddress,
    source: MacAddress,
    vlan: Option<u16>,
    ip: Option<IpFields>,
    msdu: Vec<u8>,
}

impl OwnedFrame {
    fn fields(&self) -> Fields<'_> {
        let Self { destination, source, vlan, ip, msdu } = self;
        Fields { destination: *destination, source: *source, vlan: *vlan, ip: *ip, msdu }
    }
}

fn frame() -> impl Strategy<Value = OwnedFrame> {
    let ports = prop::option::of((1..3u16, 1..3u16));
    let protocol = prop_oneof![Just(17u8), Just(6), Just(1)];
    let ip = (address(), address(), 0..2u8, protocol, ports).prop_map(
        |(source, destination, dscp, protocol, ports)| IpFields {
            source,
            destination,
            dscp,
            protocol,
            ports: ports.filter(|_| protocol != 1),
        },
    );
    let msdu = prop_oneof![Just(vec![8, 0, 1]), Just(vec![8]), Just(vec![0x88, 0xb5])];
    (mac(), mac(), prop::option::of(0..4u16), prop::option::weighted(0.8, ip), msdu).prop_map(
        |(destination, source, vlan, ip, msdu)| OwnedFrame { destination, source, vlan, ip, msdu },
    )
}

/// The documented precedence; lower has precedence.
type Rank = (u32, i64, Reverse<(u32, [bool; 5])>, Reverse<Vec<u8>>, u16);

fn rank(identification: &Identification) -> Rank {
    let of_vlan = |vlan: &VlanMatch| match (vlan.tagged, vlan.vlan) {
        (TagMatch::Tagged, 1..) => 0,
        (TagMatch::Tagged, 0) => 1,
        (TagMatch::Priority, _) => 2,
        (TagMatch::All, 1..) => 3,
        (TagMatch::All, 0) => 4,
    };
    let of = |class, vlan: &VlanMatch, given: [bool; 5]| {
        let count = given.into_iter().map(u32::from).sum();
        (class, of_vlan(vlan), Reverse((count, given)), Reverse(vec![]), vlan.vlan)
    };
    match identification {
        Identification::Ip(ip) => {
            let (protocol, source, destination) = match ip.next_protocol {
                NextProtocol::None => (false, None, None),
                NextProtocol::Udp { source, destination }
                | NextProtocol::Tcp { source, destination }
                | NextProtocol::Sctp { source, destination } => (true, source, destination),
            };
            let (source, destination) = (source.is_some(), destination.is_some());
            let given = [ip.ip_source.is_some(), ip.dscp.is_some(), protocol, source, destination];
            of(0, &ip.vlan, given)
        }
        Identification::MaskAndMatch(mask) => {
            let masks = [&mask.destination_mask.0[..], &mask.source_mask.0, &mask.msdu_mask];
            let masks = masks.concat();
            let bits: i64 = masks.iter().map(|octet| i64::from(octet.count_ones())).sum();
            (1, -bits, Reverse((0, [false; 5])), Reverse(masks), 0)
        }
        Identification::Null { vlan, .. } | Identification::ActiveDestination { vlan, .. } => {
            of(2, vlan, [false; 5])
        }
        Identification::SourceMacVlan { vlan, .. } => of(3, vlan, [false; 5]),
    }
}

fn equal(a: &Identification, b: &Identification) -> bool {
    use Identification::{ActiveDestination, Null};
    match (a, b) {
        (
            Null { destination: d, vlan: v } | ActiveDestination { destination: d, vlan: v, .. },
            Null { destination, vlan } | ActiveDestination { destination, vlan, .. },
        ) => d == destination && v == vlan,
        _ => a == b,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn lookup_equals_a_linear_search(
        // Each with its port; frames arrive at port 0.
        identifications in prop::collection::vec((identification(), 0..2u8), 1..25),
        frames in prop::collection::vec(frame(), 1..40),
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let streams = |identifications: &[(Identification, u8)]| -> Vec<Stream> {
            let member = |(identification, port): &(Identification, u8)| Member {
                port: PortId(*port),
                identification: identification.clone(),
                individual: None,
            };
            // Two members per stream.
            let streams = identifications.chunks(2).map(|pair| Stream {
                name: String::new(),
                members: pair.iter().map(member).collect(),
                generate: false,
                recover: None,
                egress: vec![],
            });
            streams.collect()
        };
        let mut apart: Vec<(Identification, u8)> = Vec::new();
        for (identification, port) in &identifications {
            let same = |(other, at): &(Identification, u8)| at == port && equal(other, identification);
            if !apart.iter().any(same) {
                apart.push((identification.clone(), *port));
            }
        }
        let all = streams(&identifications);
        let conflict = [0, 1].iter().any(|port| Table::new(&all, PortId(*port)).is_err());
        prop_assert_eq!(conflict, apart.len() < identifications.len());

        // With all members, and after some of them have been removed.
        let mut table = Table::new(&streams(&apart), PortId(0)).unwrap();
        let mut there = vec![true; apart.len()];
        for index in std::iter::once(None).chain(gone.into_iter().map(Some)) {
            if let Some(index) = index {
                let index = index.index(apart.len());
                let (identification, port) = &apart[index];
                let had = std::mem::replace(&mut there[index], false) && *port == 0;
                let at = MemberRef { stream: index / 2, member: index % 2 };
                if *port == 0 {
                    prop_assert_eq!(table.remove(identification), had.then_some(at));
                }
            }
            for frame in &frames {
                let fields = frame.fields();
                let matching = apart.iter().zip(&there).enumerate().filter(
                    |(_, ((other, port), there))| **there && *port == 0 && other.matches(&fields),
                );
                let first = matching.min_by_key(|(_, ((other, _), _))| rank(other));
                let expected =
                    first.map(|(index, _)| MemberRef { stream: index / 2, member: index % 2 });
                prop_assert_eq!(table.lookup(&fields), expected, "{:?}", frame);
            }
        }
    }
}

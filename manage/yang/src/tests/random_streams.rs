//! Random streams.

use std::net::IpAddr;

use onbeat_frer::identify::Table;
use onbeat_frer::spec::*;
use onbeat_wire::MacAddress;
use onbeat_yang::{Interface, KeptHandles, handles};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::subsequence;

pub(crate) const PORTS: u8 = 5;

pub(crate) fn interfaces() -> Vec<Interface> {
    (0..PORTS).map(|n| Interface { name: format!("eth{n}"), longest_mask: 1984 }).collect()
}

fn mac() -> impl Strategy<Value = MacAddress> {
    any::<[u8; 6]>()
        .prop_map(|octets| MacAddress([octets[0] & 0xfe, octets[1], 0, 0, 0, octets[5]]))
}

fn vlan() -> impl Strategy<Value = VlanMatch> {
    prop_oneof![
        (1..=4094u16).prop_map(|vlan| VlanMatch { tagged: TagMatch::Tagged, vlan }),
        (1..=4094u16).prop_map(|vlan| VlanMatch { tagged: TagMatch::All, vlan }),
        Just(VlanMatch { tagged: TagMatch::Priority, vlan: 0 }),
        Just(VlanMatch { tagged: TagMatch::Tagged, vlan: 0 }),
        Just(VlanMatch { tagged: TagMatch::All, vlan: 0 }),
    ]
}

fn rewrite() -> impl Strategy<Value = Rewrite> {
    let vlan = prop_oneof![
        Just(VlanAction::Keep),
        Just(VlanAction::Remove),
        (1..=4094u16).prop_map(VlanAction::Set)
    ];
    (option::of(mac()), vlan, option::of(0..8u8)).prop_map(|(destination, vlan, priority)| {
        let priority = priority.filter(|_| vlan != VlanAction::Remove);
        Rewrite { destination, vlan, priority }
    })
}

fn ip() -> impl Strategy<Value = IpMatch> {
    let address = |v6: bool, n: u32| match v6 {
        true => IpAddr::V6((u128::from(n) << 64 | 1).into()),
        false => IpAddr::V4((n | 1).into()),
    };
    let port = || option::of(1..=u16::MAX);
    let fields = (any::<bool>(), option::of(any::<u32>()), any::<u32>());
    (mac(), vlan(), fields, option::of(0..64u8), 0..4u8, port(), port()).prop_map(
        move |(destination, vlan, (v6, source, to), dscp, protocol, a, b)| IpMatch {
            destination,
            vlan,
            ip_source: source.map(|source| address(v6, source)),
            ip_destination: address(v6, to),
            dscp,
            next_protocol: match protocol {
                1 => NextProtocol::Udp { source: a, destination: b },
                2 => NextProtocol::Tcp { source: a, destination: b },
                3 => NextProtocol::Sctp { source: a, destination: b },
                _ => NextProtocol::None,
            },
        },
    )
}

fn mask() -> impl Strategy<Value = MaskAndMatch> {
    let msdu = prop_oneof![Just(Vec::new()), vec((any::<u8>(), any::<u8>()), 2..80)];
    (mac(), mac(), mac(), mac(), msdu).prop_map(|(mut mask, to, source_mask, from, msdu)| {
        mask.0[0] |= 1;
        MaskAndMatch {
            destination_mask: mask,
            destination_match: to.masked(mask),
            source_mask,
            source_match: from.masked(source_mask),
            msdu_mask: msdu.iter().map(|(mask, _)| *mask).collect(),
            msdu_match: msdu.iter().map(|(mask, value)| mask & value).collect(),
        }
    })
}

fn identification() -> impl Strategy<Value = Identification> {
    prop_oneof![
        (mac(), vlan()).prop_map(|(destination, vlan)| Identification::Null { destination, vlan }),
        (mac(), vlan()).prop_map(|(source, vlan)| Identification::SourceMacVlan { source, vlan }),
        (mac(), vlan(), rewrite()).prop_map(|(destination, vlan, mut up)| {
            up.destination.get_or_insert(MacAddress::ZERO);
            Identification::ActiveDestination { destination, vlan, up }
        }),
        ip().prop_map(Identification::Ip),
        mask().prop_map(Identification::MaskAndMatch),
    ]
}

fn recovery(role: Role) -> impl Strategy<Value = Recovery> {
    let algorithm = prop_oneof![
        Just(Algorithm::Match),
        (2..=MAX_HISTORY).prop_map(|history_length| Algorithm::Vector { history_length })
    ];
    let latent = (0..=i32::MAX as u32, 1..=u32::MAX, 2..=u16::MAX, 1..=u32::MAX).prop_map(
        |(difference, period_ms, paths, reset_period_ms)| LatentErrorDetection {
            difference,
            period_ms,
            paths,
            reset_period_ms,
        },
    );
    (algorithm, any::<u32>(), any::<bool>(), option::of(latent)).prop_map(
        move |(algorithm, reset_timeout_ms, take_no_sequence, latent)| Recovery {
            algorithm,
            reset_timeout_ms,
            take_no_sequence,
            latent: latent.filter(|_| role == Role::Sequence),
            adaptive: Adaptive::default(),
        },
    )
}

/// A valid stream, as a document can express it.
fn stream() -> impl Strategy<Value = Stream> {
    let individual = option::of(recovery(Role::Individual));
    let members = vec(
        (0..PORTS, identification(), individual).prop_map(|(port, identification, individual)| {
            Member { port: PortId(port), identification, individual }
        }),
        1..4,
    );
    let tag =
        || prop_oneof![Just(SequenceTag::RTag), Just(SequenceTag::Keep), Just(SequenceTag::Remove)];
    let ports = subsequence((0..PORTS).collect::<Vec<_>>(), 1..=PORTS as usize);
    let egress =
        (ports, vec((tag(), option::of(rewrite())), PORTS as usize)).prop_map(|(ports, edits)| {
            let entry = |(port, (tag, rewrite)): (u8, (SequenceTag, Option<Rewrite>))| Egress {
                port: PortId(port),
                tag,
                rewrite: rewrite.unwrap_or_default(),
            };
            ports.into_iter().zip(edits).map(entry).collect::<Vec<_>>()
        });
    (members, egress, any::<bool>(), option::of(recovery(Role::Sequence))).prop_map(
        |(members, egress, generate, recover)| {
            let generate = generate && egress.iter().any(|egress| egress.tag == SequenceTag::RTag);
            let recover = recover.filter(|_| !generate);
            Stream { name: String::new(), members, generate, recover, egress }
        },
    )
}

/// Streams with disjoint frames, so that a frame is of one.
pub(crate) fn nodes() -> impl Strategy<Value = Vec<Stream>> {
    vec(stream(), 1..6).prop_filter_map("two members with the same frames", |mut streams| {
        for (n, stream) in streams.iter_mut().enumerate() {
            stream.name = format!("s{n}");
        }
        let sound = (0..PORTS).all(|port| Table::new(&streams, PortId(port)).is_ok());
        sound.then_some(streams)
    })
}

/// The form that a document can express: frames that are decoded leave with an R-TAG or without, and entries that keep
/// the handles of the members are first.
pub(crate) fn normal(mut stream: Stream) -> Stream {
    let decodes = stream.recover.is_some()
        || stream.members.iter().any(|member| member.individual.is_some())
        || stream.egress.iter().any(|egress| match egress.tag {
            SequenceTag::Remove => true,
            SequenceTag::RTag => !stream.generate,
            SequenceTag::Keep => false,
        });
    for egress in
        stream.egress.iter_mut().filter(|egress| decodes && egress.tag == SequenceTag::Keep)
    {
        // With frames numbered here, the difference is lost, and reported.
        egress.tag = if stream.generate { SequenceTag::Remove } else { SequenceTag::RTag };
    }
    let own = handles([&stream], &KeptHandles::new()).next().unwrap().egress;
    let mut egress: Vec<_> = stream.egress.into_iter().zip(own).collect();
    egress.sort_by_key(|(_, own)| own.is_some());
    stream.egress = egress.into_iter().map(|(egress, _)| egress).collect();
    stream
}

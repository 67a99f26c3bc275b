//! Violates each rule of a stream once and compares the message.

use onbeat_frer::recover::RecoveryFunction;
use onbeat_frer::spec::{
    Algorithm, Egress, Identification, IpMatch, LatentErrorDetection, MaskAndMatch, Member,
    NextProtocol, PortId, Recovery, Rewrite, Role, SequenceTag, Stream, TagMatch, VlanAction,
    VlanMatch,
};
use onbeat_frer::validate::RecoveryError;
use onbeat_wire::MacAddress;

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const VLAN: VlanMatch = VlanMatch { tagged: TagMatch::Tagged, vlan: 10 };
const RECOVERY: Recovery = Recovery { reset_timeout_ms: 100, ..Recovery::vector(64) };
const LATENT: LatentErrorDetection =
    LatentErrorDetection { difference: 10, period_ms: 2000, paths: 2, reset_period_ms: 30000 };

fn egress(port: u8) -> Egress {
    Egress { port: PortId(port), tag: SequenceTag::RTag, rewrite: Rewrite::default() }
}

fn stream() -> Stream {
    Stream {
        name: "red".into(),
        members: vec![Member {
            port: PortId(0),
            identification: Identification::Null { destination: MAC, vlan: VLAN },
            individual: Some(RECOVERY),
        }],
        generate: false,
        recover: Some(Recovery { latent: Some(LATENT), ..RECOVERY }),
        egress: vec![egress(1), egress(2)],
    }
}

fn ip() -> IpMatch {
    IpMatch {
        destination: MAC,
        vlan: VLAN,
        ip_source: None,
        ip_destination: [10, 0, 0, 2].into(),
        dscp: None,
        next_protocol: NextProtocol::None,
    }
}

fn mask() -> MaskAndMatch {
    MaskAndMatch {
        destination_mask: MacAddress([0xff; 6]),
        destination_match: MAC,
        source_mask: MacAddress([0; 6]),
        source_match: MacAddress([0; 6]),
        msdu_mask: vec![0xff, 0xff],
        msdu_match: vec![8, 0],
    }
}

/// Returns the message about the `changed` stream.
fn message(change: impl FnOnce(&mut Stream)) -> String {
    let mut stream = stream();
    change(&mut stream);
    stream.validate().expect_err("a violated rule").to_string()
}

/// Returns the message about the identification.
fn identification_message(identification: Identification) -> String {
    message(|stream| stream.members[0].identification = identification)
}

#[test]
fn valid_streams_pass() {
    assert_eq!(stream().validate(), Ok(()));
    let mut generating = Stream { generate: true, recover: None, ..stream() };
    generating.egress = (1..=16).map(egress).collect();
    for identification in [
        Identification::SourceMacVlan { source: MAC, vlan: VlanMatch { vlan: 4094, ..VLAN } },
        Identification::ActiveDestination {
            destination: MAC,
            vlan: VlanMatch { tagged: TagMatch::Priority, vlan: 0 },
            up: Rewrite { destination: Some(MAC), vlan: VlanAction::Set(4094), priority: Some(7) },
        },
        Identification::Ip(IpMatch {
            dscp: Some(63),
            ip_source: Some([10, 0, 0, 1].into()),
            ..ip()
        }),
        Identification::MaskAndMatch(mask()),
        Identification::MaskAndMatch(MaskAndMatch {
            msdu_mask: vec![0; 1984],
            msdu_match: vec![0; 1984],
            ..mask()
        }),
        Identification::MaskAndMatch(MaskAndMatch {
            msdu_mask: vec![],
            msdu_match: vec![],
            ..mask()
        }),
    ] {
        generating.members[0].identification = identification;
        assert_eq!(generating.validate(), Ok(()));
    }
    for history_length in [2, 3, 100, 32_768] {
        let recovery = Recovery { algorithm: Algorithm::Vector { history_length }, ..RECOVERY };
        assert_eq!(recovery.validate(Role::Individual), Ok(()));
    }
}

#[test]
fn streams() {
    assert_eq!(
        message(|stream| stream.members.clear()),
        "members: empty; add at least one port with its identification"
    );
    assert_eq!(message(|stream| stream.egress.clear()), "egress: 0 ports; use 1 to 16");
    assert_eq!(
        message(|stream| stream.egress = (0..17).map(egress).collect()),
        "egress: 17 ports; use 1 to 16"
    );
    assert_eq!(
        message(|stream| stream.egress.push(egress(1))),
        "egress: port 1 more than once; list it once: two replicas on one port add no redundancy"
    );
    assert_eq!(
        message(|stream| stream.generate = true),
        "generate and recover: both set; a talker generates, a listener recovers: remove one of \
         them"
    );
    assert_eq!(
        message(|stream| stream.members[0].port = PortId(64)),
        "members[0].port: 64; use 0 to 63"
    );
    assert_eq!(
        message(|stream| stream.egress[1].port = PortId(99)),
        "egress[1].port: 99; use 0 to 63"
    );
}

#[test]
fn recovery() {
    for history_length in [0, 1, 32_769, u16::MAX] {
        let recovery = Recovery { algorithm: Algorithm::Vector { history_length }, ..RECOVERY };
        let expected = format!("history_length: {history_length}; use 2 to 32768");
        assert_eq!(
            message(|stream| stream.recover = Some(recovery)),
            format!("recover.{expected}")
        );
        assert_eq!(
            message(|stream| stream.members[0].individual = Some(recovery)),
            format!("members[0].individual.{expected}")
        );
        let error = RecoveryFunction::new(&recovery, Role::Sequence).unwrap_err();
        assert_eq!(error, RecoveryError::HistoryLength(history_length));
    }
    let with_latent = Recovery { latent: Some(LATENT), ..RECOVERY };
    assert_eq!(
        message(|stream| stream.members[0].individual = Some(with_latent)),
        "members[0].individual.latent: set on individual recovery, which covers one path only; set \
         it on the stream's recovery"
    );
    let latent_message = |latent| {
        message(|stream| stream.recover = Some(Recovery { latent: Some(latent), ..RECOVERY }))
    };
    assert_eq!(
        latent_message(LatentErrorDetection { period_ms: 0, ..LATENT }),
        "recover.latent.period_ms: 0; use 1 or more (default 2000)"
    );
    assert_eq!(
        latent_message(LatentErrorDetection { reset_period_ms: 0, ..LATENT }),
        "recover.latent.reset_period_ms: 0; use 1 or more (default 30000)"
    );
    assert_eq!(
        latent_message(LatentErrorDetection { paths: 1, ..LATENT }),
        "recover.latent.paths: 1; use the number of paths that deliver the stream, 2 or more"
    );
}

#[test]
fn identification() {
    let null = |vlan| Identification::Null { destination: MAC, vlan };
    assert_eq!(
        identification_message(null(VlanMatch { tagged: TagMatch::All, vlan: 4095 })),
        "members[0].identification.vlan: 4095; use 1 to 4094, or 0 for any"
    );
    assert_eq!(
        identification_message(null(VlanMatch { tagged: TagMatch::Priority, vlan: 10 })),
        "members[0].identification.vlan: 10 with tagged = priority, but such frames have no VLAN id; \
         use 0, or tagged = tagged"
    );
    assert_eq!(
        identification_message(Identification::SourceMacVlan {
            source: MacAddress([1, 0, 0x5e, 0, 0, 0x0a]),
            vlan: VLAN
        }),
        "members[0].identification.source: 01:00:5e:00:00:0a is a group address, which is never a \
         source; use the talker's own address"
    );
    assert_eq!(
        identification_message(Identification::Ip(IpMatch { dscp: Some(64), ..ip() })),
        "members[0].identification.dscp: 64; use 0 to 63, or omit it for any"
    );
    assert_eq!(
        identification_message(Identification::Ip(IpMatch {
            ip_source: Some([0u16; 8].into()),
            ..ip()
        })),
        "members[0].identification.ip_source: :: with ip_destination 10.0.0.2; use both as IPv4 \
         or both as IPv6"
    );
    assert_eq!(
        identification_message(Identification::MaskAndMatch(MaskAndMatch {
            msdu_match: vec![8],
            ..mask()
        })),
        "members[0].identification.msdu_match: 1 octets, but msdu_mask has 2; use both the same length"
    );
    for length in [1, 1985] {
        let msdu = vec![0; length];
        assert_eq!(
            identification_message(Identification::MaskAndMatch(MaskAndMatch {
                msdu_mask: msdu.clone(),
                msdu_match: msdu,
                ..mask()
            })),
            format!(
                "members[0].identification.msdu_mask: {length} octets; use 2 to 1984, or omit it"
            )
        );
    }
    assert_eq!(
        identification_message(Identification::MaskAndMatch(MaskAndMatch {
            source_match: MAC,
            ..mask()
        })),
        "members[0].identification.source_match: octet 0 has a bit that source_mask lacks, so \
         that no frame matches; clear it or set it in the mask"
    );
}

#[test]
fn rewrites() {
    for vlan in [0, 4095] {
        let rewrite = Rewrite { vlan: VlanAction::Set(vlan), ..Rewrite::default() };
        let expected = format!("vlan: {vlan}; use 1 to 4094");
        assert_eq!(
            message(|stream| stream.egress[0].rewrite = rewrite),
            format!("egress[0].rewrite.{expected}")
        );
        let active =
            Identification::ActiveDestination { destination: MAC, vlan: VLAN, up: rewrite };
        assert_eq!(
            identification_message(active),
            format!("members[0].identification.up.{expected}")
        );
    }
    let rewrite = Rewrite { priority: Some(8), ..Rewrite::default() };
    assert_eq!(
        message(|stream| stream.egress[1].rewrite = rewrite),
        "egress[1].rewrite.priority: 8; use 0 to 7"
    );
}

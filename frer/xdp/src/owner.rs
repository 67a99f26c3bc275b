//! Owners of pinned state: 64-bit hashes that identify a stream's slots after a restart.

use std::hash::{DefaultHasher, Hasher};

use onbeat_frer::spec::Identification;

/// Returns the owner of one function of one stream, constant across restarts of the daemon. Never 0, which
/// marks a free slot.
pub(crate) fn owner(role: &str, parts: &[&str]) -> u64 {
    // DefaultHasher::new() has fixed keys; a change of its algorithm only costs one reset of sequence state
    // at an upgrade.
    let mut hasher = DefaultHasher::new();
    hasher.write(role.as_bytes());
    for part in parts {
        hasher.write_u8(0xff);
        hasher.write(part.as_bytes());
    }
    hasher.finish().max(1)
}

/// Returns the owner of a member stream's state, or of its individual recovery function.
pub(crate) fn of_member(
    role: &str,
    stream: &str,
    port: &str,
    identification: &Identification,
) -> u64 {
    owner(role, &[stream, port, &identification.owner_text()])
}

#[cfg(test)]
mod tests {
    use onbeat_frer::spec::{
        IpMatch, MaskAndMatch, NextProtocol, Rewrite, TagMatch, VlanAction, VlanMatch,
    };
    use onbeat_wire::MacAddress;

    use super::*;

    const ADDRESS: MacAddress = MacAddress([0x02, 0, 0, 0, 0x0f, 0xff]);

    fn vlan(tagged: TagMatch, vlan: u16) -> VlanMatch {
        VlanMatch { tagged, vlan }
    }

    fn active(up: Rewrite) -> Identification {
        Identification::ActiveDestination { destination: ADDRESS, vlan: vlan(TagMatch::All, 0), up }
    }

    fn ip(destination: &str, source: Option<&str>, next_protocol: NextProtocol) -> Identification {
        Identification::Ip(IpMatch {
            destination: MacAddress::BROADCAST,
            vlan: vlan(TagMatch::Priority, 0),
            ip_source: source.map(|source| source.parse().unwrap()),
            ip_destination: destination.parse().unwrap(),
            dscp: source.map(|_| 46),
            next_protocol,
        })
    }

    fn mask(msdu_mask: &[u8], msdu_match: &[u8]) -> Identification {
        Identification::MaskAndMatch(MaskAndMatch {
            destination_mask: MacAddress([0xff, 0xff, 0xff, 0, 0, 0]),
            destination_match: MacAddress([0x01, 0x1b, 0x19, 0, 0, 0]),
            source_mask: MacAddress::ZERO,
            source_match: MacAddress::ZERO,
            msdu_mask: msdu_mask.into(),
            msdu_match: msdu_match.into(),
        })
    }

    /// Every type, and every variant of the types in it.
    fn identifications() -> Vec<Identification> {
        let (source, destination) = (Some(5000), None);
        let set = |priority| Rewrite {
            destination: Some(ADDRESS),
            vlan: VlanAction::Set(4094),
            priority,
        };
        vec![
            Identification::Null { destination: ADDRESS, vlan: vlan(TagMatch::Tagged, 100) },
            Identification::SourceMacVlan { source: ADDRESS, vlan: vlan(TagMatch::All, 7) },
            active(Rewrite::default()),
            active(set(Some(7))),
            active(Rewrite { vlan: VlanAction::Remove, ..set(None) }),
            ip("239.1.2.3", Some("192.0.2.1"), NextProtocol::None),
            ip("2001:db8::1", None, NextProtocol::Udp { source, destination }),
            ip("::", Some("::ffff:192.0.2.1"), NextProtocol::Tcp { source, destination }),
            ip("10.0.0.1", None, NextProtocol::Sctp { source: destination, destination: source }),
            mask(&[], &[]),
            mask(&[0xff, 0xff, 0x0f], &[0x88, 0xf7, 0]),
        ]
    }

    /// A running node's state is found by these values after an upgrade: none may ever change.
    #[test]
    fn owners_are_constant_across_versions() {
        const GOLDEN: [u64; 11] = [
            0x14d4_2ab0_94ae_b10f,
            0xd7ee_a4fb_9781_9887,
            0x04bc_5317_6cc4_409c,
            0x71e6_53d1_517e_3273,
            0xd28b_812b_a816_9595,
            0x2d38_ce40_71d7_17b7,
            0x0e75_6726_cb39_3d28,
            0xfb01_85d0_e9de_c6ca,
            0xf9d5_8696_386d_5188,
            0xbc34_dd76_35af_82a4,
            0x3b9f_b6d1_2e23_86d0,
        ];
        let owners = identifications();
        let owners = owners.iter().map(|i| of_member("individual", "axis-1", "path1", i));
        assert_eq!(owners.collect::<Vec<_>>(), GOLDEN);
        assert_eq!(owner("stream", &["axis-1"]), 0xb1d6_a808_e7cc_9278);
        assert_eq!(owner("generator", &["axis-1"]), 0x7ed3_7d01_50a5_8d68);
        assert_eq!(owner("recovery", &["axis-1"]), 0x5eba_a4a9_3040_0e75);
    }
}

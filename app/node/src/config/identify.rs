//! `identify = { type = ... }`: stream identification (802.1CB clause 6, managed by 9.1).

use onbeat_frer::spec::{
    Identification, IdentificationKind, IpMatch, MaskAndMatch, NextProtocol, Rewrite, TagMatch,
    VlanAction, VlanMatch,
};
use onbeat_frer::wildcard::Scope;
use onbeat_report::format::count;
use onbeat_wire::MacAddress;

use super::reader::{Table, Value};

/// VLAN ids that name a VLAN.
const VLAN: std::ops::RangeInclusive<u16> = 1..=4094;

/// The frames that `identify` selects.
#[derive(Debug)]
pub(super) enum Selection {
    /// Those of a named stream.
    Stream(Identification),
    /// Those that match no named stream.
    Wildcard(Scope),
}

/// Values of `type`.
#[derive(Debug, Clone, Copy)]
enum SelectionKind {
    Stream(IdentificationKind),
    Vlan,
    All,
}

pub(super) fn read(value: &Value<'_>) -> Option<Selection> {
    let mut table = value.table()?;
    let Some(kind) = table.require("type", "\"null\"") else {
        table.abandon();
        return None;
    };
    let streams = IdentificationKind::ALL.map(|kind| (kind.name(), SelectionKind::Stream(kind)));
    let wildcards = [("vlan", SelectionKind::Vlan), ("all", SelectionKind::All)];
    let kind = kind.choice(&[&streams[..], &wildcards].concat())?;
    let selection = match kind {
        SelectionKind::Stream(kind) => identification(kind, &mut table).map(Selection::Stream),
        SelectionKind::All => Some(Selection::Wildcard(Scope::All)),
        SelectionKind::Vlan => {
            let vlan = table.require("vlan", "100").and_then(|value| value.number(VLAN));
            vlan.map(|vlan| Selection::Wildcard(Scope::Vlan(vlan)))
        }
    };
    table.finish();
    selection
}

fn identification(kind: IdentificationKind, table: &mut Table<'_>) -> Option<Identification> {
    match kind {
        IdentificationKind::Null => {
            let (destination, vlan) = (destination(table), vlan_match(table));
            destination.map(|destination| Identification::Null { destination, vlan })
        }
        IdentificationKind::Source => {
            let (source, vlan) = (source(table), vlan_match(table));
            source.map(|source| Identification::SourceMacVlan { source, vlan })
        }
        IdentificationKind::Active => active(table),
        IdentificationKind::Ip => ip(table),
        IdentificationKind::Mask => mask(table),
    }
}

fn destination(table: &mut Table<'_>) -> Option<MacAddress> {
    table.require("destination", "\"01:00:5e:00:00:01\"")?.mac_address()
}

fn source(table: &mut Table<'_>) -> Option<MacAddress> {
    let value = table.require("source", "\"02:00:00:00:00:01\"")?;
    let source = value.mac_address()?;
    if source.0[0] & 1 == 1 {
        value.fault(
            "a group address is never the source of a frame",
            "write the talker's own address, its first octet even",
        );
    }
    Some(source)
}

fn vlan_match(table: &mut Table<'_>) -> VlanMatch {
    let tagged = table.take("tagged");
    let vlan = table.take("vlan").and_then(|value| value.number(VLAN));
    let default = if vlan.is_some() { TagMatch::Tagged } else { TagMatch::All };
    let words =
        [("tagged", TagMatch::Tagged), ("priority", TagMatch::Priority), ("all", TagMatch::All)];
    let chosen = tagged.as_ref().and_then(|value| value.choice(&words)).unwrap_or(default);
    if let (Some(value), TagMatch::Priority, Some(vlan)) = (&tagged, chosen, vlan) {
        value.fault(
            format!("\"priority\" means frames without a VLAN id, so vlan {vlan} never matches"),
            "remove vlan, or write tagged = \"tagged\"",
        );
    }
    VlanMatch { tagged: chosen, vlan: vlan.unwrap_or(0) }
}

fn active(table: &mut Table<'_>) -> Option<Identification> {
    let down = table.require("down", "{ destination = \"01:00:5e:00:00:01\", vlan = 100 }");
    let up = table.require("up", "{ destination = \"02:00:00:00:00:01\", vlan = 10 }");
    let down = down.and_then(|value| value.table()).and_then(|mut table| {
        let read = (destination(&mut table), vlan_match(&mut table));
        table.finish();
        Some((read.0?, read.1))
    });
    let up = up.and_then(|value| value.table()).map(|mut table| {
        let up = rewrite(&mut table);
        if up == Rewrite::default() {
            table.fault(
                "up changes nothing",
                "set destination, vlan or priority, or use type = \"null\"",
            );
        }
        table.finish();
        up
    });
    let (destination, vlan) = down?;
    Some(Identification::ActiveDestination { destination, vlan, up: up? })
}

/// `destination`, `vlan` and `priority`, as an egress and an active identification rewrite them.
pub(super) fn rewrite(table: &mut Table<'_>) -> Rewrite {
    let destination = table.take("destination").and_then(|value| value.mac_address());
    let vlan = table.take("vlan").and_then(|value| {
        if !value.is_text() {
            return value.number(VLAN).map(VlanAction::Set);
        }
        let word = value.text()?;
        if word != "remove" {
            value.fault(
                format!("unknown value {word:?}"),
                "use a VLAN id from 1 to 4094, \"remove\", or leave vlan out to keep the tag",
            );
        }
        Some(VlanAction::Remove)
    });
    let priority = table.take("priority");
    if let (Some(value), Some(VlanAction::Remove)) = (&priority, vlan) {
        value.fault(
            "a frame whose VLAN tag is removed has no priority",
            "remove priority, or keep the tag",
        );
    }
    let priority = priority.and_then(|value| value.number(0..=7));
    Rewrite { destination, vlan: vlan.unwrap_or_default(), priority }
}

fn ip(table: &mut Table<'_>) -> Option<Identification> {
    let destination = destination(table);
    let vlan = vlan_match(table);
    let source_value = table.take("ip-source");
    let ip_source = source_value.as_ref().and_then(|value| value.ip_address());
    let ip_destination =
        table.require("ip-destination", "\"192.0.2.1\"").and_then(|value| value.ip_address());
    if let (Some(value), Some(source), Some(destination)) =
        (source_value, ip_source, ip_destination)
    {
        if source.is_ipv4() != destination.is_ipv4() {
            value.fault(
                format!("{source} and {destination} have different IP versions"),
                "use two IPv4 or two IPv6 addresses",
            );
        }
    }
    let dscp = table.take("dscp").and_then(|value| value.number(0..=63));
    let next_protocol = next_protocol(table);
    Some(Identification::Ip(IpMatch {
        destination: destination?,
        vlan,
        ip_source,
        ip_destination: ip_destination?,
        dscp,
        next_protocol,
    }))
}

fn next_protocol(table: &mut Table<'_>) -> NextProtocol {
    #[derive(Clone, Copy)]
    enum ProtocolName {
        None,
        Udp,
        Tcp,
        Sctp,
    }
    let words = [
        ("udp", ProtocolName::Udp),
        ("tcp", ProtocolName::Tcp),
        ("sctp", ProtocolName::Sctp),
        ("none", ProtocolName::None),
    ];
    let protocol_value = table.take("protocol");
    let protocol = match &protocol_value {
        Some(value) => value.choice(&words),
        None => Some(ProtocolName::None),
    };
    let mut port = |key| {
        let value = table.take(key)?;
        if matches!(protocol, Some(ProtocolName::None)) {
            value
                .fault("a port requires a protocol", "add protocol = \"udp\", \"tcp\" or \"sctp\"");
        }
        value.number(0..=65535)
    };
    let (source, destination) = (port("source-port"), port("destination-port"));
    match protocol {
        None | Some(ProtocolName::None) => NextProtocol::None,
        Some(ProtocolName::Udp) => NextProtocol::Udp { source, destination },
        Some(ProtocolName::Tcp) => NextProtocol::Tcp { source, destination },
        Some(ProtocolName::Sctp) => NextProtocol::Sctp { source, destination },
    }
}

fn mask(table: &mut Table<'_>) -> Option<Identification> {
    let zero = MacAddress::default();
    let mut address = |mask_key, match_key, example: &str| {
        let mask = table.take(mask_key).and_then(|value| value.mac_address()).unwrap_or(zero);
        let value =
            if mask == zero { table.take(match_key) } else { table.require(match_key, example) };
        let matched = value.as_ref().and_then(|value| value.mac_address()).unwrap_or(zero);
        within_mask(value.as_ref(), &mask.0, &matched.0);
        (mask, matched)
    };
    let example = "\"01:00:5e:00:00:01\"";
    let (destination_mask, destination_match) =
        address("destination-mask", "destination-match", example);
    let (source_mask, source_match) = address("source-mask", "source-match", example);
    let (msdu_mask, msdu_match) = msdu(table)?;
    let octets = destination_mask.0.iter().chain(&source_mask.0).chain(&msdu_mask);
    if octets.copied().all(|octet| octet == 0) {
        table.fault(
            "all masks are zero: every frame matches",
            "set destination-mask, source-mask or msdu-mask",
        );
    }
    Some(Identification::MaskAndMatch(MaskAndMatch {
        destination_mask,
        destination_match,
        source_mask,
        source_match,
        msdu_mask,
        msdu_match,
    }))
}

fn msdu(table: &mut Table<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let mask_value = table.take("msdu-mask");
    let match_value = match &mask_value {
        Some(_) => table.require("msdu-match", "\"88 f7\""),
        None => table.take("msdu-match"),
    };
    let octets = |value: &Option<Value<'_>>| match value {
        Some(value) => value.octets(),
        None => Some(Vec::new()),
    };
    let (mask, matched) = (octets(&mask_value), octets(&match_value));
    let (mask, matched) = (mask?, matched?);
    if let Some(value) = mask_value.filter(|_| !(2..=1984).contains(&mask.len())) {
        value.fault(
            format!("the mask has {}", count(mask.len() as u64, "octet")),
            "mask 2 to 1984 octets of the MSDU (9.1.6, 802.1CBdb)",
        );
    }
    if let Some(value) = &match_value {
        if mask.len() == matched.len() {
            within_mask(Some(value), &mask, &matched);
        } else {
            value.fault(
                format!(
                    "the value has {}, its mask {}",
                    count(matched.len() as u64, "octet"),
                    mask.len()
                ),
                "use the same length for msdu-mask and msdu-match",
            );
        }
    }
    Some((mask, matched))
}

/// Checks that the value has no bits outside its mask: such a value never matches.
fn within_mask(value: Option<&Value<'_>>, mask: &[u8], matched: &[u8]) {
    let outside = mask.iter().zip(matched).any(|(mask, matched)| matched & !mask != 0);
    if let (Some(value), true) = (value, outside) {
        value.fault(
            "the value has bits set outside its mask: no frame matches",
            "clear those bits, or set them in the mask",
        );
    }
}

//! The Stream identity table (9.1).

use std::net::IpAddr;

use onbeat_frer::spec::{
    Identification, IpMatch, MaskAndMatch, NextProtocol, PortId, Rewrite, TagMatch, VlanAction,
    VlanMatch,
};
use onbeat_wire::MacAddress;

use super::Ports;
use crate::document::{Node, Object};
use crate::handles::MAX_HANDLE;
use crate::{FRER, MASK_AND_MATCH, STREAM_IDENTIFICATION};

/// An entry of the table.
#[derive(Debug)]
pub(super) struct Identity<'a> {
    pub(super) node: Node<'a>,
    pub(super) handle: u32,
    /// Its input ports, each with its leaf.
    pub(super) inputs: Vec<(PortId, Node<'a>)>,
    /// Its output ports.
    pub(super) outputs: Vec<(PortId, Node<'a>)>,
    pub(super) method: Method,
}

/// The function of an entry.
#[derive(Debug)]
pub(super) enum Method {
    /// Identifies received frames. Output ports send them as they are.
    Identify(Identification),
    /// Edits frames at output ports.
    Edit(Rewrite),
}

/// The cases of `parameters`.
const CASES: [&str; 4] = [
    "null-stream-identification",
    "smac-vlan-stream-identification",
    "dmac-vlan-stream-identification",
    "ip-stream-identification",
];

pub(super) fn read_all<'a>(list: &Node<'a>, ports: &Ports) -> Vec<Identity<'a>> {
    let mut indexes = std::collections::HashSet::new();
    let mut identities = Vec::new();
    for entry in list.list(&["index"]) {
        let Some(mut object) = entry.object() else { continue };
        let index = object.require("index", "1");
        if let Some((number, leaf)) =
            index.and_then(|leaf| Some((leaf.number(0..=u32::MAX)?, leaf)))
        {
            if !indexes.insert(number) {
                leaf.fault("another entry has this index", "give each entry its own index");
            }
        }
        identities.extend(read(&mut object, &entry, ports));
        object.finish();
    }
    identities
}

fn read<'a>(object: &mut Object<'a>, entry: &Node<'a>, ports: &Ports) -> Option<Identity<'a>> {
    let handle = object.require("handle", "1").and_then(|leaf| leaf.number(1..=MAX_HANDLE));
    if let Some(mut facing) = object.take("in-facing").and_then(|facing| facing.object()) {
        for name in ["input-port", "output-port"] {
            if let Some(leaf) = facing.take(name) {
                leaf.fault("the node has no in-facing identification", "use out-facing");
            }
        }
        facing.finish();
    }
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    if let Some(mut facing) = object.take("out-facing").and_then(|facing| facing.object()) {
        for (name, found) in [("input-port", &mut inputs), ("output-port", &mut outputs)] {
            let leaf = facing.take(name);
            found.extend(leaf.iter().flat_map(|leaf| leaf.leaf_list(|leaf| ports.port(leaf))));
        }
        facing.finish();
    }
    for name in ["auto-configured", "lan-path-id"] {
        if let Some(leaf) = object.take_of(FRER, name) {
            leaf.fault("the node has no autoconfiguration", "remove it");
        }
    }
    let mut cases: Vec<(&str, Node<'a>)> =
        CASES.iter().filter_map(|case| Some((*case, object.take(case)?))).collect();
    let mask = object.take_of(MASK_AND_MATCH, "mask-and-match-stream-identification");
    cases.extend(mask.map(|mask| (MASK_AND_MATCH, mask)));
    if let Some(leaf) = object.take("organization-specific") {
        leaf.fault(
            "the node has no identification of other organizations",
            format!("use a case of {STREAM_IDENTIFICATION} or {MASK_AND_MATCH}"),
        );
        return None;
    }
    let (case, parameters) = match cases.as_slice() {
        [only] => only,
        [] => {
            object.fault("the entry has no parameters", format!("add one of {}", CASES.join(", ")));
            return None;
        }
        [_, (_, second), ..] => {
            second.fault("the entry has parameters of two types", "remove one of them");
            return None;
        }
    };
    let is_output = inputs.is_empty() && !outputs.is_empty();
    let method = match *case {
        "dmac-vlan-stream-identification" if is_output => Method::Edit(read_edit(parameters)?),
        _ if is_output => {
            object.fault(
                "the node identifies received frames only",
                "add out-facing/input-port, or use dmac-vlan-stream-identification to edit sent frames",
            );
            return None;
        }
        case => Method::Identify(identification(case, parameters, ports, &inputs)?),
    };
    if inputs.is_empty() && outputs.is_empty() {
        object
            .fault("the entry has no port", "add out-facing/input-port or out-facing/output-port");
        return None;
    }
    if let (Method::Identify(Identification::ActiveDestination { .. }), [(_, leaf), ..]) =
        (&method, outputs.as_slice())
    {
        leaf.fault(
            "an entry of this type edits frames in one direction only",
            "add an entry with a handle of its own for the output, and a stream-split",
        );
    }
    Some(Identity { node: entry.clone(), handle: handle?, inputs, outputs, method })
}

fn identification(
    case: &str,
    parameters: &Node<'_>,
    ports: &Ports,
    inputs: &[(PortId, Node<'_>)],
) -> Option<Identification> {
    let mut object = parameters.object()?;
    let read = match case {
        "null-stream-identification" => {
            let (destination, vlan) = (mac(&mut object, "destination-mac"), vlan(&mut object));
            destination.map(|destination| Identification::Null { destination, vlan })
        }
        "smac-vlan-stream-identification" => {
            let (source, vlan) = (mac(&mut object, "source-mac"), vlan(&mut object));
            source.map(|source| Identification::SourceMacVlan { source, vlan })
        }
        "dmac-vlan-stream-identification" => active(&mut object),
        "ip-stream-identification" => ip(&mut object),
        _ => mask(&mut object, ports, inputs),
    };
    object.finish();
    let identification = read?;
    if let Err(error) = identification.validate() {
        parameters.fault(error.to_string(), "correct the parameters");
        return None;
    }
    Some(identification)
}

/// Octets separated by hyphens.
fn octets(leaf: &Node<'_>) -> Option<Vec<u8>> {
    let text = leaf.text()?;
    let octet = |part: &str| {
        let digits = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
        digits.then(|| u8::from_str_radix(part, 16).ok()).flatten()
    };
    let octets: Option<Vec<u8>> = text.split('-').map(octet).collect();
    if octets.is_none() {
        leaf.fault(
            format!("{text:?} is not octets separated by hyphens"),
            "write two hexadecimal digits for each, such as 01-00-5E",
        );
    }
    octets
}

fn mac_address(leaf: &Node<'_>) -> Option<MacAddress> {
    let octets = octets(leaf)?;
    let address = <[u8; 6]>::try_from(octets.as_slice()).map(MacAddress).ok();
    if address.is_none() {
        leaf.fault(
            format!("{} octets, but a MAC address has 6", octets.len()),
            "write it such as 01-00-5E-00-00-01",
        );
    }
    address
}

fn mac(object: &mut Object<'_>, name: &str) -> Option<MacAddress> {
    object.require(name, "\"01-00-5E-00-00-01\"").and_then(|leaf| mac_address(&leaf))
}

fn vlan(object: &mut Object<'_>) -> VlanMatch {
    let words =
        [("tagged", TagMatch::Tagged), ("priority", TagMatch::Priority), ("all", TagMatch::All)];
    let tagged = object.take("tagged").and_then(|leaf| leaf.choice(&words));
    let vlan = object.take("vlan").and_then(|leaf| leaf.number(0..=4094)).unwrap_or(0);
    let default = if vlan == 0 { TagMatch::All } else { TagMatch::Tagged };
    VlanMatch { tagged: tagged.unwrap_or(default), vlan }
}

/// `destination-mac`, `vlan` (0: remove the tag) and `priority`.
fn edit(object: &mut Object<'_>) -> Rewrite {
    let destination = object.take("destination-mac").and_then(|leaf| mac_address(&leaf));
    let vlan = object.take("vlan").and_then(|leaf| leaf.number(0..=4094));
    let priority = object.take("priority");
    if let (Some(leaf), Some(0)) = (&priority, vlan) {
        leaf.fault("a frame whose VLAN tag is removed has no priority", "remove it");
    }
    Rewrite {
        destination,
        vlan: match vlan {
            None => VlanAction::Keep,
            Some(0) => VlanAction::Remove,
            Some(id) => VlanAction::Set(id),
        },
        priority: priority.and_then(|leaf| leaf.number(0..=7)),
    }
}

fn active(object: &mut Object<'_>) -> Option<Identification> {
    let down = object.require("down", "{ \"destination-mac\": \"01-00-5E-00-00-01\" }");
    let down = down.and_then(|down| down.object()).and_then(|mut down| {
        let read = (mac(&mut down, "destination-mac"), vlan(&mut down));
        down.finish();
        Some((read.0?, read.1))
    });
    let up = object.require("up", "{ \"destination-mac\": \"02-00-00-00-00-01\" }");
    let up = up.and_then(|up| up.object()).map(|mut up| {
        let read = edit(&mut up);
        if read == Rewrite::default() {
            up.fault(
                "it changes nothing",
                "set destination-mac, vlan or priority, or use null-stream-identification",
            );
        }
        up.finish();
        read
    });
    let (destination, vlan) = down?;
    Some(Identification::ActiveDestination { destination, vlan, up: up? })
}

/// `down` of an entry at output ports.
fn read_edit(parameters: &Node<'_>) -> Option<Rewrite> {
    let mut object = parameters.object()?;
    let down = object.require("down", "{ \"vlan\": 100 }");
    let rewrite = down.and_then(|down| down.object()).map(|mut down| {
        let rewrite = edit(&mut down);
        let words = [("tagged", "tagged"), ("priority", "priority"), ("all", "all")];
        if let Some(leaf) = down.take("tagged") {
            let fits = match (leaf.choice(&words), rewrite.vlan) {
                (Some("tagged"), VlanAction::Set(_)) | (Some("priority"), VlanAction::Remove) => {
                    true
                }
                (tagged, _) => tagged.is_none_or(|tagged| tagged == "all"),
            };
            if !fits {
                leaf.fault(
                    "it does not agree with vlan",
                    "use tagged with a VLAN id, priority with vlan 0, or remove it",
                );
            }
        }
        down.finish();
        rewrite
    });
    object.finish();
    rewrite
}

fn ip(object: &mut Object<'_>) -> Option<Identification> {
    let destination = mac(object, "destination-mac");
    if let Some(leaf) = object.take("vlan").filter(Node::is_zero) {
        leaf.fault(
            "0 means untagged in 802.1CB-2017, and any VLAN in its revision",
            "leave it out, and write tagged = priority for untagged frames",
        );
    }
    let vlan = vlan(object);
    let address = |leaf: &Node<'_>| {
        let text = leaf.text()?;
        let address = text.parse::<IpAddr>().ok();
        if address.is_none() {
            leaf.fault(format!("{text:?} is not an IP address"), "write it such as 192.0.2.1");
        }
        address
    };
    let source = object.take("ip-source");
    let ip_source =
        source.and_then(|leaf| address(&leaf)).filter(|source| !source.is_unspecified());
    let ip_destination =
        object.require("ip-destination", "\"192.0.2.1\"").and_then(|leaf| address(&leaf));
    let dscp = object.take("dscp").and_then(|leaf| leaf.number(0..=63));
    let words = [("none", 0), ("udp", 1), ("tcp", 2), ("sctp", 3)];
    let protocol = object.take("next-protocol").and_then(|leaf| leaf.choice(&words)).unwrap_or(0);
    // 0: any. Without a protocol they are not used (9.1.5.7).
    let mut port = |name| {
        let port = object.take(name).and_then(|leaf| leaf.number(0..=u16::MAX));
        port.filter(|port| *port != 0)
    };
    let (source, destination_port) = (port("source-port"), port("destination-port"));
    Some(Identification::Ip(IpMatch {
        destination: destination?,
        vlan,
        ip_source,
        ip_destination: ip_destination?,
        dscp,
        next_protocol: match protocol {
            1 => NextProtocol::Udp { source, destination: destination_port },
            2 => NextProtocol::Tcp { source, destination: destination_port },
            3 => NextProtocol::Sctp { source, destination: destination_port },
            _ => NextProtocol::None,
        },
    }))
}

fn mask(
    object: &mut Object<'_>,
    ports: &Ports,
    inputs: &[(PortId, Node<'_>)],
) -> Option<Identification> {
    let mut address = |name| object.take(name).and_then(|leaf| mac_address(&leaf));
    let destination_mask = address("destination-mac-mask").unwrap_or_default();
    let destination_match = address("destination-mac-match").unwrap_or_default();
    let source_mask = address("source-mac-mask").unwrap_or_default();
    let source_match = address("source-mac-match").unwrap_or_default();
    let length = object.take("msdu-mask-length");
    let mask_leaf = object.take("msdu-mask");
    let msdu_mask = mask_leaf.as_ref().and_then(octets).unwrap_or_default();
    let msdu_match = object.take("msdu-match").and_then(|leaf| octets(&leaf)).unwrap_or_default();
    if let Some(leaf) = length {
        let length = leaf.number(2..=1984usize)?;
        if length != msdu_mask.len() {
            leaf.fault(
                format!("{length}, but msdu-mask has {} octets", msdu_mask.len()),
                "write the number of octets of msdu-mask",
            );
        }
    }
    if let (Some(leaf), Some(longest)) = (mask_leaf, &ports.longest_masks) {
        let ports = inputs.iter().map(|(port, _)| longest[usize::from(port.0)]);
        if let Some(longest) = ports.min().filter(|longest| msdu_mask.len() > usize::from(*longest))
        {
            leaf.fault(
                format!("{} octets, and the data plane reads {longest}", msdu_mask.len()),
                "use a shorter mask, or a port with another back end",
            );
        }
    }
    let octets = destination_mask.0.iter().chain(&source_mask.0).chain(&msdu_mask);
    if octets.copied().all(|octet| octet == 0) {
        object.fault("all masks are zero: every frame matches", "set a mask");
        return None;
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

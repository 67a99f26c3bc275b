//! Streams -> text of a configuration file.

use std::fmt::Write;
use std::net::IpAddr;

use onbeat_frer::spec::{
    Algorithm, Identification, NextProtocol, Recovery, Rewrite, SequenceTag, Stream, TagMatch,
    VlanAction, VlanMatch,
};
use onbeat_wire::MacAddress;
use onbeat_yang::StreamHandles;
use toml::Value;

use super::{InterfaceKind, NodeConfig, PortConfig};

/// Returns the text of a configuration with these ports and streams, without PRP, wildcards and other keys of the node.
/// `notes` returns the members of a stream whose paths are being removed, and the handles that it keeps.
///
/// Parameters that follow the measured paths have their present values.
pub fn configuration_text<'s, 'd>(
    node: &NodeConfig,
    ports: &[PortConfig],
    streams: impl IntoIterator<Item = &'s Stream>,
    notes: impl Fn(&str) -> StreamKeys<'d>,
) -> String {
    let mut text = format!(
        "[node]\nname = {}\nbackend = \"{}\"\nmax-streams = {}\n",
        quoted(&node.name),
        node.backend,
        node.max_streams
    );
    for port in ports {
        // Writing to a String cannot fail.
        let (name, interface) = (quoted(&port.name), quoted(&port.interface));
        let _ = write!(text, "[[port]]\nname = {name}\ninterface = {interface}\n");
        if port.backend != node.backend {
            let _ = writeln!(text, "backend = \"{}\"", port.backend);
        }
        if port.create == Some(InterfaceKind::Veth) {
            text += "create = \"veth\"\n";
        }
    }
    for stream in streams {
        add_stream(&mut text, ports, stream, notes(&stream.name));
    }
    text
}

/// Keys of a stream that the data plane does not have: its draining members, and the handles that it keeps.
pub type StreamKeys<'d> = (&'d [usize], Option<&'d StreamHandles>);

/// Adds the table of a stream.
pub fn add_stream(
    text: &mut String,
    ports: &[PortConfig],
    stream: &Stream,
    (draining, handles): StreamKeys<'_>,
) {
    let handle = |handle: Option<u32>| handle.map(|handle| format!("handle = {handle}"));
    let port = |id: onbeat_frer::spec::PortId| quoted(&ports[usize::from(id.0)].name);
    *text += &format!("[[stream]]\nname = {}\n", quoted(&stream.name));
    if stream.generate {
        *text += "generate = true\n";
    }
    if let Some(recovery) = &stream.recover {
        *text += &format!("recover = {}\n", function(recovery));
    }
    *text += "member = [\n";
    for (number, member) in stream.members.iter().enumerate() {
        let mut keys = vec![
            format!("port = {}", port(member.port)),
            format!("identify = {}", identify(&member.identification)),
        ];
        keys.extend(member.individual.as_ref().map(|r| format!("individual = {}", function(r))));
        if draining.contains(&number) {
            keys.push("draining = true".to_owned());
        }
        keys.extend(handle(handles.and_then(|own| own.members.get(number).copied())));
        *text += &format!("  {},\n", table(&keys));
    }
    *text += "]\negress = [\n";
    for (number, egress) in stream.egress.iter().enumerate() {
        let tag = match egress.tag {
            SequenceTag::Keep => "keep",
            SequenceTag::RTag => "r-tag",
            SequenceTag::Remove => "none",
        };
        let mut keys = vec![format!("port = {}", port(egress.port)), format!("tag = \"{tag}\"")];
        keys.extend(edit(&egress.rewrite));
        keys.extend(handle(handles.and_then(|own| own.egress.get(number).copied().flatten())));
        *text += &format!("  {},\n", table(&keys));
    }
    *text += "]\n";
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn table(keys: &[String]) -> String {
    format!("{{ {} }}", keys.join(", "))
}

fn function(recovery: &Recovery) -> String {
    let mut keys = match recovery.algorithm {
        Algorithm::Vector { history_length } => vec![format!("history-length = {history_length}")],
        Algorithm::Match => vec!["algorithm = \"match\"".to_owned()],
    };
    keys.push(format!("reset-timeout-ms = {}", recovery.reset_timeout_ms));
    if recovery.take_no_sequence {
        keys.push("take-no-sequence = true".to_owned());
    }
    if let Some(latent) = &recovery.latent {
        let keys_of_latent = [
            format!("difference = {}", latent.difference),
            format!("paths = {}", latent.paths),
            format!("period-ms = {}", latent.period_ms),
            format!("reset-period-ms = {}", latent.reset_period_ms),
        ];
        keys.push(format!("latent-error = {}", table(&keys_of_latent)));
    }
    table(&keys)
}

fn vlan_match(vlan: VlanMatch) -> Vec<String> {
    let tagged = match vlan.tagged {
        TagMatch::Tagged => "tagged",
        TagMatch::Priority => "priority",
        TagMatch::All => "all",
    };
    let id = (vlan.vlan != 0).then(|| format!("vlan = {}", vlan.vlan));
    [format!("tagged = \"{tagged}\"")].into_iter().chain(id).collect()
}

fn edit(edit: &Rewrite) -> Vec<String> {
    let vlan = match edit.vlan {
        VlanAction::Keep => None,
        VlanAction::Set(id) => Some(format!("vlan = {id}")),
        VlanAction::Remove => Some("vlan = \"remove\"".to_owned()),
    };
    let destination = edit.destination.map(|address| format!("destination = \"{address}\""));
    let priority = edit.priority.map(|priority| format!("priority = {priority}"));
    [destination, vlan, priority].into_iter().flatten().collect()
}

fn identify(identification: &Identification) -> String {
    let mut keys = vec![format!("type = \"{}\"", identification.kind().name())];
    match identification {
        Identification::Null { destination, vlan } => {
            keys.push(format!("destination = \"{destination}\""));
            keys.extend(vlan_match(*vlan));
        }
        Identification::SourceMacVlan { source, vlan } => {
            keys.push(format!("source = \"{source}\""));
            keys.extend(vlan_match(*vlan));
        }
        Identification::ActiveDestination { destination, vlan, up } => {
            let mut down = vec![format!("destination = \"{destination}\"")];
            down.extend(vlan_match(*vlan));
            keys.push(format!("down = {}", table(&down)));
            keys.push(format!("up = {}", table(&edit(up))));
        }
        Identification::Ip(ip) => {
            let address = |key, address: IpAddr| format!("{key} = \"{address}\"");
            keys.push(format!("destination = \"{}\"", ip.destination));
            keys.extend(vlan_match(ip.vlan));
            keys.extend(ip.ip_source.map(|source| address("ip-source", source)));
            keys.push(address("ip-destination", ip.ip_destination));
            keys.extend(ip.dscp.map(|dscp| format!("dscp = {dscp}")));
            let (protocol, source, destination) = match ip.next_protocol {
                NextProtocol::None => ("none", None, None),
                NextProtocol::Udp { source, destination } => ("udp", source, destination),
                NextProtocol::Tcp { source, destination } => ("tcp", source, destination),
                NextProtocol::Sctp { source, destination } => ("sctp", source, destination),
            };
            keys.push(format!("protocol = \"{protocol}\""));
            keys.extend(source.map(|port| format!("source-port = {port}")));
            keys.extend(destination.map(|port| format!("destination-port = {port}")));
        }
        Identification::MaskAndMatch(mask) => {
            let address = |key, address: MacAddress| format!("{key} = \"{address}\"");
            keys.push(address("destination-mask", mask.destination_mask));
            keys.push(address("destination-match", mask.destination_match));
            keys.push(address("source-mask", mask.source_mask));
            keys.push(address("source-match", mask.source_match));
            if !mask.msdu_mask.is_empty() {
                let octets = |octets: &[u8]| -> String {
                    octets.iter().map(|octet| format!("{octet:02x}")).collect()
                };
                keys.push(format!("msdu-mask = \"{}\"", octets(&mask.msdu_mask)));
                keys.push(format!("msdu-match = \"{}\"", octets(&mask.msdu_match)));
            }
        }
    }
    table(&keys)
}

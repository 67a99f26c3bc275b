//! Configuration of a node -> JSON.

use std::collections::BTreeMap;
use std::net::IpAddr;

use onbeat_frer::spec::{
    Algorithm, Identification, IpMatch, MaskAndMatch, NextProtocol, PortId, Recovery, Rewrite,
    SequenceTag, Stream, TagMatch, VlanAction, VlanMatch,
};
use onbeat_wire::MacAddress;
use serde_json::{Map, Value, json};

use crate::handles::{KeptHandles, StreamHandles, handles};
use crate::model::Interface;
use crate::{ETHERNET, FRER, INTERFACES, STREAM_IDENTIFICATION};

/// Returns the configuration of a node with these interfaces and streams, and what YANG cannot express of it.
///
/// # Panics
/// If a stream has a port without an interface.
pub fn configuration<'s>(
    interfaces: &[Interface],
    streams: impl IntoIterator<Item = &'s Stream, IntoIter: Clone>,
    kept: &'s KeptHandles,
) -> (Value, Vec<String>) {
    let streams = streams.into_iter();
    let mut tables = Tables { interfaces, ..Tables::default() };
    for (stream, handles) in streams.clone().zip(handles(streams, kept)) {
        tables.add(stream, &handles);
    }
    tables.finish()
}

/// An entry of the Sequence identification table.
#[derive(Debug, Default)]
struct EncodingEntry {
    streams: Vec<u32>,
    is_active: bool,
}

/// The tables of clauses 9 and 10.
#[derive(Debug, Default)]
struct Tables<'a> {
    interfaces: &'a [Interface],
    identities: Vec<Value>,
    generations: Vec<Value>,
    recoveries: Vec<Value>,
    encodings: BTreeMap<PortId, EncodingEntry>,
    splits: Vec<Value>,
    lost: Vec<String>,
}

impl Tables<'_> {
    fn interface(&self, port: PortId) -> &str {
        &self.interfaces[usize::from(port.0)].name
    }

    fn add(&mut self, stream: &Stream, handles: &StreamHandles) {
        let StreamHandles { members, egress } = handles;
        let keeps_handle = || stream.egress.iter().zip(egress).filter(|(_, own)| own.is_none());
        let outputs: Vec<&str> =
            keeps_handle().map(|(egress, _)| self.interface(egress.port)).collect();
        let mut identities = Vec::new();
        for (member, &handle) in stream.members.iter().zip(members) {
            let input = self.interface(member.port);
            let (name, parameters) = identification(&member.identification);
            let mut facing = json!({ "input-port": [input] });
            if !outputs.is_empty() {
                facing["output-port"] = json!(outputs);
            }
            identities.push(
                json!({ "index": handle, "handle": handle, "out-facing": facing, name: parameters }),
            );
        }
        for (egress, handle) in stream.egress.iter().zip(egress) {
            let Some(handle) = handle else { continue };
            let output = self.interface(egress.port);
            identities.push(json!({
                "index": handle,
                "handle": handle,
                "out-facing": { "output-port": [output] },
                "dmac-vlan-stream-identification": { "down": down(&egress.rewrite) },
            }));
        }
        self.identities.append(&mut identities);
        if stream.generate {
            let index = members[0];
            self.generations
                .push(json!({ "index": index, "stream": members, "direction-out-facing": true }));
        }
        self.add_recovery(stream, members);
        self.add_encodings(stream, handles);
        if stream.egress.len() > 1 || egress.iter().any(Option::is_some) {
            for (member, &handle) in stream.members.iter().zip(members) {
                let kept = keeps_handle().next().map(|_| handle);
                let outputs: Vec<u32> =
                    kept.into_iter().chain(egress.iter().flatten().copied()).collect();
                self.splits.push(json!({
                    "index": handle,
                    "port": self.interface(member.port),
                    "direction-out-facing": true,
                    "input-id": [handle],
                    "output-id": outputs,
                }));
            }
        }
    }

    /// Sequence recovery at the egress ports, and individual recovery at the port of each member. Both are in one table:
    /// the indexes of sequence recovery are odd, the others even.
    fn add_recovery(&mut self, stream: &Stream, members: &[u32]) {
        if let Some(recovery) = &stream.recover {
            let mut entry = function(recovery, &stream.name, &mut self.lost);
            let ports: Vec<&str> =
                stream.egress.iter().map(|egress| self.interface(egress.port)).collect();
            let places = json!({
                "index": u64::from(members[0]) * 2 - 1,
                "stream": members,
                "port": ports,
                "direction-out-facing": false,
                "individual-recovery": false,
            });
            extend(&mut entry, places);
            self.recoveries.push(entry);
        }
        for (member, &handle) in stream.members.iter().zip(members) {
            let Some(individual) = &member.individual else { continue };
            let mut entry = function(individual, &stream.name, &mut self.lost);
            let places = json!({
                "index": u64::from(handle) * 2,
                "stream": [handle],
                "port": [self.interface(member.port)],
                "direction-out-facing": true,
                "individual-recovery": true,
            });
            extend(&mut entry, places);
            self.recoveries.push(entry);
        }
    }

    /// EncodingEntry of R-TAGs at egress ports, decoding at the ports of members.
    fn add_encodings(&mut self, stream: &Stream, handles: &StreamHandles) {
        let decodes = decodes(stream);
        if decodes {
            for (member, &handle) in stream.members.iter().zip(&handles.members) {
                self.encodings.entry(member.port).or_default().streams.push(handle);
            }
        }
        for (number, egress) in stream.egress.iter().enumerate() {
            let is_encoded = match egress.tag {
                SequenceTag::RTag => true,
                SequenceTag::Remove => false,
                // A frame that was decoded leaves with its R-TAG only if it is encoded again.
                SequenceTag::Keep if decodes && stream.generate => {
                    self.lost.push(format!(
                        "stream {:?}: tag = \"keep\" beside \"none\", with generate = true; it reads as \"none\"",
                        stream.name
                    ));
                    false
                }
                SequenceTag::Keep => decodes,
            };
            if is_encoded {
                let encoding = self.encodings.entry(egress.port).or_default();
                encoding.is_active = true;
                encoding.streams.extend(handles.at_egress(number));
            }
        }
    }

    fn finish(self) -> (Value, Vec<String>) {
        let interfaces: Vec<Value> = self
            .interfaces
            .iter()
            .map(|interface| json!({ "name": interface.name, "type": ETHERNET }))
            .collect();
        let encodings: Vec<Value> = self
            .encodings
            .iter()
            .map(|(port, encoding)| {
                json!({
                    "port": self.interface(*port),
                    "direction-out-facing": true,
                    "stream": encoding.streams,
                    "active": encoding.is_active,
                    "encapsulation": { "r-tag": {} },
                })
            })
            .collect();
        let mut frer = Map::new();
        for (name, entries) in [
            ("sequence-generation", self.generations),
            ("sequence-recovery", self.recoveries),
            ("sequence-identification", encodings),
            ("stream-split", self.splits),
        ] {
            if !entries.is_empty() {
                frer.insert(name.to_owned(), Value::Array(entries));
            }
        }
        let mut document = Map::new();
        document.insert(format!("{INTERFACES}:interfaces"), json!({ "interface": interfaces }));
        if !self.identities.is_empty() {
            let name = format!("{STREAM_IDENTIFICATION}:stream-identity");
            document.insert(name, Value::Array(self.identities));
        }
        if !frer.is_empty() {
            document.insert(format!("{FRER}:frer"), Value::Object(frer));
        }
        (Value::Object(document), self.lost)
    }
}

/// Whether R-TAGs of the stream's members are decoded.
fn decodes(stream: &Stream) -> bool {
    stream.recover.is_some()
        || stream.members.iter().any(|member| member.individual.is_some())
        || stream.egress.iter().any(|egress| match egress.tag {
            SequenceTag::Remove => true,
            SequenceTag::RTag => !stream.generate,
            SequenceTag::Keep => false,
        })
}

/// The name of the case of an identification, and its parameters.
fn identification(identification: &Identification) -> (&'static str, Value) {
    match identification {
        Identification::Null { destination, vlan } => {
            let mut parameters = json!({ "destination-mac": hyphens(&destination.0) });
            extend(&mut parameters, vlan_match(*vlan));
            ("null-stream-identification", parameters)
        }
        Identification::SourceMacVlan { source, vlan } => {
            let mut parameters = json!({ "source-mac": hyphens(&source.0) });
            extend(&mut parameters, vlan_match(*vlan));
            ("smac-vlan-stream-identification", parameters)
        }
        Identification::ActiveDestination { destination, vlan, up } => {
            let mut down = json!({ "destination-mac": hyphens(&destination.0) });
            extend(&mut down, vlan_match(*vlan));
            let parameters = json!({ "down": down, "up": edit(up) });
            ("dmac-vlan-stream-identification", parameters)
        }
        Identification::Ip(ip) => ("ip-stream-identification", ip_match(ip)),
        // It augments the choice of another module.
        Identification::MaskAndMatch(mask) => (
            "ieee802-dot1cb-mask-and-match:mask-and-match-stream-identification",
            mask_and_match(mask),
        ),
    }
}

fn vlan_match(vlan: VlanMatch) -> Value {
    let tagged = match vlan.tagged {
        TagMatch::Tagged => "tagged",
        TagMatch::Priority => "priority",
        TagMatch::All => "all",
    };
    match vlan.vlan {
        0 => json!({ "tagged": tagged }),
        id => json!({ "tagged": tagged, "vlan": id }),
    }
}

/// The values that an edit sets; VLAN id 0: the tag is removed.
fn edit(edit: &Rewrite) -> Value {
    let mut values = json!({});
    if let Some(destination) = edit.destination {
        values["destination-mac"] = json!(hyphens(&destination.0));
    }
    match edit.vlan {
        VlanAction::Keep => {}
        VlanAction::Set(id) => values["vlan"] = json!(id),
        VlanAction::Remove => values["vlan"] = json!(0),
    }
    if let Some(priority) = edit.priority {
        values["priority"] = json!(priority);
    }
    values
}

/// `down` of an entry for output. An entry without edits has at least one leaf: a choice requires a case.
fn down(rewrite: &Rewrite) -> Value {
    match edit(rewrite) {
        Value::Object(values) if values.is_empty() => json!({ "tagged": "all" }),
        values => values,
    }
}

fn ip_match(ip: &IpMatch) -> Value {
    let mut values = json!({
        "destination-mac": hyphens(&ip.destination.0),
        "ip-source": match (ip.ip_source, ip.ip_destination) {
            (Some(source), _) => source.to_string(),
            (None, IpAddr::V4(_)) => "0.0.0.0".to_owned(),
            (None, IpAddr::V6(_)) => "::".to_owned(),
        },
        "ip-destination": ip.ip_destination.to_string(),
    });
    extend(&mut values, vlan_match(ip.vlan));
    if let Some(dscp) = ip.dscp {
        values["dscp"] = json!(dscp);
    }
    let (protocol, source, destination) = match ip.next_protocol {
        NextProtocol::None => ("none", None, None),
        NextProtocol::Udp { source, destination } => ("udp", source, destination),
        NextProtocol::Tcp { source, destination } => ("tcp", source, destination),
        NextProtocol::Sctp { source, destination } => ("sctp", source, destination),
    };
    values["next-protocol"] = json!(protocol);
    if protocol != "none" {
        values["source-port"] = json!(source.unwrap_or(0));
        values["destination-port"] = json!(destination.unwrap_or(0));
    }
    values
}

fn mask_and_match(mask: &MaskAndMatch) -> Value {
    let MaskAndMatch { msdu_mask, msdu_match, .. } = mask;
    let mut values = json!({});
    for (field, mask, matched) in [
        ("destination", mask.destination_mask, mask.destination_match),
        ("source", mask.source_mask, mask.source_match),
    ] {
        if mask != MacAddress::ZERO {
            values[format!("{field}-mac-mask")] = json!(hyphens(&mask.0));
            values[format!("{field}-mac-match")] = json!(hyphens(&matched.0));
        }
    }
    if !msdu_mask.is_empty() {
        values["msdu-mask-length"] = json!(msdu_mask.len());
        values["msdu-mask"] = json!(hyphens(msdu_mask));
        values["msdu-match"] = json!(hyphens(msdu_match));
    }
    values
}

/// The parameters of a recovery function (10.4.1). `lost` gets what YANG cannot express.
fn function(recovery: &Recovery, stream: &str, lost: &mut Vec<String>) -> Value {
    let Recovery { algorithm, reset_timeout_ms, take_no_sequence, latent, adaptive } = recovery;
    if adaptive.any() {
        lost.push(format!(
            "stream {stream:?}: \"auto\" in recover; the document has the present values"
        ));
    }
    let mut values = match algorithm {
        Algorithm::Vector { history_length } => {
            json!({ "algorithm": { "vector": {} }, "history-length": history_length })
        }
        Algorithm::Match => json!({ "algorithm": { "match": {} } }),
    };
    values["reset-timeout"] = json!(reset_timeout_ms);
    values["take-no-sequence"] = json!(take_no_sequence);
    values["latent-error-detection"] = json!(latent.is_some());
    if let Some(latent) = latent {
        let difference = i32::try_from(latent.difference).unwrap_or_else(|_| {
            lost.push(format!(
                "stream {stream:?}: difference of latent-error; YANG permits at most {}",
                i32::MAX
            ));
            i32::MAX
        });
        values["latent-error-detection-parameters"] = json!({
            "difference": difference,
            "period": latent.period_ms,
            "paths": latent.paths,
            "reset-period": latent.reset_period_ms,
        });
    }
    values
}

/// Octets as YANG writes them: upper case, separated by hyphens.
fn hyphens(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02X}")).collect::<Vec<_>>().join("-")
}

/// Adds the members of an object.
fn extend(to: &mut Value, from: Value) {
    if let (Value::Object(to), Value::Object(from)) = (to, from) {
        to.extend(from);
    }
}

//! Drafts of net.toml from the files of other programs: topologies, LLDP neighbors, and requirements of streams.
//!
//! A draft collects nodes, ports, links and streams by name. It is written as text for its user to complete, and is read
//! back as any other file, so that all faults of a network are reported in one place.

mod cnc;
mod doctor;
mod graphml;
mod lldp;
mod merge;
mod node_link;
mod text;
mod yang;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;

use onbeat_config::suggestions;
use onbeat_config::text::is_name;
use onbeat_wire::MacAddress;
use serde_json::Value;

use crate::input::{MAX_DELAY_NS, SPEED_MBPS};
use crate::manifest;

/// A file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {place}: {message}; {help}")]
pub struct ImportError {
    /// The file.
    pub file: String,
    /// The place in it.
    pub place: String,
    /// The fault.
    pub message: String,
    /// The remedy.
    pub help: String,
}

/// A fault within a file whose name the caller adds.
type Fault = (String, String, String);

fn fault(place: impl Into<String>, message: impl Into<String>, help: impl Into<String>) -> Fault {
    (place.into(), message.into(), help.into())
}

/// A network that is not complete yet.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    nodes: Vec<DraftNode>,
    /// Nodes by their names and ids in the sources.
    index: HashMap<String, usize>,
    names: HashSet<String>,
    /// Number that the next node of a name gets.
    numbers: HashMap<String, usize>,
    /// Number of files.
    files: usize,
    /// Reports of links, several of which can describe one cable.
    links: Vec<DraftLink>,
    streams: Vec<DraftStream>,
    remarks: Vec<String>,
    /// Nodes with LLDP output.
    speakers: BTreeSet<usize>,
    /// The neighbor at each port that LLDP output describes.
    neighbors: HashMap<(usize, String), DraftEnd>,
}

#[derive(Debug, Clone, Default)]
struct DraftNode {
    /// Its name in the source.
    source: String,
    name: String,
    /// Its ports, by their interfaces, or by their names in the source where these name no interface.
    ports: BTreeSet<String>,
    /// Interfaces of ports with other names in the source.
    interfaces: BTreeMap<String, String>,
    addresses: BTreeSet<MacAddress>,
    /// Facts for the user.
    remarks: Vec<String>,
}

/// A node and its port, if the source names one.
type DraftEnd = (usize, Option<String>);

/// A report of a link.
#[derive(Debug, Clone)]
struct DraftLink {
    ends: [DraftEnd; 2],
    /// Index of its file.
    file: usize,
    /// Whether a report of the opposite direction in the same file can describe the same cable.
    has_opposite: bool,
    values: LinkValues,
}

/// Attributes of a link.
#[derive(Debug, Clone, Default)]
struct LinkValues {
    speed_mbps: Option<u32>,
    delay_ns: Option<u32>,
    /// Facts for the user.
    remarks: Vec<String>,
}

#[derive(Debug, Clone)]
struct DraftStream {
    name: String,
    talker: usize,
    listeners: Vec<usize>,
    address: MacAddress,
    vlan: Option<u16>,
    interval_us: u64,
    size: u64,
    paths: u8,
    max_delay_us: Option<u64>,
}

impl Draft {
    /// Reads the texts and names of files of one network, in any order.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn read(files: &[(String, String)]) -> Result<Self, ImportError> {
        let mut draft = Self::default();
        // Streams refer to nodes.
        let has_streams = |(text, _): &&(String, String)| text.contains(cnc::MODULE);
        let (streams, others): (Vec<_>, Vec<_>) = files.iter().partition(has_streams);
        others.into_iter().try_for_each(|(text, name)| draft.add(text, name))?;
        lldp::join(&mut draft);
        streams.into_iter().try_for_each(|(text, name)| draft.add(text, name))?;
        Ok(draft)
    }

    /// Adds a file, whose format is found from its content; `name` names it in errors, and the node of LLDP neighbors. Streams
    /// refer to nodes, so their file comes last.
    ///
    /// # Errors
    /// The format is unknown, or the content has a fault.
    pub fn add(&mut self, text: &str, name: &str) -> Result<(), ImportError> {
        self.files += 1;
        let added = match text.trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t']) {
            text if text.starts_with('<') => graphml::read(self, text),
            text => match serde_json::from_str(text) {
                Ok(value) => self.add_json(&value, name),
                Err(error) => Err(fault(
                    format!("line {}, column {}", error.line(), error.column()),
                    format!("neither JSON nor XML: {error}"),
                    FORMATS,
                )),
            },
        };
        added.map_err(|(place, message, help)| ImportError {
            file: name.into(),
            place,
            message,
            help,
        })
    }

    fn add_json(&mut self, value: &Value, file: &str) -> Result<(), Fault> {
        if let Some(lldp) = value.get("lldp") {
            return lldp::read(self, lldp, &owner(file));
        }
        if let Some(findings) = value.get("findings") {
            return doctor::read(self, findings, &owner(file));
        }
        if let Some(networks) = value.get("ietf-network:networks") {
            return yang::read(self, networks);
        }
        if let Some(config) = value.get(cnc::MODULE) {
            return cnc::read(self, config);
        }
        if value.get("schema").is_some_and(|schema| schema == manifest::SCHEMA) {
            let help = "use the net.toml of this plan";
            return Err(fault("top level", "a manifest of a plan, not a topology", help));
        }
        if value.get("nodes").is_some() {
            return node_link::read(self, value);
        }
        Err(fault("top level", "JSON of an unknown format", FORMATS))
    }

    /// The node with this id in the source, which is created if necessary.
    fn node(&mut self, source: &str) -> usize {
        self.labeled_node(source, source)
    }

    /// The node with this id, which is named by its label if it is created. Labels need not be unique.
    fn labeled_node(&mut self, id: &str, label: &str) -> usize {
        if let Some(&index) = self.index.get(id) {
            return index;
        }
        let base = clean(label);
        let mut name = base.clone();
        while !self.names.insert(name.clone()) {
            let number = self.numbers.entry(base.clone()).or_insert(1);
            *number += 1;
            name = format!("{base}-{number}");
        }
        self.index.insert(id.into(), self.nodes.len());
        self.nodes.push(DraftNode { source: label.into(), name, ..DraftNode::default() });
        self.nodes.len() - 1
    }

    /// Lets further files name the nodes of a file by their labels. The first node with a label has it.
    fn index_labels(&mut self) {
        for (index, node) in self.nodes.iter().enumerate() {
            self.index.entry(node.source.clone()).or_insert(index);
        }
    }

    /// Adds a port, by its name in the source.
    fn port(&mut self, node: usize, source: &str) -> DraftEnd {
        let DraftNode { ports, interfaces, .. } = &mut self.nodes[node];
        let name = interfaces.get(source).map_or(source, String::as_str);
        ports.insert(name.into());
        (node, Some(name.into()))
    }

    /// Names the interface of a port, if the name is one and not another port's.
    fn name_port(&mut self, node: usize, source: &str, interface: &str) {
        let DraftNode { ports, interfaces, .. } = &mut self.nodes[node];
        if is_interface(interface) && interfaces.values().all(|other| other != interface) {
            interfaces.insert(source.into(), interface.into());
            ports.insert(interface.into());
        }
    }

    /// Adds a report of a link.
    fn link(&mut self, a: DraftEnd, b: DraftEnd, has_opposite: bool, values: LinkValues) {
        let file = self.files;
        self.links.push(DraftLink { ends: [a, b], file, has_opposite, values });
    }

    /// Joins two nodes that are one: the first keeps its name.
    fn join(&mut self, kept: usize, other: usize) {
        let joined = |node: &mut usize| match (*node).cmp(&other) {
            Ordering::Less => {}
            Ordering::Equal => *node = kept - usize::from(kept > other),
            Ordering::Greater => *node -= 1,
        };
        let DraftNode { source, name, ports, interfaces, addresses, remarks } =
            self.nodes[other].clone();
        let node = &mut self.nodes[kept];
        node.ports.extend(ports);
        node.interfaces.extend(interfaces);
        node.addresses.extend(addresses);
        node.remarks.extend(remarks.into_iter().filter(|remark| remark != lldp::SILENT));
        node.remarks.push(format!("named by its file; its LLDP system name is {source:?}"));
        self.nodes.remove(other);
        self.names.remove(&name);
        self.index.values_mut().for_each(joined);
        self.links.iter_mut().flat_map(|link| &mut link.ends).for_each(|end| joined(&mut end.0));
    }

    /// The node with this id, which the file has described.
    fn described(&self, id: &str, place: impl FnOnce() -> String) -> Result<usize, Fault> {
        let missing = || {
            fault(place(), format!("no node has the id {id:?}"), "add the node, or correct the id")
        };
        self.index.get(id).copied().ok_or_else(missing)
    }

    /// The node that a file of streams names: by its address, or by its name.
    fn station(
        &self,
        place: &str,
        address: Option<MacAddress>,
        name: &str,
    ) -> Result<usize, Fault> {
        let by_address = address.and_then(|address| {
            self.nodes.iter().position(|node| node.addresses.contains(&address))
        });
        if let Some(node) = by_address.or_else(|| self.index.get(name).copied()) {
            return Ok(node);
        }
        let meant = suggestions::nearest(name, self.index.keys().map(String::as_str));
        let meant = meant.map_or(String::new(), |meant| format!("; did you mean {meant:?}?"));
        Err(fault(
            place,
            format!("no node has the address or the name of interface {name:?}{meant}"),
            "add the file of the topology before this one; interface-name is the name of a node, or mac-address that \
             of its LLDP chassis or port",
        ))
    }
}

const FORMATS: &str = "use GraphML, NetJSON NetworkGraph, JSON of RFC 8345, `lldpcli -f json show neighbors`, \
                       `onbeat doctor --json`, or cnc-config of IEEE 802.1Qdj";

/// The node of a file such as `r1.lldp.json`.
fn owner(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let name = name.strip_suffix(".json").unwrap_or(name);
    let name = name.strip_suffix(".lldp").unwrap_or(name);
    name.strip_suffix(".doctor").unwrap_or(name).into()
}

/// A name with other characters replaced.
fn clean(source: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = source.chars().map(allowed).collect();
    let name: String = name.trim_matches(['-', '_', '.']).chars().take(40).collect();
    if is_name(&name) { name } else { "node".into() }
}

/// Whether a port's name can name an interface and a port.
fn is_interface(name: &str) -> bool {
    is_name(name) && name.len() <= 15 && name != crate::input::HOST && name != "."
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

/// A number, or a text of one, as JSON of YANG writes decimals and large numbers.
fn number(value: &Value) -> Option<f64> {
    let number = identifier(value)?.trim().parse::<f64>().ok();
    number.filter(|number| number.is_finite() && *number >= 0.0)
}

/// The elements of a list, or none.
fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A text or a number, as text.
fn identifier(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Attributes of graphs, and the factors to Mbit/s and to nanoseconds. A kilometer is one of glass.
const SPEEDS: &[(&str, f64)] = &[("speed_mbps", 1.0), ("speed-mbps", 1.0), ("LinkSpeedRaw", 1e-6)];
const DELAYS: &[(&str, f64)] =
    &[("delay_ns", 1.0), ("delay-ns", 1.0), ("dist", 5000.0), ("length_km", 5000.0)];

impl LinkValues {
    /// Reads the first attribute of speed and of delay that exists. Values that net.toml does not permit become remarks.
    fn read(
        speeds: &[(&str, f64)],
        delays: &[(&str, f64)],
        attribute: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut remarks = Vec::new();
        let mut first = |attributes: &[(&str, f64)], permitted: RangeInclusive<u32>, unit: &str| {
            let mut existing = attributes.iter();
            let (name, factor, text) =
                existing.find_map(|(name, factor)| Some((name, factor, attribute(name)?)))?;
            if text.trim().is_empty() {
                return None;
            }
            let value = text.trim().parse::<f64>().ok().map(|value| (value * factor).round());
            let (least, most) = permitted.into_inner();
            let value = value.filter(|value| (f64::from(least)..=f64::from(most)).contains(value));
            if value.is_none() {
                remarks.push(format!(
                    "{name} = {text} is left out: not from {least} to {most} {unit}"
                ));
            }
            value.map(|value| value as u32)
        };
        let speed_mbps = first(speeds, SPEED_MBPS, "Mbit/s");
        let delay_ns = first(delays, 0..=MAX_DELAY_NS, "ns");
        Self { speed_mbps, delay_ns, remarks }
    }
}

//! The manifest of a plan: its files, and the paths, delays and recovery of each stream, as JSON.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use onbeat_config::text::mac_address;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::bridge::{self, StaticEntry};
use crate::delay::DelayRange;
use crate::labels::LabelScope;
use crate::network::{Arc, End, Network, Node};
use crate::node_file::NodeFile;
use crate::plan::{Plan, PreviousRoutes, PreviousStream, RelayRecovery, StreamPlan};
use crate::report;
use crate::route::{ListenerPaths, Route};
use crate::window::Window;

/// The format.
pub const SCHEMA: &str = "onbeat-plan/1";

/// A manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: String,
    /// The nodes with a file.
    pub nodes: Vec<NodeEntry>,
    /// The foreign bridges with a file of static entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bridges: Vec<NodeEntry>,
    /// The streams, in the order of the network.
    pub streams: Vec<StreamEntry>,
}

/// A node with a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEntry {
    /// Its name.
    pub name: String,
    /// Its file, beside the manifest.
    pub file: String,
    /// The number of its streams.
    pub streams: usize,
    /// SHA-256 of the file, as `sha256sum` and `onbeat show` print it; none in older manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl NodeEntry {
    fn new(name: &str, extension: &str, streams: usize, text: &str) -> Self {
        let octets = Sha256::digest(text);
        Self {
            name: name.into(),
            file: format!("{name}.{extension}"),
            streams,
            sha256: Some(octets.iter().map(|octet| format!("{octet:02x}")).collect()),
        }
    }
}

/// A stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamEntry {
    /// Its name.
    pub name: String,
    /// The node of its talker.
    pub talker: String,
    /// Destination address.
    pub address: String,
    /// VLANs between talker and listeners: one for all paths, or one for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<u16>,
    /// Time between two frames, in nanoseconds; 0 in older manifests.
    #[serde(default)]
    pub interval_ns: u64,
    /// `protected`, `shared` or `refused`.
    pub state: String,
    /// Why it is not protected; empty otherwise.
    pub reason: String,
    /// Its listeners, with paths unless it is refused.
    pub listeners: Vec<ListenerEntry>,
    /// Its recovery, unless it has one path.
    pub window: Option<Window>,
    /// Recovery in relays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<RelayEntry>,
}

/// Recovery of a stream in a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayEntry {
    /// Its node.
    pub node: String,
    /// When copies arrive there.
    pub delay: DelayRange,
    /// The parameters.
    pub window: Window,
}

/// A listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerEntry {
    /// Its node.
    pub node: String,
    /// Paths, each a list of links from `NODE:PORT` to `NODE:PORT`, joined by `>`.
    pub paths: Vec<Vec<String>>,
    /// Delays over all paths.
    pub delay: Option<DelayRange>,
}

/// A manifest that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Not JSON of this form.
    #[error(
        "{file}: not a manifest of a plan: {source}; use the manifest.json that `onbeat plan -o` wrote"
    )]
    Json {
        /// The file.
        file: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// Another format.
    #[error(
        "{file}: format {found:?} is not supported; plan again, this version writes {SCHEMA:?}"
    )]
    Schema {
        /// The file.
        file: String,
        /// Its format.
        found: String,
    },
}

impl Manifest {
    /// Describes a plan and its files.
    #[must_use]
    pub fn new(network: &Network, plan: &Plan, files: &[NodeFile]) -> Self {
        let node = |file: &NodeFile| {
            NodeEntry::new(
                &network.nodes[file.node as usize].name,
                "toml",
                file.streams,
                &file.text,
            )
        };
        let streams = (0..network.streams.len()).map(|index| entry(network, plan, index));
        Self {
            schema: SCHEMA.into(),
            nodes: files.iter().map(node).collect(),
            bridges: bridges(network, plan),
            streams: streams.collect(),
        }
    }

    /// Parses a manifest; errors name it `file`.
    ///
    /// # Errors
    /// It is no manifest of this format.
    pub fn parse(text: &str, file: &str) -> Result<Self, ManifestError> {
        let json = |source| ManifestError::Json { file: file.into(), source };
        let manifest: Self = serde_json::from_str(text).map_err(json)?;
        if manifest.schema != SCHEMA {
            return Err(ManifestError::Schema { file: file.into(), found: manifest.schema });
        }
        Ok(manifest)
    }

    /// Returns the streams as previous ones of a network: routes of the protected ones whose talker, listeners and links
    /// exist, and what limits delays and labels in any case.
    #[must_use]
    pub fn previous(&self, network: &Network) -> PreviousRoutes {
        let index = NameIndex::new(network);
        let stream = |entry: &StreamEntry| (entry.name.clone(), index.stream(entry));
        self.streams.iter().map(stream).collect()
    }

    /// The streams by name.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<&str, &StreamEntry> {
        self.streams.iter().map(|stream| (stream.name.as_str(), stream)).collect()
    }
}

fn bridges(network: &Network, plan: &Plan) -> Vec<NodeEntry> {
    let entries = bridge::entries(network, plan);
    let of_bridge = |entries: &[StaticEntry]| {
        let node = entries[0].node;
        let text = bridge::batch(network, node, entries);
        NodeEntry::new(&network.nodes[node as usize].name, "bridge", entries.len(), &text)
    };
    entries.chunk_by(|a, b| a.node == b.node).map(of_bridge).collect()
}

/// The objects of a network by name.
struct NameIndex<'a> {
    network: &'a Network,
    arcs: HashMap<String, Arc>,
    ends: HashMap<String, End>,
    nodes: HashMap<&'a str, u32>,
    talkers: HashMap<&'a str, u32>,
}

impl<'a> NameIndex<'a> {
    fn new(network: &'a Network) -> Self {
        let arcs = network.arcs().map(|arc| (hop(network, arc), arc)).collect();
        let ports = |(node, described): (u32, &Node)| {
            let port = move |port: u32| End { node, port };
            (0..described.ports.len() as u32).map(port)
        };
        let ends = (0..).zip(&network.nodes).flat_map(ports);
        Self {
            network,
            arcs,
            ends: ends.map(|end| (network.end_name(end), end)).collect(),
            nodes: (0..).zip(&network.nodes).map(|(index, node)| (&node.name[..], index)).collect(),
            talkers: network
                .streams
                .iter()
                .map(|stream| (&stream.name[..], stream.talker))
                .collect(),
        }
    }

    fn stream(&self, entry: &StreamEntry) -> PreviousStream {
        let paths = entry.listeners.iter().flat_map(|listener| &listener.paths);
        let entered = |hop: &String| self.ends.get(hop.split_once('>')?.1);
        let ends: BTreeSet<End> = paths.flatten().filter_map(entered).copied().collect();
        PreviousStream {
            route: if entry.state == "protected" { self.route(entry) } else { None },
            delays: entry.listeners.iter().filter_map(|listener| listener.delay).collect(),
            relay_delays: entry
                .relays
                .iter()
                .map(|relay| (relay.node.clone(), relay.delay))
                .collect(),
            address: mac_address(&entry.address).unwrap_or_default(),
            labels: entry.labels.clone(),
            scopes: ends.into_iter().map(|end| LabelScope::at(self.network, end)).collect(),
        }
    }

    fn route(&self, entry: &StreamEntry) -> Option<Route> {
        let talker = *self.talkers.get(entry.name.as_str())?;
        let mut route = Route::default();
        for listener in &entry.listeners {
            let node = *self.nodes.get(listener.node.as_str())?;
            let arc = |hop: &String| self.arcs.get(hop).copied();
            let path = |hops: &Vec<String>| {
                let path: Vec<Arc> = hops.iter().map(arc).collect::<Option<_>>()?;
                leads(self.network, talker, node, &path).then_some(path)
            };
            let paths = listener.paths.iter().map(path).collect::<Option<_>>()?;
            route.listeners.push(ListenerPaths { listener: node, paths });
        }
        Some(route)
    }
}

/// Whether a path leads from one node to another.
fn leads(network: &Network, from: u32, to: u32, path: &[Arc]) -> bool {
    let mut at = from;
    for arc in path {
        let (tail, head) = network.ends(*arc);
        if tail != at {
            return false;
        }
        at = head;
    }
    at == to && !path.is_empty()
}

/// An arc, by the ports at its ends.
#[must_use]
pub fn hop(network: &Network, arc: Arc) -> String {
    let [from, to] = network.link_ends(arc);
    format!("{}>{}", network.end_name(from), network.end_name(to))
}

fn entry(network: &Network, plan: &Plan, index: usize) -> StreamEntry {
    let stream = &network.streams[index];
    let name = |node: u32| network.nodes[node as usize].name.clone();
    let state = match plan.streams[index] {
        StreamPlan::Protected => "protected",
        StreamPlan::Shared { .. } => "shared",
        StreamPlan::Refused(_) => "refused",
    };
    let relay = |relay: &RelayRecovery| RelayEntry {
        node: name(relay.node),
        delay: relay.delay,
        window: relay.window,
    };
    let hops = |path: &Vec<Arc>| path.iter().map(|arc| hop(network, *arc)).collect();
    let listener = |(position, node): (usize, &u32)| ListenerEntry {
        node: name(*node),
        paths: plan.routes[index]
            .as_ref()
            .map(|route| route.listeners[position].paths.iter().map(hops).collect())
            .unwrap_or_default(),
        delay: plan.delays[index].get(position).copied(),
    };
    StreamEntry {
        name: stream.name.clone(),
        talker: name(stream.talker),
        address: stream.address.to_string(),
        labels: plan.labels[index].clone(),
        interval_ns: stream.interval_ns,
        state: state.into(),
        reason: report::reason(network, plan, index).unwrap_or_default(),
        listeners: stream.listeners.iter().enumerate().map(listener).collect(),
        window: plan.windows[index],
        relays: plan.relays[index].iter().map(relay).collect(),
    }
}

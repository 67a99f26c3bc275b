//! The manifest of a plan: its files, and the paths, delays and recovery of each stream, as JSON.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::delay::DelayRange;
use crate::network::{Arc, Network};
use crate::node_file::NodeFile;
use crate::plan::{Plan, PreviousRoutes, StreamPlan};
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
}

/// A stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamEntry {
    /// Its name.
    pub name: String,
    /// The node of its talker.
    pub talker: String,
    /// `protected`, `shared` or `refused`.
    pub state: String,
    /// Why it is not protected; empty otherwise.
    pub reason: String,
    /// Its listeners, with paths unless it is refused.
    pub listeners: Vec<ListenerEntry>,
    /// Its recovery, unless it has one path.
    pub window: Option<Window>,
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
            let name = network.nodes[file.node as usize].name.clone();
            NodeEntry { file: format!("{name}.toml"), name, streams: file.streams }
        };
        let streams = (0..network.streams.len()).map(|index| entry(network, plan, index));
        Self {
            schema: SCHEMA.into(),
            nodes: files.iter().map(node).collect(),
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

    /// Returns the routes of protected streams whose talker, listeners and links exist in a network.
    #[must_use]
    pub fn routes(&self, network: &Network) -> PreviousRoutes {
        let arcs: HashMap<String, Arc> =
            network.arcs().map(|arc| (hop(network, arc), arc)).collect();
        let nodes: HashMap<&str, u32> =
            (0..).zip(&network.nodes).map(|(index, node)| (node.name.as_str(), index)).collect();
        let streams: HashMap<&str, &crate::network::Stream> =
            network.streams.iter().map(|stream| (stream.name.as_str(), stream)).collect();
        let route = |entry: &StreamEntry| {
            let stream = streams.get(entry.name.as_str())?;
            let mut route = Route::default();
            let mut delays = Vec::new();
            for listener in &entry.listeners {
                let node = *nodes.get(listener.node.as_str())?;
                let arc = |hop: &String| arcs.get(hop).copied();
                let path = |hops: &Vec<String>| {
                    let path: Vec<Arc> = hops.iter().map(arc).collect::<Option<_>>()?;
                    leads(network, stream.talker, node, &path).then_some(path)
                };
                let paths = listener.paths.iter().map(path).collect::<Option<_>>()?;
                route.listeners.push(ListenerPaths { listener: node, paths });
                delays.extend(listener.delay);
            }
            Some((entry.name.clone(), (route, delays)))
        };
        let protected = self.streams.iter().filter(|entry| entry.state == "protected");
        protected.filter_map(route).collect()
    }

    /// The streams by name.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<&str, &StreamEntry> {
        self.streams.iter().map(|stream| (stream.name.as_str(), stream)).collect()
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
        state: state.into(),
        reason: report::reason(network, plan, index).unwrap_or_default(),
        listeners: stream.listeners.iter().enumerate().map(listener).collect(),
        window: plan.windows[index],
    }
}

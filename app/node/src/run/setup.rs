//! The active configuration of a node, and the connections of its ports by streams.

use std::path::Path;

use onbeat_frer::spec::{PortId, Stream};

use super::prp::MAX_MTU;
use crate::config::{
    Config, ConfigParts, LinkConfig, NarrowPath, NodeConfig, PortConfig, StreamSet, WildcardConfig,
    narrow_paths,
};
use crate::control::FileVersion;

/// The active configuration: the file, and later changes of single streams.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) node: NodeConfig,
    /// A [`PortId`] is an index here.
    pub(super) ports: Vec<PortConfig>,
    /// With the protocol PRP.
    pub(super) prp: Option<LinkConfig>,
    /// By precedence.
    pub(super) wildcards: Vec<WildcardConfig>,
    pub(super) streams: StreamSet,
    /// SHA-256 of the text with the streams.
    sha256: String,
    /// That of the node's file.
    pub(super) sha256_of_file: String,
    /// Whether streams were changed since the file was read.
    pub(super) changed: bool,
    /// By ingress port: the set of egress ports of present and past streams.
    connected: Vec<u64>,
}

impl From<Config> for Setup {
    fn from(config: Config) -> Self {
        let ConfigParts { node, ports, prp, wildcards, streams, sha256, sha256_of_file } =
            config.into_parts();
        let connected = connections(ports.len(), streams.iter());
        let changed = false;
        Self { node, ports, prp, wildcards, streams, sha256, sha256_of_file, changed, connected }
    }
}

impl Setup {
    pub(super) fn port(&self, id: PortId) -> &PortConfig {
        &self.ports[usize::from(id.0)]
    }

    /// Host ports with two LANs or paths: of a PRP node, or of wildcards.
    pub(super) fn links(&self) -> impl Iterator<Item = &LinkConfig> {
        self.wildcards.iter().map(|wildcard| &wildcard.link).chain(&self.prp)
    }

    /// The egress ports that are too narrow, by the MTUs of ports. PRP carries no longer packets, whatever the host's MTU.
    pub(super) fn narrow_paths(&self, mut mtus: Vec<Option<u32>>) -> Vec<NarrowPath<'_>> {
        if let Some(link) = &self.prp {
            let host = &mut mtus[usize::from(link.host.0)];
            *host = host.map(|mtu| mtu.min(MAX_MTU));
        }
        narrow_paths(self.streams.iter(), self.links(), &mtus).collect()
    }

    /// The file and its version.
    pub(super) fn version(&self, file: &Path) -> FileVersion {
        let is_replaced = self.sha256 != self.sha256_of_file;
        let file = if is_replaced { &self.node.managed_file } else { file };
        FileVersion {
            file: file.display().to_string(),
            sha256: self.sha256.clone(),
            tag: self.node.tag.clone(),
            managed_by: self.node.managed_by.clone(),
            streams_changed: self.changed,
        }
    }

    /// Adds the connections of these streams; returns whether one is new.
    pub(super) fn connect(&mut self, streams: &[Stream]) -> bool {
        let mut new = false;
        for (known, set) in self.connected.iter_mut().zip(connections(self.ports.len(), streams)) {
            new |= set & !*known != 0;
            *known |= set;
        }
        new
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::new(&self.node, &self.ports, self.links(), self.streams.iter())
    }
}

/// Names of ports, by port id.
pub(super) fn names(ports: &[PortConfig]) -> Vec<String> {
    ports.iter().map(|port| port.name.clone()).collect()
}

/// By ingress port: the set of egress ports of its streams.
fn connections<'a>(ports: usize, streams: impl IntoIterator<Item = &'a Stream>) -> Vec<u64> {
    let mut connections = vec![0; ports];
    for stream in streams {
        let set = stream.egress.iter().fold(0, |set, egress| set | 1 << egress.port.0);
        for member in &stream.members {
            connections[usize::from(member.port.0)] |= set;
        }
    }
    connections
}

/// The ports of a node, with the egress ports of each.
#[derive(Debug)]
pub(super) struct Layout {
    /// Name of the node.
    pub(super) node: String,
    pub(super) ports: Vec<PortConfig>,
    /// By ingress port: the set of egress ports of its streams.
    egress: Vec<u64>,
    /// The set of ports that receive a stream with different replicas, which generic mode does not support.
    unlike: u64,
}

impl Layout {
    pub(super) fn new<'a>(
        node: &NodeConfig,
        ports: &[PortConfig],
        links: impl IntoIterator<Item = &'a LinkConfig>,
        streams: impl IntoIterator<Item = &'a Stream> + Clone,
    ) -> Self {
        let mut egress = connections(ports.len(), streams.clone());
        for LinkConfig { a, b, host, .. } in links {
            let [a, b, host] = [a, b, host].map(|port| usize::from(port.0));
            egress[host] |= 1 << a | 1 << b;
            egress[a] |= 1 << host;
            egress[b] |= 1 << host;
        }
        let unlike = streams.into_iter().filter(|stream| stream.unlike_replica().is_some());
        let unlike = unlike.flat_map(|stream| &stream.members);
        let unlike = unlike.fold(0, |set, member| set | 1 << member.port.0);
        Self { node: node.name.clone(), ports: ports.to_vec(), egress, unlike }
    }

    /// Whether port number `index` requires native mode.
    pub(super) fn needs_native(&self, index: usize) -> bool {
        self.unlike & 1 << index != 0
    }

    /// Egress ports of frames received by port number `index`.
    pub(super) fn egress(&self, index: usize) -> impl Iterator<Item = &PortConfig> {
        let set = self.egress[index];
        self.ports.iter().enumerate().filter(move |(n, _)| set & 1 << n != 0).map(|(_, port)| port)
    }
}

//! The topology of a network: hosts, nodes, links between their interfaces.
//!
//! ```toml
//! [[host]]
//! name = "talker"
//! at = [0, 0]                                # column and row in the drawing
//!
//! [[node]]
//! name = "a"
//! at = [1, 0]
//! config = "a.toml"                          # configuration of `onbeat run`
//! # config-text = "..."                      # the same, inline
//! # bridge = ["host", "path1"]               # interfaces joined by a Linux bridge "br0"
//!
//! [[link]]
//! name = "access"
//! ends = ["talker:eth0", "a:host"]
//!
//! [[link]]
//! name = "path1"
//! ends = ["a:path1", "b:path1"]
//! impairment = { loss = 0.01, delay-us = 300 }   # a wire in user space; faults may change it
//! ```
//!
//! The builder and the file produce the same value:
//!
//! ```
//! use onbeat_lab::Topology;
//!
//! let mut built = Topology::default();
//! built.host("talker", 0, 0).host("listener", 1, 0);
//! built.link("cable", "talker:eth0", "listener:eth0");
//! let read = Topology::parse(
//!     r#"
//!     host = [{ name = "talker", at = [0, 0] }, { name = "listener", at = [1, 0] }]
//!     link = [{ name = "cable", ends = ["talker:eth0", "listener:eth0"] }]
//!     "#,
//! );
//! assert_eq!(built.checked().unwrap(), read.unwrap());
//! ```

mod check;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use onbeat_host::{file, trust};
use onbeat_report::topology::{self as drawing, Color};
use serde::Deserialize;

pub use check::TopologyError;

use crate::Error;
use crate::fault::Impairment;

/// A network.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Hosts: they send and receive, without FRER.
    #[serde(default, rename = "host")]
    pub hosts: Vec<Host>,
    /// Nodes: they run `onbeat`.
    #[serde(default, rename = "node")]
    pub nodes: Vec<Node>,
    /// Links.
    #[serde(default, rename = "link")]
    pub links: Vec<Link>,
    /// Streams, for the drawing.
    #[serde(default, rename = "stream")]
    pub streams: Vec<Stream>,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name, unique among hosts and nodes.
    pub name: String,
    /// Column and row in the drawing.
    #[serde(default)]
    pub at: (u16, u16),
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Node {
    /// Its name, unique among hosts and nodes.
    pub name: String,
    /// Column and row in the drawing.
    #[serde(default)]
    pub at: (u16, u16),
    /// A remark in the drawing.
    #[serde(default)]
    pub detail: String,
    /// Its configuration file, if it is no hub; a relative path is resolved from the working directory,
    /// or from the directory of the topology file ([`Topology::load`]).
    pub config: Option<PathBuf>,
    /// Its configuration, inline.
    pub config_text: Option<String>,
    /// Interfaces joined by a Linux bridge named "br0".
    #[serde(default)]
    pub bridge: Vec<String>,
}

impl Node {
    /// Whether it runs no daemon, and only bridges its interfaces.
    #[must_use]
    pub fn is_hub(&self) -> bool {
        self.config.is_none() && self.config_text.is_none()
    }
}

/// A link: a veth pair, or with `impairment` two pairs and a wire in user space between them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Its name, unique among links.
    pub name: String,
    /// Both ends.
    pub ends: [LinkEnd; 2],
    /// The impairment of its wire, in each direction.
    pub impairment: Option<Impairment>,
    /// Whether packet sockets on the wire's own interfaces see frames that it sends, and not only those
    /// that it receives. A frame that it sends again after a full queue is seen again.
    #[serde(default)]
    pub tapped: bool,
    /// Streams it carries, for the drawing.
    #[serde(default)]
    pub streams: Vec<String>,
}

/// An end of a link, written `STATION:INTERFACE`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct LinkEnd {
    /// The host or node.
    pub station: String,
    /// The interface there.
    pub interface: String,
}

/// A stream, for the drawing.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// Its color; releases before 0.2.0 spelled it `colour`.
    #[serde(alias = "colour")]
    pub color: Color,
}

impl FromStr for LinkEnd {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once(':').filter(|(station, interface)| {
            !station.is_empty() && onbeat_netdev::check_name(interface).is_ok()
        });
        let (station, interface) = parts.ok_or_else(|| TopologyError::End(text.to_owned()))?;
        Ok(Self { station: station.into(), interface: interface.into() })
    }
}

impl TryFrom<String> for LinkEnd {
    type Error = TopologyError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for LinkEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.station, self.interface)
    }
}

impl Topology {
    /// Parses a topology in TOML.
    ///
    /// # Errors
    /// Invalid TOML, unknown keys, or an invalid topology.
    pub fn parse(text: &str) -> Result<Self, TopologyError> {
        let topology: Self = toml::from_str(text)?;
        topology.checked()
    }

    /// Reads a topology from a file. Relative paths of configurations are resolved from the directory
    /// of the file.
    ///
    /// # Errors
    /// The file cannot be read, or is writable by another user; errors of [`Topology::parse`].
    pub fn load(path: &Path) -> crate::Result<Self> {
        let text = trust::load(path, |path| {
            file::read_text(path, onbeat_node::config::LONGEST)
                .map_err(|error| Error::io(format!("read topology {}", path.display()), error))
        })?;
        let mut topology = Self::parse(&text)
            .map_err(|source| Error::TopologyFile { path: path.into(), source })?;
        let directory = path.parent().unwrap_or(Path::new(""));
        for node in &mut topology.nodes {
            // An absolute path is kept.
            node.config = node.config.take().map(|config| directory.join(config));
        }
        Ok(topology)
    }

    /// Adds a host.
    pub fn host(&mut self, name: &str, column: u16, row: u16) -> &mut Self {
        self.hosts.push(Host { name: name.into(), at: (column, row) });
        self
    }

    /// Adds a node that runs with the configuration `config`.
    pub fn node(
        &mut self,
        name: &str,
        column: u16,
        row: u16,
        config: impl Into<String>,
    ) -> &mut Self {
        self.nodes.push(Node {
            name: name.into(),
            at: (column, row),
            config_text: Some(config.into()),
            ..Node::default()
        });
        self
    }

    /// Adds a hub: a bridge of these interfaces, which floods multicast frames.
    pub fn hub(&mut self, name: &str, column: u16, row: u16, interfaces: &[&str]) -> &mut Self {
        self.nodes.push(Node { name: name.into(), at: (column, row), ..Node::default() });
        self.bridge(interfaces)
    }

    /// Adds a remark to the node added last.
    pub fn detail(&mut self, detail: &str) -> &mut Self {
        if let Some(node) = self.nodes.last_mut() {
            node.detail = detail.into();
        }
        self
    }

    /// Joins interfaces of the node added last by a Linux bridge.
    pub fn bridge(&mut self, interfaces: &[&str]) -> &mut Self {
        if let Some(node) = self.nodes.last_mut() {
            node.bridge = interfaces.iter().map(|name| (*name).into()).collect();
        }
        self
    }

    /// Adds a link between two ends, each `STATION:INTERFACE`.
    ///
    /// # Panics
    /// An end has another format.
    pub fn link(&mut self, name: &str, a: &str, b: &str) -> &mut Self {
        let end = |text: &str| text.parse().unwrap_or_else(|error| panic!("{error}"));
        let ends = [end(a), end(b)];
        self.links.push(Link {
            name: name.into(),
            ends,
            impairment: None,
            tapped: false,
            streams: Vec::new(),
        });
        self
    }

    /// Makes the link added last a wire in user space.
    pub fn impaired(&mut self, impairment: Impairment) -> &mut Self {
        if let Some(link) = self.links.last_mut() {
            link.impairment = Some(impairment);
        }
        self
    }

    /// Makes the link added last a wire whose frames packet sockets can capture ([`Link::tapped`]).
    pub fn tapped(&mut self) -> &mut Self {
        if let Some(link) = self.links.last_mut() {
            link.tapped = true;
            link.impairment.get_or_insert_default();
        }
        self
    }

    /// Sets the streams of the link added last.
    pub fn carries(&mut self, streams: &[&str]) -> &mut Self {
        if let Some(link) = self.links.last_mut() {
            link.streams = streams.iter().map(|name| (*name).into()).collect();
        }
        self
    }

    /// Adds a stream for the drawing.
    pub fn stream(&mut self, name: &str, color: Color) -> &mut Self {
        self.streams.push(Stream { name: name.into(), color });
        self
    }

    /// Whether there is a node of this name.
    #[must_use]
    pub fn is_node(&self, name: &str) -> bool {
        self.nodes.iter().any(|node| node.name == name)
    }

    /// The drawing of the topology. Links between nodes show their names.
    #[must_use]
    pub fn drawing(&self) -> onbeat_report::Topology {
        let mut picture = onbeat_report::Topology::default();
        for host in &self.hosts {
            picture.host(&host.name, host.at.0, host.at.1);
        }
        for node in &self.nodes {
            picture.node(&node.name, node.at.0, node.at.1).detail(&node.name, &node.detail);
        }
        for stream in &self.streams {
            picture.stream(&stream.name, stream.color);
        }
        for link in &self.links {
            let [a, b] = &link.ends;
            let between_nodes = self.is_node(&a.station) && self.is_node(&b.station);
            let label = if between_nodes { link.name.clone() } else { String::new() };
            picture.links.push(drawing::Link {
                a: a.station.clone(),
                b: b.station.clone(),
                label,
                state: drawing::LinkState::Up,
                streams: link.streams.clone(),
            });
        }
        picture
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_and_the_builder_produce_the_same_topology() {
        let read = Topology::parse(
            r#"
            [[host]]
            name = "talker"
            at = [0, 1]
            [[node]]
            name = "a"
            at = [1, 1]
            detail = "replicates"
            bridge = ["host", "path1"]
            config-text = "[node]"
            [[link]]
            name = "access"
            ends = ["talker:eth0", "a:host"]
            streams = ["red"]
            [[link]]
            name = "path1"
            ends = ["a:path1", "talker:eth1"]
            impairment = { loss = 0.25, duplicate = 0.5, delay-us = 300, jitter-us = 20, reorder = 0.125, seed = 9 }
            [[stream]]
            name = "red"
            color = "red"
            "#,
        );
        let mut built = Topology::default();
        built.host("talker", 0, 1);
        built.node("a", 1, 1, "[node]").detail("replicates").bridge(&["host", "path1"]);
        built.link("access", "talker:eth0", "a:host").carries(&["red"]);
        built.link("path1", "a:path1", "talker:eth1").impaired(Impairment {
            loss: 0.25,
            duplicate: 0.5,
            delay_us: 300,
            jitter_us: 20,
            reorder: 0.125,
            overtaken: 0,
            seed: 9,
        });
        built.stream("red", Color::Red);
        assert_eq!(read.unwrap(), built.checked().unwrap());
    }

    #[test]
    fn the_drawing_has_all_stations_links_and_streams() {
        let mut network = Topology::default();
        network.host("talker", 0, 0).node("a", 1, 0, "").node("b", 2, 0, "");
        network.link("access", "talker:eth0", "a:host").link("path1", "a:path1", "b:path1");
        let picture = network.drawing();
        assert_eq!((picture.nodes.len(), picture.links.len()), (3, 2));
        let text = picture.text(false);
        assert!(text.contains("path1") && !text.contains("access"), "{text}");
    }
}

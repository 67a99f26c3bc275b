//! A laboratory: namespaces, links, nodes.

mod build;
mod daemon;
mod mounts;
mod plug;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use onbeat_netdev::{Handle, Namespace};
use onbeat_node::config::Backend;
use onbeat_node::control::{NodeStatus, NodesStatus};

pub use daemon::{Daemon, die_with_parent};
pub use mounts::Mounts;

use crate::fault::Wire;
use crate::topology::{Link, LinkEnd, Topology};
use crate::{Error, Result};

/// Maximum time of the kernel for immediate operations.
const BOUND: Duration = Duration::from_secs(10);

/// A network on this machine.
///
/// Every host and node is an unnamed network namespace, and the calling thread has a mount namespace of
/// its own ([`Mounts`]). On drop the nodes are killed, the wires stop and the namespaces are removed;
/// if the process is killed, the kernel does this.
#[derive(Debug)]
pub struct World {
    // Dropped in this order: users of the interfaces first.
    daemons: BTreeMap<String, Daemon>,
    wires: BTreeMap<String, Wire>,
    /// Namespaces of wires that were removed, by link.
    unplugged: BTreeMap<String, Handle>,
    stations: BTreeMap<String, Handle>,
    topology: Topology,
    backend: Option<Backend>,
    _mounts: Mounts,
}

/// Ends of a link to set down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutEnds {
    /// Both: the cable is unplugged.
    Both,
    /// The first end.
    First,
    /// The second end.
    Second,
}

impl CutEnds {
    /// Their name in messages.
    pub(crate) fn words(self) -> &'static str {
        match self {
            CutEnds::Both => "both ends",
            CutEnds::First => "the first end",
            CutEnds::Second => "the second end",
        }
    }

    /// The first end (0) or the second.
    #[must_use]
    pub fn one(end: usize) -> Self {
        if end == 0 { Self::First } else { Self::Second }
    }
}

impl World {
    /// Builds the network. Nodes are not started.
    ///
    /// # Errors
    /// The topology is invalid, the caller is not root, or the kernel lacks a feature.
    pub fn build(topology: &Topology) -> Result<Self> {
        build::world(topology.clone().checked()?)
    }

    /// Its topology.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Network configuration of a host or node.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn handle(&self, station: &str) -> Result<&Handle> {
        self.stations.get(station).ok_or_else(|| Error::Unknown {
            what: "host or node",
            name: station.into(),
            known: self.stations.keys().cloned().collect(),
        })
    }

    /// The namespace of a host or node.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn namespace(&self, station: &str) -> Result<&Namespace> {
        self.handle(station).map(Handle::namespace)
    }

    /// Names of hosts and nodes, and their namespaces.
    pub(crate) fn stations(&self) -> impl Iterator<Item = (&str, &Namespace)> {
        self.stations.iter().map(|(name, handle)| (name.as_str(), handle.namespace()))
    }

    /// Process ids of the daemons.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.daemons.values().map(Daemon::pid)
    }

    /// A link of the topology.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn link(&self, name: &str) -> Result<&Link> {
        let links = &self.topology.links;
        links.iter().find(|link| link.name == name).ok_or_else(|| Error::Unknown {
            what: "link",
            name: name.into(),
            known: links.iter().map(|link| link.name.clone()).collect(),
        })
    }

    /// The wire of a link that has an impairment in the topology.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn wire(&self, link: &str) -> Result<&Wire> {
        self.wires.get(link).ok_or_else(|| Error::Unknown {
            what: "link with an impairment",
            name: link.into(),
            known: self.wires.keys().cloned().collect(),
        })
    }

    /// The wires, by name of their links.
    pub fn wires(&self) -> impl Iterator<Item = (&str, &Wire)> {
        self.wires.iter().map(|(name, wire)| (name.as_str(), wire))
    }

    /// Sets ends of a link down. Frames in flight are lost.
    ///
    /// # Errors
    /// [`Error::Unknown`]; an error of the kernel.
    pub fn cut(&self, link: &str, ends: CutEnds) -> Result<()> {
        let [first, second] = &self.link(link)?.ends;
        let chosen: &[&LinkEnd] = match ends {
            CutEnds::Both => &[first, second],
            CutEnds::First => &[first],
            CutEnds::Second => &[second],
        };
        chosen.iter().try_for_each(|end| {
            self.handle(&end.station)?.set_down(&end.interface).map_err(Error::from)
        })
    }

    /// Sets both ends of a link up, and waits until they have carrier.
    ///
    /// # Errors
    /// [`Error::Unknown`]; an error of the kernel.
    pub fn restore(&self, link: &str) -> Result<()> {
        let ends = &self.link(link)?.ends;
        for end in ends {
            self.handle(&end.station)?.set_up(&end.interface)?;
        }
        for end in ends {
            self.handle(&end.station)?.wait_carrier(&end.interface, BOUND)?;
        }
        Ok(())
    }

    /// Makes nodes that start from now on use this data plane, independent of their configuration;
    /// `None`: that of the configuration.
    pub fn set_backend(&mut self, backend: Option<Backend>) {
        self.backend = backend;
    }

    /// The data plane of nodes; `None`: that of their configuration.
    #[must_use]
    pub fn backend(&self) -> Option<Backend> {
        self.backend
    }

    /// Sets the configuration of a node for its next start.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn set_config(&mut self, node: &str, text: String) -> Result<()> {
        let known = self.topology.nodes.iter_mut().find(|known| known.name == node);
        let Some(known) = known else { return Err(self.unknown_node(node)) };
        (known.config, known.config_text) = (None, Some(text));
        Ok(())
    }

    fn unknown_node(&self, node: &str) -> Error {
        Error::Unknown {
            what: "node",
            name: node.into(),
            known: self.topology.nodes.iter().map(|node| node.name.clone()).collect(),
        }
    }

    /// Starts a node with `program`, which is `onbeat`, and waits until it is ready.
    ///
    /// # Errors
    /// Its configuration is invalid, or it exits or is not ready in time.
    pub fn start(&mut self, node: &str, program: &Path) -> Result<()> {
        let description = self.topology.nodes.iter().find(|known| known.name == node);
        let description = description.ok_or_else(|| self.unknown_node(node))?;
        let daemon = Daemon::start(description, self.namespace(node)?, program, self.backend)?;
        self.daemons.insert(node.into(), daemon);
        Ok(())
    }

    /// Starts every node that has a configuration.
    ///
    /// # Errors
    /// Those of [`World::start`].
    pub fn start_all(&mut self, program: &Path) -> Result<()> {
        let nodes = self.topology.nodes.iter().filter(|node| !node.is_hub());
        let names: Vec<String> = nodes.map(|node| node.name.clone()).collect();
        names.iter().try_for_each(|name| self.start(name, program))
    }

    /// The daemon of a started node.
    ///
    /// # Errors
    /// [`Error::Node`]: it was not started.
    pub fn daemon(&mut self, node: &str) -> Result<&mut Daemon> {
        self.daemons.get_mut(node).ok_or_else(|| not_running(node))
    }

    /// The status of a node with its counters.
    ///
    /// # Errors
    /// It does not run or does not respond.
    pub fn status(&self, node: &str) -> Result<NodeStatus> {
        self.daemons.get(node).ok_or_else(|| not_running(node))?.status()
    }

    /// The tables of a PRP node.
    ///
    /// # Errors
    /// It does not run or does not respond.
    pub fn nodes(&self, node: &str) -> Result<NodesStatus> {
        self.daemons.get(node).ok_or_else(|| not_running(node))?.nodes()
    }
}

fn not_running(node: &str) -> Error {
    Error::Node { node: node.into(), reason: "it was not started".into(), log: String::new() }
}

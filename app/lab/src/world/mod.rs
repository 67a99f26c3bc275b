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
use onbeat_node::control::NodeStatus;

pub use daemon::{Daemon, die_with_parent};
pub use mounts::Mounts;

use crate::fault::Wire;
use crate::topology::{Link, LinkEnd, Topology};
use crate::{Error, Result};

/// How long the kernel may take for what it does at once.
const BOUND: Duration = Duration::from_secs(10);

/// A network on this machine.
///
/// Every host and node is a network namespace without a name, and the calling thread has a mount
/// namespace of its own ([`Mounts`]). On drop the nodes are killed, the wires end and the
/// namespaces vanish; where the process is killed, the kernel does all that.
#[derive(Debug)]
pub struct World {
    // Dropped in this order: who uses the interfaces goes before them.
    daemons: BTreeMap<String, Daemon>,
    wires: BTreeMap<String, Wire>,
    /// Namespaces of wires that are taken away, by link.
    unplugged: BTreeMap<String, Handle>,
    stations: BTreeMap<String, Handle>,
    topology: Topology,
    backend: Option<Backend>,
    _mounts: Mounts,
}

/// Which end of a link is turned off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutEnds {
    /// Both: the cable is out.
    Both,
    /// The first end.
    First,
    /// The second end.
    Second,
}

impl CutEnds {
    /// For messages.
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
    /// Builds the network. Nodes are not started yet.
    ///
    /// # Errors
    /// Where the description is faulty, the caller is not root, or the kernel lacks something.
    pub fn build(topology: &Topology) -> Result<Self> {
        build::world(topology.clone().checked()?)
    }

    /// What it was built from.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The devices of a host or node.
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

    /// A link of the description.
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

    /// The wire of a link, where the description gives it an impairment.
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

    /// Turns ends of a link off. Frames that are on it are lost.
    ///
    /// # Errors
    /// [`Error::Unknown`]; what the kernel says.
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

    /// Turns both ends of a link on, and waits until they have carrier.
    ///
    /// # Errors
    /// [`Error::Unknown`]; what the kernel says.
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

    /// Has nodes that are started from now on run this data plane, whatever their configuration
    /// says; `None`: as it says.
    pub fn set_backend(&mut self, backend: Option<Backend>) {
        self.backend = backend;
    }

    /// The data plane that nodes are started with; `None`: as their configuration says.
    #[must_use]
    pub fn backend(&self) -> Option<Backend> {
        self.backend
    }

    /// Gives a node another configuration for the next time that it is started.
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
    /// Where its configuration is faulty, or it ends or is not ready in time.
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
    /// As [`World::start`].
    pub fn start_all(&mut self, program: &Path) -> Result<()> {
        let nodes = self.topology.nodes.iter().filter(|node| !node.is_hub());
        let names: Vec<String> = nodes.map(|node| node.name.clone()).collect();
        names.iter().try_for_each(|name| self.start(name, program))
    }

    /// The daemon of a node that was started.
    ///
    /// # Errors
    /// [`Error::Node`] where it was not.
    pub fn daemon(&mut self, node: &str) -> Result<&mut Daemon> {
        self.daemons.get_mut(node).ok_or_else(|| not_running(node))
    }

    /// What a node counts.
    ///
    /// # Errors
    /// Where it does not run or does not answer.
    pub fn status(&self, node: &str) -> Result<NodeStatus> {
        self.daemons.get(node).ok_or_else(|| not_running(node))?.status()
    }
}

fn not_running(node: &str) -> Error {
    Error::Node { node: node.into(), reason: "it was not started".into(), log: String::new() }
}

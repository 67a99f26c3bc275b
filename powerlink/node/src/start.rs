//! Builds a node on a port from a file.

use std::path::{Path, PathBuf};

use onbeat_link::Backend;
use onbeat_netdev::Namespace;
use onbeat_powerlink::cn::ControlledNode;
use onbeat_powerlink::mn::ManagingNode;
use onbeat_powerlink::network::NetworkError;
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::NodeId;

use crate::error::StartError;
use crate::port::options;
use crate::store::{self, Store};
use crate::virtual_ethernet::{ETHER_TYPES, StackIsolation, VirtualEthernet};
use crate::{File, Runner, Sender, Station};

/// The placement of a node on a host.
#[derive(Debug, Clone, Copy)]
pub struct NodePlacement<'a> {
    /// The namespace of the interface.
    pub namespace: &'a Namespace,
    /// The interface.
    pub interface: &'a str,
    /// The back end of its port.
    pub backend: Backend,
    /// The sender of its responses to polls, or of its SoC.
    pub sender: Sender,
    /// The interface, created at the start, by which the host takes part in the IP network of the bus.
    pub virtual_ethernet: Option<&'a str>,
}

impl NodePlacement<'_> {
    /// `responds`: the node answers requests, and measures its responses by the time stamps of the driver.
    fn open(&self, responds: bool) -> onbeat_link::Result<Box<dyn onbeat_link::Port>> {
        let confirm = self.sender == Sender::Automatic || responds && self.backend.stamps();
        let others: &[_] = if self.virtual_ethernet.is_some() { &ETHER_TYPES } else { &[] };
        let options = options(confirm, others);
        onbeat_link::open(self.backend, self.namespace, self.interface, options)
    }

    /// Creates the node's virtual Ethernet, if configured.
    fn attach<S: Station>(&self, mut runner: Runner<S>) -> Result<Runner<S>, StartError> {
        if let Some(name) = self.virtual_ethernet {
            let quiet = self
                .backend
                .copies()
                .then(|| StackIsolation::begin(self.namespace, self.interface));
            let (station, mac) = (runner.station(), runner.mac_address());
            let made =
                VirtualEthernet::create(self.namespace, name, station, mac, quiet.transpose()?)?;
            runner.attach(made);
        }
        Ok(runner)
    }
}

impl File {
    /// Builds a controlled node of the network, ready to run.
    ///
    /// # Errors
    /// The interface or its back end is not available, or does not support automatic responses; the network has
    /// no such node; its parameters cannot be read, or belong to another node.
    pub fn controlled(
        &self,
        node: NodeId,
        place: &NodePlacement<'_>,
    ) -> Result<Runner<ControlledNode>, StartError> {
        let port = place.open(true)?;
        let mut controlled = self.network.controlled(node, port.mac_address())?;
        let store = self.connect_store(node, &mut controlled)?;
        let mut runner = match place.sender {
            Sender::Process => Runner::new(port, controlled)?,
            Sender::Automatic => Runner::answering(port, controlled)?,
        };
        if let Some(store) = store {
            runner.set_store(store);
        }
        place.attach(runner)
    }

    /// Connects a node to its stored parameters, if the file configures a store.
    fn connect_store(
        &self,
        node: NodeId,
        controlled: &mut ControlledNode,
    ) -> Result<Option<Store>, StartError> {
        let Some(path) = self.store(node) else { return Ok(None) };
        let opened = Store::open(path);
        let (store, kept) =
            opened.map_err(|source| StartError::Store { path: path.clone(), source })?;
        set_store(node, controlled, path, kept.as_deref())?;
        Ok(Some(store))
    }

    fn store(&self, node: NodeId) -> Option<&PathBuf> {
        let mut nodes = self.network.nodes.iter().zip(&self.nodes);
        nodes.find(|(station, _)| station.node == node)?.1.store.as_ref()
    }

    /// Checks the stored parameters of a controlled node, if the file configures a store. Changes nothing.
    ///
    /// # Errors
    /// They cannot be read, another user could have written them, or they belong to another node.
    pub fn check_store(&self, node: NodeId) -> Result<(), StartError> {
        let Some(path) = self.store(node) else { return Ok(()) };
        let kept = store::read(path);
        let kept = kept.map_err(|source| StartError::Store { path: path.clone(), source })?;
        let mut controlled = self.network.controlled(node, MacAddress::default())?;
        set_store(node, &mut controlled, path, kept.as_deref())
    }

    /// Builds the managing node of the network, ready to run.
    ///
    /// # Errors
    /// The interface or its back end is not available, or does not support launch times; a mapping of the
    /// network cannot be used.
    pub fn managing(&self, place: &NodePlacement<'_>) -> Result<Runner<ManagingNode>, StartError> {
        let port = place.open(false)?;
        let mac = port.mac_address();
        let managing = match &self.project {
            Some(project) => project.project.managing(mac).map_err(NetworkError::Mapping)?,
            None => self.network.managing(mac)?,
        };
        place.attach(match place.sender {
            Sender::Process => Runner::new(port, managing)?,
            Sender::Automatic => Runner::launching(port, managing)?,
        })
    }
}

fn set_store(
    node: NodeId,
    controlled: &mut ControlledNode,
    path: &Path,
    kept: Option<&[u8]>,
) -> Result<(), StartError> {
    let path = path.to_owned();
    controlled.set_store(kept).map_err(|why| StartError::StoredParameters { path, node, why })
}

//! From a file to a node on a port.

use onbeat_link::Backend;
use onbeat_netdev::Namespace;
use onbeat_powerlink::cn::ControlledNode;
use onbeat_powerlink::mn::ManagingNode;
use onbeat_wire::powerlink::NodeId;

use crate::error::StartError;
use crate::port::options;
use crate::store::Store;
use crate::virtual_ethernet::{ETHER_TYPES, Quiet, VirtualEthernet};
use crate::{File, Runner, Sender, Station};

/// Where a node is to run, and how.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The namespace of the interface.
    pub namespace: &'a Namespace,
    /// The interface.
    pub interface: &'a str,
    /// What moves its frames.
    pub backend: Backend,
    /// Who sends its responses to polls, or its SoC.
    pub sender: Sender,
    /// The interface by which the host takes part in the IP network of the bus; it is made.
    pub virtual_ethernet: Option<&'a str>,
}

impl Place<'_> {
    fn open(&self) -> onbeat_link::Result<Box<dyn onbeat_link::Port>> {
        let confirm = self.sender == Sender::Automatic;
        let others: &[_] = if self.virtual_ethernet.is_some() { &ETHER_TYPES } else { &[] };
        let options = options(confirm, others);
        onbeat_link::open(self.backend, self.namespace, self.interface, options)
    }

    /// Gives the node its virtual Ethernet, where it has one.
    fn attach<S: Station>(&self, mut runner: Runner<S>) -> Result<Runner<S>, StartError> {
        if let Some(name) = self.virtual_ethernet {
            let quiet = self.backend.copies().then(|| Quiet::begin(self.namespace, self.interface));
            let (station, mac) = (runner.station(), runner.mac_address());
            let made =
                VirtualEthernet::create(self.namespace, name, station, mac, quiet.transpose()?)?;
            runner.attach(made);
        }
        Ok(runner)
    }
}

impl File {
    /// A controlled node of the network, ready to run.
    ///
    /// # Errors
    /// The interface or its back end is not to be had, or cannot answer polls by itself; the network
    /// has no such node; its parameters cannot be read, or are not its own.
    pub fn controlled(
        &self,
        node: NodeId,
        place: &Place<'_>,
    ) -> Result<Runner<ControlledNode>, StartError> {
        let port = place.open()?;
        let mut controlled = self.network.controlled(node, port.mac_address())?;
        let store = self.remember(node, &mut controlled)?;
        let mut runner = match place.sender {
            Sender::Process => Runner::new(port, controlled)?,
            Sender::Automatic => Runner::answering(port, controlled)?,
        };
        if let Some(store) = store {
            runner.remember(store);
        }
        place.attach(runner)
    }

    /// Gives a node what it kept, and what keeps its parameters from now on, where the file says so.
    fn remember(
        &self,
        node: NodeId,
        controlled: &mut ControlledNode,
    ) -> Result<Option<Store>, StartError> {
        let nodes = self.network.nodes.iter().zip(&self.nodes);
        let mut of_node = nodes.filter(|(station, _)| station.node == node);
        let Some(path) = of_node.next().and_then(|(_, host)| host.store.as_ref()) else {
            return Ok(None);
        };
        let opened = Store::open(path);
        let (store, kept) =
            opened.map_err(|source| StartError::Store { path: path.clone(), source })?;
        controlled.set_store(kept.as_deref()).map_err(|why| StartError::Kept {
            path: path.clone(),
            node,
            why,
        })?;
        Ok(Some(store))
    }

    /// The managing node of the network, ready to run.
    ///
    /// # Errors
    /// The interface or its back end is not to be had, or cannot send at an instant by itself; a
    /// mapping of the network cannot be used.
    pub fn managing(&self, place: &Place<'_>) -> Result<Runner<ManagingNode>, StartError> {
        let port = place.open()?;
        let managing = self.network.managing(port.mac_address())?;
        place.attach(match place.sender {
            Sender::Process => Runner::new(port, managing)?,
            Sender::Automatic => Runner::launching(port, managing)?,
        })
    }
}

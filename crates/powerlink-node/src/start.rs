//! From a file to a node on a port.

use onbeat_netdev::Namespace;
use onbeat_powerlink::cn::ControlledNode;
use onbeat_powerlink::mn::ManagingNode;
use onbeat_powerlink::network::NetworkError;
use onbeat_wire::powerlink::NodeId;

use crate::{Backend, File, Runner, Sender, open, open_confirming};

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
}

/// Why a node cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port.
    #[error(transparent)]
    Port(#[from] onbeat_link::Error),
    /// The network.
    #[error(transparent)]
    Network(#[from] NetworkError),
}

impl Place<'_> {
    fn open(&self) -> onbeat_link::Result<Box<dyn onbeat_link::Port>> {
        match self.sender {
            Sender::Process => open(self.backend, self.namespace, self.interface),
            Sender::Automatic => open_confirming(self.backend, self.namespace, self.interface),
        }
    }
}

impl File {
    /// A controlled node of the network, ready to run.
    ///
    /// # Errors
    /// The interface or its back end is not to be had, or cannot answer polls by itself; the network
    /// has no such node.
    pub fn controlled(
        &self,
        node: NodeId,
        place: &Place<'_>,
    ) -> Result<Runner<ControlledNode>, StartError> {
        let port = place.open()?;
        let controlled = self.network.controlled(node, port.mac_address())?;
        Ok(match place.sender {
            Sender::Process => Runner::new(port, controlled)?,
            Sender::Automatic => Runner::answering(port, controlled)?,
        })
    }

    /// The managing node of the network, ready to run.
    ///
    /// # Errors
    /// The interface or its back end is not to be had, or cannot send at an instant by itself; a
    /// mapping of the network cannot be used.
    pub fn managing(&self, place: &Place<'_>) -> Result<Runner<ManagingNode>, StartError> {
        let port = place.open()?;
        let managing = self.network.managing(port.mac_address())?;
        Ok(match place.sender {
            Sender::Process => Runner::new(port, managing)?,
            Sender::Automatic => Runner::launching(port, managing)?,
        })
    }
}

//! Errors of starting a node.

use std::path::PathBuf;

use onbeat_powerlink::cn::StoredParametersError;
use onbeat_powerlink::network::NetworkError;
use onbeat_wire::powerlink::NodeId;

/// An error of starting a node.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port.
    #[error(transparent)]
    Port(#[from] onbeat_link::Error),
    /// The network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The file of its parameters.
    #[error(
        "cannot use store {path:?}: {source}; use a file in an existing folder that this process \
         can write to"
    )]
    Store {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The content of that file.
    #[error(
        "invalid store {path:?} for node {node}: {why}; remove the file, so that the node starts \
         with its defaults"
    )]
    StoredParameters {
        /// The file.
        path: PathBuf,
        /// The node.
        node: NodeId,
        /// The reason.
        why: StoredParametersError,
    },
    /// The interface of the virtual Ethernet.
    #[error("virtual Ethernet: {0}")]
    VirtualEthernet(#[from] onbeat_netdev::Error),
    /// The descriptor that reports frames of the host.
    #[error("virtual Ethernet: cannot create a descriptor to wait for frames: {0}")]
    Poll(std::io::Error),
    /// Loose reverse path filtering of all interfaces overrides the setting of one.
    #[error(
        "virtual Ethernet: the host would also receive frames of the bus on {interface:?}, because \
         reverse path filtering is loose for all interfaces; set net.ipv4.conf.all.rp_filter=1, \
         or use the back end xsk"
    )]
    ReversePath {
        /// The interface of the bus.
        interface: String,
    },
    /// A setting of the interface.
    #[error("virtual Ethernet: cannot change {path}: {source}")]
    Setting {
        /// Its file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
}

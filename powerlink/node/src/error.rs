//! Errors of starting a node.

use std::path::PathBuf;

use onbeat_powerlink::cn::NotKept;
use onbeat_powerlink::network::NetworkError;
use onbeat_wire::powerlink::NodeId;

/// Why a node cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port.
    #[error(transparent)]
    Port(#[from] onbeat_link::Error),
    /// The network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The file for its parameters.
    #[error(
        "store {path:?} cannot be used: {source}; name a file in a folder that is there and that this \
         process may write to"
    )]
    Store {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// What is in that file.
    #[error(
        "store {path:?} is not of node {node}: {why}; remove the file, so that the node begins with \
         its defaults"
    )]
    Kept {
        /// The file.
        path: PathBuf,
        /// The node.
        node: NodeId,
        /// Why not.
        why: NotKept,
    },
    /// The interface of the virtual Ethernet.
    #[error("virtual Ethernet: {0}")]
    VirtualEthernet(#[from] onbeat_netdev::Error),
    /// Every interface takes frames from any sender, whatever is said of it alone.
    #[error(
        "virtual Ethernet: frames of the bus would reach the host by {interface:?} as well, since \
         reverse path filtering is loose for all interfaces; sysctl net.ipv4.conf.all.rp_filter=1, \
         or take the back end xsk"
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
        /// Why not.
        source: std::io::Error,
    },
}

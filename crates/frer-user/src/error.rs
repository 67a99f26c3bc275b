//! What can go wrong.

use std::io;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why forwarding cannot begin, or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An interface, or what the kernel tells of it.
    #[error(transparent)]
    Device(#[from] onbeat_netdev::Error),
    /// The kernel refuses a packet socket.
    #[error("interface {interface:?}: packet socket: {source} (it needs CAP_NET_RAW)")]
    Interface {
        /// Its name.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something of the forwarding thread itself.
    #[error("{what}: {source}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The forwarding thread has ended.
    #[error("the forwarding thread has ended; start the node again and see its log")]
    Ended,
}

//! What can go wrong.

use std::io;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why forwarding cannot begin, or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An interface, or the sockets on it.
    #[error(transparent)]
    Interface(#[from] onbeat_link::Error),
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

//! What can go wrong with the hooks.

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why packets cannot be observed at the hooks of the stack.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A BPF program.
    #[error(transparent)]
    Bpf(#[from] onbeat_bpf::Error),
    /// A network device or namespace.
    #[error(transparent)]
    Netdev(#[from] onbeat_netdev::Error),
    /// A system call.
    #[error("cannot {operation}: {source}")]
    System {
        /// What was being done.
        operation: &'static str,
        /// Why not.
        source: std::io::Error,
    },
}

//! Errors of the hooks.

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of packet tracing at the hooks of the stack.
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
        /// The operation that failed.
        operation: &'static str,
        /// The cause.
        source: std::io::Error,
    },
}

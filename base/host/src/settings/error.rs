//! Why a setting was not changed.

/// A result of changing settings.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a setting was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The journal, or its lock.
    #[error(transparent)]
    Host(#[from] crate::Error),
    /// An interface that cannot be identified cannot be restored.
    #[error("cannot write the identity of an interface into the journal: {0}")]
    Identity(String),
    /// A network device or namespace.
    #[error(transparent)]
    Netdev(#[from] onbeat_netdev::Error),
}

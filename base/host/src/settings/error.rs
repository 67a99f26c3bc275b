//! Errors of changing settings.

/// A result of changing settings.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a setting was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The journal, or its lock, failed.
    #[error(transparent)]
    Host(#[from] crate::Error),
    /// An interface cannot be identified, and so could not be restored.
    #[error("cannot record the identity of an interface in the journal: {0}")]
    Identity(String),
    /// An operation on a network device or namespace failed.
    #[error(transparent)]
    Netdev(#[from] onbeat_netdev::Error),
}

//! Errors of directories, locks and journals.

use std::io;
use std::path::{Path, PathBuf};

use crate::Holder;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a directory, lock or journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another user could write, plant or hold files there, or the path leads elsewhere.
    #[error("path {path:?} is refused: {why}; {remedy}")]
    Refused {
        /// The directory or file.
        path: PathBuf,
        /// The violated rule.
        why: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// Another process holds the lock.
    #[error("lock {path:?} cannot be acquired: {holder} holds it; wait until it exits, or stop it")]
    Locked {
        /// The lock.
        path: PathBuf,
        /// The process.
        holder: Holder,
    },
    /// Another process uses the network interface.
    #[error(
        "interface {interface:?} cannot be opened: {holder} uses it; stop it, or use another \
         interface"
    )]
    InterfaceInUse {
        /// The interface.
        interface: String,
        /// The process.
        holder: Holder,
    },
    /// A journal that cannot be used for restoring.
    #[error("journal {path:?} cannot be used: {why}; {remedy}")]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The cause.
        why: String,
        /// The command that discards it.
        remedy: String,
    },
    /// A file operation.
    #[error("{path:?}: cannot {operation}: {source}{}", remedy(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation.
        operation: &'static str,
        /// The cause.
        source: io::Error,
    },
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; run it as root",
        io::ErrorKind::StorageFull => "; free space there",
        _ => "",
    }
}

impl Error {
    pub(crate) fn refused(path: &Path, why: impl Into<String>, remedy: &'static str) -> Self {
        Error::Refused { path: path.to_owned(), why: why.into(), remedy }
    }

    /// Whether another process has the lock.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Error::Locked { .. } | Error::InterfaceInUse { .. })
    }
}

/// Adds path and operation to an error of the kernel.
pub(crate) fn failed<E: Into<io::Error>>(
    path: &Path,
    operation: &'static str,
) -> impl Fn(E) -> Error + use<E> {
    let path = path.to_owned();
    move |source| Error::Io { path: path.clone(), operation, source: source.into() }
}

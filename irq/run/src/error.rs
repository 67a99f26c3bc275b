//! Errors of recordings and reports.

use std::io;
use std::path::PathBuf;

use onbeat_irq_core::recording;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no recording or no report of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The ledger in the kernel.
    #[error(transparent)]
    Ledger(#[from] onbeat_irq::Error),
    /// A recording cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// Its file.
        path: PathBuf,
        /// Why not.
        source: recording::Error,
    },
    /// A recording cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Its file.
        path: PathBuf,
        /// Why not.
        source: recording::Error,
    },
    /// The command to record cannot be started.
    #[error("{command:?} cannot be run: {source}; give a program and its arguments")]
    Start {
        /// Its program.
        command: String,
        /// Why not.
        source: io::Error,
    },
    /// The state of the command cannot be read.
    #[error("{command:?} cannot be waited for: {source}")]
    Wait {
        /// Its program.
        command: String,
        /// Why not.
        source: io::Error,
    },
    /// The conditions of the machine have no JSON.
    #[error(transparent)]
    Conditions(#[from] serde_json::Error),
}

//! Errors of recordings and reports.

use std::io;
use std::path::PathBuf;

use onbeat_irq_core::recording;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a recording or its report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The ledger in the kernel.
    #[error(transparent)]
    Ledger(#[from] onbeat_irq::Error),
    /// A recording cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Its file.
        path: PathBuf,
        /// The cause.
        source: recording::Error,
    },
    /// A recording cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Its file.
        path: PathBuf,
        /// The cause.
        source: recording::Error,
    },
    /// The command to record cannot be started.
    #[error("cannot run {command:?}: {source}; use a program and its arguments")]
    Start {
        /// Its program.
        command: String,
        /// The cause.
        source: io::Error,
    },
    /// The state of the command cannot be read.
    #[error("cannot wait for {command:?}: {source}")]
    Wait {
        /// Its program.
        command: String,
        /// The cause.
        source: io::Error,
    },
    /// The conditions of the machine cannot be serialized.
    #[error(transparent)]
    Conditions(#[from] serde_json::Error),
}

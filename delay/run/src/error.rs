//! Errors of measurements.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a measurement, or of writing its results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An invalid option, or one that contradicts others or the input.
    #[error("{0}")]
    Option(String),
    /// An input that cannot be read or used: a capture, a waveform, an interface, a host.
    #[error("{name}: {reason}")]
    Input {
        /// The input, as the user named it.
        name: String,
        /// The cause.
        reason: String,
    },
    /// A file of results that cannot be written.
    #[error("{option}: cannot write {}: {reason}", path.display())]
    Output {
        /// The option that names the file.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// A program without its feature `parquet`.
    #[error(
        "--parquet: this program cannot write Parquet files; build it with \
         `cargo build -p onbeat --features parquet`, or use --csv"
    )]
    NoParquet,
    /// A BPF program.
    #[error(transparent)]
    Bpf(#[from] onbeat_bpf::Error),
    /// The hooks.
    #[error(transparent)]
    Hooks(#[from] onbeat_hooks::Error),
    /// A network device or namespace.
    #[error(transparent)]
    Netdev(#[from] onbeat_netdev::Error),
    /// The port of an interface.
    #[error(transparent)]
    Port(#[from] onbeat_link::Error),
    /// Probes.
    #[error(transparent)]
    Probe(#[from] onbeat_probe::Error),
    /// The scheduling of this thread.
    #[error(transparent)]
    Realtime(#[from] onbeat_realtime::Error),
}

impl Error {
    pub(crate) fn option(text: impl Display) -> Self {
        Self::Option(text.to_string())
    }

    pub(crate) fn input(name: impl Display, reason: impl Display) -> Self {
        Self::Input { name: name.to_string(), reason: reason.to_string() }
    }

    pub(crate) fn output(option: &'static str, path: &Path, reason: impl Display) -> Self {
        Self::Output { option, path: path.into(), reason: reason.to_string() }
    }
}

//! Why a probe could not be run.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::NoKey;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a probe could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A reflector's socket.
    #[error("cannot listen on UDP {address}: {source}{}", way_out(source))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// A sender's socket.
    #[error("cannot send to UDP {address}: {source}")]
    Connect {
        /// To whom.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// A socket that failed while it was used.
    #[error("socket of {address}: {source}")]
    Socket {
        /// Whose, or to whom.
        address: SocketAddr,
        /// What it says.
        source: io::Error,
    },
    /// Datagrams of a size that there is not.
    #[error(
        "cannot send a probe of size {size}: use {least} (a STAMP packet) to 65,507 octets (a UDP datagram)"
    )]
    Size {
        /// Octets that were wanted.
        size: usize,
        /// Octets of a packet of this session.
        least: usize,
    },
    /// A key that is not to be had.
    #[error("key file {}: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: NoKey,
    },
}

fn way_out(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 want root: give --port, to both ends"
        }
        io::ErrorKind::AddrInUse => "; a reflector listens there already: end it, or give --port",
        _ => "",
    }
}

//! Errors of probes.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Maximum length of a key file in octets.
pub(crate) const LONGEST_KEY_FILE: u64 = 4096;

/// An error of a reflector or sender.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A reflector's socket.
    #[error("cannot listen on UDP {address}: {source}{}", way_out(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// A sender's socket.
    #[error("cannot send to UDP {address}: {source}")]
    Connect {
        /// The destination.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// A socket that failed in use.
    #[error("socket of {address}: {source}")]
    Socket {
        /// The local or remote address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// An invalid datagram size.
    #[error(
        "cannot send a probe of size {size}: use {least} (a STAMP packet) to 65,507 octets (a UDP datagram)"
    )]
    Size {
        /// The requested octets.
        size: usize,
        /// Octets of a packet of this session.
        least: usize,
    },
    /// An unusable key file.
    #[error("key file {}: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: KeyFileError,
    },
}

/// The reason why a key file is unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file does not exist, or cannot be read.
    #[error(
        "{0}; create one with (umask 077; openssl rand -hex 32 > FILE), and copy it to the other end"
    )]
    Unreadable(#[from] io::Error),
    /// The key is accessible to all users.
    #[error(
        "all users can read or write it (mode {0:04o}); run chmod o-rw, and create a new key if \
         this one may have been read"
    )]
    Everybodys(u32),
    /// An empty file.
    #[error("it is empty; create a key with openssl rand -hex 32")]
    Empty,
    /// An odd number of hexadecimal digits.
    #[error("odd number of hexadecimal digits: {0}; add or remove one")]
    HalfAnOctet(usize),
    /// Not a key file.
    #[error("it exceeds {LONGEST_KEY_FILE} octets: not a key file")]
    TooLong,
}

fn way_out(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 require root; use --port at both ends"
        }
        io::ErrorKind::AddrInUse => "; another process listens there; stop it, or use --port",
        _ => "",
    }
}

//! Why a probe could not be run.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Octets of a key file at most: a longer one is not a key file.
pub(crate) const LONGEST_KEY_FILE: u64 = 4096;

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
        source: KeyFileError,
    },
}

/// Why a file has no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file is not there, or not for us.
    #[error(
        "{0}; make one: (umask 077; openssl rand -hex 32 > FILE), and take it to the other end"
    )]
    Unreadable(#[from] io::Error),
    /// A key that everybody may have is none.
    #[error(
        "everybody on this host may read or write it (mode {0:04o}): chmod o-rw it, and make a new key if \
         somebody may have read this one"
    )]
    Everybodys(u32),
    /// No octets.
    #[error("it holds no key: give it one, openssl rand -hex 32")]
    Empty,
    /// Hexadecimal digits whose last octet is a half.
    #[error("odd number of hexadecimal digits ({0}): an octet has two; add or remove one")]
    HalfAnOctet(usize),
    /// A file of something else.
    #[error("it has more than {LONGEST_KEY_FILE} octets: that is no key")]
    TooLong,
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

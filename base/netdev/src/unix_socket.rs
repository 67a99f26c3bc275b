//! Unix sockets of a network namespace, by sock_diag.

use libc::{AF_UNIX, NETLINK_SOCK_DIAG, SOCK_STREAM};
use netlink_packet_core::NlasIterator;
use nix::errno::Errno;

use crate::netlink::{Connection, Failure};
use crate::{Error, Result};

/// Of linux/sock_diag.h and linux/unix_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const UDIAG_SHOW_NAME: u32 = 1 << 0;
const UDIAG_SHOW_UID: u32 = 1 << 6;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_SHUTDOWN: u16 = 6;
const UNIX_DIAG_UID: u16 = 7;
/// RCV_SHUTDOWN and SEND_SHUTDOWN of net/sock.h.
const SHUTDOWN_MASK: u8 = 3;
/// Octets of `struct unix_diag_msg`, before its attributes.
const MESSAGE: usize = 16;

/// A Unix stream socket with an abstract name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixSocket {
    /// Its inode (`socket:[INODE]` in /proc/PID/fd).
    pub inode: u32,
    /// The user that created it.
    pub uid: u32,
    /// Whether it is shut down in both directions.
    pub is_shut_down: bool,
}

impl UnixSocket {
    /// Returns the sockets with this abstract name in the calling thread's namespace: the bound one, and its
    /// accepted ones.
    ///
    /// # Errors
    /// The kernel refuses: [`Error::Unsupported`] without CONFIG_UNIX_DIAG.
    pub fn with_abstract_name(name: &[u8]) -> Result<Vec<Self>> {
        // struct unix_diag_req: sockets in each state.
        let mut request = vec![AF_UNIX as u8, 0, 0, 0];
        for word in [u32::MAX, 0, UDIAG_SHOW_NAME | UDIAG_SHOW_UID, 0, 0] {
            request.extend(word.to_ne_bytes());
        }
        let connection = Connection::open(NETLINK_SOCK_DIAG as isize)?;
        match connection.dump(SOCK_DIAG_BY_FAMILY, &request) {
            Ok(replies) => {
                Ok(replies.iter().filter_map(|reply| parse(&reply.payload, name)).collect())
            }
            Err(Failure::Refused { errno: Errno::ENOENT, .. }) => Err(Error::Unsupported {
                what: "listing Unix sockets".into(),
                remedy: "use a kernel with CONFIG_UNIX_DIAG".into(),
            }),
            Err(failure) => Err(failure.of("list Unix sockets", "")),
        }
    }
}

/// Parses a `struct unix_diag_msg`; returns a stream socket with this abstract name.
fn parse(message: &[u8], name: &[u8]) -> Option<UnixSocket> {
    let (header, attributes) = message.split_at_checked(MESSAGE)?;
    let attributes: Vec<_> = NlasIterator::new(attributes).map_while(|found| found.ok()).collect();
    let value = |kind| attributes.iter().find(|a| a.kind() == kind).map(|found| found.value());
    // Each type of socket has a separate name space.
    let is_stream = i32::from(header[1]) == SOCK_STREAM;
    if !is_stream || value(UNIX_DIAG_NAME)?.strip_prefix(b"\0") != Some(name) {
        return None;
    }
    Some(UnixSocket {
        inode: u32::from_ne_bytes(*header[4..].first_chunk()?),
        uid: u32::from_ne_bytes(*value(UNIX_DIAG_UID)?.first_chunk()?),
        is_shut_down: value(UNIX_DIAG_SHUTDOWN)?.first() == Some(&SHUTDOWN_MASK),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: i32, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut message = vec![0; MESSAGE];
        (message[0], message[1], message[4]) = (AF_UNIX as u8, kind as u8, 7);
        for (kind, value) in attributes {
            message.extend((4 + value.len() as u16).to_ne_bytes());
            message.extend(kind.to_ne_bytes());
            message.extend(*value);
            message.resize(message.len().next_multiple_of(4), 0);
        }
        message
    }

    #[test]
    fn only_a_stream_socket_with_the_whole_abstract_name_matches() {
        let of = |kind, name: &[u8]| {
            let uid = 1000_u32.to_ne_bytes();
            let attributes = [
                (UNIX_DIAG_NAME, name),
                (UNIX_DIAG_SHUTDOWN, &[SHUTDOWN_MASK]),
                (UNIX_DIAG_UID, &uid),
            ];
            message(kind, &attributes)
        };
        let whole = of(SOCK_STREAM, b"\0name");
        let expected = UnixSocket { inode: 7, uid: 1000, is_shut_down: true };
        assert_eq!(parse(&whole, b"name"), Some(expected));
        assert!((0..whole.len()).all(|length| parse(&whole[..length], b"name").is_none()));
        for (kind, name) in [
            (libc::SOCK_DGRAM, &b"\0name"[..]),
            (SOCK_STREAM, b"name"),
            (SOCK_STREAM, b"\0name2"),
            (SOCK_STREAM, b"\0x\n\0name"),
        ] {
            assert_eq!(parse(&of(kind, name), b"name"), None, "{name:?}");
        }
        assert_eq!(parse(&message(SOCK_STREAM, &[(UNIX_DIAG_NAME, b"\0name")]), b"name"), None);
    }
}

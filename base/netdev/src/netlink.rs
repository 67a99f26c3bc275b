//! A netlink socket: blocking requests with their replies, in order.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    sync::{Mutex, PoisonError},
};

use netlink_packet_core::{
    Emitable, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST,
    NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer, NetlinkHeader, NlasIterator, Parseable,
};
use netlink_sys::{Socket, SocketAddr};
use nix::errno::Errno;

use crate::Error;

const HEADER: usize = 16;
/// `NLMSGERR_ATTR_MSG`: the kernel's description of the error.
const ATTR_MSG: u16 = 1;
/// Number of attempts of a dump that is interrupted by changes.
const DUMP_ATTEMPTS: usize = 16;

/// A netlink socket of the namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Socket,
    /// The last used sequence number. Locked for a whole exchange: replies belong to one request.
    sequence: Mutex<u32>,
}

/// A message of the kernel without its netlink header.
pub(crate) struct Reply {
    pub(crate) header: NetlinkHeader,
    pub(crate) payload: Vec<u8>,
}

/// The cause of a failed exchange; the caller adds the operation.
#[derive(Debug)]
pub(crate) enum Failure {
    Refused { errno: Errno, detail: Option<String> },
    Io(io::Error),
    Malformed(String),
}

impl Failure {
    /// Returns the error of `operation` on `interface`.
    pub(crate) fn of(self, operation: impl Into<String>, interface: &str) -> Error {
        let operation = operation.into();
        let interface = interface.to_owned();
        match self {
            Failure::Refused { errno, detail } => {
                Error::Kernel { operation, interface, errno, detail }
            }
            Failure::Io(source) => Error::Io { operation, source },
            Failure::Malformed(reason) => Error::Malformed { operation, reason },
        }
    }

    pub(crate) fn errno(&self) -> Option<Errno> {
        match self {
            Failure::Refused { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Io(error)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket is open for as long as `self` is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }
    }
}

/// The end of a series of replies.
enum End {
    Complete(Vec<Reply>),
    /// The tables changed during a dump: the entries are not consistent (`NLM_F_DUMP_INTR`).
    Interrupted,
}

impl Connection {
    /// Opens a socket of `protocol` in the calling thread's namespace.
    pub(crate) fn open(protocol: isize) -> Result<Self, Error> {
        let open = || {
            let mut socket = Socket::new(protocol)?;
            socket.set_ext_ack(true)?;
            socket.set_cap_ack(true)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(Self { socket, sequence: Mutex::new(0) })
        };
        open().map_err(|error: io::Error| Error::io("open a netlink socket", error))
    }

    /// Sends a request and returns the replies before the acknowledgement.
    pub(crate) fn request(
        &self,
        kind: u16,
        flags: u16,
        body: &[u8],
    ) -> Result<Vec<Reply>, Failure> {
        match self.exchange(kind, flags | NLM_F_ACK, body)? {
            End::Complete(replies) => Ok(replies),
            End::Interrupted => {
                Err(Failure::Malformed("an interrupted dump was not requested".into()))
            }
        }
    }

    /// Requests all entries of a table.
    pub(crate) fn dump(&self, kind: u16, body: &[u8]) -> Result<Vec<Reply>, Failure> {
        for _ in 0..DUMP_ATTEMPTS {
            if let End::Complete(replies) = self.exchange(kind, NLM_F_DUMP, body)? {
                return Ok(replies);
            }
        }
        Err(Failure::Refused {
            errno: Errno::EAGAIN,
            detail: Some(format!("the table changed during each of {DUMP_ATTEMPTS} readings")),
        })
    }

    fn exchange(&self, kind: u16, flags: u16, body: &[u8]) -> Result<End, Failure> {
        // A panic elsewhere leaves the counter usable: replies with other numbers are ignored.
        let mut sequence = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        *sequence = sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.length = u32::try_from(HEADER + body.len())
            .map_err(|_| Failure::Malformed("the request is too long".into()))?;
        header.message_type = kind;
        header.flags = flags | NLM_F_REQUEST;
        header.sequence_number = *sequence;
        let mut message = vec![0; HEADER];
        header.emit(&mut message);
        message.extend_from_slice(body);
        retry(|| self.socket.send(&message, 0))?;
        self.replies(*sequence)
    }

    fn replies(&self, sequence: u32) -> Result<End, Failure> {
        let mut replies = Vec::new();
        let mut interrupted = false;
        loop {
            let datagram = receive(&self.socket, 0)?;
            for message in Messages(&datagram) {
                let reply = message?;
                if reply.header.sequence_number != sequence {
                    continue;
                }
                interrupted |= reply.header.flags & NLM_F_DUMP_INTR != 0;
                match reply.header.message_type {
                    NLMSG_ERROR | NLMSG_DONE => {
                        verdict(&reply)?;
                        return Ok(if interrupted {
                            End::Interrupted
                        } else {
                            End::Complete(replies)
                        });
                    }
                    _ => replies.push(reply),
                }
            }
        }
    }
}

/// Receives one datagram of any length.
pub(crate) fn receive(socket: &Socket, flags: i32) -> io::Result<Vec<u8>> {
    let mut nothing = Vec::new();
    let length = retry(|| socket.recv(&mut nothing, libc::MSG_PEEK | libc::MSG_TRUNC | flags))?;
    let mut datagram = Vec::with_capacity(length);
    retry(|| socket.recv(&mut datagram, flags))?;
    Ok(datagram)
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The messages of a datagram.
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl Iterator for Messages<'_> {
    type Item = Result<Reply, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let rest = std::mem::take(&mut self.0);
        let message = match NetlinkBuffer::new_checked(rest) {
            Ok(buffer) => buffer,
            Err(error) => return Some(Err(Failure::Malformed(error.to_string()))),
        };
        let length = message.length() as usize;
        let header = match NetlinkHeader::parse(&message) {
            Ok(header) => header,
            Err(error) => return Some(Err(Failure::Malformed(error.to_string()))),
        };
        self.0 = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok(Reply { header, payload: rest[HEADER..length].to_vec() }))
    }
}

/// Checks code and text of an acknowledgment or of the end of a dump.
fn verdict(reply: &Reply) -> Result<(), Failure> {
    let code = match reply.payload.first_chunk::<4>() {
        Some(code) => i32::from_ne_bytes(*code),
        // A DONE without a code is a successful end.
        None if reply.header.message_type == NLMSG_DONE => 0,
        None => return Err(Failure::Malformed("an acknowledgement without a code".into())),
    };
    if code >= 0 {
        return Ok(());
    }
    Err(Failure::Refused { errno: Errno::from_raw(-code), detail: sentence(reply) })
}

fn sentence(reply: &Reply) -> Option<String> {
    if reply.header.flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let attributes = match reply.header.message_type {
        NLMSG_DONE => reply.payload.get(4..)?,
        // The request's header follows the code, and its body too unless the kernel capped it.
        _ if reply.header.flags & NLM_F_CAPPED != 0 => reply.payload.get(4 + HEADER..)?,
        _ => {
            let request = u32::from_ne_bytes(*reply.payload.get(4..)?.first_chunk::<4>()?) as usize;
            reply.payload.get(4 + request.next_multiple_of(4)..)?
        }
    };
    NlasIterator::new(attributes).flatten().find(|attribute| attribute.kind() == ATTR_MSG).map(
        |attribute| String::from_utf8_lossy(attribute.value()).trim_end_matches('\0').to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
        let mut header = NetlinkHeader::default();
        header.length = (HEADER + payload.len()) as u32;
        header.message_type = kind;
        header.flags = flags;
        let mut message = vec![0; HEADER];
        header.emit(&mut message);
        message.extend_from_slice(payload);
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    fn first(message: &[u8]) -> Reply {
        Messages(message).next().unwrap().unwrap()
    }

    /// Builds the payload of a capped acknowledgment with the kernel's description.
    fn refusal(code: i32, text: &str) -> Vec<u8> {
        let mut payload = code.to_ne_bytes().to_vec();
        payload.extend([0; HEADER]);
        payload.extend(((4 + text.len() + 1) as u16).to_ne_bytes());
        payload.extend(ATTR_MSG.to_ne_bytes());
        payload.extend(text.bytes());
        payload.push(0);
        payload
    }

    #[test]
    fn a_datagram_is_split_into_its_messages() {
        let datagram = [message(16, 0, b"odd"), message(17, 0, b"")].concat();
        let found: Vec<_> = Messages(&datagram)
            .map(|reply| reply.map(|reply| (reply.header.message_type, reply.payload)).unwrap())
            .collect();
        assert_eq!(found, [(16, b"odd".to_vec()), (17, vec![])]);
    }

    #[test]
    fn a_truncated_datagram_is_an_error() {
        let whole = message(16, 0, b"payload!");
        for length in 1..whole.len() {
            let found: Vec<_> = Messages(&whole[..length]).collect();
            assert_eq!(found.len(), 1, "{length}");
            assert!(matches!(found[0], Err(Failure::Malformed(_))), "{length}");
        }
        // A length below that of the header would never advance.
        let mut short = whole.clone();
        short[..4].copy_from_slice(&8_u32.to_ne_bytes());
        assert!(Messages(&short).all(|reply| reply.is_err()));
    }

    #[test]
    fn the_error_text_follows_capped_and_uncapped_requests() {
        let text = "mtu greater than device maximum";
        let capped = refusal(-libc::EINVAL, text);
        let mut uncapped = capped.clone();
        // The request has six octets after its header, padded to eight.
        uncapped[4..8].copy_from_slice(&(HEADER as u32 + 6).to_ne_bytes());
        uncapped.splice(4 + HEADER..4 + HEADER, [0; 8]);
        for (payload, flags) in [(capped, NLM_F_CAPPED), (uncapped, 0)] {
            let datagram = message(NLMSG_ERROR, flags | NLM_F_ACK_TLVS, &payload);
            match verdict(&first(&datagram)) {
                Err(Failure::Refused { errno: Errno::EINVAL, detail: Some(detail) }) => {
                    assert_eq!(detail, text);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn truncated_acknowledgments_do_not_panic() {
        let payload = refusal(-libc::EPERM, "no");
        for length in 0..payload.len() {
            let flags = NLM_F_ACK_TLVS;
            for flags in [flags, flags | NLM_F_CAPPED] {
                for kind in [NLMSG_ERROR, NLMSG_DONE] {
                    let result = verdict(&first(&message(kind, flags, &payload[..length])));
                    let empty_done = length < 4 && kind == NLMSG_DONE;
                    assert_eq!(result.is_ok(), empty_done, "{length} {kind}");
                }
            }
        }
        let fine = message(NLMSG_ERROR, 0, &[0; 4 + HEADER]);
        assert!(verdict(&first(&fine)).is_ok());
    }
}

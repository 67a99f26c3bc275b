//! Transmission by messages on a packet socket, many in one call.

use std::fmt;
use std::io;
use std::mem::zeroed;

use onbeat_netdev::{Handle, Namespace, PacketSocket};

use super::{BATCH, HEADERS, Unsent, enlarge_send_buffer};
use crate::Result;
use crate::error::failed;

/// Collects frames and sends them by one interface in one call, bypassing its queueing discipline.
pub(super) struct MessageSender {
    socket: PacketSocket,
    /// Maximum frame length.
    place: usize,
    octets: Box<[u8]>,
    // Created once: each points to its slot in `octets`, which is never moved.
    vectors: Box<[libc::iovec]>,
    messages: Box<[libc::mmsghdr]>,
    waiting: usize,
    sent: u64,
    unsent: Unsent,
}

impl fmt::Debug for MessageSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, unsent, .. } = self;
        f.debug_struct("MessageSender")
            .field("sent", sent)
            .field("unsent", unsent)
            .finish_non_exhaustive()
    }
}

// SAFETY: the pointers refer to memory that the value owns.
unsafe impl Send for MessageSender {}

impl MessageSender {
    /// Opens an interface of `namespace`, for frames of up to its MTU.
    ///
    /// # Errors
    /// The interface does not exist; CAP_NET_RAW is missing.
    pub(super) fn open(namespace: &Namespace, interface: &str) -> Result<Self> {
        let link = Handle::in_namespace(namespace)?.link(interface)?;
        let open = || -> io::Result<_> {
            let socket = PacketSocket::open(link.index)?;
            socket.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1_i32)?;
            enlarge_send_buffer(&socket);
            socket.bind(0)?;
            Ok(socket)
        };
        let opened = namespace.run(open)?;
        let socket =
            opened.map_err(failed(interface, "open a packet socket (requires CAP_NET_RAW)"))?;
        let place = HEADERS + link.mtu as usize;
        let mut octets = vec![0; place * BATCH].into_boxed_slice();
        let mut vectors: Box<[_]> = octets
            .chunks_exact_mut(place)
            .map(|place| libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: 0 })
            .collect();
        let first = vectors.as_mut_ptr();
        let messages = (0..BATCH).map(|i| {
            // SAFETY: mmsghdr is plain data, for which zeros are valid.
            let mut message: libc::mmsghdr = unsafe { zeroed() };
            // SAFETY: there is the same number of vectors.
            message.msg_hdr.msg_iov = unsafe { first.add(i) };
            message.msg_hdr.msg_iovlen = 1;
            message
        });
        let messages = messages.collect();
        let (sent, unsent) = (0, Unsent::default());
        Ok(Self { socket, place, octets, vectors, messages, waiting: 0, sent, unsent })
    }

    /// Adds a frame that consists of these two parts. A frame longer than the interface's maximum is dropped.
    pub(super) fn push(&mut self, head: &[u8], rest: &[u8]) {
        let len = head.len() + rest.len();
        if len > self.place {
            self.unsent.too_long += 1;
            return;
        }
        if self.waiting == BATCH {
            self.flush();
        }
        let place = &mut self.octets[self.waiting * self.place..][..len];
        place[..head.len()].copy_from_slice(head);
        place[head.len()..].copy_from_slice(rest);
        self.vectors[self.waiting].iov_len = len;
        self.waiting += 1;
    }

    /// Sends the added frames. Frames that the interface does not accept are dropped, not repeated.
    pub(super) fn flush(&mut self) {
        let mut next = 0;
        let mut again = true;
        while next < self.waiting {
            let messages = &mut self.messages[next..self.waiting];
            // SAFETY: each message points to its vector, and each vector to its slot, which live as long as this
            // value.
            match unsafe { self.socket.send_messages(messages, libc::MSG_DONTWAIT) } {
                Ok(sent) => {
                    self.sent += sent as u64;
                    next += sent;
                    again = true;
                }
                // The kernel reports that the interface went down at the next send, even if it is up again.
                Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) && again => {
                    // Reading the error clears it.
                    let _ = self.socket.take_error();
                    again = false;
                }
                Err(error) => {
                    self.unsent.count(error.raw_os_error());
                    next += 1;
                    again = true;
                }
            }
        }
        self.waiting = 0;
    }

    /// The number of frames sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// The frames that were dropped.
    pub(super) fn unsent(&self) -> Unsent {
        self.unsent
    }
}

//! Frames on their way out, gathered and sent by one call.

use std::fmt;
use std::io;
use std::mem::zeroed;
use std::ptr;

use super::socket::Socket;

/// Frames of one call at most.
const BATCH: usize = 64;

/// What leaves by one interface, around its queueing discipline.
pub(super) struct Sender {
    socket: Socket,
    /// Longest frame.
    place: usize,
    octets: Box<[u8]>,
    // Made once: each points to its place in `octets`, where nothing is ever moved.
    vectors: Box<[libc::iovec]>,
    messages: Box<[libc::mmsghdr]>,
    waiting: usize,
    pub(super) sent: u64,
    pub(super) dropped: u64,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, dropped, .. } = self;
        f.debug_struct("Sender")
            .field("sent", sent)
            .field("dropped", dropped)
            .finish_non_exhaustive()
    }
}

// SAFETY: the pointers lead to memory that the value owns.
unsafe impl Send for Sender {}

impl Sender {
    /// Sends frames of up to `place` octets.
    pub(super) fn new(index: u32, place: usize) -> io::Result<Self> {
        let socket = Socket::open(index)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1_i32)?;
        socket.bind(0)?;
        let mut octets = vec![0; place * BATCH].into_boxed_slice();
        let mut vectors: Box<[_]> = octets
            .chunks_exact_mut(place)
            .map(|place| libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: 0 })
            .collect();
        let first = vectors.as_mut_ptr();
        let messages = (0..BATCH).map(|i| {
            // SAFETY: mmsghdr is plain data, for which zeros are a value.
            let mut message: libc::mmsghdr = unsafe { zeroed() };
            // SAFETY: there are as many vectors.
            message.msg_hdr.msg_iov = unsafe { first.add(i) };
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_name = ptr::null_mut();
            message
        });
        let messages = messages.collect();
        Ok(Self { socket, place, octets, vectors, messages, waiting: 0, sent: 0, dropped: 0 })
    }

    /// Longest frame that can be sent.
    pub(super) fn longest(&self) -> usize {
        self.place
    }

    /// Adds the frame that `write` writes, and whose length it tells.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        if self.waiting == BATCH {
            self.flush();
        }
        let at = self.waiting * self.place;
        let len = write(&mut self.octets[at..at + self.place]);
        self.vectors[self.waiting].iov_len = len.min(self.place);
        self.waiting += 1;
    }

    /// Sends what was added. What the interface does not take is dropped: FRER waits for no port.
    pub(super) fn flush(&mut self) {
        let mut next = 0;
        let mut again = true;
        while next < self.waiting {
            // SAFETY: each message points to its vector, and each vector to its place, which live
            // as long as this value.
            match unsafe { self.socket.send(&mut self.messages[next..self.waiting]) } {
                Ok(sent) => {
                    self.sent += sent as u64;
                    next += sent;
                    again = true;
                }
                // That the interface went down some time ago is told to whoever sends next, even
                // where it is up again.
                Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) && again => {
                    self.socket.take_error();
                    again = false;
                }
                Err(_) => {
                    self.dropped += 1;
                    next += 1;
                    again = true;
                }
            }
        }
        self.waiting = 0;
    }
}

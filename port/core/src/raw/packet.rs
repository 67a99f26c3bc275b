//! An interface by packet sockets: a mapped ring for reception, batches for transmission.

use std::fmt;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, BorrowedFd};

use onbeat_netdev::{Handle, Namespace, PacketSocket};

use super::extent::{FrameExtent, TAG};
use super::{BATCH, Clock, HEADERS, Unsent, enlarge_send_buffer};
use crate::Result;
use crate::error::failed;
use crate::packet::RingSlots;

/// Copies of all frames that an interface receives: the network stack receives them as well.
#[derive(Debug)]
pub struct PacketReceiver {
    interface: String,
    // Unmapped before the socket is closed.
    places: RingSlots,
    /// The slot of the next frame.
    next: usize,
    /// The extents of the present frames.
    extents: Box<[FrameExtent; BATCH]>,
    drops: u64,
    socket: PacketSocket,
}

impl PacketReceiver {
    /// Opens an interface of `namespace`, for frames of up to its MTU, with slots for `frames` pending frames.
    ///
    /// # Errors
    /// The interface does not exist; CAP_NET_RAW is missing.
    pub fn open(namespace: &Namespace, interface: &str, frames: usize) -> Result<Self> {
        let link = Handle::in_namespace(namespace)?.link(interface)?;
        let open = || -> io::Result<_> {
            let socket = PacketSocket::open(link.index)?;
            socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1_i32)?;
            // Between the header and the frame, for the tag that the kernel removed.
            let places = RingSlots::new(&socket, frames, HEADERS + link.mtu as usize, TAG)?;
            socket.promiscuous()?;
            socket.bind(libc::ETH_P_ALL as u16)?;
            Ok((socket, places))
        };
        let opened = namespace.run(open)?;
        let (socket, places) =
            opened.map_err(failed(interface, "open a packet socket (requires CAP_NET_RAW)"))?;
        let (interface, extents) =
            (interface.to_owned(), Box::new([FrameExtent::default(); BATCH]));
        Ok(Self { interface, places, next: 0, extents, drops: 0, socket })
    }

    /// Returns the oldest pending frames, [`BATCH`] at most, with their VLAN tags. Dropping them releases their
    /// slots to the kernel.
    pub fn frames(&mut self) -> FrameBatch<'_> {
        let mut count = 0;
        while count < BATCH.min(self.places.count()) && self.places.is_filled(self.index(count)) {
            self.extents[count] = self.inspect(self.index(count));
            count += 1;
        }
        FrameBatch { receiver: self, count }
    }

    /// Returns true if no frame is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.places.is_filled(self.next)
    }

    /// Returns the slot of the pending frame number `ahead`.
    fn index(&self, ahead: usize) -> usize {
        let index = self.next + ahead;
        if index < self.places.count() { index } else { index - self.places.count() }
    }

    /// Returns the position of a frame in its slot, with its VLAN tag restored.
    fn inspect(&self, index: usize) -> FrameExtent {
        FrameExtent::of(&self.places, index, &self.places.header(index))
    }

    /// Returns the number of frames dropped by the ring since it was opened.
    ///
    /// # Errors
    /// A refusal of the kernel.
    pub fn drops(&mut self) -> Result<u64> {
        let new = self.socket.take_drops();
        self.drops += new.map_err(failed(&self.interface, "read the ring's statistics"))?;
        Ok(self.drops)
    }

    /// Clears the error that makes the socket ready without a frame, as when the interface goes down.
    pub fn take_error(&self) {
        // Reading the error clears it; senders receive it from their own calls.
        let _ = self.socket.take_error();
    }
}

impl AsFd for PacketReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Frames in their slots, which are released to the kernel when this is dropped.
#[derive(Debug)]
pub struct FrameBatch<'a> {
    receiver: &'a mut PacketReceiver,
    count: usize,
}

impl FrameBatch<'_> {
    /// The number of frames.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The arrival time of each frame, in nanoseconds of CLOCK_MONOTONIC.
    pub fn arrivals(&self, clock: Clock) -> impl Iterator<Item = u64> {
        let extents = self.receiver.extents[..self.count].iter();
        extents.map(move |extent| clock.arrival_by_realtime(extent.at_ns))
    }

    /// The octets of each frame, without FCS; `None` if it is incomplete: merged by the NIC or the kernel, or
    /// longer than the MTU.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let PacketReceiver { places, extents, .. } = &*self.receiver;
        extents[..self.count].iter().enumerate().map(|(ahead, extent)| {
            let place = places.at(self.receiver.index(ahead));
            // SAFETY: the octets are in the slot, as `inspect` checked, and the kernel does not touch them until it
            // is released, when nothing refers to them any more.
            let octets = unsafe {
                std::slice::from_raw_parts(place.add(extent.start as usize), extent.len as usize)
            };
            extent.complete.then_some(octets)
        })
    }
}

impl Drop for FrameBatch<'_> {
    fn drop(&mut self) {
        for ahead in 0..self.count {
            self.receiver.places.release(self.receiver.index(ahead));
        }
        self.receiver.next = self.receiver.index(self.count);
    }
}

/// Collects frames and sends them by one interface in one call, bypassing its queueing discipline.
pub struct PacketSender {
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

impl fmt::Debug for PacketSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, unsent, .. } = self;
        f.debug_struct("PacketSender")
            .field("sent", sent)
            .field("unsent", unsent)
            .finish_non_exhaustive()
    }
}

// SAFETY: the pointers refer to memory that the value owns.
unsafe impl Send for PacketSender {}

impl PacketSender {
    /// Opens an interface of `namespace`, for frames of up to its MTU.
    ///
    /// # Errors
    /// The interface does not exist; CAP_NET_RAW is missing.
    pub fn open(namespace: &Namespace, interface: &str) -> Result<Self> {
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
    pub fn push(&mut self, head: &[u8], rest: &[u8]) {
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
    pub fn flush(&mut self) {
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
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The frames that were dropped.
    #[must_use]
    pub fn unsent(&self) -> Unsent {
        self.unsent
    }
}

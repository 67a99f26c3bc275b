//! Reception by a packet socket: a mapped ring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use onbeat_netdev::{Handle, Namespace, PacketSocket};

use super::extent::{FrameExtent, TAG};
use super::{BATCH, Clock, HEADERS, prefetch};
use crate::Result;
use crate::error::failed;
use crate::packet::RingSlots;

/// Cache lines of a slot with its header and the first octets of the frame; the processor prefetches those of a longer
/// one by itself.
const SLOT_LINES: usize = 5;

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
        if count > 0 {
            self.prefetch(count);
        }
        FrameBatch { receiver: self, count }
    }

    /// Prefetches the slots that the kernel fills after the first `count`: all slots together exceed the caches.
    fn prefetch(&self, count: usize) {
        for ahead in count..(count + BATCH).min(self.places.count()) {
            prefetch::lines(self.places.at(self.index(ahead)), SLOT_LINES);
        }
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

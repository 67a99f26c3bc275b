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
    /// The extents of the frames found, and their number.
    extents: Box<[FrameExtent; BATCH]>,
    present: usize,
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
        Ok(Self { interface, places, next: 0, extents, present: 0, drops: 0, socket })
    }

    /// Looks for the oldest pending frames, [`BATCH`] at most; returns their number. They remain pending.
    pub fn look(&mut self) -> usize {
        let most = BATCH.min(self.places.count());
        while self.present < most && self.places.is_filled(self.index(self.present)) {
            self.extents[self.present] = self.inspect(self.index(self.present));
            self.present += 1;
        }
        if self.present > 0 {
            self.prefetch(self.present);
        }
        self.present
    }

    /// The arrival times of the frames found, oldest first, in nanoseconds of CLOCK_MONOTONIC.
    pub fn arrivals(&self, clock: Clock) -> impl Iterator<Item = u64> {
        let extents = self.extents[..self.present].iter();
        extents.map(move |extent| clock.arrival_by_realtime(extent.at_ns))
    }

    /// The octets of frame number `ahead` of those found, with its VLAN tag, without FCS; `None` if it is incomplete:
    /// merged by the NIC or the kernel, or longer than the MTU.
    ///
    /// # Panics
    /// Fewer were found.
    #[must_use]
    pub fn octets(&self, ahead: usize) -> Option<&[u8]> {
        let extent = &self.extents[..self.present][ahead];
        let place = self.places.at(self.index(ahead));
        // SAFETY: the octets are in the slot, as `inspect` checked, and the kernel does not touch them until it is
        // released, when nothing refers to them any more.
        let octets = unsafe {
            std::slice::from_raw_parts(place.add(extent.start as usize), extent.len as usize)
        };
        extent.complete.then_some(octets)
    }

    /// The octets of each frame found, as [`PacketReceiver::octets`].
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.present).map(|ahead| self.octets(ahead))
    }

    /// Releases the slots of the oldest `count` frames to the kernel. Frame number 0 is the next one then.
    ///
    /// # Panics
    /// Fewer were found.
    pub fn release(&mut self, count: usize) {
        assert!(count <= self.present, "frames that were found");
        for ahead in 0..count {
            self.places.release(self.index(ahead));
        }
        self.next = self.index(count);
        // Each slot is inspected once: that changes it.
        self.extents.copy_within(count..self.present, 0);
        self.present -= count;
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

    /// Returns the position of a frame in its slot, and restores its VLAN tag there.
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

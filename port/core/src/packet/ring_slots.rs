//! The receive ring that the kernel and this process share (`TPACKET_V2`): slots for frames.
//!
//! Version 2, not 3: version 3 collects frames into blocks and delivers a block when it is full or a timer of at
//! least a millisecond expires. Version 2 delivers each frame at once.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{TP_STATUS_KERNEL, TP_STATUS_USER, tpacket2_hdr};
use onbeat_netdev::PacketSocket;

use crate::mapping::{Mapping, page};

/// Octets before the frame in its slot: the header, the sender's address, alignment.
const BEFORE_FRAME: usize = 128;

/// The slots, in the order in which frames arrive.
#[derive(Debug)]
pub(crate) struct RingSlots {
    memory: Mapping,
    /// The size of a slot in octets.
    size: usize,
    count: usize,
}

impl RingSlots {
    /// Creates at least `frames` slots for frames of up to `max_frame` octets, each with `reserve` octets in front
    /// that the kernel does not use.
    pub(crate) fn new(
        socket: &PacketSocket,
        frames: usize,
        max_frame: usize,
        reserve: usize,
    ) -> io::Result<Self> {
        // Powers of two: slots are then contiguous across all blocks.
        let size = (BEFORE_FRAME + max_frame).next_power_of_two();
        let block = size.max(page());
        let count = frames.next_multiple_of(block / size);
        let blocks = count * size / block;
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, 1_i32)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_RESERVE, reserve as u32)?;
        let request = libc::tpacket_req {
            tp_block_size: block as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: size as u32,
            tp_frame_nr: count as u32,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        let memory = Mapping::new(Some(socket.as_fd()), blocks * block, 0, true)?;
        Ok(Self { memory, size, count })
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns true if the kernel has filled the slot, and this process has not released it.
    pub(crate) fn is_filled(&self, index: usize) -> bool {
        self.status(index).load(Ordering::Acquire) & TP_STATUS_USER != 0
    }

    /// Releases the slot to the kernel. It must not be read afterwards.
    pub(crate) fn release(&self, index: usize) {
        self.status(index).store(TP_STATUS_KERNEL, Ordering::Release);
    }

    pub(crate) fn header(&self, index: usize) -> tpacket2_hdr {
        // SAFETY: a slot starts with its header; any octets are valid.
        unsafe { self.at(index).cast::<tpacket2_hdr>().read() }
    }

    /// Returns the start of the frame in the slot, `reserve` octets after the header or more, and the number of its
    /// octets there. The kernel puts frames inside their slots; the bounds are checked all the same.
    pub(crate) fn extent(&self, header: &tpacket2_hdr, reserve: usize) -> (usize, usize) {
        let first = size_of::<tpacket2_hdr>() + reserve;
        let start = usize::from(header.tp_mac).clamp(first, self.size);
        (start, (header.tp_snaplen as usize).min(self.size - start))
    }

    /// Returns a pointer to the slot.
    pub(crate) fn at(&self, index: usize) -> *mut u8 {
        assert!(index < self.count);
        self.memory.at(index * self.size, self.size)
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: a slot starts with its status, which is aligned as the slot is; the kernel writes it atomically.
        unsafe { AtomicU32::from_ptr(self.at(index).cast()) }
    }
}

//! The receive ring that the kernel and this process share (`TPACKET_V2`): places for frames.
//!
//! Version 2, not 3: version 3 gathers frames into blocks and hands a block over when it is full
//! or a timer of at least a millisecond ends. Version 2 hands over each frame as it comes.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{TP_STATUS_KERNEL, TP_STATUS_USER, tpacket2_hdr};
use onbeat_netdev::PacketSocket;

use crate::mapping::Mapping;

/// What stands before a frame in its place: the header, the sender's address, room for alignment.
const BEFORE_FRAME: usize = 128;
const PAGE: usize = 4096;

/// The places, in the order in which frames come.
#[derive(Debug)]
pub(crate) struct RingSlots {
    memory: Mapping,
    /// Octets of one.
    size: usize,
    count: usize,
}

impl RingSlots {
    /// At least `frames` places for frames of up to `max_frame` octets, each with `reserve` octets
    /// in front that the kernel leaves alone.
    pub(crate) fn new(
        socket: &PacketSocket,
        frames: usize,
        max_frame: usize,
        reserve: usize,
    ) -> io::Result<Self> {
        // Powers of two: places then lie one after another through all blocks.
        let size = (BEFORE_FRAME + max_frame).next_power_of_two();
        let block = size.max(PAGE);
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

    /// Whether the kernel has put a frame there, and this process not given the place back.
    pub(crate) fn is_filled(&self, index: usize) -> bool {
        self.status(index).load(Ordering::Acquire) & TP_STATUS_USER != 0
    }

    /// Gives the place back to the kernel. Nothing of it is looked at afterwards.
    pub(crate) fn release(&self, index: usize) {
        self.status(index).store(TP_STATUS_KERNEL, Ordering::Release);
    }

    pub(crate) fn header(&self, index: usize) -> tpacket2_hdr {
        // SAFETY: a place begins with its header; any octets are one.
        unsafe { self.at(index).cast::<tpacket2_hdr>().read() }
    }

    /// Where in the place the frame begins, `reserve` octets behind the header or more, and how many
    /// of its octets are there. The kernel puts frames into their places; that they lie there is made
    /// sure all the same.
    pub(crate) fn extent(&self, header: &tpacket2_hdr, reserve: usize) -> (usize, usize) {
        let first = size_of::<tpacket2_hdr>() + reserve;
        let start = usize::from(header.tp_mac).clamp(first, self.size);
        (start, (header.tp_snaplen as usize).min(self.size - start))
    }

    /// The place's first octet.
    pub(crate) fn at(&self, index: usize) -> *mut u8 {
        assert!(index < self.count);
        self.memory.at(index * self.size, self.size)
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: a place begins with its status, aligned as the place is; the kernel writes it
        // as a whole.
        unsafe { AtomicU32::from_ptr(self.at(index).cast()) }
    }
}

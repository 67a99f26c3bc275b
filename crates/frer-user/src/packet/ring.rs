//! The receive ring that the kernel and this process share (`TPACKET_V2`).
//!
//! Version 2 hands over each frame as it comes; version 3 would wait until a block is full or a
//! timer of a millisecond ends.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{
    TP_STATUS_COPY, TP_STATUS_KERNEL, TP_STATUS_USER, TP_STATUS_VLAN_TPID_VALID,
    TP_STATUS_VLAN_VALID, tpacket2_hdr,
};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::socket::Socket;

/// Octets that stand before a frame: the header, the sender's address, and room for the VLAN tag
/// that the kernel has taken out.
const BEFORE_FRAME: usize = 128;
const TAG: usize = 4;
const ADDRESSES: usize = 12;
const PAGE: usize = 4096;

#[derive(Debug)]
pub(super) struct Ring {
    memory: NonNull<u8>,
    size: NonZeroUsize,
    place: usize,
    places: usize,
    /// The place that the next frame comes to.
    next: usize,
}

// SAFETY: the memory belongs to the ring alone, and is not bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring of at least `frames` places for frames of up to `max_frame` octets.
    pub(super) fn new(socket: &Socket, frames: usize, max_frame: usize) -> io::Result<Self> {
        // Powers of two: places then lie one after another through all blocks.
        let place = (BEFORE_FRAME + max_frame).next_power_of_two();
        let block = place.max(PAGE);
        let places = frames.next_multiple_of(block / place);
        let blocks = places * place / block;
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, 1_i32)?;
        // Between the header and the frame, for the tag.
        socket.set(libc::SOL_PACKET, libc::PACKET_RESERVE, TAG as u32)?;
        let request = libc::tpacket_req {
            tp_block_size: block as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: place as u32,
            tp_frame_nr: places as u32,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        let size = NonZeroUsize::new(blocks * block).ok_or(io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses replaces no other.
        let memory = unsafe { mmap(None, size, access, flags, socket.as_fd(), 0) }?;
        Ok(Self { memory: memory.cast(), size, place, places, next: 0 })
    }

    /// The oldest frame that came, with its VLAN tags; `None`: there is none.
    pub(super) fn frame(&mut self) -> Option<Arrived<'_>> {
        if self.status().load(Ordering::Acquire) & TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: a place begins with its header; any octets are one.
        let header = unsafe { self.at().cast::<tpacket2_hdr>().read() };
        let has = |flag| header.tp_status & flag != 0;
        let tag = has(TP_STATUS_VLAN_VALID).then(|| {
            let tpid = match has(TP_STATUS_VLAN_TPID_VALID) {
                true => header.tp_vlan_tpid,
                false => libc::ETH_P_8021Q as u16,
            };
            [tpid.to_be_bytes(), header.tp_vlan_tci.to_be_bytes()]
        });
        // The kernel puts frames into their places; that they end there is made sure all the same.
        let start = usize::from(header.tp_mac).clamp(size_of::<tpacket2_hdr>() + TAG, self.place);
        let len = (header.tp_snaplen as usize).min(self.place - start);
        let complete = len == header.tp_len as usize && !has(TP_STATUS_COPY);
        // SAFETY: the octets lie in the place, behind the header, and the kernel does not touch
        // them until `status` says so, which `Arrived` does when nothing refers to them any more.
        let octets =
            unsafe { std::slice::from_raw_parts_mut(self.at().add(start - TAG), len + TAG) };
        let octets = match tag {
            Some([[a, b], [c, d]]) if len >= ADDRESSES => {
                octets.copy_within(TAG..TAG + ADDRESSES, 0);
                octets[ADDRESSES..ADDRESSES + TAG].copy_from_slice(&[a, b, c, d]);
                &*octets
            }
            _ => &octets[TAG..],
        };
        let status = NonNull::from(self.status());
        self.next = (self.next + 1) % self.places;
        // SAFETY: the status lies in the mapping, which lives longer than the borrow of the ring.
        Some(Arrived { octets, complete, status: unsafe { status.as_ref() } })
    }

    fn at(&self) -> *mut u8 {
        debug_assert!(self.next < self.places);
        // SAFETY: the place lies in the mapping.
        unsafe { self.memory.as_ptr().add(self.next * self.place) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: a place begins with its status, aligned as the place is; the kernel writes it as
        // a whole.
        unsafe { AtomicU32::from_ptr(self.at().cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is the one that `new` made, and nothing refers to it any more.
        if let Err(errno) = unsafe { munmap(self.memory.cast(), self.size.get()) } {
            tracing::warn!("the receive ring is not unmapped: {errno}");
        }
    }
}

/// A frame in its place, which goes back to the kernel with this.
#[derive(Debug)]
pub(super) struct Arrived<'a> {
    pub(super) octets: &'a [u8],
    /// All of it is there.
    pub(super) complete: bool,
    status: &'a AtomicU32,
}

impl Drop for Arrived<'_> {
    fn drop(&mut self) {
        self.status.store(TP_STATUS_KERNEL, Ordering::Release);
    }
}

//! The rings of an AF_XDP socket: one side writes entries and moves `producer`, the other reads
//! them and moves `consumer`.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use libc::{XDP_RING_NEED_WAKEUP, xdp_ring_offset};

use super::mapping::Mapping;

/// What all four rings have in common.
#[derive(Debug)]
struct Ring<T> {
    memory: Mapping,
    offsets: xdp_ring_offset,
    size: u32,
    /// This side's index: the kernel only reads it.
    next: u32,
    entries: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn new(
        fd: BorrowedFd<'_>,
        page_offset: u64,
        offsets: xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        assert!(size.is_power_of_two());
        let octets = offsets.desc as usize + size as usize * size_of::<T>();
        let memory = Mapping::new(Some(fd), octets, page_offset, true)?;
        Ok(Self { memory, offsets, size, next: 0, entries: PhantomData })
    }

    fn entry(&self, index: u32) -> *mut T {
        let place = (index & (self.size - 1)) as usize;
        let entry =
            self.memory.at(self.offsets.desc as usize + place * size_of::<T>(), size_of::<T>());
        entry.cast()
    }

    fn producer(&self) -> &std::sync::atomic::AtomicU32 {
        self.memory.word(self.offsets.producer as usize)
    }

    fn consumer(&self) -> &std::sync::atomic::AtomicU32 {
        self.memory.word(self.offsets.consumer as usize)
    }
}

/// A ring that this process fills: fill, transmit.
#[derive(Debug)]
pub(super) struct Producer<T>(Ring<T>);

impl<T: Copy> Producer<T> {
    pub(super) fn new(
        fd: BorrowedFd<'_>,
        page_offset: u64,
        offsets: xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        Ring::new(fd, page_offset, offsets, size).map(Self)
    }

    /// Hands an entry to the kernel; false where there is no room.
    pub(super) fn push(&mut self, value: T) -> bool {
        let ring = &mut self.0;
        if ring.next.wrapping_sub(ring.consumer().load(Ordering::Acquire)) == ring.size {
            return false;
        }
        // SAFETY: the entry lies in the ring, and is this side's until `producer` passes it.
        unsafe { ring.entry(ring.next).write(value) };
        ring.next = ring.next.wrapping_add(1);
        ring.producer().store(ring.next, Ordering::Release);
        true
    }

    /// Whether the kernel has taken all entries, and said so.
    pub(super) fn is_empty(&self) -> bool {
        self.0.consumer().load(Ordering::Acquire) == self.0.next
    }

    /// Puts another entry in place of the last, which the kernel must not have looked at.
    pub(super) fn replace_last(&mut self, value: T) {
        // SAFETY: the entry lies in the ring; the caller knows that the kernel does not read it.
        unsafe { self.0.entry(self.0.next.wrapping_sub(1)).write(value) };
    }

    /// Whether the kernel looks at the ring only when called.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.0.memory.word(self.0.offsets.flags as usize).load(Ordering::Relaxed)
            & XDP_RING_NEED_WAKEUP
            != 0
    }
}

/// A ring that the kernel fills: receive, completion.
#[derive(Debug)]
pub(super) struct Consumer<T>(Ring<T>);

impl<T: Copy> Consumer<T> {
    pub(super) fn new(
        fd: BorrowedFd<'_>,
        page_offset: u64,
        offsets: xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        Ring::new(fd, page_offset, offsets, size).map(Self)
    }

    /// Takes the oldest entry.
    pub(super) fn pop(&mut self) -> Option<T> {
        let ring = &mut self.0;
        if ring.producer().load(Ordering::Acquire) == ring.next {
            return None;
        }
        // SAFETY: the entry lies in the ring, and is this side's until `consumer` passes it; any
        // octets are a `T`, which is a number or a structure of numbers.
        let value = unsafe { ring.entry(ring.next).read() };
        ring.next = ring.next.wrapping_add(1);
        ring.consumer().store(ring.next, Ordering::Release);
        Some(value)
    }
}

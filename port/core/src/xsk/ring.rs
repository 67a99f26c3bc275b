//! The rings of an AF_XDP socket: one side writes entries and moves `producer`, the other reads
//! them and moves `consumer`.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use libc::{XDP_RING_NEED_WAKEUP, xdp_ring_offset};

use crate::mapping::Mapping;

/// The common part of all four rings.
#[derive(Debug)]
pub(super) struct Ring<T> {
    memory: Mapping,
    offsets: xdp_ring_offset,
    size: u32,
    /// The index of this side: the kernel only reads it.
    next: u32,
    /// The index of the kernel, as last read.
    other: u32,
    entries: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    pub(super) fn new(
        fd: BorrowedFd<'_>,
        page_offset: u64,
        offsets: xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        assert!(size.is_power_of_two());
        let octets = offsets.desc as usize + size as usize * size_of::<T>();
        let memory = Mapping::new(Some(fd), octets, page_offset, true)?;
        Ok(Self { memory, offsets, size, next: 0, other: 0, entries: PhantomData })
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
pub(crate) struct Producer<T>(pub(super) Ring<T>);

impl<T: Copy> Producer<T> {
    /// Passes an entry to the kernel; returns false if the ring is full.
    pub(crate) fn push(&mut self, value: T) -> bool {
        let there = self.put(value);
        self.publish();
        there
    }

    /// Writes an entry that the kernel receives with the next [`Producer::publish`]; returns false if the ring is
    /// full.
    pub(crate) fn put(&mut self, value: T) -> bool {
        let ring = &mut self.0;
        if ring.next.wrapping_sub(ring.other) == ring.size {
            ring.other = ring.consumer().load(Ordering::Acquire);
            if ring.next.wrapping_sub(ring.other) == ring.size {
                return false;
            }
        }
        // SAFETY: the entry is in the ring, and belongs to this side until `producer` passes it.
        unsafe { ring.entry(ring.next).write(value) };
        ring.next = ring.next.wrapping_add(1);
        true
    }

    /// Passes the written entries to the kernel.
    pub(crate) fn publish(&mut self) {
        self.0.producer().store(self.0.next, Ordering::Release);
    }

    /// The number of entries that the kernel has not reported as consumed.
    pub(crate) fn unconsumed(&self) -> u32 {
        self.0.next.wrapping_sub(self.0.consumer().load(Ordering::Acquire))
    }

    /// Returns true if the kernel has reported all entries as consumed.
    pub(crate) fn is_empty(&self) -> bool {
        self.unconsumed() == 0
    }

    /// Replaces the last entry, which the kernel must not have read.
    pub(crate) fn replace_last(&mut self, value: T) {
        self.replace(1, value);
    }

    /// Replaces the last entry but `back - 1`, which the kernel must not have read, and returns the former one.
    pub(crate) fn replace(&mut self, back: u32, value: T) -> T {
        let entry = self.0.entry(self.0.next.wrapping_sub(back));
        // SAFETY: the entry is in the ring and was written; the caller ensures that the kernel does not read it.
        unsafe { entry.replace(value) }
    }

    /// Returns true if the kernel reads the ring only when called.
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.0.memory.word(self.0.offsets.flags as usize).load(Ordering::Relaxed)
            & XDP_RING_NEED_WAKEUP
            != 0
    }
}

/// A ring that the kernel fills: receive, completion.
#[derive(Debug)]
pub(crate) struct Consumer<T>(pub(super) Ring<T>);

impl<T: Copy> Consumer<T> {
    /// Removes the oldest entry and releases it.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let value = self.take();
        self.release();
        value
    }

    /// As [`Consumer::pop`]; the kernel receives the room with the next [`Consumer::release`].
    pub(crate) fn take(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let ring = &mut self.0;
        // SAFETY: the entry is in the ring, and belongs to this side until `consumer` passes it; any octets are a
        // valid `T`, which is a number or a structure of numbers.
        let value = unsafe { ring.entry(ring.next).read() };
        ring.next = ring.next.wrapping_add(1);
        Some(value)
    }

    /// Returns true if there is no entry.
    pub(crate) fn is_empty(&mut self) -> bool {
        let ring = &mut self.0;
        if ring.other == ring.next {
            ring.other = ring.producer().load(Ordering::Acquire);
        }
        ring.other == ring.next
    }

    /// Releases the room of the removed entries.
    pub(crate) fn release(&mut self) {
        self.0.consumer().store(self.0.next, Ordering::Release);
    }
}

//! The rings of an AF_XDP socket: one side writes entries and moves `producer`, the other reads
//! them and moves `consumer`.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use libc::{XDP_RING_NEED_WAKEUP, xdp_ring_offset};

use crate::mapping::Mapping;

/// What all four rings have in common.
#[derive(Debug)]
pub(super) struct Ring<T> {
    memory: Mapping,
    offsets: xdp_ring_offset,
    size: u32,
    /// This side's index: the kernel only reads it.
    next: u32,
    /// The kernel's, as it was when last looked at.
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
    /// Hands an entry to the kernel; false where there is no room.
    pub(crate) fn push(&mut self, value: T) -> bool {
        let there = self.put(value);
        self.publish();
        there
    }

    /// Writes an entry that the kernel gets with the next [`Producer::publish`]; false where there
    /// is no room.
    pub(crate) fn put(&mut self, value: T) -> bool {
        let ring = &mut self.0;
        if ring.next.wrapping_sub(ring.other) == ring.size {
            ring.other = ring.consumer().load(Ordering::Acquire);
            if ring.next.wrapping_sub(ring.other) == ring.size {
                return false;
            }
        }
        // SAFETY: the entry lies in the ring, and is this side's until `producer` passes it.
        unsafe { ring.entry(ring.next).write(value) };
        ring.next = ring.next.wrapping_add(1);
        true
    }

    /// Hands over what was put.
    pub(crate) fn publish(&mut self) {
        self.0.producer().store(self.0.next, Ordering::Release);
    }

    /// Entries that the kernel has not said to have taken.
    pub(crate) fn unconsumed(&self) -> u32 {
        self.0.next.wrapping_sub(self.0.consumer().load(Ordering::Acquire))
    }

    /// Whether the kernel has taken all entries, and said so.
    pub(crate) fn is_empty(&self) -> bool {
        self.unconsumed() == 0
    }

    /// Puts another entry in place of the last, which the kernel must not have looked at.
    pub(crate) fn replace_last(&mut self, value: T) {
        self.replace(1, value);
    }

    /// Puts another entry in place of the last but `back - 1`, which the kernel must not have looked
    /// at, and gives what was there.
    pub(crate) fn replace(&mut self, back: u32, value: T) -> T {
        let entry = self.0.entry(self.0.next.wrapping_sub(back));
        // SAFETY: the entry lies in the ring and was written; the caller knows that the kernel does
        // not read it.
        unsafe { entry.replace(value) }
    }

    /// Whether the kernel looks at the ring only when called.
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
    /// Takes the oldest entry.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let value = self.take();
        self.release();
        value
    }

    /// As [`Consumer::pop`]; the kernel gets the room with the next [`Consumer::release`].
    pub(crate) fn take(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let ring = &mut self.0;
        // SAFETY: the entry lies in the ring, and is this side's until `consumer` passes it; any
        // octets are a `T`, which is a number or a structure of numbers.
        let value = unsafe { ring.entry(ring.next).read() };
        ring.next = ring.next.wrapping_add(1);
        Some(value)
    }

    /// Whether there is no entry.
    pub(crate) fn is_empty(&mut self) -> bool {
        let ring = &mut self.0;
        if ring.other == ring.next {
            ring.other = ring.producer().load(Ordering::Acquire);
        }
        ring.other == ring.next
    }

    /// Gives the room of what was taken back.
    pub(crate) fn release(&mut self) {
        self.0.consumer().store(self.0.next, Ordering::Release);
    }
}

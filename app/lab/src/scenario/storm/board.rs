//! Memory shared with forked processes.

use std::num::NonZeroUsize;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::{Error, Result};

/// Maximum number of recorded latencies.
pub(super) const LATENCIES: usize = 1 << 18;

/// Values reported by processes. Initially all zero.
#[derive(Debug)]
#[repr(C)]
pub(super) struct BoardContent {
    /// The task is working.
    pub(super) busy: AtomicBool,
    /// Work done, in nanoseconds without interruption.
    pub(super) worked_ns: AtomicU64,
    /// Jobs completed in time.
    pub(super) in_time: AtomicU64,
    /// Late jobs that would have been in time without recorded CPU steal.
    pub(super) stolen: AtomicU64,
    /// Datagrams received.
    pub(super) received: AtomicU64,
    /// Latencies of the first of them, in nanoseconds.
    pub(super) latencies_ns: [AtomicU64; LATENCIES],
}

/// A board to which processes forked later write.
#[derive(Debug)]
pub(super) struct Board(NonNull<BoardContent>);

impl Board {
    pub(super) fn new() -> Result<Self> {
        const LENGTH: NonZeroUsize = NonZeroUsize::new(size_of::<BoardContent>()).unwrap();
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new anonymous mapping.
        let memory = unsafe { mmap_anonymous(None, LENGTH, access, MapFlags::MAP_SHARED) };
        let memory = memory.map_err(|errno| Error::io("share memory with processes", errno))?;
        Ok(Self(memory.cast()))
    }
}

impl Deref for Board {
    type Target = BoardContent;

    fn deref(&self) -> &BoardContent {
        // SAFETY: the mapping is as long as the content and aligned to a page, lives as long as this,
        // and its zeros are valid for every field; all fields are atomic.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing refers to it anymore.
        let _ = unsafe { munmap(self.0.cast(), size_of::<BoardContent>()) };
    }
}

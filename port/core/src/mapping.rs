//! Memory that is shared with the kernel.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Returns the page size in octets.
pub(crate) fn page() -> usize {
    // SAFETY: no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// A mapping of a file, or anonymous memory; dropping it unmaps the memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    memory: NonNull<u8>,
    size: NonZeroUsize,
}

// SAFETY: the memory belongs to the value, and is not bound to a thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives access to pointers and to atomic words only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `size` octets of `fd` from `offset` on; `None`: anonymous memory.
    pub(crate) fn new(
        fd: Option<BorrowedFd<'_>>,
        size: usize,
        offset: u64,
        writable: bool,
    ) -> io::Result<Self> {
        let size = NonZeroUsize::new(size).ok_or(io::ErrorKind::InvalidInput)?;
        let access = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        let kind =
            if fd.is_some() { libc::MAP_SHARED } else { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS };
        let fd = fd.map_or(-1, |fd| fd.as_raw_fd());
        let flags = kind | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses replaces no other.
        let memory = unsafe {
            libc::mmap64(ptr::null_mut(), size.get(), access, flags, fd, offset as libc::off64_t)
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, size })
    }

    /// The size in octets.
    pub(crate) fn size(&self) -> usize {
        self.size.get()
    }

    /// Returns a pointer to `len` octets from `offset` on.
    ///
    /// # Panics
    /// The range exceeds the mapping.
    pub(crate) fn at(&self, offset: usize, len: usize) -> *mut u8 {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.size.get());
        assert!(inside, "{len} octets at {offset} of {}", self.size);
        // SAFETY: the offset lies in the mapping.
        unsafe { self.memory.as_ptr().add(offset) }
    }

    /// Returns a 32-bit word that the kernel accesses atomically.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        let word = self.at(offset, size_of::<AtomicU32>());
        assert!(word.cast::<AtomicU32>().is_aligned());
        // SAFETY: it lies in the mapping, is aligned, and lives as long.
        unsafe { AtomicU32::from_ptr(word.cast()) }
    }

    /// As [`Mapping::word`], with 64 bits.
    pub(crate) fn long(&self, offset: usize) -> &AtomicU64 {
        let word = self.at(offset, size_of::<AtomicU64>());
        assert!(word.cast::<AtomicU64>().is_aligned());
        // SAFETY: it lies in the mapping, is aligned, and lives as long.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is the one that `new` made, and nothing refers to it any more.
        if unsafe { libc::munmap(self.memory.as_ptr().cast(), self.size.get()) } != 0 {
            tracing::warn!("cannot unmap memory: {}", io::Error::last_os_error());
        }
    }
}

//! BPF arrays in memory: words of entries that programs write can be read and changed one by one.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapHandle};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::embed::Plain;
use crate::error::{Error, Result};

const WORD: usize = size_of::<u64>();

/// An array of `V`, whose size is a multiple of eight octets, shared with programs that run.
///
/// Each word is read and written by itself, and at once. An entry that no program looks at can be
/// written as a whole; one that programs look at, by words that mean something alone.
#[derive(Debug)]
pub struct Mapped<V> {
    words: NonNull<AtomicU64>,
    length: NonZeroUsize,
    entries: u32,
    value: PhantomData<V>,
}

// SAFETY: the memory is only reached as atomics, from any thread.
unsafe impl<V> Send for Mapped<V> {}
// SAFETY: as above.
unsafe impl<V> Sync for Mapped<V> {}

impl<V: Plain> Mapped<V> {
    /// Words of an entry.
    const WORDS: usize = size_of::<V>() / WORD;

    /// Maps an array of `V` that was made with `BPF_F_MMAPABLE`.
    ///
    /// # Errors
    /// [`Error::Mapping`].
    ///
    /// # Panics
    /// Where the table's values have another size than `V`.
    pub fn new(map: &MapHandle) -> Result<Self> {
        assert_eq!(map.value_size() as usize, size_of::<V>(), "value of {:?}", map.name());
        assert_eq!(size_of::<V>() % WORD, 0, "value of {:?}", map.name());
        let entries = map.max_entries();
        let length = NonZeroUsize::new(entries as usize * size_of::<V>()).expect("a table's size");
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, wherever the kernel finds room.
        let at = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, map.as_fd(), 0) };
        let words = at
            .map_err(|errno| Error::Mapping {
                table: map.name().to_string_lossy().into_owned(),
                octets: length.get(),
                source: errno.into(),
            })?
            .cast();
        Ok(Self { words, length, entries, value: PhantomData })
    }

    /// The number of entries.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.entries
    }

    /// All words, those of an entry one after the other.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is this long, begins on a page, and lives as long as we do; atomics
        // may change under a shared reference.
        unsafe {
            std::slice::from_raw_parts(self.words.as_ptr(), self.entries as usize * Self::WORDS)
        }
    }

    /// The words of one entry.
    #[must_use]
    pub fn entry(&self, slot: u32) -> &[AtomicU64] {
        &self.words()[slot as usize * Self::WORDS..][..Self::WORDS]
    }

    /// An entry as it is; its words may be of different moments.
    #[must_use]
    pub fn get(&self, slot: u32) -> V {
        let words = self.entry(slot).iter().map(|word| word.load(Ordering::Acquire).to_ne_bytes());
        let octets: Vec<u8> = words.flatten().collect();
        V::from_octets(&octets).unwrap_or_default()
    }

    /// Writes an entry, word by word.
    pub fn set(&self, slot: u32, value: &V) {
        for (word, octets) in self.entry(slot).iter().zip(value.octets().chunks_exact(WORD)) {
            let octets = octets.first_chunk().expect("a word");
            word.store(u64::from_ne_bytes(*octets), Ordering::Release);
        }
    }
}

impl<V> Drop for Mapped<V> {
    fn drop(&mut self) {
        // SAFETY: this range was mapped by `new`, and nobody can reach it any more.
        let _ = unsafe { munmap(self.words.cast::<c_void>(), self.length.get()) };
    }
}

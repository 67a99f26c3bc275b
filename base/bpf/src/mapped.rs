//! BPF arrays mapped into memory: words of entries that programs write are read and changed individually.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapHandle};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::embed::PlainData;
use crate::error::{Error, Result};

const WORD: usize = size_of::<u64>();

/// An array of `V`, whose size is a multiple of eight octets, shared with running programs.
///
/// Each word is read and written atomically. An entry that no program uses may be written as a whole; one in
/// use, only by words that are independent of each other.
#[derive(Debug)]
pub struct MappedArray<V> {
    words: NonNull<AtomicU64>,
    length: NonZeroUsize,
    entries: u32,
    value: PhantomData<V>,
}

// SAFETY: the memory is accessed by atomics only, from any thread.
unsafe impl<V> Send for MappedArray<V> {}
// SAFETY: as above.
unsafe impl<V> Sync for MappedArray<V> {}

impl<V: PlainData> MappedArray<V> {
    /// Words of an entry.
    const WORDS: usize = size_of::<V>() / WORD;

    /// Maps an array of `V` that was created with `BPF_F_MMAPABLE`.
    ///
    /// # Errors
    /// [`Error::Mapping`].
    ///
    /// # Panics
    /// The size of the table's values differs from that of `V`.
    pub fn new(map: &MapHandle) -> Result<Self> {
        assert_eq!(map.value_size() as usize, size_of::<V>(), "value of {:?}", map.name());
        assert_eq!(size_of::<V>() % WORD, 0, "value of {:?}", map.name());
        let entries = map.max_entries();
        let length = NonZeroUsize::new(entries as usize * size_of::<V>()).expect("a table's size");
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
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

    /// Returns the number of entries.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.entries
    }

    /// Returns all words, entry after entry.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this length, starts on a page, and lives as long as `self`; atomics may
        // change under a shared reference.
        unsafe {
            std::slice::from_raw_parts(self.words.as_ptr(), self.entries as usize * Self::WORDS)
        }
    }

    /// Returns the words of one entry.
    #[must_use]
    pub fn entry(&self, slot: u32) -> &[AtomicU64] {
        &self.words()[slot as usize * Self::WORDS..][..Self::WORDS]
    }

    /// Returns an entry; its words may have been read at different times.
    #[must_use]
    pub fn get(&self, slot: u32) -> V {
        let mut value = V::default();
        for (octets, word) in value.octets_mut().chunks_exact_mut(WORD).zip(self.entry(slot)) {
            octets.copy_from_slice(&word.load(Ordering::Acquire).to_ne_bytes());
        }
        value
    }

    /// Writes an entry, word by word.
    pub fn set(&self, slot: u32, value: &V) {
        for (word, octets) in self.entry(slot).iter().zip(value.octets().chunks_exact(WORD)) {
            let octets = octets.first_chunk().expect("a word");
            word.store(u64::from_ne_bytes(*octets), Ordering::Release);
        }
    }
}

impl<V> Drop for MappedArray<V> {
    fn drop(&mut self) {
        // SAFETY: this range was mapped by `new`, and no reference to it exists any more.
        let _ = unsafe { munmap(self.words.cast::<c_void>(), self.length.get()) };
    }
}

//! Frame memory shared by all AF_XDP sockets of a plane.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::mapping::Mapping;
use crate::xsk::{CHUNK, HEADROOM};

/// Octets of metadata that a program leaves before a frame.
const LEFT: usize = size_of::<u64>();

/// Frame memory in chunks of one frame each, shared with the kernel.
///
/// Each socket registers the same memory by itself. With `XDP_SHARED_UMEM` the kernel would apply the mode of the
/// first socket to all: without zero copy in one driver none would have it, or later ports would be refused.
#[derive(Debug, Clone)]
pub struct Umem(Arc<Memory>);

#[derive(Debug)]
struct Memory {
    mapping: Mapping,
    chunks: u32,
    /// A number that is unique per memory.
    number: u32,
}

/// The exclusive right to a frame's octets in a [`Umem`]. It is returned to the [`Pool`] or sent; dropping it loses
/// its chunk.
#[derive(Debug)]
#[must_use]
pub struct Frame {
    umem: u32,
    chunk: u32,
    /// Offset in the chunk.
    start: u32,
    len: u32,
}

impl Frame {
    /// The number of octets, without FCS.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a frame has octets")]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn chunk(&self) -> u32 {
        self.chunk
    }

    /// The offset of the frame in the UMEM.
    pub(super) fn address(&self) -> u64 {
        (self.chunk as usize * CHUNK + self.start as usize) as u64
    }
}

impl Umem {
    /// Longest frame that fits where the kernel puts it, with tags.
    pub const LONGEST: usize = CHUNK - HEADROOM;

    /// Allocates memory for this number of frames, with a pool of all chunks.
    ///
    /// # Errors
    /// Insufficient memory.
    pub fn new(chunks: u32) -> io::Result<(Self, Pool)> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mapping = Mapping::new(None, chunks as usize * CHUNK, 0, true)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let umem = Self(Arc::new(Memory { mapping, chunks, number }));
        let pool = Pool {
            umem: umem.clone(),
            free: (0..chunks).rev().collect(),
            holders: vec![Pool::UNLENT; chunks as usize].into(),
        };
        Ok((umem, pool))
    }

    /// The capacity in frames.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        self.0.chunks
    }

    /// Returns a frame's octets.
    ///
    /// # Panics
    /// The frame belongs to another memory.
    #[must_use]
    pub fn octets<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        let start = self.place(frame, frame.start, frame.len);
        // SAFETY: they are in the memory, and only the holder of the frame accesses its chunk: there is one `Frame`
        // per chunk at most, and none for chunks of the kernel.
        unsafe { std::slice::from_raw_parts(start, frame.len as usize) }
    }

    /// Replaces a frame's first `replaced` octets with `head`; the frame grows at its front.
    ///
    /// # Panics
    /// The frame belongs to another memory, is shorter, or grows by more than the 256 octets that the kernel leaves
    /// before it.
    pub fn replace_head(&self, frame: &mut Frame, replaced: usize, head: &[u8]) {
        let rest = frame.len().checked_sub(replaced).expect("a frame of at least this length");
        let start = frame.start as usize + replaced;
        let start = start.checked_sub(head.len()).expect("headroom before the frame");
        frame.start = start as u32;
        frame.len = (head.len() + rest) as u32;
        let place = self.place(frame, frame.start, head.len() as u32);
        // SAFETY: as in `octets`; the frame is borrowed mutably, and `head`, which is only read, is not part of it.
        unsafe { place.copy_from_nonoverlapping(head.as_ptr(), head.len()) }
    }

    /// Writes these two parts as the frame.
    ///
    /// # Panics
    /// The frame belongs to another memory, or the parts together exceed [`Umem::LONGEST`].
    pub fn write(&self, frame: &mut Frame, head: &[u8], rest: &[u8]) {
        (frame.start, frame.len) = (HEADROOM as u32, (head.len() + rest.len()) as u32);
        let place = self.place(frame, frame.start, frame.len);
        // SAFETY: as in `octets`; the frame is borrowed mutably, and neither part, which are only read, is in it.
        unsafe {
            place.copy_from_nonoverlapping(head.as_ptr(), head.len());
            place.add(head.len()).copy_from_nonoverlapping(rest.as_ptr(), rest.len());
        }
    }

    /// Returns the metadata that an XDP program left in the eight octets before a received frame
    /// (bpf_xdp_adjust_meta), in native byte order; 0 if there is none. Call it before the frame is changed.
    ///
    /// # Panics
    /// The frame belongs to another memory.
    #[must_use]
    pub fn leading_metadata(&self, frame: &Frame) -> u64 {
        let Some(start) = frame.start.checked_sub(LEFT as u32) else { return 0 };
        let place = self.place(frame, start, LEFT as u32);
        let mut octets = [0; LEFT];
        // SAFETY: as in `octets`.
        unsafe { octets.as_mut_ptr().copy_from_nonoverlapping(place, LEFT) };
        u64::from_ne_bytes(octets)
    }

    /// Clears the metadata before the next frame in a chunk.
    pub(super) fn clear_metadata(&self, frame: &Frame) {
        let place = self.place(frame, (HEADROOM - LEFT) as u32, LEFT as u32);
        // SAFETY: as in `octets`; no other reference to the frame exists.
        unsafe { place.write_bytes(0, LEFT) };
    }

    fn place(&self, frame: &Frame, start: u32, len: u32) -> *mut u8 {
        assert_eq!(frame.umem, self.0.number, "a frame of another memory");
        let (start, len) = (start as usize, len as usize);
        assert!(start + len <= CHUNK, "a frame is within its chunk");
        self.0.mapping.at(frame.chunk as usize * CHUNK + start, len)
    }

    pub(super) fn mapping(&self) -> &Mapping {
        &self.0.mapping
    }
}

/// Chunks that hold no frame, and the holders of the others.
#[derive(Debug)]
pub struct Pool {
    umem: Umem,
    /// The last used chunk is reused first: it is still in the cache.
    free: Vec<u32>,
    /// By chunk: the socket in whose rings it is.
    holders: Box<[u32]>,
}

impl Pool {
    /// Holder of chunks in no socket's rings.
    pub(super) const UNLENT: u32 = 0;

    /// The memory of the chunks.
    #[must_use]
    pub fn umem(&self) -> &Umem {
        &self.umem
    }

    /// Returns a free chunk for a frame; `None`: all are in use.
    pub fn take(&mut self) -> Option<Frame> {
        let chunk = self.free.pop()?;
        Some(Frame { umem: self.umem.0.number, chunk, start: HEADROOM as u32, len: 0 })
    }

    /// Returns a frame that is no longer needed.
    ///
    /// # Panics
    /// The frame belongs to another memory.
    pub fn give(&mut self, frame: Frame) {
        assert_eq!(frame.umem, self.umem.0.number, "a frame of another memory");
        self.free.push(frame.chunk);
    }

    /// Reclaims the chunks in the rings of a closed socket.
    pub fn reclaim(&mut self, socket: u32) {
        for (chunk, holder) in (0..).zip(&mut self.holders) {
            if *holder == socket {
                *holder = Self::UNLENT;
                self.free.push(chunk);
            }
        }
    }

    /// Records that a socket holds a frame's chunk.
    pub(super) fn lend(&mut self, frame: Frame, socket: u32) {
        assert_eq!(frame.umem, self.umem.0.number, "a frame of another memory");
        self.holders[frame.chunk as usize] = socket;
    }

    /// Returns the frame at an address that the kernel returned by a ring of a socket; `None`: the socket does not
    /// hold it.
    pub(super) fn regain(&mut self, address: u64, len: u32, socket: u32) -> Option<Frame> {
        let chunk = usize::try_from(address).ok()? / CHUNK;
        let holder = self.holders.get_mut(chunk).filter(|holder| **holder == socket)?;
        *holder = Self::UNLENT;
        let start = (address as usize % CHUNK) as u32;
        Some(Frame { umem: self.umem.0.number, chunk: chunk as u32, start, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(umem: &Umem, pool: &mut Pool, octets: &[u8]) -> Frame {
        let mut frame = pool.take().unwrap();
        umem.write(&mut frame, octets, &[]);
        frame
    }

    #[test]
    fn heads_grow_and_shrink_at_the_front() {
        let (umem, mut pool) = Umem::new(2).unwrap();
        let mut frame = frame(&umem, &mut pool, b"abcdef");
        umem.replace_head(&mut frame, 2, b"12345");
        assert_eq!((umem.octets(&frame), frame.len()), (&b"12345cdef"[..], 9));
        umem.replace_head(&mut frame, 6, b"");
        assert_eq!(umem.octets(&frame), b"def");
        pool.give(frame);
        let longest = vec![7; Umem::LONGEST];
        let mut frame = pool.take().unwrap();
        umem.write(&mut frame, &longest[..1], &longest[1..]);
        umem.replace_head(&mut frame, 0, &[7; HEADROOM]);
        assert!(umem.octets(&frame).iter().all(|octet| *octet == 7) && frame.len() == CHUNK);
        pool.give(frame);
    }

    #[test]
    fn each_chunk_has_one_holder() {
        let (umem, mut pool) = Umem::new(3).unwrap();
        let [first, second] = [b"first", b"other"].map(|octets| frame(&umem, &mut pool, octets));
        let (at, of_second) = (first.address(), second.address());
        pool.lend(first, 1);
        pool.lend(second, 2);
        assert!(pool.regain(at, 5, 2).is_none(), "held by another socket");
        assert!(pool.regain(!0, 5, 1).is_none(), "outside of the memory");
        let first = pool.regain(at, 5, 1).unwrap();
        assert_eq!(umem.octets(&first), b"first");
        assert!(pool.regain(at, 5, 1).is_none(), "already returned");
        pool.give(first);
        pool.reclaim(2);
        assert!(pool.regain(of_second, 5, 2).is_none());
        let all: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(all.len(), 3);
    }

    #[test]
    #[should_panic(expected = "a frame of another memory")]
    fn frames_of_another_memory_are_refused() {
        let [(umem, mut pool), (other, _)] = [(); 2].map(|()| Umem::new(1).unwrap());
        let frame = frame(&umem, &mut pool, b"frame");
        let _ = other.octets(&frame);
    }

    #[test]
    #[should_panic(expected = "headroom before the frame")]
    fn a_head_longer_than_the_headroom_is_refused() {
        let (umem, mut pool) = Umem::new(1).unwrap();
        let mut frame = frame(&umem, &mut pool, b"frame");
        umem.replace_head(&mut frame, 0, &[0; HEADROOM + 1]);
    }
}

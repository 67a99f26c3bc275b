//! Memory for frames that all AF_XDP sockets of a plane share.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::mapping::Mapping;
use crate::xsk::{CHUNK, HEADROOM};

/// Octets that a program leaves in front of a frame.
const LEFT: usize = size_of::<u64>();

/// Memory for frames, in chunks of one each, shared with the kernel.
///
/// Each socket registers the same memory by itself. With `XDP_SHARED_UMEM` the kernel would have all
/// of them do as the first: where one driver has no zero copy, none would, or the ports that come
/// later would be refused.
#[derive(Debug, Clone)]
pub struct Umem(Arc<Memory>);

#[derive(Debug)]
struct Memory {
    mapping: Mapping,
    chunks: u32,
    /// Tells it from all others.
    number: u32,
}

/// The right to a frame's octets in a [`Umem`]. It goes back to the [`Pool`] or is sent; one that is
/// dropped takes its chunk with it.
#[derive(Debug)]
#[must_use]
pub struct Frame {
    umem: u32,
    chunk: u32,
    /// In the chunk.
    start: u32,
    len: u32,
}

impl Frame {
    /// Its octets, without FCS.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a frame has octets")]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn chunk(&self) -> u32 {
        self.chunk
    }

    /// Where in the UMEM it begins.
    pub(super) fn address(&self) -> u64 {
        (self.chunk as usize * CHUNK + self.start as usize) as u64
    }
}

impl Umem {
    /// Longest frame that fits where the kernel puts it, with tags.
    pub const LONGEST: usize = CHUNK - HEADROOM;

    /// Memory for so many frames, and all of it to be taken from.
    ///
    /// # Errors
    /// There is not so much.
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

    /// Frames there is room for.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        self.0.chunks
    }

    /// A frame's octets.
    ///
    /// # Panics
    /// Where it is of another memory.
    #[must_use]
    pub fn octets<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        let start = self.place(frame, frame.start, frame.len);
        // SAFETY: they lie in the memory, and nobody but who has the frame reaches its chunk: there
        // is one `Frame` of a chunk at most, and none of those that the kernel has.
        unsafe { std::slice::from_raw_parts(start, frame.len as usize) }
    }

    /// Puts `head` in the place of a frame's first `replaced` octets; the frame grows to the front.
    ///
    /// # Panics
    /// Where the frame is of another memory, or shorter, or grows by more than the 256 octets that
    /// the kernel leaves in front.
    pub fn replace_head(&self, frame: &mut Frame, replaced: usize, head: &[u8]) {
        let rest = frame.len().checked_sub(replaced).expect("a frame that is as long");
        let start = frame.start as usize + replaced;
        let start = start.checked_sub(head.len()).expect("room in front of the frame");
        frame.start = start as u32;
        frame.len = (head.len() + rest) as u32;
        let place = self.place(frame, frame.start, head.len() as u32);
        // SAFETY: as in `octets`; the frame is held mutably, and `head`, which may only be read,
        // does not lie in it.
        unsafe { place.copy_from_nonoverlapping(head.as_ptr(), head.len()) }
    }

    /// Makes the frame consist of these two parts.
    ///
    /// # Panics
    /// Where the frame is of another memory, or they are longer together than [`Umem::LONGEST`].
    pub fn write(&self, frame: &mut Frame, head: &[u8], rest: &[u8]) {
        (frame.start, frame.len) = (HEADROOM as u32, (head.len() + rest.len()) as u32);
        let place = self.place(frame, frame.start, frame.len);
        // SAFETY: as in `octets`; the frame is held mutably, and neither part, which may only be
        // read, lies in it.
        unsafe {
            place.copy_from_nonoverlapping(head.as_ptr(), head.len());
            place.add(head.len()).copy_from_nonoverlapping(rest.as_ptr(), rest.len());
        }
    }

    /// What an XDP program has left in the eight octets in front of a frame that came
    /// (bpf_xdp_adjust_meta), in the order of this machine; 0 where it has left nothing. To be asked
    /// before the frame is changed.
    ///
    /// # Panics
    /// Where the frame is of another memory.
    #[must_use]
    pub fn leading_metadata(&self, frame: &Frame) -> u64 {
        let Some(start) = frame.start.checked_sub(LEFT as u32) else { return 0 };
        let place = self.place(frame, start, LEFT as u32);
        let mut octets = [0; LEFT];
        // SAFETY: as in `octets`.
        unsafe { octets.as_mut_ptr().copy_from_nonoverlapping(place, LEFT) };
        u64::from_ne_bytes(octets)
    }

    /// Has nothing left in front of the frame that comes next to a chunk.
    pub(super) fn clear_metadata(&self, frame: &Frame) {
        let place = self.place(frame, (HEADROOM - LEFT) as u32, LEFT as u32);
        // SAFETY: as in `octets`; nobody else has the frame.
        unsafe { place.write_bytes(0, LEFT) };
    }

    fn place(&self, frame: &Frame, start: u32, len: u32) -> *mut u8 {
        assert_eq!(frame.umem, self.0.number, "a frame of another memory");
        let (start, len) = (start as usize, len as usize);
        assert!(start + len <= CHUNK, "a frame ends in its chunk");
        self.0.mapping.at(frame.chunk as usize * CHUNK + start, len)
    }

    pub(super) fn mapping(&self) -> &Mapping {
        &self.0.mapping
    }
}

/// Chunks that hold no frame, and who has the others.
#[derive(Debug)]
pub struct Pool {
    umem: Umem,
    /// The one that was used last goes first: it still is in the cache.
    free: Vec<u32>,
    /// By chunk: the socket in whose rings it is.
    holders: Box<[u32]>,
}

impl Pool {
    /// Holder of what is in no socket's rings.
    pub(super) const UNLENT: u32 = 0;

    /// The memory that they are of.
    #[must_use]
    pub fn umem(&self) -> &Umem {
        &self.umem
    }

    /// A chunk for a frame; `None`: all are in use.
    pub fn take(&mut self) -> Option<Frame> {
        let chunk = self.free.pop()?;
        Some(Frame { umem: self.umem.0.number, chunk, start: HEADROOM as u32, len: 0 })
    }

    /// Takes a frame back that is no longer needed.
    ///
    /// # Panics
    /// Where it is of another memory.
    pub fn give(&mut self, frame: Frame) {
        assert_eq!(frame.umem, self.umem.0.number, "a frame of another memory");
        self.free.push(frame.chunk);
    }

    /// Takes what is in the rings of a socket that is closed.
    pub fn reclaim(&mut self, socket: u32) {
        for (chunk, holder) in (0..).zip(&mut self.holders) {
            if *holder == socket {
                *holder = Self::UNLENT;
                self.free.push(chunk);
            }
        }
    }

    /// Notes that a socket has a frame's chunk.
    pub(super) fn lend(&mut self, frame: Frame, socket: u32) {
        assert_eq!(frame.umem, self.umem.0.number, "a frame of another memory");
        self.holders[frame.chunk as usize] = socket;
    }

    /// The frame at an address that the kernel gave back by a ring of a socket; `None`: it is none
    /// that the socket has.
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
    fn heads_grow_and_shrink_to_the_front() {
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
    fn chunks_are_with_one_holder_each() {
        let (umem, mut pool) = Umem::new(3).unwrap();
        let [first, second] = [b"first", b"other"].map(|octets| frame(&umem, &mut pool, octets));
        let (at, of_second) = (first.address(), second.address());
        pool.lend(first, 1);
        pool.lend(second, 2);
        assert!(pool.regain(at, 5, 2).is_none(), "it is another socket's");
        assert!(pool.regain(!0, 5, 1).is_none(), "it is outside");
        let first = pool.regain(at, 5, 1).unwrap();
        assert_eq!(umem.octets(&first), b"first");
        assert!(pool.regain(at, 5, 1).is_none(), "it is back already");
        pool.give(first);
        pool.reclaim(2);
        assert!(pool.regain(of_second, 5, 2).is_none());
        let all: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(all.len(), 3);
    }

    #[test]
    #[should_panic(expected = "a frame of another memory")]
    fn frames_are_of_one_memory() {
        let [(umem, mut pool), (other, _)] = [(); 2].map(|()| Umem::new(1).unwrap());
        let frame = frame(&umem, &mut pool, b"frame");
        let _ = other.octets(&frame);
    }

    #[test]
    #[should_panic(expected = "room in front of the frame")]
    fn a_head_ends_where_the_chunk_begins() {
        let (umem, mut pool) = Umem::new(1).unwrap();
        let mut frame = frame(&umem, &mut pool, b"frame");
        umem.replace_head(&mut frame, 0, &[0; HEADROOM + 1]);
    }
}

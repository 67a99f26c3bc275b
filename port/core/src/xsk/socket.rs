//! The AF_XDP socket of a port, with a UMEM of its own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libc::xdp_desc;

use super::rings::{self, CHUNK, Failure, Rings};
use crate::mapping::Mapping;

/// The numbers of chunks by purpose. Chunks are numbered in this order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunks {
    pub(crate) receive: usize,
    pub(crate) transmit: usize,
    /// The kernel never receives these.
    pub(crate) own: usize,
}

/// The error of a frame that was not sent.
#[derive(Debug)]
pub(super) struct SendFailure {
    pub(super) error: io::Error,
    /// The chunk returns through the completion ring; else it is free at once.
    pub(super) completes: bool,
}

/// An AF_XDP socket of one queue of one interface.
#[derive(Debug)]
pub(crate) struct XskSocket {
    rings: Rings,
    // Unmapped after the rings, and before the socket is closed; the kernel permits both.
    umem: Mapping,
    zero_copy: bool,
    /// The last entry of the transmit ring is withdrawn.
    withdrawn: bool,
    fd: OwnedFd,
}

impl XskSocket {
    /// Opens a socket in the calling thread's namespace, bound to receive queue 0 of the interface. `copy`: never
    /// zero copy, even if the driver supports it. The error names the failed operation.
    pub(super) fn open(index: u32, chunks: Chunks, copy: bool) -> Result<Self, Failure> {
        let at = |operation| move |error| (operation, error);
        let count = chunks.receive + chunks.transmit + chunks.own;
        let umem = Mapping::new(None, count * CHUNK, 0, true)
            .map_err(at("allocate memory for the UMEM"))?;
        // Twice the number of chunks: the kernel reports their consumption with a delay.
        let size = |chunks: usize| (2 * chunks).next_power_of_two() as u32;
        let (fd, rings) = rings::open(&umem, size(chunks.receive), size(chunks.transmit))?;
        let mut socket = Self { rings, umem, zero_copy: false, withdrawn: false, fd };
        (0..chunks.receive).for_each(|chunk| socket.give(chunk));
        socket.zero_copy =
            rings::bind(&socket.fd, index, 0, copy, rings::UNTIL_FREE).map_err(at(rings::BIND))?;
        Ok(socket)
    }

    /// The driver accesses the UMEM directly.
    pub(super) fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Provides a chunk to the kernel for reception.
    pub(super) fn give(&mut self, chunk: usize) {
        let pushed = self.rings.fill.push((chunk * CHUNK) as u64);
        assert!(pushed, "the fill ring has room for all chunks twice");
        if self.rings.fill.needs_wakeup() {
            rings::wake_receive(self.fd.as_fd());
        }
    }

    /// Returns the offset in the UMEM and the length of a received frame.
    pub(super) fn received(&mut self) -> Option<(usize, usize)> {
        self.rings.receive.pop().map(|frame| (frame.addr as usize, frame.len as usize))
    }

    /// Returns a chunk that the driver has completed.
    pub(super) fn completed(&mut self) -> Option<usize> {
        self.rings.completion.pop().map(|address| address as usize / CHUNK)
    }

    /// Sends the frame at the start of a chunk.
    pub(super) fn send(&mut self, chunk: usize, len: usize) -> Result<(), SendFailure> {
        let frame = xdp_desc { addr: (chunk * CHUNK) as u64, len: len as u32, options: 0 };
        let room = self.skip_withdrawn().and_then(|()| match self.rings.transmit.push(frame) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ENOBUFS)),
        });
        room.map_err(|error| SendFailure { error, completes: false })?;
        if !self.rings.transmit.needs_wakeup() {
            return Ok(());
        }
        let Err(error) = self.kick() else { return Ok(()) };
        // With zero copy the driver reads the ring at any time: the frame stays in its possession. With copies the
        // kernel reads it in this call only; at EBUSY, which means that the driver's queue refused the frame, it
        // has.
        let completes = self.zero_copy || error.raw_os_error() == Some(libc::EBUSY);
        if !completes {
            // Otherwise the frame would be sent with the next. The kernel skips addresses outside of the UMEM.
            let nothing = !(CHUNK as u64 - 1);
            self.rings.transmit.replace_last(xdp_desc { addr: nothing, len: 1, options: 0 });
            self.withdrawn = true;
        }
        Err(SendFailure { error, completes })
    }

    /// Makes the kernel skip a withdrawn frame: in that call it sends no other.
    fn skip_withdrawn(&mut self) -> io::Result<()> {
        // One call to skip it, and one to report it; if the kernel counted it as sent, one more.
        for _ in 0..3 {
            if !self.withdrawn {
                break;
            }
            self.kick()?;
            self.withdrawn = !self.rings.transmit.is_empty();
        }
        let again = io::Error::from_raw_os_error(libc::EAGAIN);
        if self.withdrawn { Err(again) } else { Ok(()) }
    }

    /// Makes the kernel read the transmit ring.
    fn kick(&self) -> io::Result<()> {
        rings::wake_transmit(self.fd.as_fd())
    }

    /// Returns the number of frames dropped for lack of room since the socket was opened.
    pub(super) fn drops(&self) -> io::Result<u64> {
        rings::drops(self.fd.as_fd())
    }

    /// Returns octets of the UMEM, which must belong to this process at present.
    pub(crate) fn octets(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: they are in the UMEM. The kernel writes only to chunks that were provided to it, with `&mut
        // self`.
        unsafe { std::slice::from_raw_parts(self.umem.at(offset, len), len) }
    }

    /// As [`XskSocket::octets`], mutably.
    pub(crate) fn octets_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        // SAFETY: as in `octets`; no other reference exists.
        unsafe { std::slice::from_raw_parts_mut(self.umem.at(offset, len), len) }
    }
}

impl AsFd for XskSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

//! The AF_XDP socket with its UMEM: system calls, and nothing of the port's logic.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use libc::{SOL_XDP, c_int, xdp_desc};

use super::mapping::Mapping;
use super::ring::{Consumer, Producer};
use crate::packet::check;

/// Octets of a chunk of the UMEM, which holds one frame. Drivers take 2048 or a page.
pub(crate) const CHUNK: usize = 2048;
/// What the kernel keeps in front of a frame received (`XDP_PACKET_HEADROOM`).
const HEADROOM: usize = 256;
/// Longest frame received, with a VLAN tag.
pub(super) const ROOM: usize = CHUNK - HEADROOM;

/// How long to wait for a queue that another socket had, or has.
const UNTIL_FREE: Duration = Duration::from_secs(2);

/// How many chunks the UMEM has for what. Chunks are numbered through in this order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunks {
    pub(crate) receive: usize,
    pub(crate) transmit: usize,
    /// The kernel never gets these.
    pub(crate) own: usize,
}

/// Why a frame was not sent.
#[derive(Debug)]
pub(super) struct SendFailure {
    pub(super) error: io::Error,
    /// The chunk comes back through the completion ring; else it is free at once.
    pub(super) completes: bool,
}

/// An AF_XDP socket of one queue of one interface.
#[derive(Debug)]
pub(crate) struct XskSocket {
    fill: Producer<u64>,
    transmit: Producer<xdp_desc>,
    receive: Consumer<xdp_desc>,
    completion: Consumer<u64>,
    // Unmapped after the rings, and before the socket is closed, which the kernel minds neither.
    umem: Mapping,
    zero_copy: bool,
    /// The last entry of the transmit ring is no frame any more.
    taken_back: bool,
    fd: OwnedFd,
}

impl XskSocket {
    /// A socket in the calling thread's namespace, bound to receive queue 0 of the interface.
    /// `copy`: not without copies, even where the driver offers it. Says what failed.
    pub(super) fn open(
        index: u32,
        chunks: Chunks,
        copy: bool,
    ) -> Result<Self, (&'static str, io::Error)> {
        let at = |operation| move |error| (operation, error);
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        check(fd)
            .map_err(at("open an AF_XDP socket (it needs CAP_NET_RAW and CONFIG_XDP_SOCKETS)"))?;
        // SAFETY: the descriptor is open, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let count = chunks.receive + chunks.transmit + chunks.own;
        let umem =
            Mapping::new(None, count * CHUNK, 0, true).map_err(at("take memory for the UMEM"))?;
        // SAFETY: the structure is plain data, for which zeros are a value.
        let mut region: libc::xdp_umem_reg = unsafe { zeroed() };
        region.addr = umem.at(0, 0) as u64;
        region.len = (count * CHUNK) as u64;
        region.chunk_size = CHUNK as u32;
        set(&fd, libc::XDP_UMEM_REG, region)
            .map_err(at("register the UMEM (without CAP_IPC_LOCK it counts against ulimit -l)"))?;
        let (fill, transmit) =
            (chunks.receive.next_power_of_two() as u32, chunks.transmit.next_power_of_two() as u32);
        for (name, size) in [
            (libc::XDP_UMEM_FILL_RING, fill),
            (libc::XDP_UMEM_COMPLETION_RING, transmit),
            (libc::XDP_RX_RING, fill),
            (libc::XDP_TX_RING, transmit),
        ] {
            set(&fd, name, size).map_err(at("size the rings of the AF_XDP socket"))?;
        }
        // SAFETY: the structure is plain data, for which zeros are a value.
        let mut offsets: libc::xdp_mmap_offsets = unsafe { zeroed() };
        let map = at("map the rings of the AF_XDP socket");
        get(&fd, libc::XDP_MMAP_OFFSETS, &mut offsets).map_err(map)?;
        let file = fd.as_fd();
        let (rx, tx) = (libc::XDP_PGOFF_RX_RING as u64, libc::XDP_PGOFF_TX_RING as u64);
        let mut socket = Self {
            fill: Producer::new(file, libc::XDP_UMEM_PGOFF_FILL_RING, offsets.fr, fill)
                .map_err(map)?,
            completion: Consumer::new(
                file,
                libc::XDP_UMEM_PGOFF_COMPLETION_RING,
                offsets.cr,
                transmit,
            )
            .map_err(map)?,
            receive: Consumer::new(file, rx, offsets.rx, fill).map_err(map)?,
            transmit: Producer::new(file, tx, offsets.tx, transmit).map_err(map)?,
            umem,
            zero_copy: false,
            taken_back: false,
            fd,
        };
        (0..chunks.receive).for_each(|chunk| socket.give(chunk));
        socket
            .bind(index, copy)
            .map_err(at("bind the AF_XDP socket to queue 0 (another may have it: ss --xdp)"))?;
        Ok(socket)
    }

    fn bind(&mut self, index: u32, copy: bool) -> io::Result<()> {
        // SAFETY: sockaddr_xdp is plain data, for which zeros are a value.
        let mut address: libc::sockaddr_xdp = unsafe { zeroed() };
        address.sxdp_family = libc::AF_XDP as u16;
        // Where XDP_COPY is not asked for, the kernel tries without copies first.
        address.sxdp_flags = libc::XDP_USE_NEED_WAKEUP | if copy { libc::XDP_COPY } else { 0 };
        address.sxdp_ifindex = index;
        let len = size_of::<libc::sockaddr_xdp>() as u32;
        let deadline = Instant::now() + UNTIL_FREE;
        loop {
            // SAFETY: the address is a sockaddr_xdp of the length given, and lives through the call.
            let bound =
                unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) };
            let Err(error) = check(bound) else { break };
            // The kernel frees the queue of a socket some time after that is closed.
            if error.raw_os_error() != Some(libc::EBUSY) || Instant::now() > deadline {
                return Err(error);
            }
            thread::sleep(Duration::from_millis(1));
        }
        let mut options = libc::xdp_options { flags: 0 };
        get(&self.fd, libc::XDP_OPTIONS, &mut options)?;
        self.zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
        Ok(())
    }

    /// The driver works on the UMEM itself.
    pub(super) fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Gives a chunk to the kernel, for a frame to come.
    pub(super) fn give(&mut self, chunk: usize) {
        let pushed = self.fill.push((chunk * CHUNK) as u64);
        assert!(pushed, "the fill ring has room for all chunks that frames are received to");
        if self.fill.needs_wakeup() {
            // SAFETY: no buffer is passed. That nothing is there to be read is no error.
            unsafe {
                libc::recv(self.fd.as_raw_fd(), ptr::null_mut(), 0, libc::MSG_DONTWAIT);
            }
        }
    }

    /// A frame that came: where in the UMEM it begins, and how long it is.
    pub(super) fn received(&mut self) -> Option<(usize, usize)> {
        self.receive.pop().map(|frame| (frame.addr as usize, frame.len as usize))
    }

    /// A chunk whose frame the driver is done with.
    pub(super) fn completed(&mut self) -> Option<usize> {
        self.completion.pop().map(|address| address as usize / CHUNK)
    }

    /// Sends the frame at the start of a chunk.
    pub(super) fn send(&mut self, chunk: usize, len: usize) -> Result<(), SendFailure> {
        let frame = xdp_desc { addr: (chunk * CHUNK) as u64, len: len as u32, options: 0 };
        let room = self.skip_taken_back().and_then(|()| match self.transmit.push(frame) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ENOBUFS)),
        });
        room.map_err(|error| SendFailure { error, completes: false })?;
        if !self.transmit.needs_wakeup() {
            return Ok(());
        }
        let Err(error) = self.kick() else { return Ok(()) };
        // Without copies the driver reads the ring when it likes: the frame stays its own. With
        // copies the kernel reads it in this call only; at EBUSY, which means that the driver's
        // queue refused the frame, it has.
        let completes = self.zero_copy || error.raw_os_error() == Some(libc::EBUSY);
        if !completes {
            // Else the frame would leave with the next. The kernel skips what is not in the UMEM.
            let nothing = !(CHUNK as u64 - 1);
            self.transmit.replace_last(xdp_desc { addr: nothing, len: 1, options: 0 });
            self.taken_back = true;
        }
        Err(SendFailure { error, completes })
    }

    /// Has the kernel skip a frame that was taken back: in the call that does, it sends no other.
    fn skip_taken_back(&mut self) -> io::Result<()> {
        // One call to skip it, and one to tell so; where the kernel knew it as sent, one more.
        for _ in 0..3 {
            if !self.taken_back {
                break;
            }
            self.kick()?;
            self.taken_back = !self.transmit.is_empty();
        }
        Ok(())
    }

    /// Has the kernel look at the transmit ring.
    fn kick(&self) -> io::Result<()> {
        // SAFETY: no buffer is passed.
        let sent = unsafe {
            libc::sendto(self.fd.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Frames lost for want of room since the socket was opened.
    pub(super) fn drops(&self) -> io::Result<u64> {
        // SAFETY: the structure is plain data, for which zeros are a value.
        let mut statistics: libc::xdp_statistics = unsafe { zeroed() };
        get(&self.fd, libc::XDP_STATISTICS, &mut statistics)?;
        Ok(statistics.rx_dropped + statistics.rx_ring_full)
    }

    /// Octets of the UMEM, which must be this process's at present.
    pub(crate) fn octets(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: they lie in the UMEM. The kernel writes only to chunks that it was given, and
        // those are given with `&mut self`.
        unsafe { std::slice::from_raw_parts(self.umem.at(offset, len), len) }
    }

    /// As [`XskSocket::octets`], to be written.
    pub(crate) fn octets_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        // SAFETY: as in `octets`; nobody else has a reference.
        unsafe { std::slice::from_raw_parts_mut(self.umem.at(offset, len), len) }
    }
}

impl AsFd for XskSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn set<T: Copy>(fd: &OwnedFd, name: c_int, value: T) -> io::Result<()> {
    let len = size_of::<T>() as u32;
    // SAFETY: the value has the length given and lives through the call, which only reads it.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), SOL_XDP, name, (&raw const value).cast(), len)
    })
    .map(drop)
}

fn get<T: Copy>(fd: &OwnedFd, name: c_int, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as u32;
    // SAFETY: the buffer has the length given and lives through the call; it is a structure of
    // numbers, of which any octets are a value.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), SOL_XDP, name, (&raw mut *value).cast(), &raw mut len)
    })
    .map(drop)
}

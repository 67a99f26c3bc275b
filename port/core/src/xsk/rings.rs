//! An AF_XDP socket with its rings: system calls, without the logic of its users.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use libc::{SOL_XDP, c_int, xdp_desc};
use nix::errno::Errno;

use super::ring::{Consumer, Producer, Ring};
use crate::mapping::Mapping;

/// Octets of a chunk of the UMEM, which holds one frame. Drivers accept 2048 or a page.
pub(crate) const CHUNK: usize = 2048;
/// Octets that the kernel reserves before a received frame (`XDP_PACKET_HEADROOM`).
pub(crate) const HEADROOM: usize = 256;
/// Longest received frame, with VLAN tags.
pub(super) const ROOM: usize = CHUNK - HEADROOM;
/// Octets of a VLAN tag.
pub(super) const TAG: usize = 4;
/// Longest frame, without a tag.
pub(crate) const MAX_FRAME: usize = ROOM - 2 * TAG;

/// Maximum wait for a queue that another socket held, or holds.
pub(crate) const UNTIL_FREE: Duration = Duration::from_secs(2);

/// The operation that failed when binding fails.
pub(crate) const BIND: &str =
    "bind the AF_XDP socket to its queue (check for another socket: ss --xdp)";

/// A failed operation and its error.
pub(crate) type Failure = (&'static str, io::Error);

/// The rings of a socket, which its parts take over.
#[derive(Debug)]
pub(crate) struct Rings {
    pub(crate) fill: Producer<u64>,
    pub(crate) receive: Consumer<xdp_desc>,
    pub(crate) transmit: Producer<xdp_desc>,
    pub(crate) completion: Consumer<u64>,
}

/// Opens an unbound socket in the calling thread's namespace, with this UMEM. The numbers of entries, powers of
/// two, are those of its receive and fill rings, and of its transmit and completion rings.
pub(crate) fn open(
    umem: &Mapping,
    receive: u32,
    transmit: u32,
) -> Result<(OwnedFd, Rings), Failure> {
    let at = |operation| move |error| (operation, error);
    let fd = unbound()
        .map_err(at("open an AF_XDP socket (requires CAP_NET_RAW and CONFIG_XDP_SOCKETS)"))?;
    // SAFETY: the structure is plain data, for which zeros are valid.
    let mut region: libc::xdp_umem_reg = unsafe { zeroed() };
    region.addr = umem.at(0, 0) as u64;
    region.len = umem.size() as u64;
    region.chunk_size = CHUNK as u32;
    set(&fd, libc::XDP_UMEM_REG, region)
        .map_err(at("register the UMEM (without CAP_IPC_LOCK, ulimit -l applies)"))?;
    for (name, size) in [
        (libc::XDP_UMEM_FILL_RING, receive),
        (libc::XDP_UMEM_COMPLETION_RING, transmit),
        (libc::XDP_RX_RING, receive),
        (libc::XDP_TX_RING, transmit),
    ] {
        set(&fd, name, size).map_err(at("size the rings of the AF_XDP socket"))?;
    }
    let rings = map(&fd, receive, transmit).map_err(at("map the rings of the AF_XDP socket"))?;
    Ok((fd, rings))
}

/// Opens an unbound AF_XDP socket.
pub(crate) fn unbound() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    Errno::result(fd)?;
    // SAFETY: the descriptor is open, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn map(fd: &OwnedFd, receive: u32, transmit: u32) -> io::Result<Rings> {
    // SAFETY: the structure is plain data, for which zeros are valid.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { zeroed() };
    get(fd, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    let (rx, tx) = (libc::XDP_PGOFF_RX_RING as u64, libc::XDP_PGOFF_TX_RING as u64);
    let (fq, cq) = (libc::XDP_UMEM_PGOFF_FILL_RING, libc::XDP_UMEM_PGOFF_COMPLETION_RING);
    let file = fd.as_fd();
    Ok(Rings {
        fill: Producer(Ring::new(file, fq, offsets.fr, receive)?),
        receive: Consumer(Ring::new(file, rx, offsets.rx, receive)?),
        transmit: Producer(Ring::new(file, tx, offsets.tx, transmit)?),
        completion: Consumer(Ring::new(file, cq, offsets.cr, transmit)?),
    })
}

/// Binds a socket to a queue of an interface; returns true if the driver accesses the UMEM directly. `copy`: never
/// directly, even if the driver supports it. If another socket has the queue, waits for it for at most `wait`.
pub(crate) fn bind(
    fd: &OwnedFd,
    index: u32,
    queue: u32,
    copy: bool,
    wait: Duration,
) -> io::Result<bool> {
    // SAFETY: sockaddr_xdp is plain data, for which zeros are valid.
    let mut address: libc::sockaddr_xdp = unsafe { zeroed() };
    address.sxdp_family = libc::AF_XDP as u16;
    // Without XDP_COPY the kernel tries zero copy first.
    address.sxdp_flags = libc::XDP_USE_NEED_WAKEUP | if copy { libc::XDP_COPY } else { 0 };
    address.sxdp_ifindex = index;
    address.sxdp_queue_id = queue;
    let len = size_of::<libc::sockaddr_xdp>() as u32;
    let deadline = Instant::now() + wait;
    loop {
        // SAFETY: the address is a sockaddr_xdp of the given length, and lives through the call.
        let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
        let Err(errno) = Errno::result(bound) else { break };
        // The kernel releases the queue of a closed socket with a delay.
        if errno != Errno::EBUSY || Instant::now() > deadline {
            return Err(errno.into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    let mut options = libc::xdp_options { flags: 0 };
    get(fd, libc::XDP_OPTIONS, &mut options)?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// Makes the kernel read the fill ring.
pub(crate) fn wake_receive(fd: BorrowedFd<'_>) {
    // SAFETY: no buffer is passed. An empty ring is not an error.
    unsafe {
        libc::recv(fd.as_raw_fd(), ptr::null_mut(), 0, libc::MSG_DONTWAIT);
    }
}

/// Makes the kernel read the transmit ring.
pub(crate) fn wake_transmit(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no buffer is passed.
    let sent =
        unsafe { libc::sendto(fd.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the number of frames dropped for lack of room since the socket was opened.
pub(crate) fn drops(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: the structure is plain data, for which zeros are valid.
    let mut statistics: libc::xdp_statistics = unsafe { zeroed() };
    get(&fd, libc::XDP_STATISTICS, &mut statistics)?;
    Ok(statistics.rx_dropped + statistics.rx_ring_full)
}

fn set<T: Copy>(fd: &impl AsRawFd, name: c_int, value: T) -> io::Result<()> {
    let len = size_of::<T>() as u32;
    // SAFETY: the value has the length given and lives through the call, which only reads it.
    Errno::result(unsafe {
        libc::setsockopt(fd.as_raw_fd(), SOL_XDP, name, (&raw const value).cast(), len)
    })?;
    Ok(())
}

fn get<T: Copy>(fd: &impl AsRawFd, name: c_int, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as u32;
    // SAFETY: the buffer has the given length and lives through the call; it is a structure of
    // numbers, for which any octets are valid.
    Errno::result(unsafe {
        libc::getsockopt(fd.as_raw_fd(), SOL_XDP, name, (&raw mut *value).cast(), &raw mut len)
    })?;
    Ok(())
}

//! Frames from a packet socket, many at a time, as they were on the wire.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use onbeat_realtime::clock::SECOND;

use super::packet::PacketSocket;

/// Frames one system call takes at most.
const BATCH: usize = 64;
/// Octets of the longest frame.
const ROOM: usize = 9600;
/// Where the VLAN tag that the kernel took out goes back to.
const TAG_LEN: usize = 4;
const ADDRESSES_LEN: usize = 12;
/// Control messages: a time stamp and a `tpacket_auxdata`.
const CONTROL: usize = 128;

/// A packet socket with buffers to receive into.
pub struct Receiver {
    socket: PacketSocket,
    slots: Vec<Slot>,
}

#[repr(align(8))]
struct Slot {
    octets: [u8; TAG_LEN + ROOM],
    control: [u64; CONTROL / 8],
}

/// A frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received<'a> {
    /// As it was on the wire, VLAN tags included.
    pub octets: &'a [u8],
    /// When the kernel took it in (CLOCK_REALTIME, ns).
    pub realtime_ns: Option<u64>,
    /// It is longer than any frame, and cut.
    pub truncated: bool,
    /// It was sent here, not received.
    pub outgoing: bool,
}

impl Receiver {
    /// Receives from a socket.
    #[must_use]
    pub fn new(socket: PacketSocket) -> Self {
        let slot = || Slot { octets: [0; TAG_LEN + ROOM], control: [0; CONTROL / 8] };
        Self { socket, slots: (0..BATCH).map(|_| slot()).collect() }
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    /// Waits for frames, `timeout_ns` at most; whether there are any.
    ///
    /// # Errors
    /// What the system call says.
    pub fn wait(&self, timeout_ns: u64) -> io::Result<bool> {
        let mut polled = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        let timeout = TimeSpec::new((timeout_ns / SECOND) as i64, (timeout_ns % SECOND) as i64);
        match ppoll(&mut polled, Some(timeout), None) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Hands the frames that are there to `take`, a batch at most; how many there were.
    ///
    /// # Errors
    /// What the system call says.
    pub fn receive(&mut self, mut take: impl FnMut(Received<'_>)) -> io::Result<usize> {
        // SAFETY: mmsghdr and iovec are plain data, for which zeros are a value.
        let mut parts: [libc::iovec; BATCH] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        // SAFETY: and so is sockaddr_ll.
        let mut from: [libc::sockaddr_ll; BATCH] = unsafe { zeroed() };
        for (((part, message), from), slot) in
            parts.iter_mut().zip(&mut messages).zip(&mut from).zip(&mut self.slots)
        {
            message.msg_hdr.msg_name = ptr::from_mut(from).cast();
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
            part.iov_base = slot.octets[TAG_LEN..].as_mut_ptr().cast();
            part.iov_len = ROOM;
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = slot.control.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = CONTROL as _;
        }
        // SAFETY: each header points to an iovec, an address and a control buffer of the lengths
        // given, which live through the call.
        let received = unsafe {
            libc::recvmmsg(
                self.socket.as_fd().as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        if received < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        }
        let received = received as usize;
        for ((message, from), slot) in messages[..received].iter().zip(&from).zip(&mut self.slots) {
            let aside = read_control(&message.msg_hdr);
            let start = aside.vlan.map_or(TAG_LEN, |tag| {
                slot.octets.copy_within(TAG_LEN..TAG_LEN + ADDRESSES_LEN, 0);
                slot.octets[ADDRESSES_LEN..ADDRESSES_LEN + TAG_LEN].copy_from_slice(&tag);
                0
            });
            take(Received {
                octets: &slot.octets[start..TAG_LEN + message.msg_len as usize],
                realtime_ns: aside.realtime_ns,
                truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                outgoing: from.sll_pkttype == libc::PACKET_OUTGOING,
            });
        }
        Ok(received)
    }
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("socket", &self.socket).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Aside {
    realtime_ns: Option<u64>,
    vlan: Option<[u8; TAG_LEN]>,
}

fn read_control(header: &libc::msghdr) -> Aside {
    let mut aside = Aside::default();
    // SAFETY: the kernel filled the control buffer that the header points to and set its length.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !next.is_null() {
        // SAFETY: the macros lead to whole control messages within the buffer.
        let (message, data) = unsafe { (*next, libc::CMSG_DATA(next)) };
        let holds = |size: usize| message.cmsg_len >= size_of::<libc::cmsghdr>() + size;
        match (message.cmsg_level, message.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if holds(size_of::<libc::timespec>()) => {
                // SAFETY: the message holds a timespec, as was just checked.
                let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                aside.realtime_ns = Some(time.tv_sec as u64 * SECOND + time.tv_nsec as u64);
            }
            (libc::SOL_PACKET, libc::PACKET_AUXDATA)
                if holds(size_of::<libc::tpacket_auxdata>()) =>
            {
                // SAFETY: the message holds a tpacket_auxdata, as was just checked.
                let data = unsafe { data.cast::<libc::tpacket_auxdata>().read_unaligned() };
                if data.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                    let ([a, b], [c, d]) =
                        (data.tp_vlan_tpid.to_be_bytes(), data.tp_vlan_tci.to_be_bytes());
                    aside.vlan = Some([a, b, c, d]);
                }
            }
            _ => {}
        }
        // SAFETY: as CMSG_FIRSTHDR.
        next = unsafe { libc::CMSG_NXTHDR(header, next) };
    }
    aside
}

//! Packet sockets: reception and transmission of whole frames on one interface.

use std::fmt;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use libc::c_int;
use nix::errno::Errno;
use onbeat_wire::MacAddress;

/// Maximum length of a received frame, in octets.
const LONGEST: usize = 9600;
/// Octets of a VLAN tag.
const TAG_LEN: usize = 4;
const ADDRESSES_LEN: usize = 12;
/// Octets of control messages: a time stamp and a `tpacket_auxdata`.
const CONTROL: usize = 128;

/// A packet socket of one interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    index: c_int,
}

impl PacketSocket {
    /// Maximum number of frames per call of [`PacketSocket::send_parts`].
    pub const BATCH: usize = 32;

    /// Opens a socket in the calling thread's namespace, which receives nothing before
    /// [`PacketSocket::bind`].
    ///
    /// # Errors
    /// The caller lacks CAP_NET_RAW.
    pub fn open(index: u32) -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        Errno::result(fd)?;
        // SAFETY: the descriptor is open, and nothing else owns it.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, index: index as c_int })
    }

    /// Binds to the interface for transmission, and for reception of frames of `protocol` (`ETH_P_ALL`: all;
    /// 0: none). Set options before: a bound socket receives without them.
    ///
    /// # Errors
    /// The interface does not exist.
    pub fn bind(&self, protocol: u16) -> io::Result<()> {
        // SAFETY: sockaddr_ll is plain data, for which zeros are a value.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = self.index;
        let len = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the address is a sockaddr_ll of the length given, and lives through the call.
        let bound = unsafe { libc::bind(self.raw(), (&raw const address).cast(), len) };
        Ok(Errno::result(bound).map(drop)?)
    }

    /// Sets an option. `T` is the type that the kernel reads.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn set<T: Copy>(&self, level: c_int, name: c_int, value: T) -> io::Result<()> {
        let (value, len) = ((&raw const value).cast(), size_of::<T>() as u32);
        // SAFETY: the value has the length given and lives through the call, which only reads it.
        let set = unsafe { libc::setsockopt(self.raw(), level, name, value, len) };
        Ok(Errno::result(set).map(drop)?)
    }

    fn get<T: Copy + Default>(&self, level: c_int, name: c_int) -> io::Result<T> {
        let mut value = T::default();
        let mut len = size_of::<T>() as u32;
        let to = (&raw mut value).cast();
        // SAFETY: the buffer has the length given, and any octets are a T: the callers request only
        // integers and arrays of them. Both live through the call.
        Errno::result(unsafe { libc::getsockopt(self.raw(), level, name, to, &raw mut len) })?;
        Ok(value)
    }

    /// Replaces the filter atomically.
    ///
    /// # Errors
    /// The kernel refuses the program.
    pub fn attach(&self, program: &mut [libc::sock_filter]) -> io::Result<()> {
        // The kernel copies the program during the call.
        let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)
    }

    /// Makes the NIC receive a multicast address, or no longer. The kernel counts the users, and restores the
    /// state when the socket is closed.
    ///
    /// # Errors
    /// The interface does not exist.
    pub fn multicast(&self, address: MacAddress, on: bool) -> io::Result<()> {
        let mut mr_address = [0; 8];
        mr_address[..6].copy_from_slice(&address.0);
        let name = if on { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
        self.membership(name, libc::PACKET_MR_MULTICAST, 6, mr_address)
    }

    /// Makes the NIC receive frames to all addresses. The kernel restores the state when the socket is
    /// closed.
    ///
    /// # Errors
    /// The interface does not exist.
    pub fn promiscuous(&self) -> io::Result<()> {
        self.membership(libc::PACKET_ADD_MEMBERSHIP, libc::PACKET_MR_PROMISC, 0, [0; 8])
    }

    fn membership(
        &self,
        name: c_int,
        kind: c_int,
        mr_alen: u16,
        mr_address: [u8; 8],
    ) -> io::Result<()> {
        let (mr_ifindex, mr_type) = (self.index, kind as u16);
        let request = libc::packet_mreq { mr_ifindex, mr_type, mr_alen, mr_address };
        self.set(libc::SOL_PACKET, name, request)
    }

    /// Clears an error of the socket, for example that the interface went down, so that it is not reported
    /// again; returns whether there was one.
    ///
    /// # Errors
    /// The system call fails.
    pub fn take_error(&self) -> io::Result<bool> {
        self.get::<c_int>(libc::SOL_SOCKET, libc::SO_ERROR).map(|error| error != 0)
    }

    /// Whether the interface of a bound socket was removed, or moved to another namespace: the socket stays unusable,
    /// even if an interface of the same name is created. The kernel reports only that it went down.
    ///
    /// # Errors
    /// The system call fails.
    pub fn is_removed(&self) -> io::Result<bool> {
        // SAFETY: sockaddr_ll is plain data, for which zeros are a value.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        let mut len = size_of::<libc::sockaddr_ll>() as u32;
        let to = (&raw mut address).cast();
        // SAFETY: the buffer is a sockaddr_ll of the length given; both live through the call.
        Errno::result(unsafe { libc::getsockname(self.raw(), to, &raw mut len) })?;
        Ok(address.sll_ifindex == -1)
    }

    /// Returns the number of frames dropped for lack of room since the last call.
    ///
    /// # Errors
    /// The system call fails.
    pub fn take_drops(&self) -> io::Result<u64> {
        let statistics: [u32; 2] = self.get(libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
        // struct tpacket_stats: packets, drops.
        Ok(statistics[1].into())
    }

    /// Sends one frame without waiting.
    ///
    /// # Errors
    /// The system call fails; ENOBUFS: the interface dropped the frame.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        let (octets, flags) = (frame.as_ptr().cast(), libc::MSG_DONTWAIT);
        // SAFETY: the buffer has the length given, and lives through the call.
        let sent = unsafe { libc::send(self.raw(), octets, frame.len(), flags) };
        Ok(Errno::result(sent).map(drop)?)
    }

    /// Sends up to [`PacketSocket::BATCH`] frames, each given in parts, with these flags of `sendmsg`;
    /// returns the number of sent frames.
    ///
    /// # Errors
    /// Those of [`PacketSocket::send`], if none was sent.
    pub fn send_parts<'a, const PARTS: usize>(
        &self,
        frames: impl Iterator<Item = [&'a [u8]; PARTS]>,
        flags: c_int,
    ) -> io::Result<usize> {
        // SAFETY: mmsghdr and iovec are plain data, for which zeros are a value.
        let mut vectors: [[libc::iovec; PARTS]; Self::BATCH] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; Self::BATCH] = unsafe { zeroed() };
        let mut count = 0;
        for ((vector, message), frame) in vectors.iter_mut().zip(&mut messages).zip(frames) {
            for (part, octets) in vector.iter_mut().zip(frame) {
                part.iov_base = octets.as_ptr().cast_mut().cast();
                part.iov_len = octets.len();
            }
            message.msg_hdr.msg_iov = vector.as_mut_ptr();
            message.msg_hdr.msg_iovlen = PARTS;
            count += 1;
        }
        // SAFETY: the first `count` headers point to PARTS iovecs each, those to parts of their
        // lengths, which are only read; all live through the call.
        unsafe { self.send_messages(&mut messages[..count], flags) }
    }

    /// Sends messages until one fails, with these flags of `sendmsg`; returns the number of sent messages.
    ///
    /// # Errors
    /// Those of [`PacketSocket::send`], if none was sent.
    ///
    /// # Safety
    /// All memory that the messages reference must outlive the call.
    pub unsafe fn send_messages(
        &self,
        messages: &mut [libc::mmsghdr],
        flags: c_int,
    ) -> io::Result<usize> {
        let (first, count) = (messages.as_mut_ptr(), messages.len() as u32);
        // SAFETY: the array has the length given; the caller ensures the validity of referenced memory.
        let sent = unsafe { libc::sendmmsg(self.raw(), first, count, flags) };
        Ok(Errno::result(sent).map(|sent| sent as usize)?)
    }

    /// Passes waiting frames to `take`, at most one per buffer; returns the number. VLAN tags
    /// are in their place if the socket has `PACKET_AUXDATA`, time stamps are present if it has
    /// `SO_TIMESTAMPNS`.
    ///
    /// # Errors
    /// The system call fails.
    pub fn receive(
        &self,
        buffers: &mut ReceiveBuffers,
        mut take: impl FnMut(ReceivedFrame<'_>),
    ) -> io::Result<usize> {
        // SAFETY: mmsghdr and iovec are plain data, for which zeros are a value.
        let mut parts: [libc::iovec; ReceiveBuffers::MOST] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; ReceiveBuffers::MOST] = unsafe { zeroed() };
        // SAFETY: and so is sockaddr_ll.
        let mut from: [libc::sockaddr_ll; ReceiveBuffers::MOST] = unsafe { zeroed() };
        let count = buffers.0.len() as u32;
        for (((part, message), from), slot) in
            parts.iter_mut().zip(&mut messages).zip(&mut from).zip(&mut buffers.0)
        {
            message.msg_hdr.msg_name = ptr::from_mut(from).cast();
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
            part.iov_base = slot.octets[TAG_LEN..].as_mut_ptr().cast();
            part.iov_len = LONGEST;
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = slot.control.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = CONTROL as _;
        }
        let (first, flags) = (messages.as_mut_ptr(), libc::MSG_DONTWAIT);
        // SAFETY: the first `count` headers point to an iovec, an address and a control buffer each, of
        // the lengths given, which live through the call.
        let received = unsafe { libc::recvmmsg(self.raw(), first, count, flags, ptr::null_mut()) };
        let received = match Errno::result(received) {
            Ok(received) => received as usize,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(0),
            Err(errno) => return Err(errno.into()),
        };
        for ((message, from), slot) in messages[..received].iter().zip(&from).zip(&mut buffers.0) {
            let control = Control::of(&message.msg_hdr);
            let start = control.vlan.map_or(TAG_LEN, |tag| {
                slot.octets.copy_within(TAG_LEN..TAG_LEN + ADDRESSES_LEN, 0);
                slot.octets[ADDRESSES_LEN..ADDRESSES_LEN + TAG_LEN].copy_from_slice(&tag);
                0
            });
            take(ReceivedFrame {
                octets: &slot.octets[start..TAG_LEN + message.msg_len as usize],
                realtime_ns: control.realtime_ns,
                truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                outgoing: from.sll_pkttype == libc::PACKET_OUTGOING,
            });
        }
        Ok(received)
    }

    fn raw(&self) -> c_int {
        self.fd.as_raw_fd()
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedFrame<'a> {
    /// As on the wire, including VLAN tags, without FCS.
    pub octets: &'a [u8],
    /// Time of reception by the kernel (CLOCK_REALTIME, ns).
    pub realtime_ns: Option<u64>,
    /// Whether it is longer than its buffer (9600 octets), and truncated.
    pub truncated: bool,
    /// Whether it was sent by this host instead of received.
    pub outgoing: bool,
}

/// Reusable buffers of [`PacketSocket::receive`].
pub struct ReceiveBuffers(Vec<Slot>);

#[repr(align(8))]
struct Slot {
    /// Room at the start for the VLAN tag that the kernel removed.
    octets: [u8; TAG_LEN + LONGEST],
    control: [u64; CONTROL / 8],
}

impl ReceiveBuffers {
    /// Maximum number of frames per call.
    pub const MOST: usize = 64;

    /// Creates buffers for `count` frames, at most [`ReceiveBuffers::MOST`].
    #[must_use]
    pub fn new(count: usize) -> Self {
        let slot = |_| Slot { octets: [0; TAG_LEN + LONGEST], control: [0; CONTROL / 8] };
        Self((0..count.min(Self::MOST)).map(slot).collect())
    }
}

impl fmt::Debug for ReceiveBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReceiveBuffers").field(&self.0.len()).finish()
    }
}

#[derive(Default)]
struct Control {
    realtime_ns: Option<u64>,
    vlan: Option<[u8; TAG_LEN]>,
}

impl Control {
    fn of(header: &libc::msghdr) -> Self {
        let mut control = Self::default();
        // SAFETY: the kernel filled the control buffer that the header points to and set its length.
        let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
        while !next.is_null() {
            // SAFETY: the macros point to whole control messages within the buffer.
            let (message, data) = unsafe { (*next, libc::CMSG_DATA(next)) };
            let holds = |size: usize| message.cmsg_len >= size_of::<libc::cmsghdr>() + size;
            match (message.cmsg_level, message.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if holds(size_of::<libc::timespec>()) => {
                    // SAFETY: the message contains a timespec, as just checked.
                    let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                    let ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                    control.realtime_ns = Some(ns);
                }
                (libc::SOL_PACKET, libc::PACKET_AUXDATA)
                    if holds(size_of::<libc::tpacket_auxdata>()) =>
                {
                    // SAFETY: the message contains a tpacket_auxdata, as just checked.
                    let data = unsafe { data.cast::<libc::tpacket_auxdata>().read_unaligned() };
                    if data.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                        let ([a, b], [c, d]) =
                            (data.tp_vlan_tpid.to_be_bytes(), data.tp_vlan_tci.to_be_bytes());
                        control.vlan = Some([a, b, c, d]);
                    }
                }
                _ => {}
            }
            // SAFETY: as CMSG_FIRSTHDR.
            next = unsafe { libc::CMSG_NXTHDR(header, next) };
        }
        control
    }
}

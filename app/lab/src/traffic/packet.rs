//! Packet sockets: whole frames in and out of one interface.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use onbeat_netdev::{Handle, Namespace};

use crate::{Error, Result};

/// Frames that one system call sends at most.
pub(crate) const BATCH: usize = 32;

/// What a receiving socket may hold, in octets: seconds of traffic, so that a reader which the
/// scheduler keeps waiting loses nothing.
const RECEIVE_BUFFER: libc::c_int = 256 << 20;

/// Level, name and value.
type SocketOption = (libc::c_int, libc::c_int, libc::c_int);

/// A packet socket on one interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

impl PacketSocket {
    /// A socket that sends, around the queueing discipline, and receives nothing.
    ///
    /// # Errors
    /// Where the interface is not there or the caller lacks CAP_NET_RAW.
    pub fn sender(namespace: &Namespace, interface: &str) -> Result<Self> {
        Self::open(namespace, interface, 0, &[(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)])
    }

    /// As [`PacketSocket::sender`], through the queueing discipline: monitors see what it sends.
    ///
    /// # Errors
    /// As [`PacketSocket::sender`].
    pub fn visible_sender(namespace: &Namespace, interface: &str) -> Result<Self> {
        Self::open(namespace, interface, 0, &[])
    }

    /// A socket that receives every frame that comes in, stamps it, and can send as well.
    ///
    /// # Errors
    /// As [`PacketSocket::sender`].
    pub fn receiver(namespace: &Namespace, interface: &str) -> Result<Self> {
        Self::stamping(namespace, interface, true, true)
    }

    /// As [`PacketSocket::receiver`], and monitors see what it sends.
    ///
    /// # Errors
    /// As [`PacketSocket::sender`].
    pub fn visible(namespace: &Namespace, interface: &str) -> Result<Self> {
        Self::stamping(namespace, interface, true, false)
    }

    /// A socket that sees every frame that comes in and every one that is sent through the
    /// queueing discipline, and stamps both.
    ///
    /// # Errors
    /// As [`PacketSocket::sender`].
    pub fn monitor(namespace: &Namespace, interface: &str) -> Result<Self> {
        Self::stamping(namespace, interface, false, false)
    }

    fn stamping(
        namespace: &Namespace,
        interface: &str,
        incoming_only: bool,
        around_qdisc: bool,
    ) -> Result<Self> {
        let options = [
            (libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, around_qdisc.into()),
            // Else the socket would see what it and others send here.
            (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, incoming_only.into()),
            // The kernel takes the outer VLAN tag out of the frame, and tells it on the side.
            (libc::SOL_PACKET, libc::PACKET_AUXDATA, 1),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1),
            (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER),
        ];
        Self::open(namespace, interface, libc::ETH_P_ALL, &options)
    }

    fn open(
        namespace: &Namespace,
        interface: &str,
        protocol: libc::c_int,
        options: &[SocketOption],
    ) -> Result<Self> {
        let index = Handle::in_namespace(namespace)?.index(interface)?;
        namespace.run(|| Self::bound(index, protocol, options))?.map_err(|error| {
            Error::io(format!("open a packet socket on {interface} (CAP_NET_RAW)"), error)
        })
    }

    /// Opened for no protocol and bound for one, with its options: in between it would receive from
    /// every interface, and what its options keep out or make room for.
    fn bound(index: u32, protocol: libc::c_int, options: &[SocketOption]) -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is open, and nobody else has it.
        let socket = Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } };
        options.iter().try_for_each(|(level, name, value)| socket.set(*level, *name, *value))?;
        // SAFETY: sockaddr_ll is plain data, for which zeros are a value.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (protocol as u16).to_be();
        address.sll_ifindex = index as i32;
        // SAFETY: the address is a sockaddr_ll of the length given, and lives through the call.
        let result = unsafe {
            libc::bind(fd, (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
    }

    fn set(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        // SAFETY: the value is an int of the length given, and lives through the call.
        let result = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                level,
                name,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as u32,
            )
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Frames dropped for want of room since the last call.
    ///
    /// # Errors
    /// What the system call says.
    pub fn take_drops(&self) -> io::Result<u64> {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = size_of::<libc::tpacket_stats>() as u32;
        // SAFETY: the buffer is a tpacket_stats of the length given, and lives through the call.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut len,
            )
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(stats.tp_drops.into()) }
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// What the system call says; ENOBUFS where the interface dropped the frame.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the buffer has the length given, and lives through the call.
        let sent = unsafe {
            libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Sends up to [`BATCH`] frames; how many were taken. An error comes only where none was.
    pub(crate) fn send_batch(&self, frames: &[Vec<u8>]) -> io::Result<usize> {
        self.send_parts(frames.iter().map(|frame| [frame.as_slice()]), libc::MSG_DONTWAIT)
    }

    /// Sends up to [`BATCH`] frames with a header each and one payload, and waits for room in the
    /// socket; how many were taken. An error comes only where none was.
    pub(crate) fn send_headers<const LEN: usize>(
        &self,
        headers: &[[u8; LEN]],
        payload: &[u8],
    ) -> io::Result<usize> {
        self.send_parts(headers.iter().map(|header| [header.as_slice(), payload]), 0)
    }

    /// Sends up to [`BATCH`] frames, each given in parts.
    fn send_parts<'a, const PARTS: usize>(
        &self,
        frames: impl Iterator<Item = [&'a [u8]; PARTS]>,
        flags: libc::c_int,
    ) -> io::Result<usize> {
        // SAFETY: mmsghdr and iovec are plain data, for which zeros are a value.
        let mut vectors: [[libc::iovec; PARTS]; BATCH] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
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
        let sent =
            unsafe { libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), count, flags) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

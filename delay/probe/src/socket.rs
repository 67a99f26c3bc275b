//! UDP sockets whose datagrams carry time stamps of the kernel.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    SockaddrStorage, TimestampingFlag, bind, recvmsg, sendmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;

const NS_PER_S: i64 = 1_000_000_000;

/// Memory for pending datagrams, in octets. The default holds 277 short datagrams: at 1,000 packets/s, a process
/// that is not scheduled for 0.3 s loses the next, and a measurement would attribute the loss to the path.
const RECEIVE_MEMORY: usize = 8 << 20;

/// Buffer for control messages of a datagram: three time stamps, TTL, address and interface, an error. Aligned for
/// control messages of the kernel.
#[repr(C, align(8))]
struct ControlBuffer([u8; 256]);

/// A non-blocking UDP socket.
#[derive(Debug)]
pub(crate) struct Socket {
    socket: UdpSocket,
}

/// A received datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagram {
    /// Its length, limited to that of the buffer.
    pub(crate) len: usize,
    /// The sender; `None` on a connected socket.
    pub(crate) from: Option<SocketAddr>,
    /// The local address that received it.
    pub(crate) at: Option<LocalAddress>,
    /// The kernel's time of reception (CLOCK_REALTIME, ns).
    pub(crate) realtime_ns: Option<i64>,
    /// TTL or hop limit.
    pub(crate) ttl: Option<u8>,
}

/// The destination address of a datagram, and the interface that received it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LocalAddress {
    V4(libc::in_pktinfo),
    V6(libc::in6_pktinfo),
}

impl Socket {
    /// Opens a socket at an address. With `departures` the kernel reports the departure time of each datagram.
    pub(crate) fn open(address: SocketAddr, departures: bool) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(family, SockType::Datagram, flags, None)?;
        if address.is_ipv4() {
            setsockopt(&fd, sockopt::Ipv4RecvTtl, &true)?;
            setsockopt(&fd, sockopt::Ipv4PacketInfo, &true)?;
        } else {
            // IPv4 datagrams belong to the other socket, whatever the host's default is.
            setsockopt(&fd, sockopt::Ipv6V6Only, &true)?;
            setsockopt(&fd, sockopt::Ipv6RecvHopLimit, &true)?;
            setsockopt(&fd, sockopt::Ipv6RecvPacketInfo, &true)?;
        }
        let mut stamps = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE;
        if departures {
            stamps |= TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
                | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
                | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
        }
        // Beyond net.core.rmem_max only with CAP_NET_ADMIN; without it, as much as that permits.
        if setsockopt(&fd, sockopt::RcvBufForce, &RECEIVE_MEMORY).is_err() {
            let _ = setsockopt(&fd, sockopt::RcvBuf, &RECEIVE_MEMORY);
        }
        // Without stamps of the kernel the program stamps.
        let _ = setsockopt(&fd, sockopt::Timestamping, &stamps);
        bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
        Ok(Self { socket: fd.into() })
    }

    pub(crate) fn connect(&self, to: SocketAddr) -> io::Result<()> {
        self.socket.connect(to)
    }

    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns a received datagram; `None`: there is none.
    pub(crate) fn receive(&self, room: &mut [u8]) -> io::Result<Option<Datagram>> {
        self.message(room, MsgFlags::MSG_DONTWAIT, |datagram, message| {
            match message {
                ControlMessageOwned::ScmTimestampsns(stamps) => {
                    datagram.realtime_ns = Some(nanoseconds(&stamps.system)).filter(|ns| *ns != 0);
                }
                ControlMessageOwned::Ipv4Ttl(ttl) | ControlMessageOwned::Ipv6HopLimit(ttl) => {
                    datagram.ttl = u8::try_from(ttl).ok();
                }
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    datagram.at = Some(LocalAddress::V4(info))
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    datagram.at = Some(LocalAddress::V6(info))
                }
                _ => {}
            };
        })
    }

    /// Returns the departure of a datagram: its number, from 0 over all sent ones, and the time (CLOCK_REALTIME,
    /// ns). `None`: there is no report.
    pub(crate) fn departed(&self) -> io::Result<Option<(u32, i64)>> {
        let (mut number, mut time_ns) = (None, None);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        loop {
            let read = self.message(&mut [], flags, |_, message| match message {
                ControlMessageOwned::ScmTimestampsns(stamps) => {
                    time_ns = Some(nanoseconds(&stamps.system)).filter(|ns| *ns != 0);
                }
                ControlMessageOwned::Ipv4RecvErr(error, _)
                | ControlMessageOwned::Ipv6RecvErr(error, _)
                    if error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING =>
                {
                    number = Some(error.ee_data);
                }
                _ => {}
            })?;
            match (read, number, time_ns) {
                (None, ..) => return Ok(None),
                (_, Some(number), Some(time_ns)) => return Ok(Some((number, time_ns))),
                // A report of another kind.
                _ => (number, time_ns) = (None, None),
            }
        }
    }

    fn message(
        &self,
        room: &mut [u8],
        flags: MsgFlags,
        mut beside: impl FnMut(&mut Datagram, ControlMessageOwned),
    ) -> io::Result<Option<Datagram>> {
        let mut control = ControlBuffer([0; 256]);
        let mut parts = [IoSliceMut::new(room)];
        let fd = self.socket.as_raw_fd();
        match recvmsg::<SockaddrStorage>(fd, &mut parts, Some(&mut control.0), flags) {
            Ok(message) => {
                let from = message.address.as_ref().and_then(address);
                let mut datagram =
                    Datagram { len: message.bytes, from, at: None, realtime_ns: None, ttl: None };
                message.cmsgs()?.for_each(|one| beside(&mut datagram, one));
                Ok(Some(datagram))
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sends to the connected address.
    pub(crate) fn send(&self, octets: &[u8]) -> io::Result<()> {
        self.socket.send(octets).map(drop)
    }

    /// Sends from the address that received a datagram.
    pub(crate) fn answer(
        &self,
        octets: &[u8],
        to: SocketAddr,
        at: Option<LocalAddress>,
    ) -> io::Result<()> {
        let part = [IoSlice::new(octets)];
        let (from_v4, from_v6);
        let beside = match at {
            Some(LocalAddress::V4(mut info)) => {
                // Routing selects the path; the source address is the one known to the sender.
                info.ipi_ifindex = 0;
                from_v4 = info;
                Some(ControlMessage::Ipv4PacketInfo(&from_v4))
            }
            Some(LocalAddress::V6(mut info)) => {
                let link_local =
                    matches!(info.ipi6_addr.s6_addr, [0xfe, second, ..] if second >> 6 == 2);
                info.ipi6_ifindex = if link_local { info.ipi6_ifindex } else { 0 };
                from_v6 = info;
                Some(ControlMessage::Ipv6PacketInfo(&from_v6))
            }
            None => None,
        };
        let to = SockaddrStorage::from(to);
        let fd = self.socket.as_raw_fd();
        sendmsg(fd, &part, beside.as_slice(), MsgFlags::MSG_DONTWAIT, Some(&to))?;
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Waits until a socket is readable, for at most `for_ns`, or until a signal.
pub(crate) fn wait(sockets: &[Socket], for_ns: i64) -> io::Result<()> {
    let mut polled: Vec<PollFd<'_>> =
        sockets.iter().map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN)).collect();
    let for_ns = for_ns.max(0);
    let timeout = TimeSpec::new(for_ns / NS_PER_S, for_ns % NS_PER_S);
    match ppoll(&mut polled, Some(timeout), None) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Returns true for an error of the path or the other end, which may be transient.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::WouldBlock
    ) || matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::EPERM | libc::ENOPROTOOPT | libc::EPROTO)
    )
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|v4| SocketAddr::V4(SocketAddrV4::from(*v4)));
    v4.or_else(|| storage.as_sockaddr_in6().map(|v6| SocketAddr::V6(SocketAddrV6::from(*v6))))
}

fn nanoseconds(time: &TimeSpec) -> i64 {
    time.tv_sec() * NS_PER_S + time.tv_nsec()
}

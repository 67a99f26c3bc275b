//! The packet socket: system calls, and nothing of the port's logic.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use libc::{c_int, sock_filter};
use onbeat_wire::MacAddress;

use super::control::{self, Launch, News};
use crate::Time;
use crate::errno::check;

/// A packet socket of one interface, at first for no protocol.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    index: c_int,
    /// Frames go around the queueing discipline.
    around: bool,
}

impl Socket {
    /// A socket in the calling thread's namespace, that receives nothing before [`Socket::bind`].
    pub(crate) fn open(index: u32) -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        check(fd)?;
        // SAFETY: the descriptor is open, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, index: index as c_int, around: false })
    }

    /// Sends to, and from now on receives frames of `protocol` from, the interface.
    pub(crate) fn bind(&self, protocol: u16) -> io::Result<()> {
        // SAFETY: sockaddr_ll is plain data, for which zeros are a value.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = self.index;
        let len = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the address is a sockaddr_ll of the length given, and lives through the call.
        check(unsafe { libc::bind(self.raw(), (&raw const address).cast(), len) }).map(drop)
    }

    /// Sets an option. `T` is the type that the kernel reads for it.
    pub(crate) fn set<T: Copy>(&self, level: c_int, name: c_int, value: T) -> io::Result<()> {
        let len = size_of::<T>() as u32;
        // SAFETY: the value has the length given and lives through the call, which only reads it.
        check(unsafe { libc::setsockopt(self.raw(), level, name, (&raw const value).cast(), len) })
            .map(drop)
    }

    /// Takes the place of the program before, in one step.
    pub(super) fn attach(&self, program: &mut [sock_filter]) -> io::Result<()> {
        // The kernel copies the program during the call.
        let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)
    }

    /// Has the NIC receive a multicast address, or not. The kernel counts, and takes back at the
    /// socket's end.
    pub(crate) fn multicast(&self, address: MacAddress, on: bool) -> io::Result<()> {
        let mut request = libc::packet_mreq {
            mr_ifindex: self.index,
            mr_type: libc::PACKET_MR_MULTICAST as u16,
            mr_alen: 6,
            mr_address: [0; 8],
        };
        request.mr_address[..6].copy_from_slice(&address.0);
        let name = if on { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
        self.set(libc::SOL_PACKET, name, request)
    }

    /// Has the NIC receive frames to any address. The kernel takes it back at the socket's end.
    pub(crate) fn promiscuous(&self) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: self.index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, request)
    }

    /// Has frames carry launch times of CLOCK_TAI, and the kernel report those that it gives up.
    pub(super) fn launch_times(&self, deadline: bool, priority: u8) -> io::Result<()> {
        let mut flags = libc::SOF_TXTIME_REPORT_ERRORS;
        if deadline {
            flags |= libc::SOF_TXTIME_DEADLINE_MODE;
        }
        let txtime = libc::sock_txtime { clockid: libc::CLOCK_TAI, flags };
        self.set(libc::SOL_SOCKET, libc::SO_TXTIME, txtime)?;
        self.set(libc::SOL_SOCKET, libc::SO_PRIORITY, c_int::from(priority))
    }

    /// Sends a frame, or says at once that there is no room: around the queueing discipline, or
    /// through it with a launch time.
    pub(super) fn send(&mut self, frame: &[u8], launch: Option<Time>) -> io::Result<()> {
        let around = launch.is_none();
        if self.around != around {
            self.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, c_int::from(around))?;
            self.around = around;
        }
        match self.send_once(frame, launch) {
            // That the interface went down some time ago is told to whoever calls next, even
            // where it is up again.
            Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) && self.take_error()? => {
                self.send_once(frame, launch)
            }
            result => result,
        }
    }

    /// Sends messages until one cannot be sent: how many went.
    ///
    /// # Safety
    /// What the messages point to must be there through the call.
    pub(crate) unsafe fn send_all(&self, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
        let (first, count) = (messages.as_mut_ptr(), messages.len() as u32);
        // SAFETY: the array has the length given; what it points to, the caller answers for.
        let sent = unsafe { libc::sendmmsg(self.raw(), first, count, libc::MSG_DONTWAIT) };
        check(sent).map(|sent| sent as usize)
    }

    fn send_once(&self, frame: &[u8], launch: Option<Time>) -> io::Result<()> {
        let mut part =
            libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        // SAFETY: msghdr is plain data, for which zeros are a value.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        let mut control = launch.map(Launch::at);
        if let Some(control) = &mut control {
            message.msg_control = control.octets().as_mut_ptr().cast();
            message.msg_controllen = control.octets().len() as _;
        }
        // SAFETY: the header points to one part, the frame, which is only read, and to a control
        // message or none, each of the length given; all live through the call.
        let sent = unsafe { libc::sendmsg(self.raw(), &raw const message, libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The next entry of the error queue: `None` where it is empty, `Some(None)` where the entry
    /// is neither time stamp nor missed launch.
    pub(super) fn news(&self) -> io::Result<Option<Option<News>>> {
        /// Aligned as the kernel lays control messages out.
        #[repr(C, align(8))]
        struct Control([u8; control::ROOM]);
        let mut control = Control([0; control::ROOM]);
        // SAFETY: msghdr is plain data, for which zeros are a value.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control::ROOM as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the header points to a control buffer of the length given and to nothing else;
        // both live through the call.
        let result = unsafe { libc::recvmsg(self.raw(), &raw mut message, flags) };
        if result < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN) => Ok(None),
                _ => Err(error),
            };
        }
        let len = (message.msg_controllen as usize).min(control::ROOM);
        Ok(Some(control::news(&control.0[..len])))
    }

    /// Takes an error off the socket, for example that the interface went down, so that it is not
    /// reported again; whether there was one.
    pub(crate) fn take_error(&self) -> io::Result<bool> {
        self.get::<c_int>(libc::SOL_SOCKET, libc::SO_ERROR).map(|error| error != 0)
    }

    /// Frames lost for want of room since the last call.
    pub(crate) fn take_drops(&self) -> io::Result<u64> {
        let statistics: [u32; 2] = self.get(libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
        // struct tpacket_stats: packets, drops.
        Ok(statistics[1].into())
    }

    fn get<T: Copy + Default>(&self, level: c_int, name: c_int) -> io::Result<T> {
        let mut value = T::default();
        let mut len = size_of::<T>() as u32;
        // SAFETY: the buffer has the length given, and any octets are a T: only integers and
        // arrays of them are asked for. Both live through the call.
        check(unsafe {
            libc::getsockopt(self.raw(), level, name, (&raw mut value).cast(), &raw mut len)
        })?;
        Ok(value)
    }

    /// Waits for a frame, a confirmation or an error for at most `timeout_ns`, or until there is
    /// something to read from `other`.
    pub(super) fn wait(&self, timeout_ns: u64, other: Option<BorrowedFd<'_>>) -> io::Result<Woken> {
        // poll passes over negative descriptors.
        let mut polled = [self.raw(), other.map_or(-1, |other| other.as_raw_fd())]
            .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        sleep(&mut polled, timeout_ns)
    }

    fn raw(&self) -> c_int {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Why [`Socket::wait`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// A frame, or the time is over.
    Ready,
    /// The error queue has something, or the socket an error.
    ByError,
    /// A signal came.
    BySignal,
}

/// Waits for one of several descriptors for at most `timeout_ns`. Errors are told of the first; who
/// reads from the others sees theirs.
pub(crate) fn sleep(polled: &mut [libc::pollfd], timeout_ns: u64) -> io::Result<Woken> {
    const SECOND: u64 = 1_000_000_000;
    // SAFETY: timespec is plain data, for which zeros are a value.
    let mut timeout: libc::timespec = unsafe { zeroed() };
    timeout.tv_sec = (timeout_ns / SECOND).min(i32::MAX as u64) as libc::time_t;
    timeout.tv_nsec = (timeout_ns % SECOND) as libc::c_long;
    let count = polled.len() as libc::nfds_t;
    // SAFETY: as many pollfds as told, a timespec and no signal mask; all live through the call.
    let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), count, &raw const timeout, ptr::null()) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok(Woken::BySignal),
            _ => Err(error),
        };
    }
    let failed = polled.first().is_some_and(|first| first.revents & libc::POLLERR != 0);
    Ok(if failed { Woken::ByError } else { Woken::Ready })
}

//! The packet socket: system calls, without the port's logic.

use std::io;
use std::mem::zeroed;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

use libc::c_int;
use onbeat_netdev::PacketSocket;

use super::control::{self, ErrorQueueEvent, LaunchTime};
use crate::Time;

/// A packet socket that bypasses the queueing discipline, or sends by launch times.
#[derive(Debug)]
pub(super) struct Socket {
    inner: PacketSocket,
    /// Frames bypass the queueing discipline.
    around: bool,
}

impl Socket {
    /// As [`PacketSocket::open`].
    pub(super) fn open(index: u32) -> io::Result<Self> {
        Ok(Self { inner: PacketSocket::open(index)?, around: false })
    }

    /// Enables launch times of CLOCK_TAI on frames, and reports of those that the kernel drops.
    pub(super) fn launch_times(&self, deadline: bool, priority: u8) -> io::Result<()> {
        let mut flags = libc::SOF_TXTIME_REPORT_ERRORS;
        if deadline {
            flags |= libc::SOF_TXTIME_DEADLINE_MODE;
        }
        let txtime = libc::sock_txtime { clockid: libc::CLOCK_TAI, flags };
        self.set(libc::SOL_SOCKET, libc::SO_TXTIME, txtime)?;
        self.set(libc::SOL_SOCKET, libc::SO_PRIORITY, c_int::from(priority))
    }

    /// Sends a frame, or fails at once if the queue is full: bypasses the queueing discipline, or goes through it
    /// with a launch time.
    pub(super) fn send(&mut self, frame: &[u8], launch: Option<Time>) -> io::Result<()> {
        let around = launch.is_none();
        if self.around != around {
            self.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, c_int::from(around))?;
            self.around = around;
        }
        match self.send_once(frame, launch) {
            // The kernel reports that the interface went down at the next call, even if it is up again.
            Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) && self.take_error()? => {
                self.send_once(frame, launch)
            }
            result => result,
        }
    }

    fn send_once(&self, frame: &[u8], launch: Option<Time>) -> io::Result<()> {
        let mut part =
            libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        // SAFETY: msghdr is plain data, for which zeros are valid.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        let mut control = launch.map(LaunchTime::at);
        if let Some(control) = &mut control {
            message.msg_control = control.octets().as_mut_ptr().cast();
            message.msg_controllen = control.octets().len() as _;
        }
        // SAFETY: the header points to one part, the frame, which is only read, and to a control message or none,
        // each of the given length; all live through the call.
        let sent = unsafe { libc::sendmsg(self.raw(), &raw const message, libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Returns the next entry of the error queue: `None` if it is empty, `Some(None)` if the entry is neither a
    /// time stamp nor a missed launch.
    pub(super) fn news(&self) -> io::Result<Option<Option<ErrorQueueEvent>>> {
        /// Aligned for control messages of the kernel.
        #[repr(C, align(8))]
        struct Control([u8; control::ROOM]);
        let mut control = Control([0; control::ROOM]);
        // SAFETY: msghdr is plain data, for which zeros are valid.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control::ROOM as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the header points to a control buffer of the given length and to nothing else; both live through
        // the call.
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

    /// Waits for a frame, a confirmation or an error for at most `timeout_ns`, or until `own` or `other` is readable.
    pub(super) fn wait(
        &self,
        timeout_ns: u64,
        own: Option<BorrowedFd<'_>>,
        other: Option<BorrowedFd<'_>>,
    ) -> io::Result<WakeReason> {
        sleep(self.inner.as_fd(), own, other, timeout_ns)
    }

    fn raw(&self) -> c_int {
        self.inner.as_fd().as_raw_fd()
    }
}

impl Deref for Socket {
    type Target = PacketSocket;

    fn deref(&self) -> &PacketSocket {
        &self.inner
    }
}

/// The reason why [`Socket::wait`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakeReason {
    /// A frame, or the timeout.
    Ready,
    /// The error queue has an entry, or the socket an error.
    Error,
    /// The descriptor of the caller is readable.
    Other,
    /// A signal.
    Signal,
}

/// Waits for a socket, a further descriptor of its port or one of the port's caller for at most `timeout_ns`. Errors of
/// the socket are reported; those of the others are reported when they are read.
pub(crate) fn sleep(
    socket: BorrowedFd<'_>,
    own: Option<BorrowedFd<'_>>,
    other: Option<BorrowedFd<'_>>,
    timeout_ns: u64,
) -> io::Result<WakeReason> {
    // poll ignores negative descriptors.
    let mut polled = [Some(socket), own, other].map(|fd| libc::pollfd {
        fd: fd.map_or(-1, |fd| fd.as_raw_fd()),
        events: libc::POLLIN,
        revents: 0,
    });
    const SECOND: u64 = 1_000_000_000;
    // SAFETY: timespec is plain data, for which zeros are valid.
    let mut timeout: libc::timespec = unsafe { zeroed() };
    timeout.tv_sec = (timeout_ns / SECOND).min(i32::MAX as u64) as libc::time_t;
    timeout.tv_nsec = (timeout_ns % SECOND) as libc::c_long;
    let count = polled.len() as libc::nfds_t;
    // SAFETY: the given number of pollfds, a timespec and no signal mask; all live through the call.
    let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), count, &raw const timeout, ptr::null()) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok(WakeReason::Signal),
            _ => Err(error),
        };
    }
    let [socket, _, other] = polled.map(|polled| polled.revents);
    Ok(match (socket, other) {
        (socket, _) if socket & libc::POLLERR != 0 => WakeReason::Error,
        (_, 0) => WakeReason::Ready,
        _ => WakeReason::Other,
    })
}

//! The packet socket: system calls, and nothing of the port's logic.

use std::io;
use std::mem::zeroed;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

use libc::c_int;
use onbeat_netdev::PacketSocket;

use super::control::{self, LaunchTime, ErrorQueueEvent};
use crate::Time;

/// A packet socket that sends around the queueing discipline, or by launch times.
#[derive(Debug)]
pub(super) struct Socket {
    inner: PacketSocket,
    /// Frames go around the queueing discipline.
    around: bool,
}

impl Socket {
    /// As [`PacketSocket::open`].
    pub(super) fn open(index: u32) -> io::Result<Self> {
        Ok(Self { inner: PacketSocket::open(index)?, around: false })
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

    fn send_once(&self, frame: &[u8], launch: Option<Time>) -> io::Result<()> {
        let mut part =
            libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        // SAFETY: msghdr is plain data, for which zeros are a value.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        let mut control = launch.map(LaunchTime::at);
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
    pub(super) fn news(&self) -> io::Result<Option<Option<ErrorQueueEvent>>> {
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

    /// Waits for a frame, a confirmation or an error for at most `timeout_ns`, or until there is
    /// something to read from `other`.
    pub(super) fn wait(&self, timeout_ns: u64, other: Option<BorrowedFd<'_>>) -> io::Result<WakeReason> {
        // poll passes over negative descriptors.
        let mut polled = [self.raw(), other.map_or(-1, |other| other.as_raw_fd())]
            .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        sleep(&mut polled, timeout_ns)
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

/// Why [`Socket::wait`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakeReason {
    /// A frame, or the time is over.
    Ready,
    /// The error queue has something, or the socket an error.
    Error,
    /// A signal came.
    Signal,
}

/// Waits for one of several descriptors for at most `timeout_ns`. Errors are told of the first; who
/// reads from the others sees theirs.
pub(crate) fn sleep(polled: &mut [libc::pollfd], timeout_ns: u64) -> io::Result<WakeReason> {
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
            io::ErrorKind::Interrupted => Ok(WakeReason::Signal),
            _ => Err(error),
        };
    }
    let failed = polled.first().is_some_and(|first| first.revents & libc::POLLERR != 0);
    Ok(if failed { WakeReason::Error } else { WakeReason::Ready })
}

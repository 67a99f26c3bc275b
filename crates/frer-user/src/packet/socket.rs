//! The packet socket: system calls, and nothing of FRER.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::c_int;

/// A packet socket of one interface.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    index: c_int,
}

impl Socket {
    /// A socket in the calling thread's namespace, that receives nothing before [`Socket::bind`].
    pub(super) fn open(index: u32) -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        check(fd)?;
        // SAFETY: the descriptor is open, and nobody else has it.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, index: index as c_int })
    }

    /// Sends to, and receives what comes in at, the interface; for `protocol` 0 receives nothing.
    pub(super) fn bind(&self, protocol: c_int) -> io::Result<()> {
        // SAFETY: sockaddr_ll is plain data, for which zeros are a value.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (protocol as u16).to_be();
        address.sll_ifindex = self.index;
        let len = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the address is a sockaddr_ll of the length given, and lives through the call.
        check(unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) })
            .map(drop)
    }

    /// Sets an option. `T` is the type that the kernel reads for it.
    pub(super) fn set<T: Copy>(&self, level: c_int, name: c_int, value: T) -> io::Result<()> {
        let len = size_of::<T>() as u32;
        // SAFETY: the value has the length given and lives through the call, which only reads it.
        check(unsafe {
            libc::setsockopt(self.fd.as_raw_fd(), level, name, (&raw const value).cast(), len)
        })
        .map(drop)
    }

    /// Frames that the ring had no room for since the last call.
    pub(super) fn take_drops(&self) -> io::Result<u64> {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = size_of::<libc::tpacket_stats>() as u32;
        // SAFETY: the buffer has the length given and lives through the call.
        check(unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut len,
            )
        })?;
        Ok(statistics.tp_drops.into())
    }

    /// Takes an error off the socket, for example that the interface went down.
    pub(super) fn take_error(&self) {
        let mut error: c_int = 0;
        let mut len = size_of::<c_int>() as u32;
        // SAFETY: the buffer has the length given and lives through the call. The error is told
        // by the calls that fail of it; here it is only to be gone.
        unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut error).cast(),
                &raw mut len,
            );
        }
    }

    /// Sends messages until one cannot be sent: how many went.
    ///
    /// # Safety
    /// What the messages point to must be there through the call.
    pub(super) unsafe fn send(&self, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
        // SAFETY: the array has the length given; what it points to, the caller answers for.
        let sent = unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as u32,
                libc::MSG_DONTWAIT,
            )
        };
        check(sent).map(|sent| sent as usize)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

//! What the tests share: a cable, and a raw socket at its far end.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onbeat_link::testing::{ETHER_TYPE, Peer};
use onbeat_netdev::{Handle, Namespace, VethEnd};

/// Longest wait for something that comes at once unless it never comes.
pub(crate) const BOUND: Duration = Duration::from_secs(10);

/// Two namespaces and a veth pair, both ends up:
///
/// ```text
///   near: "p0" --------- far: "f0"
/// ```
pub(crate) struct Cable {
    pub(crate) near: Handle,
    pub(crate) far: Handle,
}

impl Cable {
    pub(crate) fn new() -> Self {
        let [near, far] =
            [(), ()].map(|()| Handle::in_namespace(&Namespace::new().unwrap()).unwrap());
        let end = VethEnd::new("f0").namespace(far.namespace());
        near.create_veth(&VethEnd::new("p0"), &end).unwrap();
        // Else IPv6 speaks on its own while a test looks at what comes.
        near.set_ipv6("p0", false).unwrap();
        far.set_ipv6("f0", false).unwrap();
        near.set_up("p0").unwrap();
        far.set_up("f0").unwrap();
        near.wait_carrier("p0", BOUND).unwrap();
        far.wait_carrier("f0", BOUND).unwrap();
        Self { near, far }
    }
}

/// A plain packet socket: what the port is tested against shares no code with it.
pub(crate) struct RawSocket(OwnedFd);

impl RawSocket {
    pub(crate) fn open(handle: &Handle, interface: &str) -> Self {
        let index = handle.index(interface).unwrap();
        handle.namespace().run(|| Self::of(index)).unwrap().unwrap()
    }

    fn of(index: u32) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: ETHER_TYPE.0.to_be(),
            sll_ifindex: index as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let length = size_of_val(&address) as u32;
        // SAFETY: `address` is a sockaddr_ll of `length` octets that lives across the call.
        let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(Self(fd)) }
    }

    /// Sends a frame unless there is no room for it; whether there was.
    pub(crate) fn try_send(&mut self, frame: &[u8]) -> bool {
        match nix::unistd::write(&self.0, frame) {
            Ok(sent) => sent == frame.len(),
            Err(Errno::EAGAIN | Errno::ENOBUFS) => false,
            Err(errno) => panic!("send: {errno}"),
        }
    }
}

impl Peer for RawSocket {
    fn send(&mut self, frame: &[u8]) {
        assert_eq!(nix::unistd::write(&self.0, frame), Ok(frame.len()));
    }

    fn receive(&mut self, timeout: Duration) -> Option<Vec<u8>> {
        let wait = PollTimeout::try_from(timeout).unwrap();
        if poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], wait).unwrap() == 0 {
            return None;
        }
        let mut frame = vec![0; 2048];
        let length = nix::unistd::read(&self.0, &mut frame).unwrap();
        frame.truncate(length);
        Some(frame)
    }
}

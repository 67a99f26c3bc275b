//! What the tests share: two namespaces with a cable between, and a raw socket.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onbeat_netdev::{Handle, Namespace, VethEnd};

/// Longest wait for something that comes at once unless it never comes.
pub(crate) const BOUND: Duration = Duration::from_secs(10);

/// An EtherType for experiments (IEEE 802, 9.2.4), which no protocol of the kernel sends.
pub(crate) const ETHER_TYPE: u16 = 0x88b5;

/// Two namespaces and a veth pair, both ends up:
///
/// ```text
///   left: "l0" --------- right: "r0"
/// ```
///
/// Both handles must be kept: the device vanishes with the namespace at either end.
pub(crate) struct Cable {
    pub(crate) left: Handle,
    pub(crate) right: Handle,
}

impl Cable {
    pub(crate) fn new() -> Self {
        let (left, right) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let (left, right) =
            (Handle::in_namespace(&left).unwrap(), Handle::in_namespace(&right).unwrap());
        let far = VethEnd::new("r0").namespace(right.namespace());
        left.create_veth(&VethEnd::new("l0"), &far).unwrap();
        left.set_up("l0").unwrap();
        right.set_up("r0").unwrap();
        left.wait_carrier("l0", BOUND).unwrap();
        right.wait_carrier("r0", BOUND).unwrap();
        Self { left, right }
    }
}

/// A packet socket that sends and receives frames of [`ETHER_TYPE`] on one device.
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
            sll_protocol: ETHER_TYPE.to_be(),
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

    pub(crate) fn send(&self, frame: &[u8]) {
        assert_eq!(nix::unistd::write(&self.0, frame), Ok(frame.len()));
    }

    /// The next frame, or `None` where none comes within `timeout`.
    pub(crate) fn receive(&self, timeout: Duration) -> Option<Vec<u8>> {
        let wait = PollTimeout::try_from(timeout).unwrap();
        let ready = poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], wait).unwrap();
        if ready == 0 {
            return None;
        }
        let mut frame = vec![0; 2048];
        let length = nix::unistd::read(&self.0, &mut frame).unwrap();
        frame.truncate(length);
        Some(frame)
    }
}

/// A broadcast frame of [`ETHER_TYPE`].
pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1]);
    frame.extend(ETHER_TYPE.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Sends `frame` again and again until it arrives: a path comes up when the kernel gets round to
/// it. Whether it arrived within the bound.
pub(crate) fn passes(from: &RawSocket, to: &RawSocket, frame: &[u8]) -> bool {
    let deadline = Instant::now() + BOUND;
    while Instant::now() < deadline {
        from.send(frame);
        if to.receive(Duration::from_millis(50)).as_deref() == Some(frame) {
            return true;
        }
    }
    false
}

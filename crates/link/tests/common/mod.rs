//! What the tests share: a cable, and a raw socket at its far end.

#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod xdp;

use std::env;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onbeat_link::testing::{ETHER_TYPE, Peer};
use onbeat_netdev::{Handle, Namespace, VethEnd};

/// Longest wait for something that comes at once unless it never comes.
pub(crate) const BOUND: Duration = Duration::from_secs(10);

/// Names two interfaces that a cable joins, as in `eth0,eth1`, to be used in place of veth. Tests
/// then run one after the other: `--test-threads=1`.
const PAIR: &str = "ONBEAT_LINK_PAIR";

/// Says that they stamp frames; not every emulated one that offers to does.
const STAMPS: &str = "ONBEAT_LINK_STAMPS";

/// Two namespaces and a cable between them, both ends up:
///
/// ```text
///   near: "p0" --------- far: "f0"
/// ```
pub(crate) struct Cable {
    pub(crate) near: Handle,
    pub(crate) far: Handle,
    /// Where the ends come from and what they are called there; `None`: a veth pair.
    pair: Option<(Handle, [String; 2])>,
}

impl Cable {
    pub(crate) fn new() -> Self {
        Self::with(VethEnd::new("p0"))
    }

    /// With so many transmit queues at the near end; NICs have those that they have.
    pub(crate) fn with_queues(queues: u32) -> Self {
        Self::with(VethEnd::new("p0").queues(queues, 1))
    }

    /// With this near end, named "p0", where the cable is made of veth.
    pub(crate) fn with(near_end: VethEnd) -> Self {
        let [near, far] =
            [(), ()].map(|()| Handle::in_namespace(&Namespace::new().unwrap()).unwrap());
        let cable = Self { near, far, pair: pair() };
        match &cable.pair {
            Some((home, names)) => cable.lay(home, names),
            None => {
                let end = VethEnd::new("f0").namespace(cable.far.namespace());
                cable.near.create_veth(&near_end, &end).unwrap();
            }
        }
        for (handle, name) in cable.ends() {
            // Else IPv6 speaks on its own while a test looks at what comes.
            handle.set_ipv6(name, false).unwrap();
            handle.set_up(name).unwrap();
        }
        for (handle, name) in cable.ends() {
            handle.wait_carrier(name, BOUND).unwrap();
        }
        cable
    }

    /// Whether the ends are NICs that stamp frames. If not, says so.
    pub(crate) fn stamps() -> bool {
        let they_do = env::var_os(PAIR).is_some() && env::var_os(STAMPS).is_some();
        if !they_do {
            eprintln!("SKIP: needs NICs that stamp frames: {PAIR}, and {STAMPS}=1");
        }
        they_do
    }

    fn ends(&self) -> [(&Handle, &'static str); 2] {
        [(&self.near, "p0"), (&self.far, "f0")]
    }

    fn lay(&self, home: &Handle, names: &[String; 2]) {
        for (name, (handle, end)) in names.iter().zip(self.ends()) {
            home.set_down(name).unwrap();
            home.rename(name, end).unwrap();
            home.move_to(end, handle.namespace()).unwrap();
            // Else it drops frames to others' addresses, of which the far end shows all, and
            // of VLANs that nobody named to it.
            handle.set_promiscuous(end, true).unwrap();
        }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        let Some((home, names)) = &self.pair else { return };
        for (name, (handle, end)) in names.iter().zip(self.ends()) {
            let back = handle
                .set_down(end)
                .and_then(|()| handle.rename(end, name))
                .and_then(|()| handle.move_to(name, home.namespace()));
            // The next test needs it; this one may have failed already.
            if let Err(error) = back {
                eprintln!("{name} is not given back: {error}");
            }
        }
    }
}

fn pair() -> Option<(Handle, [String; 2])> {
    let names = env::var(PAIR).ok()?;
    let (near, far) = names.split_once(',').expect("two names with a comma between");
    let home = Handle::in_namespace(&Namespace::current().unwrap()).unwrap();
    Some((home, [near.into(), far.into()]))
}

/// A plain packet socket: what the port is tested against shares no code with it.
pub(crate) struct RawSocket(OwnedFd);

impl RawSocket {
    pub(crate) fn open(handle: &Handle, interface: &str) -> Self {
        Self::open_for(handle, interface, ETHER_TYPE.0)
    }

    pub(crate) fn open_for(handle: &Handle, interface: &str, ether_type: u16) -> Self {
        let index = handle.index(interface).unwrap();
        handle.namespace().run(|| Self::of(index, ether_type)).unwrap().unwrap()
    }

    fn of(index: u32, ether_type: u16) -> io::Result<Self> {
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
            sll_protocol: ether_type.to_be(),
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

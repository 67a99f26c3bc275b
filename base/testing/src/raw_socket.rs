//! A plain packet socket: what is tested shares no code with it.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    time::Duration,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use onbeat_netdev::Handle;

/// Octets of the longest frame that is received.
const LONGEST: usize = 2048;

/// A packet socket on one interface, for tests. Whatever goes wrong is a panic.
#[derive(Debug)]
pub struct RawSocket(OwnedFd);

impl RawSocket {
    /// For frames of every EtherType.
    ///
    /// # Panics
    /// Where it cannot be opened, as for all that follows.
    #[must_use]
    pub fn open(handle: &Handle, interface: &str) -> Self {
        Self::open_for(handle, interface, libc::ETH_P_ALL as u16)
    }

    /// For frames of one EtherType.
    ///
    /// # Panics
    /// Where it cannot be opened.
    #[must_use]
    pub fn open_for(handle: &Handle, interface: &str, ether_type: u16) -> Self {
        let index = handle.index(interface).expect("an interface of this name");
        let opened = handle.namespace().run(|| Self::of(index, ether_type));
        opened.expect("a namespace to be in").expect("a packet socket")
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
        let on: libc::c_int = 1;
        for option in [libc::PACKET_AUXDATA, libc::PACKET_IGNORE_OUTGOING] {
            let (level, len) = (libc::SOL_PACKET, size_of_val(&on) as u32);
            // SAFETY: the value is an int that lives across the call.
            let result = unsafe {
                libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const on).cast(), len)
            };
            if result < 0 {
                return Err(io::Error::last_os_error());
            }
        }
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

    /// Sends a frame.
    ///
    /// # Panics
    /// Where it is not taken.
    pub fn send(&self, frame: &[u8]) {
        assert_eq!(nix::unistd::write(&self.0, frame), Ok(frame.len()));
    }

    /// Sends a frame unless there is no room for it; whether there was.
    ///
    /// # Panics
    /// Where it is refused for another reason.
    #[must_use]
    pub fn try_send(&self, frame: &[u8]) -> bool {
        match nix::unistd::write(&self.0, frame) {
            Ok(sent) => sent == frame.len(),
            Err(Errno::EAGAIN | Errno::ENOBUFS) => false,
            Err(errno) => panic!("send: {errno}"),
        }
    }

    /// The next frame, its VLAN tag where it stood, or `None` where none comes within `timeout`.
    ///
    /// # Panics
    /// Where the socket fails.
    #[must_use]
    pub fn receive(&self, timeout: Duration) -> Option<Vec<u8>> {
        let wait = PollTimeout::try_from(timeout).expect("a time that can be waited");
        let mut polled = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        if poll(&mut polled, wait).expect("a socket to wait for") == 0 {
            return None;
        }
        let mut frame = vec![0; LONGEST];
        let mut control = [0_u64; 16];
        let mut vector = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: LONGEST };
        // SAFETY: msghdr is plain data, for which zeros are a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: all that the header points to lives across the call.
        let length = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) };
        frame.truncate(usize::try_from(length).expect("a frame"));
        // SAFETY: the kernel wrote the control buffer; auxiliary data is the only thing asked for.
        let header = unsafe { &*libc::CMSG_FIRSTHDR(&raw const message) };
        // SAFETY: as above.
        let aux =
            unsafe { libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned() };
        if aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
            let tag = [aux.tp_vlan_tpid.to_be_bytes(), aux.tp_vlan_tci.to_be_bytes()].concat();
            frame.splice(12..12, tag);
        }
        Some(frame)
    }
}

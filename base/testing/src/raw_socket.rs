//! A plain packet socket: what is tested shares no more with it than system calls.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onbeat_netdev::{Handle, PacketSocket, ReceiveBuffers, ReceivedFrame};

/// A packet socket on one interface, for tests. Whatever goes wrong is a panic.
#[derive(Debug)]
pub struct RawSocket(PacketSocket);

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
        let socket = PacketSocket::open(index)?;
        for option in [libc::PACKET_AUXDATA, libc::PACKET_IGNORE_OUTGOING] {
            socket.set(libc::SOL_PACKET, option, 1_i32)?;
        }
        socket.bind(ether_type)?;
        Ok(Self(socket))
    }

    /// Sends a frame.
    ///
    /// # Panics
    /// Where it is not taken.
    pub fn send(&self, frame: &[u8]) {
        self.0.send(frame).expect("a frame sent");
    }

    /// Sends a frame unless there is no room for it; whether there was.
    ///
    /// # Panics
    /// Where it is refused for another reason.
    #[must_use]
    pub fn try_send(&self, frame: &[u8]) -> bool {
        match self.0.send(frame) {
            Ok(()) => true,
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS)) => {
                false
            }
            Err(error) => panic!("send: {error}"),
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
        let mut received = None;
        let take = |frame: ReceivedFrame<'_>| received = Some(frame.octets.to_vec());
        self.0.receive(&mut ReceiveBuffers::new(1), take).expect("a frame");
        received
    }
}

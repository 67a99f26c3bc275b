//! A plain packet socket: it shares only system calls with the tested code.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onbeat_netdev::{Handle, PacketSocket, ReceiveBuffers, ReceivedFrame};

/// A packet socket on one interface, for tests. Errors are panics.
#[derive(Debug)]
pub struct RawSocket(PacketSocket);

impl RawSocket {
    /// Opens a socket for frames of every EtherType.
    ///
    /// # Panics
    /// It cannot be opened, also for all methods below.
    #[must_use]
    pub fn open(handle: &Handle, interface: &str) -> Self {
        Self::open_for(handle, interface, libc::ETH_P_ALL as u16)
    }

    /// Opens a socket for frames of one EtherType.
    ///
    /// # Panics
    /// It cannot be opened.
    #[must_use]
    pub fn open_for(handle: &Handle, interface: &str, ether_type: u16) -> Self {
        let index = handle.index(interface).expect("an interface of this name");
        let opened = handle.namespace().run(|| Self::of(index, ether_type));
        opened.expect("enter the namespace").expect("a packet socket")
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
    /// It is not accepted.
    pub fn send(&self, frame: &[u8]) {
        self.0.send(frame).expect("send a frame");
    }

    /// Sends a frame unless the queue is full; returns whether it was sent.
    ///
    /// # Panics
    /// It is refused for another reason.
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

    /// Receives the next frame, with its VLAN tag in place; `None`: none arrives within `timeout`.
    ///
    /// # Panics
    /// The socket fails.
    #[must_use]
    pub fn receive(&self, timeout: Duration) -> Option<Vec<u8>> {
        let wait = PollTimeout::try_from(timeout).expect("a valid timeout");
        let mut polled = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        if poll(&mut polled, wait).expect("poll the socket") == 0 {
            return None;
        }
        let mut received = None;
        let take = |frame: ReceivedFrame<'_>| received = Some(frame.octets.to_vec());
        self.0.receive(&mut ReceiveBuffers::new(1), take).expect("a frame");
        received
    }
}

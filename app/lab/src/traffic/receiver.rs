//! Batched reception from a packet socket, with frames as on the wire.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use onbeat_netdev::{PacketSocket, ReceiveBuffers, ReceivedFrame};
use onbeat_realtime::clock::SECOND;

/// A packet socket with receive buffers.
#[derive(Debug)]
pub struct Receiver {
    socket: PacketSocket,
    buffers: ReceiveBuffers,
}

impl Receiver {
    /// Creates a receiver for a socket.
    #[must_use]
    pub fn new(socket: PacketSocket) -> Self {
        Self { socket, buffers: ReceiveBuffers::new(ReceiveBuffers::MOST) }
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    /// Waits for frames, `timeout_ns` at most; returns whether there are any.
    ///
    /// # Errors
    /// An error of the system call.
    pub fn wait(&self, timeout_ns: u64) -> io::Result<bool> {
        let mut polled = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        let timeout = TimeSpec::new((timeout_ns / SECOND) as i64, (timeout_ns % SECOND) as i64);
        match ppoll(&mut polled, Some(timeout), None) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Passes received frames to `take`, a batch at most; returns their number.
    ///
    /// # Errors
    /// An error of the system call.
    pub fn receive(&mut self, take: impl FnMut(ReceivedFrame<'_>)) -> io::Result<usize> {
        self.socket.receive(&mut self.buffers, take)
    }
}

//! An interface by packet sockets: a mapped ring in, batches of frames out.

mod ring;
mod sender;
mod socket;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use onbeat_netdev::{Handle, Namespace};
use onbeat_wire::edit::MAX_GROWTH;

use self::ring::Ring;
use self::sender::Sender;
use self::socket::Socket;
use crate::{Error, Result, Traffic};

/// Octets of an Ethernet header and two VLAN tags.
const HEADERS: usize = 14 + 2 * 4;

/// An interface that frames are received from and sent by.
#[derive(Debug)]
pub struct Port {
    pub(crate) input: Input,
    pub(crate) output: Output,
}

/// Where frames come in.
#[derive(Debug)]
pub(crate) struct Input {
    // Unmapped before the socket is closed.
    ring: Ring,
    socket: Socket,
    traffic: Traffic,
}

/// Where frames go out.
#[derive(Debug)]
pub(crate) struct Output(Sender);

impl Port {
    /// Opens an interface of `namespace`, for frames as long as its MTU says, with room for
    /// `frames` that came and were not looked at.
    ///
    /// # Errors
    /// An interface that is not there; CAP_NET_RAW is missing.
    pub fn open(namespace: &Namespace, interface: &str, frames: usize) -> Result<Self> {
        let link = Handle::in_namespace(namespace)?.link(interface)?;
        let longest = HEADERS + link.mtu as usize + MAX_GROWTH;
        let open = || -> io::Result<_> {
            let (socket, sender) = (Socket::open(link.index)?, Sender::new(link.index, longest)?);
            socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1_i32)?;
            let ring = Ring::new(&socket, frames, longest)?;
            // Streams are addressed to others.
            let all = libc::packet_mreq {
                mr_ifindex: link.index as i32,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            socket.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, all)?;
            socket.bind(libc::ETH_P_ALL)?;
            Ok((socket, ring, sender))
        };
        let opened = namespace.run(open)?;
        let (socket, ring, sender) = opened
            .map_err(|source| Error::Interface { interface: interface.to_owned(), source })?;
        let input = Input { ring, socket, traffic: Traffic::default() };
        Ok(Self { input, output: Output(sender) })
    }
}

impl Input {
    /// Gives the oldest frame that came to `take`; false where there is none.
    pub(crate) fn take(&mut self, take: impl FnOnce(&[u8])) -> bool {
        let Some(frame) = self.ring.frame() else { return false };
        self.traffic.received += 1;
        match frame.complete {
            true => take(frame.octets),
            // Merged by the NIC or the kernel, or longer than the MTU: none of it can be sent.
            false => self.traffic.too_long += 1,
        }
        true
    }

    /// What came in, up to now.
    pub(crate) fn traffic(&mut self) -> io::Result<Traffic> {
        self.traffic.no_room += self.socket.take_drops()?;
        Ok(self.traffic)
    }

    /// Takes the error off the socket that makes it ready without a frame.
    pub(crate) fn take_error(&self) {
        self.socket.take_error();
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Output {
    /// Adds a frame of up to `len` octets, which `write` writes and whose length it tells.
    pub(crate) fn push(&mut self, len: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        if len > self.0.longest() {
            self.0.dropped += 1;
            return;
        }
        self.0.push(write);
    }

    /// Sends what was added.
    pub(crate) fn flush(&mut self) {
        self.0.flush();
    }

    /// What went out, beside what came in.
    pub(crate) fn add_to(&self, traffic: Traffic) -> Traffic {
        Traffic { sent: self.0.sent, not_sent: self.0.dropped, ..traffic }
    }
}

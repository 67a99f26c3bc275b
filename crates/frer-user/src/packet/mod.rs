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

/// An interface that frames are received from.
pub(crate) struct Input {
    // Unmapped before the socket is closed.
    ring: Ring,
    socket: Socket,
    traffic: Traffic,
}

/// An interface that frames are sent by.
pub(crate) struct Output(Sender);

/// Opens both ends of an interface, for frames as long as its MTU says; `longest` is that of all
/// interfaces whose frames it may be given.
pub(crate) fn open(
    namespace: &Namespace,
    interface: &str,
    frames: usize,
    longest: usize,
) -> Result<(Input, Output)> {
    let link = Handle::in_namespace(namespace)?.link(interface)?;
    let failed = |source| Error::Interface { interface: interface.to_owned(), source };
    let sockets =
        || -> io::Result<_> { Ok((Socket::open(link.index)?, Sender::new(link.index, longest)?)) };
    let (socket, sender) = namespace.run(sockets)?.map_err(failed)?;
    let set_up = || -> io::Result<_> {
        socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1_i32)?;
        let ring = Ring::new(&socket, frames, longest)?;
        // Streams are addressed to others.
        let mut all: libc::packet_mreq = zeroed_request(link.index);
        all.mr_type = libc::PACKET_MR_PROMISC as u16;
        socket.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, all)?;
        socket.bind(libc::ETH_P_ALL)?;
        Ok(ring)
    };
    let ring = set_up().map_err(failed)?;
    Ok((Input { ring, socket, traffic: Traffic::default() }, Output(sender)))
}

/// The longest frame of an interface, with the tags that FRER may add.
pub(crate) fn longest(mtu: u32) -> usize {
    HEADERS + mtu as usize + MAX_GROWTH
}

fn zeroed_request(index: u32) -> libc::packet_mreq {
    libc::packet_mreq { mr_ifindex: index as i32, mr_type: 0, mr_alen: 0, mr_address: [0; 8] }
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

    /// Frames sent, and frames that the interface did not take.
    pub(crate) fn sent(&self) -> (u64, u64) {
        (self.0.sent, self.0.dropped)
    }
}

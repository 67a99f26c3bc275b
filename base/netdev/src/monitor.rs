//! Events of devices that are added, changed and removed.

use std::{
    collections::HashSet,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    time::{Duration, Instant},
};

use netlink_packet_route::{AddressFamily, RouteNetlinkMessage, link::LinkAttribute};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::{
    Error, Handle, Link, Namespace, Result,
    netlink::{Messages, receive},
    rtnl,
};

/// An event of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// Created, or moved in from another namespace.
    Added(Link),
    /// Its flags, carrier or another property changed, or the kernel repeats its state.
    Changed(Link),
    /// Deleted, or moved out to another namespace.
    Removed {
        /// Its index.
        index: u32,
        /// Its name.
        name: String,
    },
    /// Events were lost because they were not read in time: read the state of all devices again.
    Lost,
}

/// A socket that receives all changes of the devices of one namespace.
///
/// The descriptor never blocks and may be polled for readability.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    handle: Handle,
    known: HashSet<u32>,
    /// Events of a datagram that were not returned yet, last first.
    pending: Vec<LinkEvent>,
}

impl Monitor {
    /// Subscribes in the calling thread's namespace, to all events from now on.
    ///
    /// # Errors
    /// No netlink socket can be opened.
    pub fn open() -> Result<Self> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, 0))?;
            socket.add_membership(libc::RTNLGRP_LINK)?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let socket =
            open().map_err(|error: io::Error| Error::io("subscribe to link events", error))?;
        // Listed after subscribing, so that no change is missed.
        let handle = Handle::open()?;
        let known = indexes(&handle)?;
        Ok(Self { socket, handle, known, pending: Vec::new() })
    }

    /// Subscribes in `namespace`.
    ///
    /// # Errors
    /// Those of [`Monitor::open`]; the caller may not enter the namespace.
    pub fn in_namespace(namespace: &Namespace) -> Result<Self> {
        namespace.run(Self::open)?
    }

    /// Returns the next event; `None`: no event is pending.
    ///
    /// # Errors
    /// The socket fails.
    pub fn next_event(&mut self) -> Result<Option<LinkEvent>> {
        const OPERATION: &str = "read link events";
        while self.pending.is_empty() {
            let datagram = match receive(&self.socket, 0) {
                Ok(datagram) => datagram,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    self.known = indexes(&self.handle)?;
                    return Ok(Some(LinkEvent::Lost));
                }
                Err(error) => return Err(Error::io(OPERATION, error)),
            };
            for reply in Messages(&datagram) {
                let message = reply
                    .and_then(|reply| rtnl::parse(&reply))
                    .map_err(|failure| failure.of(OPERATION, ""))?;
                if let Some(event) = self.event(message) {
                    self.pending.push(event);
                }
            }
            self.pending.reverse();
        }
        Ok(self.pending.pop())
    }

    /// Waits at most `timeout` for the next event; `None`: no event.
    ///
    /// # Errors
    /// The socket fails.
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<LinkEvent>> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(event) = self.next_event()? {
                return Ok(Some(event));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // Rounded up: rounding down would poll repeatedly in the last millisecond.
            let left = left.as_micros().div_ceil(1000).try_into().unwrap_or(i32::MAX);
            let wait = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)], wait) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(Error::io("wait for link events", errno)),
            }
        }
    }

    fn event(&mut self, message: RouteNetlinkMessage) -> Option<LinkEvent> {
        match message {
            // A bridge reports its ports under its own family: a port that leaves is "deleted", but the
            // device still exists.
            RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link)
                if link.header.interface_family != AddressFamily::Unspec =>
            {
                None
            }
            RouteNetlinkMessage::NewLink(link) => {
                let link = Link::from(link);
                Some(if self.known.insert(link.index) {
                    LinkEvent::Added(link)
                } else {
                    LinkEvent::Changed(link)
                })
            }
            RouteNetlinkMessage::DelLink(link) => {
                let index = link.header.index;
                self.known.remove(&index);
                let name = link.attributes.into_iter().find_map(|attribute| match attribute {
                    LinkAttribute::IfName(name) => Some(name),
                    _ => None,
                });
                Some(LinkEvent::Removed { index, name: name.unwrap_or_default() })
            }
            _ => None,
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Monitor {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn indexes(handle: &Handle) -> Result<HashSet<u32>> {
    Ok(handle.links()?.into_iter().map(|link| link.index).collect())
}

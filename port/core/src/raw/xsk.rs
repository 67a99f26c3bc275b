//! One receive queue of an interface by AF_XDP, with shared memory.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libc::xdp_desc;
use onbeat_netdev::{Handle, Link, Namespace};

use super::{Frame, HEADERS, Pool, Umem, Unsent, enlarge_send_buffer};
use crate::error::failed;
use crate::xsk::{self, CHUNK, Consumer, Producer, Rings};
use crate::{Error, Result};

/// Entries of a transmit ring.
const TRANSMIT: u32 = 2048;
/// Time within which the kernel releases the queue of a former socket to a sender, which has an alternative.
const SENDER_WAIT: Duration = Duration::from_millis(100);
/// Maximum number of frames that the kernel sends per call: the default of Linux, fixed in older kernels.
const BUDGET: u32 = 32;

/// An invalid descriptor, which the kernel skips: it is outside of the UMEM.
const NOTHING: xdp_desc = xdp_desc { addr: !(CHUNK as u64 - 1), len: 1, options: 0 };

/// A socket of one receive queue of an interface.
///
/// It receives the frames that an XDP program on the interface redirects to it, by a map of sockets; none before
/// its receiver has provided chunks ([`XskReceiver::refill`]).
#[derive(Debug)]
pub struct XskSocket {
    rings: Rings,
    umem: Umem,
    interface: String,
    index: u32,
    queue: u32,
    number: u32,
    zero_copy: bool,
    longest: usize,
    fd: OwnedFd,
}

impl XskSocket {
    /// Opens a receive queue of an interface of `namespace`, with room for `frames` pending frames. `copy`: copy
    /// frames to and from the memory, even if the driver could access it directly.
    ///
    /// # Errors
    /// The interface does not exist, or its MTU exceeds a chunk; another socket holds the queue; CAP_NET_RAW is
    /// missing.
    pub fn open(
        namespace: &Namespace,
        interface: &str,
        queue: u32,
        umem: &Umem,
        frames: u32,
        copy: bool,
    ) -> Result<Self> {
        Self::bound(namespace, interface, queue, umem, frames, (copy, xsk::UNTIL_FREE))
    }

    /// Opens the transmit direction of an interface of `namespace` without reception, by its first queue and by
    /// copies: no XDP program is required.
    ///
    /// # Errors
    /// As [`XskSocket::open`].
    pub(super) fn sender(namespace: &Namespace, interface: &str, umem: &Umem) -> Result<XskSender> {
        let socket = Self::bound(namespace, interface, 0, umem, 1, (true, SENDER_WAIT))?;
        Ok(socket.split().1)
    }

    fn bound(
        namespace: &Namespace,
        interface: &str,
        queue: u32,
        umem: &Umem,
        frames: u32,
        (copy, wait): (bool, Duration),
    ) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(Pool::UNLENT + 1);
        let link = Handle::in_namespace(namespace)?.link(interface)?;
        let longest = HEADERS + link.mtu as usize;
        if longest > Umem::LONGEST {
            let most = Umem::LONGEST - HEADERS;
            return Err(Error::InUse {
                interface: interface.to_owned(),
                why: format!("its MTU is {}, more than the limit of {most} for AF_XDP", link.mtu),
                remedy: format!("ip link set {interface} mtu 1500, or use packet sockets"),
            });
        }
        let open = || {
            // The kernel reports the consumption of the fill ring with a delay.
            let (fd, rings) =
                xsk::open(umem.mapping(), (2 * frames).next_power_of_two(), TRANSMIT)?;
            enlarge_send_buffer(&fd);
            let bound = xsk::bind(&fd, link.index, queue, copy, wait);
            Ok((bound.map_err(|error| (xsk::BIND, error))?, fd, rings))
        };
        let opened = namespace.run(open)?;
        let (zero_copy, fd, rings) =
            opened.map_err(|(operation, error)| failed(interface, operation)(error))?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (umem, interface) = (umem.clone(), interface.to_owned());
        let index = link.index;
        Ok(Self { rings, umem, interface, index, queue, number, zero_copy, longest, fd })
    }

    /// The present number of receive queues of the interface: each requires a socket.
    #[must_use]
    pub fn queues(namespace: &Namespace, link: &Link) -> u32 {
        xsk::receive_queues(namespace, link).max(1)
    }

    /// The driver accesses the memory directly.
    #[must_use]
    pub fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// A handle for the state of the socket after its directions are dropped.
    #[must_use]
    pub fn closed(&self, namespace: &Namespace) -> ClosedSocket {
        let (number, zero_copy, index, queue) =
            (self.number, self.zero_copy, self.index, self.queue);
        ClosedSocket { number, zero_copy, namespace: namespace.clone(), index, queue }
    }

    /// Splits the socket into its two directions.
    #[must_use]
    pub fn split(self) -> (XskReceiver, XskSender) {
        let Self { rings, umem, interface, number, zero_copy, longest, fd, .. } = self;
        let Rings { fill, receive, transmit, completion } = rings;
        let fd = Arc::new(fd);
        let receiver = XskReceiver { receive, fill, held: 0, number, interface, fd: fd.clone() };
        let sender = XskSender {
            transmit,
            completion,
            umem,
            number,
            zero_copy,
            longest,
            waiting: 0,
            sent: 0,
            unsent: Unsent::default(),
            fd,
        };
        (receiver, sender)
    }
}

impl AsFd for XskSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A closed socket.
#[derive(Debug)]
pub struct ClosedSocket {
    number: u32,
    zero_copy: bool,
    namespace: Namespace,
    index: u32,
    queue: u32,
}

impl ClosedSocket {
    /// The number by which the pool knows its chunks: [`Pool::reclaim`].
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns true once the kernel no longer writes to memory of the socket. A zero-copy driver may for some time
    /// after it was closed: until the kernel grants the queue to another socket, for which this waits.
    #[must_use]
    pub fn is_released(&self) -> bool {
        let bind = || {
            let (umem, _) = Umem::new(1).ok()?;
            let (fd, _rings) = xsk::open(umem.mapping(), 1, 1).ok()?;
            Some(xsk::bind(&fd, self.index, self.queue, true, xsk::UNTIL_FREE))
        };
        // A removed interface has no driver.
        let gone =
            |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO));
        let bound = || match self.namespace.run(bind) {
            Ok(Some(bound)) => bound.as_ref().map_or_else(gone, |_| true),
            Ok(None) | Err(_) => false,
        };
        !self.zero_copy || bound()
    }
}

/// The receive direction of a queue.
#[derive(Debug)]
pub struct XskReceiver {
    receive: Consumer<xdp_desc>,
    fill: Producer<u64>,
    /// Chunks in its rings.
    held: u32,
    number: u32,
    interface: String,
    fd: Arc<OwnedFd>,
}

impl XskReceiver {
    /// Returns the oldest pending frame; `None`: there is none. Its ring entry is released to the kernel with the
    /// next [`XskReceiver::refill`].
    pub fn frame(&mut self, pool: &mut Pool) -> Option<Frame> {
        loop {
            let xdp_desc { addr, len, .. } = self.receive.take()?;
            if let Some(frame) = pool.regain(addr, len, self.number) {
                self.held -= 1;
                return Some(frame);
            }
        }
    }

    /// Returns true if no frame is pending.
    #[must_use]
    pub fn is_empty(&mut self) -> bool {
        self.receive.is_empty()
    }

    /// Provides free chunks to the kernel for reception, up to a total of `level`.
    pub fn refill(&mut self, pool: &mut Pool, level: u32) {
        self.receive.release();
        while self.held < level {
            let Some(frame) = pool.take() else { break };
            pool.umem().clear_metadata(&frame);
            if !self.fill.put(u64::from(frame.chunk()) * CHUNK as u64) {
                pool.give(frame);
                break;
            }
            pool.lend(frame, self.number);
            self.held += 1;
        }
        self.fill.publish();
        if self.fill.needs_wakeup() {
            xsk::wake_receive(self.as_fd());
        }
    }

    /// Returns the number of frames dropped for lack of room since it was opened.
    ///
    /// # Errors
    /// A refusal of the kernel.
    pub fn drops(&self) -> Result<u64> {
        xsk::drops(self.as_fd()).map_err(failed(&self.interface, "read the socket's statistics"))
    }
}

impl AsFd for XskReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The transmit direction of an interface, bypassing its queueing discipline.
#[derive(Debug)]
pub struct XskSender {
    transmit: Producer<xdp_desc>,
    completion: Consumer<u64>,
    umem: Umem,
    number: u32,
    zero_copy: bool,
    /// Maximum frame length.
    longest: usize,
    /// Frames in the ring for which the kernel was not called yet.
    waiting: u32,
    sent: u64,
    unsent: Unsent,
    fd: Arc<OwnedFd>,
}

impl XskSender {
    /// Adds a frame. A frame longer than the interface's maximum is dropped.
    pub fn push(&mut self, frame: Frame, pool: &mut Pool) {
        if frame.len() > self.longest {
            self.unsent.too_long += 1;
            pool.give(frame);
            return;
        }
        let descriptor = xdp_desc { addr: frame.address(), len: frame.len() as u32, options: 0 };
        if !self.transmit.put(descriptor) {
            self.flush(pool);
            if !self.transmit.put(descriptor) {
                self.unsent.refused += 1;
                pool.give(frame);
                return;
            }
        }
        pool.lend(frame, self.number);
        self.waiting += 1;
    }

    /// Adds a frame that consists of these two parts, in a chunk of the pool.
    pub fn push_copy(&mut self, head: &[u8], rest: &[u8], pool: &mut Pool) {
        let fits = head.len() + rest.len() <= self.longest;
        match if fits { pool.take() } else { None } {
            Some(mut frame) => {
                self.umem.write(&mut frame, head, rest);
                self.push(frame, pool);
            }
            None if fits => self.unsent.refused += 1,
            None => self.unsent.too_long += 1,
        }
    }

    /// Sends the added frames. Frames that the interface does not accept are dropped, not repeated.
    pub fn flush(&mut self, pool: &mut Pool) {
        self.transmit.publish();
        self.complete(pool);
        let (mut refused, mut stuck) = (0, 0);
        if self.transmit.needs_wakeup() {
            let down;
            (refused, down) = self.call();
            if !self.zero_copy {
                stuck = self.withdraw(pool);
            }
            *if down { &mut self.unsent.interface_down } else { &mut self.unsent.refused } +=
                u64::from(stuck);
        }
        self.sent += u64::from(self.waiting.saturating_sub(refused + stuck));
        self.unsent.refused += u64::from(refused);
        self.waiting = 0;
    }

    /// Triggers transmission of the ring; returns the number of frames that the kernel dropped, and whether the
    /// interface is down.
    fn call(&mut self) -> (u32, bool) {
        // Each call sends a limited number; not every kernel reports the progress.
        let mut tries = self.waiting / BUDGET + 2;
        let mut left = self.transmit.unconsumed();
        let mut refused = 0;
        while left > 0 && tries > 0 {
            let error = xsk::wake_transmit(self.fd.as_fd()).err();
            let before = std::mem::replace(&mut left, self.transmit.unconsumed());
            match error.map(|error| error.raw_os_error()) {
                // The driver processes the ring asynchronously.
                None if self.zero_copy => break,
                // The driver's queue refused a frame, which has left the ring.
                Some(Some(libc::EBUSY)) if refused < self.waiting => refused += 1,
                None | Some(Some(libc::EAGAIN | libc::ENOBUFS)) if left < before => {}
                None | Some(Some(libc::EAGAIN | libc::ENOBUFS)) => tries -= 1,
                // The interface is down, or removed.
                Some(_) => return (refused, true),
            }
        }
        (refused, false)
    }

    /// Withdraws frames from the ring that the kernel did not consume: it would send them late, with the next.
    /// Returns their number.
    fn withdraw(&mut self, pool: &mut Pool) -> u32 {
        let stuck = self.transmit.unconsumed().min(self.waiting);
        for back in 1..=stuck {
            let xdp_desc { addr, len, .. } = self.transmit.replace(back, NOTHING);
            if let Some(frame) = pool.regain(addr, len, self.number) {
                pool.give(frame);
            }
        }
        stuck
    }

    /// Reclaims chunks that the driver has completed.
    fn complete(&mut self, pool: &mut Pool) {
        while let Some(address) = self.completion.take() {
            if let Some(frame) = pool.regain(address, 0, self.number) {
                pool.give(frame);
            }
        }
        self.completion.release();
    }

    /// The number of frames sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The frames that were dropped.
    #[must_use]
    pub fn unsent(&self) -> Unsent {
        self.unsent
    }
}

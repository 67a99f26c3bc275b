//! One queue of an interface by AF_XDP, over memory that is shared.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::xdp_desc;
use onbeat_netdev::{Handle, Link, Namespace};

use super::{Frame, HEADERS, Pool, Umem, enlarge_send_buffer};
use crate::error::failed;
use crate::xsk::{self, CHUNK, Consumer, Producer, Rings};
use crate::{Error, Result};

/// Entries of a transmit ring.
const TRANSMIT: u32 = 2048;
/// Frames that the kernel sends by one call, at most: by default of Linux, and in the older ones.
const BUDGET: u32 = 32;

/// A descriptor of no frame, which the kernel skips: it is not in the UMEM.
const NOTHING: xdp_desc = xdp_desc { addr: !(CHUNK as u64 - 1), len: 1, options: 0 };

/// A socket of one receive queue of one interface.
///
/// It gets what an XDP program on the interface hands to it, by a map of sockets; and nothing before
/// its receiver has chunks for it ([`XskReceiver::refill`]).
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
    /// Opens a receive queue of an interface of `namespace`, with room for `frames` that came and
    /// were not taken. `copy`: frames are copied to and from the memory, even where the driver could
    /// work on it.
    ///
    /// # Errors
    /// An interface that is not there or whose MTU is beyond what a chunk takes; a queue that
    /// another socket has; CAP_NET_RAW is missing.
    pub fn open(
        namespace: &Namespace,
        interface: &str,
        queue: u32,
        umem: &Umem,
        frames: u32,
        copy: bool,
    ) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(Pool::UNLENT + 1);
        let link = Handle::in_namespace(namespace)?.link(interface)?;
        let longest = HEADERS + link.mtu as usize;
        if longest > Umem::LONGEST {
            let most = Umem::LONGEST - HEADERS;
            return Err(Error::InUse {
                interface: interface.to_owned(),
                why: format!("its MTU is {}, and AF_XDP takes {most} here", link.mtu),
                remedy: format!("ip link set {interface} mtu 1500, or take packet sockets"),
            });
        }
        let open = || {
            // What the kernel has of the fill ring it tells some time later.
            let (fd, rings) =
                xsk::open(umem.mapping(), (2 * frames).next_power_of_two(), TRANSMIT)?;
            enlarge_send_buffer(&fd);
            let bound = xsk::bind(&fd, link.index, queue, copy);
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

    /// Receive queues that an interface has at present: each wants a socket.
    #[must_use]
    pub fn queues(namespace: &Namespace, link: &Link) -> u32 {
        xsk::receive_queues(namespace, link).max(1)
    }

    /// The driver works on the memory itself.
    #[must_use]
    pub fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// What is to be known of it once its directions are dropped.
    #[must_use]
    pub fn closed(&self, namespace: &Namespace) -> ClosedSocket {
        let (number, zero_copy, index, queue) =
            (self.number, self.zero_copy, self.index, self.queue);
        ClosedSocket { number, zero_copy, namespace: namespace.clone(), index, queue }
    }

    /// Its two directions.
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
            dropped: 0,
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

/// A socket that was closed.
#[derive(Debug)]
pub struct ClosedSocket {
    number: u32,
    zero_copy: bool,
    namespace: Namespace,
    index: u32,
    queue: u32,
}

impl ClosedSocket {
    /// Its number, by which the pool knows what it had: [`Pool::reclaim`].
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether nobody writes any more to memory that the socket had. A driver without copies may for
    /// some time after it was closed: until the kernel lets another socket have the queue, which is
    /// waited for.
    #[must_use]
    pub fn is_released(&self) -> bool {
        let bind = || {
            let (umem, _) = Umem::new(1).ok()?;
            let (fd, _rings) = xsk::open(umem.mapping(), 1, 1).ok()?;
            Some(xsk::bind(&fd, self.index, self.queue, true))
        };
        // One that is gone has no driver.
        let gone =
            |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO));
        let bound = || match self.namespace.run(bind) {
            Ok(Some(bound)) => bound.as_ref().map_or_else(gone, |_| true),
            Ok(None) | Err(_) => false,
        };
        !self.zero_copy || bound()
    }
}

/// What comes in by a queue.
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
    /// The oldest frame that came; `None`: there is none. Its place in the rings is the kernel's
    /// again with the next [`XskReceiver::refill`].
    pub fn frame(&mut self, pool: &mut Pool) -> Option<Frame> {
        loop {
            let xdp_desc { addr, len, .. } = self.receive.take()?;
            if let Some(frame) = pool.regain(addr, len, self.number) {
                self.held -= 1;
                return Some(frame);
            }
        }
    }

    /// Whether no frame came that was not taken.
    #[must_use]
    pub fn is_empty(&mut self) -> bool {
        self.receive.is_empty()
    }

    /// Gives the kernel chunks for frames to come, as far as there are any: up to `level`, with what
    /// it has.
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

    /// Frames that there was no room for, since it was opened.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn drops(&self) -> Result<u64> {
        xsk::drops(self.as_fd()).map_err(failed(&self.interface, "read the socket's statistics"))
    }
}

impl AsFd for XskReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What leaves by an interface, around its queueing discipline.
#[derive(Debug)]
pub struct XskSender {
    transmit: Producer<xdp_desc>,
    completion: Consumer<u64>,
    umem: Umem,
    number: u32,
    zero_copy: bool,
    /// Longest frame.
    longest: usize,
    /// Frames that the kernel was not called for.
    waiting: u32,
    sent: u64,
    dropped: u64,
    fd: Arc<OwnedFd>,
}

impl XskSender {
    /// Adds a frame. One that is longer than any frame of the interface is dropped.
    pub fn push(&mut self, frame: Frame, pool: &mut Pool) {
        if frame.len() > self.longest {
            self.dropped += 1;
            pool.give(frame);
            return;
        }
        let descriptor = xdp_desc { addr: frame.address(), len: frame.len() as u32, options: 0 };
        if !self.transmit.put(descriptor) {
            self.flush(pool);
            if !self.transmit.put(descriptor) {
                self.dropped += 1;
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
            None => self.dropped += 1,
        }
    }

    /// Sends what was added. What the interface does not take is dropped: it is not tried again.
    pub fn flush(&mut self, pool: &mut Pool) {
        self.transmit.publish();
        self.complete(pool);
        let mut refused = 0;
        if self.transmit.needs_wakeup() {
            refused += self.call();
            if !self.zero_copy {
                refused += self.withdraw(pool);
            }
        }
        self.sent += u64::from(self.waiting.saturating_sub(refused));
        self.dropped += u64::from(refused);
        self.waiting = 0;
    }

    /// Has the kernel send what is in the ring; how many frames it gave up.
    fn call(&mut self) -> u32 {
        // It takes so many at a time; not every kernel says how far it came.
        let mut tries = self.waiting / BUDGET + 2;
        let mut left = self.transmit.unconsumed();
        let mut refused = 0;
        while left > 0 && tries > 0 {
            let error = xsk::wake_transmit(self.fd.as_fd()).err();
            let before = std::mem::replace(&mut left, self.transmit.unconsumed());
            match error.map(|error| error.raw_os_error()) {
                // The driver works on the ring when it likes.
                None if self.zero_copy => break,
                // The driver's queue refused a frame, which is out of the ring.
                Some(Some(libc::EBUSY)) if refused < self.waiting => refused += 1,
                None | Some(Some(libc::EAGAIN | libc::ENOBUFS)) if left < before => {}
                None | Some(Some(libc::EAGAIN | libc::ENOBUFS)) => tries -= 1,
                // The interface is off, or gone.
                Some(_) => break,
            }
        }
        refused
    }

    /// Takes frames out of the ring that the kernel did not take: it would send them with the next,
    /// late. How many.
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

    /// Takes back chunks that the driver is done with.
    fn complete(&mut self, pool: &mut Pool) {
        while let Some(address) = self.completion.take() {
            if let Some(frame) = pool.regain(address, 0, self.number) {
                pool.give(frame);
            }
        }
        self.completion.release();
    }

    /// Frames sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Frames that there was no room for, or that the interface did not take.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

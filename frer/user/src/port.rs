//! An interface for receiving and sending frames.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use onbeat_link::raw::{
    BATCH, ClosedSocket, Frame, PacketReceiver, PacketSender, Pool, Umem, XskReceiver, XskSender,
    XskSocket,
};
use onbeat_netdev::{Handle, Namespace};

use crate::{QUEUE_FRAMES, Result, Traffic};

/// An interface opened by packet sockets or by AF_XDP.
#[derive(Debug)]
pub struct Port {
    pub(crate) input: Input,
    pub(crate) output: Output,
}

/// The method by which the kernel and AF_XDP sockets share frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyMode {
    /// Frames are copied.
    Made,
    /// The driver works on the sockets' memory.
    None,
}

impl Port {
    /// Opens an interface of `namespace` by packet sockets, for frames up to its MTU, with a ring of `frames`
    /// frames.
    ///
    /// # Errors
    /// The interface does not exist; CAP_NET_RAW is missing.
    pub fn packet(namespace: &Namespace, interface: &str, frames: usize) -> Result<Self> {
        let receiver = PacketReceiver::open(namespace, interface, frames)?;
        let sender = PacketSender::open(namespace, interface)?;
        let input = PacketInput { receiver, received: 0, too_long: 0 };
        Ok(Self { input: Input::Packet(input), output: Output::Packet(sender) })
    }

    /// Opens all receive queues of an interface of `namespace` by AF_XDP, each with a ring of
    /// [`QUEUE_FRAMES`] frames; `steer` redirects the frames of each queue to its socket. `copy`: use copies
    /// even if the driver supports zero copy.
    ///
    /// # Errors
    /// The interface does not exist or its MTU is too large; another socket has a queue; the error of
    /// `steer`; CAP_NET_RAW is missing.
    pub fn xsk<E: From<crate::Error>>(
        namespace: &Namespace,
        interface: &str,
        umem: &Umem,
        copy: bool,
        mut steer: impl FnMut(u32, BorrowedFd<'_>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let link = Handle::in_namespace(namespace)
            .and_then(|handle| handle.link(interface))
            .map_err(|source| crate::Error::from(onbeat_link::Error::from(source)))?;
        let many = XskSocket::queues(namespace, &link);
        let (queue, output) = XskQueue::open(namespace, interface, 0, umem, copy, &mut steer)?;
        let mut queues = vec![queue];
        // One queue is sufficient for sending, and preserves the order of frames.
        for queue in 1..many {
            queues.push(XskQueue::open(namespace, interface, queue, umem, copy, &mut steer)?.0);
        }
        let input = XskInput { queues, umem: umem.clone(), received: 0 };
        Ok(Self { input: Input::Xsk(input), output: Output::Xsk(output) })
    }

    /// Returns whether frames of an AF_XDP port are copied.
    pub fn copies(&self) -> Option<CopyMode> {
        match &self.input {
            Input::Packet(_) => None,
            Input::Xsk(input) => {
                let is_copied = |queue: &XskQueue| queue.copies == CopyMode::Made;
                let is_copied = input.queues.iter().any(is_copied);
                Some(if is_copied { CopyMode::Made } else { CopyMode::None })
            }
        }
    }

    /// Closes the port; returns the numbers of sockets whose memory the kernel has released.
    pub(crate) fn close(self) -> Vec<u32> {
        match self.input {
            Input::Packet(_) => Vec::new(),
            Input::Xsk(XskInput { queues, .. }) => {
                let (receivers, closed): (Vec<_>, Vec<_>) =
                    queues.into_iter().map(|queue| (queue.receiver, queue.closed)).unzip();
                drop((receivers, self.output));
                closed
                    .into_iter()
                    .filter(ClosedSocket::is_released)
                    .map(|closed| closed.number())
                    .collect()
            }
        }
    }
}

/// The receiving side.
#[derive(Debug)]
pub(crate) enum Input {
    Packet(PacketInput),
    Xsk(XskInput),
}

/// Receives copies of frames.
#[derive(Debug)]
pub(crate) struct PacketInput {
    pub(crate) receiver: PacketReceiver,
    received: u64,
    pub(crate) too_long: u64,
}

/// Receives frames that an XDP program redirects.
#[derive(Debug)]
pub(crate) struct XskInput {
    pub(crate) queues: Vec<XskQueue>,
    pub(crate) umem: Umem,
    received: u64,
}

/// A receive queue.
#[derive(Debug)]
pub(crate) struct XskQueue {
    receiver: XskReceiver,
    /// State of the socket that is needed after it is closed.
    closed: ClosedSocket,
    pub(crate) copies: CopyMode,
    /// Frames taken from the queue, oldest first.
    pub(crate) frames: VecDeque<Frame>,
}

impl PacketInput {
    /// Releases the oldest `count` frames, which were decided.
    pub(crate) fn release(&mut self, count: usize) {
        self.receiver.release(count);
        self.received += count as u64;
    }
}

impl XskInput {
    /// Takes the oldest frames of a queue, until there are [`BATCH`].
    pub(crate) fn take(&mut self, queue: usize, pool: &mut Pool) {
        let XskQueue { receiver, frames, .. } = &mut self.queues[queue];
        let room = BATCH - frames.len();
        let before = frames.len();
        frames.extend(std::iter::from_fn(|| receiver.frame(pool)).take(room));
        self.received += (frames.len() - before) as u64;
    }

    /// Refills a queue for reception.
    pub(crate) fn refill(&mut self, queue: usize, pool: &mut Pool, level: u32) {
        self.queues[queue].receiver.refill(pool, level);
    }

    /// Returns the memory of frames that were taken.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        self.queues.iter_mut().for_each(|queue| queue.frames.drain(..).for_each(|f| pool.give(f)));
    }
}

impl XskQueue {
    /// Opens a receive queue of an interface, as [`Port::xsk`].
    pub(crate) fn open<E: From<crate::Error>>(
        namespace: &Namespace,
        interface: &str,
        queue: u32,
        umem: &Umem,
        copy: bool,
        mut steer: impl FnMut(u32, BorrowedFd<'_>) -> Result<(), E>,
    ) -> Result<(Self, XskSender), E> {
        let socket = XskSocket::open(namespace, interface, queue, umem, QUEUE_FRAMES, copy);
        let socket = socket.map_err(crate::Error::from)?;
        steer(queue, socket.as_fd())?;
        let copies = if socket.zero_copy() { CopyMode::None } else { CopyMode::Made };
        let closed = socket.closed(namespace);
        let (receiver, sender) = socket.split();
        let frames = VecDeque::with_capacity(BATCH);
        Ok((Self { receiver, closed, copies, frames }, sender))
    }

    fn is_empty(&mut self) -> bool {
        self.frames.is_empty() && self.receiver.is_empty()
    }
}

impl Input {
    /// Returns whether all received frames have been taken.
    pub(crate) fn is_empty(&mut self) -> bool {
        match self {
            Self::Packet(input) => input.receiver.is_empty(),
            Self::Xsk(input) => input.queues.iter_mut().all(XskQueue::is_empty),
        }
    }

    /// Returns the traffic received so far.
    pub(crate) fn traffic(&mut self) -> Result<Traffic> {
        Ok(match self {
            Self::Packet(PacketInput { receiver, received, too_long }) => Traffic {
                received: *received,
                too_long: *too_long,
                no_room: receiver.drops()?,
                ..Traffic::default()
            },
            Self::Xsk(XskInput { queues, received, .. }) => {
                let drops = queues.iter().map(|queue| queue.receiver.drops());
                let no_room = drops.sum::<Result<u64, _>>()?;
                Traffic { received: *received, no_room, ..Traffic::default() }
            }
        })
    }

    /// Returns the number of queues.
    pub(crate) fn queues(&self) -> usize {
        match self {
            Self::Packet(_) => 1,
            Self::Xsk(_) => self.lent_queues(),
        }
    }

    /// Returns the number of queues that need memory of the pool.
    pub(crate) fn lent_queues(&self) -> usize {
        match self {
            Self::Packet(_) => 0,
            Self::Xsk(input) => input.queues.len(),
        }
    }

    /// Refills all queues for reception.
    pub(crate) fn refill(&mut self, pool: &mut Pool, level: u32) {
        if let Self::Xsk(input) = self {
            (0..input.queues.len()).for_each(|queue| input.refill(queue, pool, level));
        }
    }

    /// Clears the error of a socket, which makes it ready without a frame.
    pub(crate) fn take_error(&self) {
        match self {
            Self::Packet(input) => input.receiver.take_error(),
            // These report none.
            Self::Xsk(_) => {}
        }
    }

    /// Returns the descriptors to poll.
    pub(crate) fn fds(&self) -> impl Iterator<Item = i32> {
        let (packet, xsk) = match self {
            Self::Packet(input) => (Some(&input.receiver), None),
            Self::Xsk(input) => (None, Some(&input.queues)),
        };
        let packet = packet.into_iter().map(|receiver| receiver.as_fd().as_raw_fd());
        let xsk = xsk.into_iter().flatten().map(|queue| queue.receiver.as_fd().as_raw_fd());
        packet.chain(xsk)
    }
}

/// The sending side.
#[derive(Debug)]
pub(crate) enum Output {
    Packet(PacketSender),
    Xsk(XskSender),
}

impl Output {
    /// Adds a frame that consists of two parts. `pool` is required with AF_XDP ports.
    pub(crate) fn push(&mut self, head: &[u8], rest: &[u8], pool: Option<&mut Pool>) {
        match (self, pool) {
            (Self::Packet(sender), _) => sender.push(head, rest),
            (Self::Xsk(sender), Some(pool)) => sender.push_copy(head, rest, pool),
            (Self::Xsk(_), None) => {}
        }
    }

    /// Sends the added frames.
    pub(crate) fn flush(&mut self, pool: Option<&mut Pool>) {
        match (self, pool) {
            (Self::Packet(sender), _) => sender.flush(),
            (Self::Xsk(sender), Some(pool)) => sender.flush(pool),
            (Self::Xsk(_), None) => {}
        }
    }

    /// Adds the sent frames to the received ones.
    pub(crate) fn add_to(&self, traffic: Traffic) -> Traffic {
        let (sent, unsent) = match self {
            Self::Packet(sender) => (sender.sent(), sender.unsent()),
            Self::Xsk(sender) => (sender.sent(), sender.unsent()),
        };
        Traffic { sent, unsent, ..traffic }
    }
}

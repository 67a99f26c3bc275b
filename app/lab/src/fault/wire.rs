//! A wire in user space: relays frames between two interfaces according to an impairment.
//!
//! It replaces netem on kernels without it. It adds the wake-up latency of a thread, some tens of
//! microseconds.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use onbeat_netdev::{Handle, Namespace};
use onbeat_realtime::clock::{now_ns, realtime_offset_ns, sleep_until};

use super::Impairment;
use super::line::WireLine;
use crate::Result;
use crate::traffic::{Receiver, socket};
use crate::worker::Worker;

/// A direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From its first end to its second.
    Forward,
    /// From its second end to its first.
    Backward,
}

/// A wire with its thread.
#[derive(Debug)]
pub struct Wire {
    directions: Arc<[DirectionState; 2]>,
    _worker: Worker<()>,
    /// The namespace of its own interfaces.
    namespace: Namespace,
}

/// Counters of one direction of a wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WireCounters {
    /// Frames received.
    pub received: u64,
    /// Frames sent, including copies.
    pub forwarded: u64,
    /// Frames lost by the impairment.
    pub lost: u64,
    /// Copies made by the impairment.
    pub duplicated: u64,
    /// Frames held by the impairment.
    pub reordered: u64,
    /// Frames lost because the far end of the link had no carrier.
    pub cut: u64,
    /// Frames lost unintentionally because a socket or device had no room. If this is not 0, a
    /// measurement over the wire is not valid.
    pub overrun: u64,
}

#[derive(Debug, Default)]
struct DirectionState {
    changed: AtomicBool,
    held: AtomicBool,
    impairment: Mutex<Impairment>,
    received: AtomicU64,
    forwarded: AtomicU64,
    lost: AtomicU64,
    duplicated: AtomicU64,
    reordered: AtomicU64,
    cut: AtomicU64,
    overrun: AtomicU64,
}

impl Wire {
    /// Starts to relay between two interfaces of a namespace; `tapped`: other sockets there see the
    /// frames that it sends.
    pub(crate) fn start(
        handle: &Handle,
        interfaces: [&str; 2],
        impairment: Impairment,
        tapped: bool,
    ) -> Result<Self> {
        let namespace = handle.namespace();
        let socket = if tapped { socket::visible } else { socket::receiver };
        let open = |name| socket(namespace, name).map(Receiver::new);
        let receivers = [open(interfaces[0])?, open(interfaces[1])?];
        let directions: Arc<[DirectionState; 2]> = Arc::default();
        let relay = Relay {
            directions: Arc::clone(&directions),
            receivers,
            lines: [WireLine::new(Impairment::default()), WireLine::new(Impairment::default())],
            handle: Handle::in_namespace(namespace)?,
            interfaces: interfaces.map(Into::into),
        };
        let worker = Worker::start("lab-wire", move |stop| relay.run(stop))?;
        let wire = Self { directions, _worker: worker, namespace: namespace.clone() };
        wire.set(impairment);
        Ok(wire)
    }

    /// Sets the impairment of both directions from now on; each direction has a seed of its own.
    pub fn set(&self, impairment: Impairment) {
        self.set_direction(Direction::Forward, impairment);
        let backward = Impairment { seed: !impairment.seed, ..impairment };
        self.set_direction(Direction::Backward, backward);
    }

    /// Sets the impairment of one direction from now on.
    pub fn set_direction(&self, direction: Direction, impairment: Impairment) {
        let half = &self.directions[direction as usize];
        *half.impairment.lock().unwrap_or_else(PoisonError::into_inner) = impairment;
        half.changed.store(true, Ordering::Release);
    }

    /// Stops transmission in a direction, as without carrier at the far end.
    ///
    /// An interface that is set up accepts frames slightly before sockets there see them: a monitor is
    /// accurate if the wire waits until the interface is up.
    pub(crate) fn hold(&self, direction: Direction, held: bool) {
        self.directions[direction as usize].held.store(held, Ordering::Release);
    }

    /// The namespace of its own interfaces.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The current counters of a direction.
    #[must_use]
    pub fn counters(&self, direction: Direction) -> WireCounters {
        let half = &self.directions[direction as usize];
        let read = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        WireCounters {
            received: read(&half.received),
            forwarded: read(&half.forwarded),
            lost: read(&half.lost),
            duplicated: read(&half.duplicated),
            reordered: read(&half.reordered),
            cut: read(&half.cut),
            overrun: read(&half.overrun),
        }
    }
}

struct Relay {
    directions: Arc<[DirectionState; 2]>,
    receivers: [Receiver; 2],
    /// By direction: line 0 receives from receiver 0 and sends at interface 1.
    lines: [WireLine; 2],
    handle: Handle,
    interfaces: [String; 2],
}

impl Relay {
    fn run(mut self, stop: &AtomicBool) {
        prefer_this_thread();
        while !stop.load(Ordering::Acquire) {
            self.take_changes();
            for direction in 0..2 {
                self.feed(direction);
                self.deliver(direction, stop);
                self.publish(direction);
            }
            self.wait();
        }
    }

    fn take_changes(&mut self) {
        for (half, line) in self.directions.iter().zip(&mut self.lines) {
            if half.changed.swap(false, Ordering::AcqRel) {
                line.set(*half.impairment.lock().unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    fn feed(&mut self, direction: usize) {
        let half = &self.directions[direction];
        let line = &mut self.lines[direction];
        let offset_ns = realtime_offset_ns();
        // The interface is down: it holds no frames.
        let count = self.receivers[direction].receive(|frame| {
            let arrival = frame.realtime_ns.map(|at| (at as i64 - offset_ns) as u64);
            line.push(frame.octets, arrival.unwrap_or_else(now_ns));
        });
        half.received.fetch_add(count.unwrap_or(0) as u64, Ordering::AcqRel);
        let drops = self.receivers[direction].socket().take_drops().unwrap_or(0);
        half.overrun.fetch_add(drops, Ordering::AcqRel);
    }

    fn deliver(&mut self, direction: usize, stop: &AtomicBool) {
        let far = 1 - direction;
        while let Some(frame) = self.lines[direction].pop(now_ns()) {
            let half = &self.directions[direction];
            let held = half.held.load(Ordering::Acquire);
            let sent = if held { SendResult::NoCarrier } else { self.send(far, &frame, stop) };
            let counter = match sent {
                SendResult::Yes => &half.forwarded,
                SendResult::NoCarrier => &half.cut,
                SendResult::NoRoom => &half.overrun,
            };
            counter.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Retries a frame that the device has no room for: a wire does not drop.
    fn send(&self, far: usize, frame: &[u8], stop: &AtomicBool) -> SendResult {
        const PATIENCE_NS: u64 = 100_000_000;
        /// This thread may have real-time priority, and the thread that makes room has none: it must
        /// sleep.
        const PAUSE_NS: u64 = 20_000;
        let deadline = now_ns() + PATIENCE_NS;
        loop {
            match self.receivers[far].socket().send(frame) {
                Ok(()) => return SendResult::Yes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    let link = self.handle.link(&self.interfaces[far]);
                    if !link.is_ok_and(|link| link.up && link.carrier) {
                        return SendResult::NoCarrier;
                    }
                    if now_ns() > deadline || stop.load(Ordering::Acquire) {
                        return SendResult::NoRoom;
                    }
                    sleep_until(now_ns() + PAUSE_NS);
                }
            }
        }
    }

    fn publish(&self, direction: usize) {
        let (half, line) = (&self.directions[direction], &self.lines[direction]);
        half.lost.store(line.lost, Ordering::Release);
        half.duplicated.store(line.duplicated, Ordering::Release);
        half.reordered.store(line.reordered, Ordering::Release);
    }

    /// Waits until a frame arrives or is due.
    fn wait(&self) {
        const LOOK_NS: u64 = 10_000_000;
        let due = self.lines.iter().filter_map(WireLine::next_due_ns).min();
        let left = due.map_or(LOOK_NS, |due| due.saturating_sub(now_ns()).min(LOOK_NS));
        let fd = |receiver| {
            let receiver: &Receiver = receiver;
            PollFd::new(receiver.socket().as_fd(), PollFlags::POLLIN)
        };
        let mut polled = [fd(&self.receivers[0]), fd(&self.receivers[1])];
        let timeout = TimeSpec::new(0, left as i64);
        if let Err(Errno::EINVAL | Errno::ENOMEM) = ppoll(&mut polled, Some(timeout), None) {
            thread::yield_now();
        }
    }
}

enum SendResult {
    Yes,
    NoCarrier,
    NoRoom,
}

/// Raises the priority of this thread, as a real wire does not depend on a scheduler. Without
/// permission it keeps its priority.
pub(crate) fn prefer_this_thread() {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameters live through the call; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
}

//! Input of the ledger.

use super::{Cause, Device, Interrupt, PollReport, Runner, Softirq};

/// An event on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Time in nanoseconds of a clock that all CPUs share and that is monotonic on each; unused for
    /// [`EventKind::Arrive`], [`EventKind::Announce`], [`EventKind::Count`], [`EventKind::Free`] and [`EventKind::Skip`].
    pub time_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The kind of event.
    pub kind: EventKind,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A NAPI thread is scheduled in.
    ThreadIn,
    /// The NAPI thread is scheduled out.
    ThreadOut {
        /// Its run time by the scheduler's account, without hard interrupts, in nanoseconds. It includes the
        /// switch to the thread; 0 where the tracer does not know it.
        ran_ns: u64,
    },
    /// A softirq starts.
    SoftirqEnter(Softirq),
    /// The softirq ends; the tracer reports the interrupted task.
    SoftirqExit(Softirq, Runner),
    /// A hard interrupt starts.
    HardirqEnter,
    /// The hard interrupt ends; the tracer reports the interrupted task.
    HardirqExit(Interrupt, Runner),
    /// The driver, or GRO, passes a packet to the protocols.
    Arrive {
        /// The receiving device.
        device: Device,
        /// The number of packets that GRO merged into it; 1 for an unmerged packet.
        packets: u32,
    },
    /// The XDP program of the device took this many packets before they arrived. Their destinations follow, or are
    /// those of packets without an observed one.
    Announce(u32),
    /// The destination of a packet, or of several, is known.
    Deliver {
        /// The cause that the packet belongs to.
        cause: Cause,
        /// Their number; 0 if the packet was counted before.
        packets: u32,
    },
    /// As [`EventKind::Deliver`], but without a clock reading. A tracer omits the reading while all packets of a
    /// poll have one cause, which is charged the whole poll anyway.
    Count {
        /// The cause that the packet belongs to.
        cause: Cause,
        /// Their number; 0 if the packet was counted before.
        packets: u32,
    },
    /// A poll of a NAPI instance ends.
    PollEnd {
        /// The polled device; index 0 where there is none (the backlog of a CPU).
        device: Device,
        /// The driver's report on the poll.
        polled: PollReport,
    },
    /// A buffer is freed; the time is not used.
    Free,
    /// The time until now is common to the packets of the poll.
    Pass,
    /// A packet socket received a packet, which others may receive too: the time until now is its owner's.
    Tap(Cause),
    /// Between two polls of this CPU: whether the next polls are skipped. A sampling tracer reports no packets
    /// of skipped polls.
    Skip(bool),
}

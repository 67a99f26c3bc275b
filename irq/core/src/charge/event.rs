//! What a tracer tells the ledger.

use super::{Cause, Device, Polled, Runner, Softirq};

/// Something that happened on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds of a clock that all CPUs share and that does not go backwards on any; of
    /// no meaning for [`What::Arrive`], [`What::Count`], [`What::Free`] and
    /// [`What::Skip`].
    pub time_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A thread of NAPI begins to run.
    ThreadIn,
    /// It stops.
    ThreadOut {
        /// How long it ran by the scheduler's account, without hard interrupts, in nanoseconds. That
        /// begins a little earlier, with the switch to the thread; a tracer that does not know says
        /// 0.
        ran_ns: u64,
    },
    /// A softirq begins.
    SoftirqEnter(Softirq),
    /// It ends. A tracer knows whom it interrupted.
    SoftirqExit(Softirq, Runner),
    /// A hard interrupt begins.
    HardirqEnter,
    /// It ends.
    HardirqExit,
    /// A packet is handed from the driver, or from GRO, to the protocols.
    Arrive {
        /// By which device.
        device: Device,
        /// Of how many it was merged; 1 for one that was not.
        packets: u32,
    },
    /// It is known where a packet goes.
    Deliver {
        /// Whom it is for.
        cause: Cause,
        /// 1, or 0 where the packet was counted before.
        packets: u32,
    },
    /// As [`What::Deliver`], but without a clock reading: a tracer does without while all that a
    /// poll brings has one cause, which is then charged with all of it anyway.
    Count {
        /// Whom it is for.
        cause: Cause,
        /// 1, or 0 where the packet was counted before.
        packets: u32,
    },
    /// A poll of a NAPI instance ends.
    PollEnd {
        /// The device polled; of index 0 where there is none (the backlog of a CPU).
        device: Device,
        /// What the driver says of it.
        polled: Polled,
    },
    /// A buffer is given back; when does not matter.
    Free,
    /// Between two polls of this CPU: whether the next ones are skipped. A tracer that samples tells
    /// nothing of the packets of these.
    Skip(bool),
}

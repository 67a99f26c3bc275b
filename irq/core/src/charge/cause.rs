//! Causes of softirq time, and the tasks whose time it uses.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A process, distinguished from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Process {
    /// Its number (the thread group's) in the host's first pid namespace.
    pub pid: u32,
    /// Its start, in clock ticks of 10 ms since boot, as field 22 of /proc/PID/stat; the low 32 bits.
    pub start_ticks: u32,
}

/// The process that owns a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The process.
    pub process: Process,
    /// Whether the owner is inferred: no process was observed reading the socket, and this one was the next to
    /// be woken on the CPU that delivered a packet to it.
    pub inferred: bool,
}

impl Owner {
    /// The cause of packets that `device` received for the socket.
    #[must_use]
    pub fn cause(self, device: Device) -> Cause {
        let Self { process, inferred } = self;
        match inferred {
            true => Cause::Inferred { process, device },
            false => Cause::Process { process, device },
        }
    }
}

/// A process that reads the socket.
impl From<Process> for Owner {
    fn from(process: Process) -> Self {
        Self { process, inferred: false }
    }
}

/// A network device.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Device {
    /// The inode of its network namespace: interface indices are unique only within one.
    pub netns: u32,
    /// Its interface index; 0 where no device is known.
    pub index: u32,
}

/// By its numbers: `#3@4026532281`; `-` where no device is known.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            0 => f.write_str("-"),
            index => write!(f, "#{index}@{}", self.netns),
        }
    }
}

/// The cause of softirq time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Packets for a process.
    Process {
        /// The reader of the socket.
        process: Process,
        /// The receiving device.
        device: Device,
    },
    /// Packets for a socket without a reader, whose owner is inferred ([`Owner::inferred`]): an estimate, which
    /// does not count against a budget.
    Inferred {
        /// The process that a packet woke.
        process: Process,
        /// The receiving device.
        device: Device,
    },
    /// Packets for a socket without a reader so far.
    Socket {
        /// The kernel's number of the socket (SO_COOKIE).
        cookie: u64,
        /// The receiving device.
        device: Device,
    },
    /// No process.
    Unowned(Class),
}

impl Cause {
    /// Sets the device of packets whose device was unknown.
    pub(super) fn from(mut self, device: Device) -> Self {
        let known = match &mut self {
            Cause::Process { device, .. }
            | Cause::Inferred { device, .. }
            | Cause::Socket { device, .. } => device,
            Cause::Unowned(class) => match class {
                Class::Forwarded { from, .. } | Class::Bridged { from, .. } => from,
                Class::Xdp(device)
                | Class::Dropped { device, .. }
                | Class::KernelSocket(device)
                | Class::EmptyPoll(device)
                | Class::TxCompletion(device)
                | Class::Unattributed(device)
                | Class::Unsampled(device) => device,
                Class::Softirq(_) => return self,
            },
        };
        if known.index == 0 {
            *known = device;
        }
        self
    }
}

/// Softirq time without an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Packets that were routed.
    Forwarded {
        /// The receiving device.
        from: Device,
        /// The index of the transmitting interface.
        to: u32,
    },
    /// Packets that a bridge forwarded.
    Bridged {
        /// The receiving device.
        from: Device,
        /// The index of the transmitting interface.
        to: u32,
    },
    /// Packets that an XDP program consumed or redirected.
    Xdp(Device),
    /// Packets dropped before a socket was found.
    Dropped {
        /// The receiving device.
        device: Device,
        /// The kernel's `enum skb_drop_reason`, whose numbers differ between releases.
        reason: u32,
    },
    /// Packets for a socket of the kernel itself.
    KernelSocket(Device),
    /// Polls without packets, and the loop around polls.
    EmptyPoll(Device),
    /// Polls that only freed buffers of transmitted packets; the packet count is the number of these buffers.
    TxCompletion(Device),
    /// Polls whose packets reach no observed destination.
    Unattributed(Device),
    /// Polls that were not sampled ([`sample`](super::sample)). Packets are those counted by the driver.
    Unsampled(Device),
    /// A softirq other than NET_RX.
    Softirq(Softirq),
}

/// The kernel's softirq vectors, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Softirq {
    /// Tasklets of high priority.
    Hi = 0,
    /// Timers of the timer wheel.
    Timer,
    /// Transmission: deferred queueing disciplines, buffers of transmitted frames.
    NetTx,
    /// Reception: NAPI.
    NetRx,
    /// Completed block requests.
    Block,
    /// Polled block devices.
    IrqPoll,
    /// Tasklets.
    Tasklet,
    /// Load balancing.
    Sched,
    /// High-resolution timers.
    HrTimer,
    /// Read-copy-update callbacks.
    Rcu,
}

impl Softirq {
    /// All vectors, by number.
    pub const ALL: [Softirq; 10] = [
        Softirq::Hi,
        Softirq::Timer,
        Softirq::NetTx,
        Softirq::NetRx,
        Softirq::Block,
        Softirq::IrqPoll,
        Softirq::Tasklet,
        Softirq::Sched,
        Softirq::HrTimer,
        Softirq::Rcu,
    ];

    /// The vector with a number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// The name in /proc/softirqs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Softirq::Hi => "HI",
            Softirq::Timer => "TIMER",
            Softirq::NetTx => "NET_TX",
            Softirq::NetRx => "NET_RX",
            Softirq::Block => "BLOCK",
            Softirq::IrqPoll => "IRQ_POLL",
            Softirq::Tasklet => "TASKLET",
            Softirq::Sched => "SCHED",
            Softirq::HrTimer => "HRTIMER",
            Softirq::Rcu => "RCU",
        }
    }
}

/// The task on whose time a softirq ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// A process that was interrupted, or that ran the softirq at the end of a system call.
    Process(Process),
    /// The idle task.
    Idle,
    /// ksoftirqd, to which the kernel defers long softirqs.
    Ksoftirqd,
    /// A NAPI thread.
    NapiThread,
}

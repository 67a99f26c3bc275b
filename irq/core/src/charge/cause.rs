//! Who causes bottom-half time, and on whose time it runs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A process, told apart from another one that got its number later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Process {
    /// Its number (the thread group's) in the host's first pid namespace.
    pub pid: u32,
    /// When it started, in clock ticks of 10 ms since boot, as field 22 of /proc/PID/stat; the low
    /// 32 bits.
    pub start_ticks: u32,
}

/// The process that a socket belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The process.
    pub process: Process,
    /// No process was seen to read from the socket: this one was the next to be woken on the CPU that
    /// delivered a packet to it.
    pub inferred: bool,
}

impl Owner {
    /// What packets are for that came in for the socket by `device`.
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
    /// The inode of its network namespace: interface indices begin anew in each.
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

/// What bottom-half time was spent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Packets for a process.
    Process {
        /// Who reads the socket.
        process: Process,
        /// Where they came in.
        device: Device,
    },
    /// Packets for a socket without a reader, whose owner is inferred ([`Owner::inferred`]): an
    /// estimate, which no budget is held against.
    Inferred {
        /// The process that a packet woke.
        process: Process,
        /// Where they came in.
        device: Device,
    },
    /// Packets for a socket that nobody has read from yet.
    Socket {
        /// The kernel's number of the socket (SO_COOKIE).
        cookie: u64,
        /// Where they came in.
        device: Device,
    },
    /// Nobody's.
    Unowned(Class),
}

impl Cause {
    /// The same, of packets that came in by `device`, where none was known.
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

/// Bottom-half time without an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Packets routed on.
    Forwarded {
        /// Where they came in.
        from: Device,
        /// The index of the interface by which they left.
        to: u32,
    },
    /// Packets that a bridge sent on.
    Bridged {
        /// Where they came in.
        from: Device,
        /// The index of the interface by which they left.
        to: u32,
    },
    /// Packets that an XDP program consumed or redirected.
    Xdp(Device),
    /// Packets dropped before they had a socket.
    Dropped {
        /// Where they came in.
        device: Device,
        /// The kernel's `enum skb_drop_reason`, whose numbers change from release to release.
        reason: u32,
    },
    /// Packets for a socket of the kernel itself.
    KernelSocket(Device),
    /// Polls that found nothing, and the loop around them.
    EmptyPoll(Device),
    /// Polls that only gave back buffers of packets that were sent; packets are their number.
    TxCompletion(Device),
    /// Polls whose packets came to no end that is observed.
    Unattributed(Device),
    /// Polls that were not looked at, since only a sample is ([`sample`](super::sample)). Packets are
    /// those that the driver counted.
    Unsampled(Device),
    /// A softirq other than that which receives packets.
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
    /// Transmission: queueing disciplines that were put off, buffers of frames that were sent.
    NetTx,
    /// Reception: NAPI.
    NetRx,
    /// Block requests that are done.
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
    /// All of them, by number.
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

    /// The vector of a number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// As /proc/softirqs calls it.
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

/// On whose time a bottom half ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// A process was interrupted, or ran it itself at the end of a system call.
    Process(Process),
    /// The CPU had nothing else to do.
    Idle,
    /// ksoftirqd, to which the kernel puts off what takes too long.
    Ksoftirqd,
    /// A thread of NAPI.
    NapiThread,
}

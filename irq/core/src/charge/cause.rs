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

/// The evidence that a process causes a packet, from the strongest to the weakest.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Attribution {
    /// The process was the last to read from the packet's socket.
    #[default]
    Reader,
    /// The process has the socket open, and no process was observed reading it.
    Owner,
    /// The process owns the listening socket that a connection request is for.
    Listener,
    /// The process owns one of several packet sockets that receive the packet, or was inferred by an earlier version.
    /// It does not count against a budget.
    Estimate,
}

impl Attribution {
    /// All attributions.
    pub const ALL: [Attribution; 4] =
        [Attribution::Reader, Attribution::Owner, Attribution::Listener, Attribution::Estimate];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Attribution::Reader => "reader",
            Attribution::Owner => "owner",
            Attribution::Listener => "listener",
            Attribution::Estimate => "estimate",
        }
    }
}

/// The process that owns a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The process.
    pub process: Process,
    /// The evidence.
    pub by: Attribution,
}

impl Owner {
    /// The cause of packets that `device` received for the socket.
    #[must_use]
    pub fn cause(self, device: Device) -> Cause {
        Cause::Process { process: self.process, device, by: self.by }
    }
}

/// A process that reads the socket.
impl From<Process> for Owner {
    fn from(process: Process) -> Self {
        Self { process, by: Attribution::Reader }
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

/// A receive queue of a device with several.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ReceiveQueue {
    /// The device.
    pub device: Device,
    /// The id of the queue's NAPI instance.
    pub napi: u32,
}

/// The cause of softirq time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", from = "CauseRecord")]
pub enum Cause {
    /// Packets for a process.
    Process {
        /// The process.
        process: Process,
        /// The receiving device.
        device: Device,
        /// The evidence that these are its packets.
        by: Attribution,
    },
    /// Packets for a socket without a known owner so far.
    Socket {
        /// The kernel's number of the socket (SO_COOKIE).
        cookie: u64,
        /// The receiving device.
        device: Device,
    },
    /// No process.
    Unowned(Class),
}

/// A cause in a recording. Versions 1 and 2 have no evidence, but a cause of their own for inferred owners.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum CauseRecord {
    Process {
        process: Process,
        device: Device,
        #[serde(default)]
        by: Attribution,
    },
    Inferred {
        process: Process,
        device: Device,
    },
    Socket {
        cookie: u64,
        device: Device,
    },
    Unowned(Class),
}

impl From<CauseRecord> for Cause {
    fn from(record: CauseRecord) -> Self {
        match record {
            CauseRecord::Process { process, device, by } => Self::Process { process, device, by },
            CauseRecord::Inferred { process, device } => {
                Self::Process { process, device, by: Attribution::Estimate }
            }
            CauseRecord::Socket { cookie, device } => Self::Socket { cookie, device },
            CauseRecord::Unowned(class) => Self::Unowned(class),
        }
    }
}

impl Cause {
    /// Sets the device of packets whose device was unknown.
    pub(super) fn from(mut self, device: Device) -> Self {
        let known = match &mut self {
            Cause::Process { device, .. } | Cause::Socket { device, .. } => device,
            Cause::Unowned(class) => match class {
                Class::Forwarded { from, .. } | Class::Bridged { from, .. } => from,
                Class::Xdp(device)
                | Class::XdpVerdict { device, .. }
                | Class::Handshake(device)
                | Class::Connection(device)
                | Class::Icmp(device)
                | Class::Neighbor(device)
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
    /// Packets that an XDP program dropped or sent back, which the driver does not report.
    Xdp(Device),
    /// Packets that an XDP program took, with its verdict.
    XdpVerdict {
        /// The receiving device.
        device: Device,
        /// The verdict.
        verdict: Verdict,
    },
    /// Packets dropped before a socket was found.
    Dropped {
        /// The receiving device.
        device: Device,
        /// The kernel's `enum skb_drop_reason`, whose numbers differ between releases.
        reason: u32,
    },
    /// Packets for a socket of the kernel itself.
    KernelSocket(Device),
    /// Connection requests and answers to them, without a known listener.
    Handshake(Device),
    /// Packets of connections without a known owner that woke no process: acknowledgments, and packets that wait in
    /// a socket's backlog.
    Connection(Device),
    /// ICMP and IGMP, answered or used by the kernel.
    Icmp(Device),
    /// ARP and neighbor discovery.
    Neighbor(Device),
    /// Polls without packets, and the loop around polls.
    EmptyPoll(Device),
    /// Polls that only freed buffers of transmitted packets; the packet count is the number of these buffers.
    TxCompletion(Device),
    /// Packets that reach no observed destination.
    Unattributed(Device),
    /// Polls that were not sampled ([`sample`](super::sample)). Packets are those counted by the driver.
    Unsampled(Device),
    /// A softirq other than NET_RX.
    Softirq(Softirq),
}

/// What an XDP program decided for a packet that it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// To drop it.
    Drop,
    /// To send it back (XDP_TX).
    Tx,
    /// To redirect it to another device, CPU or queue. A packet for a socket (AF_XDP) belongs to the socket's owner.
    Redirect,
    /// None: an error of the program, or a transmission or redirection that failed.
    Aborted,
}

impl Verdict {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Drop => "drop",
            Verdict::Tx => "tx",
            Verdict::Redirect => "redirect",
            Verdict::Aborted => "aborted",
        }
    }
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

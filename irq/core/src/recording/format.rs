//! The lines of a recording.

use serde::{Deserialize, Serialize};

use crate::charge::sample::{CauseMoments, Estimate, Sample};
use crate::charge::{
    Accounts, Amount, Attribution, Cause, Device, Interrupt, InterruptAmount, Process,
    ReceiveQueue, Runner,
};
use crate::names::Octets;
use crate::{Interval, OwnCost, Tick};

/// The name of the format in the first line.
pub const FORMAT: &str = "onbeat-irq-recording";

/// The version of the format. Readers skip unknown members; a change that they would misread requires a new
/// version.
///
/// 1: no sampling. 2: sampled. 3: each charge has an attribution, so that a process may have several in a line.
/// 4: packets that an XDP program took have its verdict.
pub const VERSION: u64 = 4;

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The first one.
    Begin(RecordingHeader),
    /// A name; before its first use, and again after a change.
    Named(NameRecord),
    /// The owner of a socket, as known so far.
    Owner {
        /// The socket's cookie.
        cookie: u64,
        /// The process.
        process: Process,
        /// The evidence.
        #[serde(default)]
        by: Attribution,
        /// In version 1 and 2: whether the owner is an estimate.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        estimate: bool,
    },
    /// An interval of time.
    Interval(IntervalLine),
    /// The last one.
    End(RecordingTrailer),
}

/// Method and machine of the recording.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingHeader {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u64,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// The command that was run; empty if none was.
    pub command: Vec<String>,
    /// Number of possible CPUs.
    pub cpus: u32,
    /// Clock ticks of /proc per second.
    pub user_hz: u64,
    /// Length of a tick of the paper's algorithm, in nanoseconds; none without ticks.
    pub tick_ns: Option<u64>,
    /// Packets were observed in one of this many parts of the time; none if always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_one_in: Option<u32>,
    /// Whether the kernel excludes softirq time from processes' time (CONFIG_IRQ_TIME_ACCOUNTING); none if
    /// unknown.
    pub irq_time_accounting: Option<bool>,
    /// CPUs, each with its NUMA node; empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<(u32, u32)>,
    /// Tracepoints of hard interrupts that the kernel does not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// The time around the handler of a hard interrupt, included for each, in nanoseconds; none if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_entry_ns: Option<u64>,
    /// The processes at the start, and their times.
    pub times: Vec<Times>,
}

/// The kernel's CPU times of a process since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// The process.
    pub process: Process,
    /// In user mode, in clock ticks.
    pub user_ticks: u64,
    /// In the kernel, in clock ticks.
    pub system_ticks: u64,
}

/// A name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameRecord {
    /// A process.
    Process {
        /// The process.
        process: Process,
        /// Its name.
        command: Octets,
        /// Its control group.
        cgroup: Option<Octets>,
        /// Its container.
        container: Option<Octets>,
        /// Its user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<Octets>,
    },
    /// A device.
    Device {
        /// The device.
        device: Device,
        /// Its name, with `@` and the inode of its network namespace if that is another one.
        name: String,
    },
    /// A receive queue.
    Queue {
        /// The queue.
        queue: ReceiveQueue,
        /// Its name.
        name: String,
    },
    /// A drop reason.
    Reason {
        /// The kernel's number.
        reason: u32,
        /// Its name.
        name: String,
    },
    /// An interrupt line.
    InterruptLine {
        /// Its number.
        number: u32,
        /// Its name.
        name: String,
    },
}

/// The additions to the ledger in an interval of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IntervalLine {
    /// Start, in nanoseconds since the start of the recording.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// The CPUs with activity.
    pub cpus: Vec<CpuLine>,
    /// Softirq time that found no room in the kernel's table, in nanoseconds.
    pub unrecorded_ns: u64,
    /// CPU time of the recording itself.
    pub own: OwnCost,
    /// Times of the referenced processes.
    pub times: Vec<Times>,
    /// Clock ticks.
    pub ticks: Vec<Tick>,
}

/// The additions to the accounts of a CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuLine {
    /// Its number.
    pub cpu: u32,
    /// Softirq time, in nanoseconds.
    pub measured_ns: u64,
    /// Hard interrupts, in nanoseconds.
    pub hardirq_ns: u64,
    /// By cause: cause, nanoseconds, packets.
    pub caused: Vec<(Cause, u64, u64)>,
    /// By interrupted task: runner, nanoseconds.
    pub suffered: Vec<(Runner, u64)>,
    /// By receive queue, of devices with several: queue, nanoseconds, packets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<(ReceiveQueue, u64, u64)>,
    /// Hard interrupts: interrupt, nanoseconds, number. None in earlier recordings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<(Interrupt, u64, u64)>,
    /// Their time by interrupted task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted: Vec<(Runner, u64)>,
    /// The sampled windows; none if all packets were observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleLine>,
}

/// Sampled windows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleLine {
    /// Their number.
    pub windows: u64,
    /// As [`Sample::squares`].
    pub squares: f64,
    /// As [`Sample::causes`].
    pub causes: Vec<(Cause, CauseMoments)>,
}

/// The last line: the recording is complete.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingTrailer {
    /// End, in nanoseconds since the start of the recording.
    pub to_ns: u64,
    /// Ticks and other events that found no room.
    pub lost_events: u64,
    /// The conditions of the machine, as in a result of onbeat.
    pub conditions: serde_json::Value,
}

impl From<&Interval> for IntervalLine {
    fn from(interval: &Interval) -> Self {
        let cpus = (0..)
            .zip(&interval.cpus)
            .filter(|(_, accounts)| **accounts != Accounts::default())
            .map(|(cpu, accounts)| CpuLine {
                sample: interval.samples.get(cpu as usize).map(SampleLine::of),
                ..CpuLine::of(cpu, accounts)
            })
            .collect();
        let Interval { from_ns, to_ns, unrecorded_ns, .. } = *interval;
        Self { from_ns, to_ns, cpus, unrecorded_ns, ..Self::default() }
    }
}

impl CpuLine {
    fn of(cpu: u32, accounts: &Accounts) -> Self {
        let caused = accounts.caused.iter();
        Self {
            cpu,
            measured_ns: accounts.measured_ns,
            hardirq_ns: accounts.hardirq_ns,
            caused: caused.map(|(cause, amount)| (*cause, amount.ns, amount.packets)).collect(),
            suffered: accounts.suffered.iter().map(|(runner, ns)| (*runner, *ns)).collect(),
            queues: accounts
                .queues
                .iter()
                .map(|(queue, amount)| (*queue, amount.ns, amount.packets))
                .collect(),
            interrupts: accounts
                .interrupts
                .iter()
                .map(|(interrupt, amount)| (*interrupt, amount.ns, amount.count))
                .collect(),
            interrupted: accounts.interrupted.iter().map(|(runner, ns)| (*runner, *ns)).collect(),
            sample: None,
        }
    }

    /// Converts the windows.
    #[must_use]
    pub fn sample(&self) -> Sample {
        let Some(SampleLine { windows, squares, causes }) = &self.sample else {
            return Sample::default();
        };
        Sample { windows: *windows, squares: *squares, causes: causes.iter().copied().collect() }
    }

    /// Converts the accounts, completed from the windows.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        Estimate::of(&self.accounts(), &self.sample())
    }

    /// Converts the accounts.
    #[must_use]
    pub fn accounts(&self) -> Accounts {
        let caused = self.caused.iter();
        Accounts {
            caused: caused.map(|&(cause, ns, packets)| (cause, Amount { ns, packets })).collect(),
            suffered: self.suffered.iter().copied().collect(),
            queues: self
                .queues
                .iter()
                .map(|&(queue, ns, packets)| (queue, Amount { ns, packets }))
                .collect(),
            interrupts: self
                .interrupts
                .iter()
                .map(|&(interrupt, ns, count)| (interrupt, InterruptAmount { ns, count }))
                .collect(),
            interrupted: self.interrupted.iter().copied().collect(),
            measured_ns: self.measured_ns,
            hardirq_ns: self.hardirq_ns,
        }
    }
}

impl SampleLine {
    fn of(Sample { windows, squares, causes }: &Sample) -> Self {
        let causes = causes.iter().map(|(cause, moments)| (*cause, *moments)).collect();
        Self { windows: *windows, squares: *squares, causes }
    }
}

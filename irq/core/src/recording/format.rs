//! The lines of a recording.

use serde::{Deserialize, Serialize};

use crate::charge::sample::{Estimate, Moments, Sample};
use crate::charge::{Accounts, Amount, Cause, Device, Process, Runner};
use crate::names::Octets;
use crate::{Interval, OwnCost, Tick};

/// What the first line calls the file.
pub const FORMAT: &str = "onbeat-irq-recording";

/// The version of the format. Readers skip members that they do not know; what they would misread takes
/// a new version.
pub const VERSION: u64 = 1;

/// The version of one that was sampled: what a reader of the first would take for all there was is a part.
pub const VERSION_SAMPLED: u64 = 2;

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The first one.
    Begin(Begin),
    /// What something is called; before it is first mentioned, and again where that changes.
    Named(Named),
    /// The owner of a socket, as far as it is known by now.
    Owner {
        /// The socket's cookie.
        cookie: u64,
        /// Its reader, or the process that is taken for it.
        process: Process,
        /// Whether it is an estimate: a packet woke the process, which was not seen to read.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        estimate: bool,
    },
    /// A stretch of time.
    Interval(IntervalLine),
    /// The last one.
    End(End),
}

/// How and where it was recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u64,
    /// When, RFC 3339 in UTC.
    pub started: String,
    /// What was run; empty where it was only watched.
    pub command: Vec<String>,
    /// CPUs that there may be.
    pub cpus: u32,
    /// Clock ticks of /proc in a second.
    pub user_hz: u64,
    /// Length of a tick of the paper's algorithm, in nanoseconds; none where there are no ticks.
    pub tick_ns: Option<u64>,
    /// Packets were looked at for one part in so many of the time; none where all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_one_in: Option<u32>,
    /// Whether the kernel keeps bottom halves out of processes' time
    /// (CONFIG_IRQ_TIME_ACCOUNTING); none where it does not say.
    pub irq_time_accounting: Option<bool>,
    /// The processes that there were, and their times.
    pub times: Vec<Times>,
}

/// What the kernel says of a process's time, since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// The process.
    pub process: Process,
    /// In user mode, in clock ticks.
    pub user_ticks: u64,
    /// In the kernel, in clock ticks.
    pub system_ticks: u64,
}

/// What something is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Named {
    /// A process.
    Process {
        /// Which.
        process: Process,
        /// Its name.
        command: Octets,
        /// Its control group.
        cgroup: Option<Octets>,
        /// The container it is in.
        container: Option<Octets>,
    },
    /// A device.
    Device {
        /// Which.
        device: Device,
        /// Its name, with `@` and the inode of its network namespace where that is another one.
        name: String,
    },
    /// Why packets were dropped.
    Reason {
        /// The kernel's number.
        reason: u32,
        /// Its words.
        name: String,
    },
}

/// What was added to the ledger in a stretch of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IntervalLine {
    /// From when on, in nanoseconds from the beginning.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// The CPUs that did anything.
    pub cpus: Vec<CpuLine>,
    /// Bottom-half time that found no room in the kernel's table, in nanoseconds.
    pub unrecorded_ns: u64,
    /// What recording it took.
    pub own: OwnCost,
    /// Times of the processes that are mentioned.
    pub times: Vec<Times>,
    /// Ticks that came.
    pub ticks: Vec<Tick>,
}

/// What was added to the accounts of a CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuLine {
    /// Its number.
    pub cpu: u32,
    /// Bottom halves, in nanoseconds.
    pub measured_ns: u64,
    /// Hard interrupts, in nanoseconds.
    pub hardirq_ns: u64,
    /// For whom: cause, nanoseconds, packets.
    pub caused: Vec<(Cause, u64, u64)>,
    /// On whose time: runner, nanoseconds.
    pub suffered: Vec<(Runner, u64)>,
    /// The windows in which packets were looked at; none where all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleLine>,
}

/// Windows in which packets were looked at.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleLine {
    /// How many.
    pub windows: u64,
    /// As [`Sample::squares`].
    pub squares: f64,
    /// As [`Sample::causes`].
    pub causes: Vec<(Cause, Moments)>,
}

/// The recording is whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// When, in nanoseconds from the beginning.
    pub to_ns: u64,
    /// Ticks and other events that found no room.
    pub lost_events: u64,
    /// The conditions of the machine, as a result of onbeat has them.
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
            sample: None,
        }
    }

    /// The windows.
    #[must_use]
    pub fn sample(&self) -> Sample {
        let Some(SampleLine { windows, squares, causes }) = &self.sample else {
            return Sample::default();
        };
        Sample { windows: *windows, squares: *squares, causes: causes.iter().copied().collect() }
    }

    /// As accounts, completed from the windows.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        Estimate::of(&self.accounts(), &self.sample())
    }

    /// As accounts.
    #[must_use]
    pub fn accounts(&self) -> Accounts {
        let caused = self.caused.iter();
        Accounts {
            caused: caused.map(|&(cause, ns, packets)| (cause, Amount { ns, packets })).collect(),
            suffered: self.suffered.iter().copied().collect(),
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

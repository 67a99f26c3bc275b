//! What is added to the ledger in a stretch of time, and what measuring it takes.

use serde::{Deserialize, Serialize};

use crate::charge::sample::{Estimate, Sample};
use crate::charge::{Accounts, Owner, Process};

/// Length of a tick, in nanoseconds: the paper's 100 Hz.
pub const TICK_NS: u64 = 10_000_000;

/// A stretch of time, and what was added in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Interval {
    /// From when on, in nanoseconds from the start of its reader.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// The accounts of each CPU, by its number.
    pub cpus: Vec<Accounts>,
    /// Bottom-half time of rows that found no room in the kernel's table, in nanoseconds.
    pub unrecorded_ns: u64,
    /// The windows of each CPU in which packets were looked at; none where all are.
    pub samples: Vec<Sample>,
}

impl Interval {
    /// How long it was, in nanoseconds.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }

    /// The accounts of all CPUs together, as they were measured.
    #[must_use]
    pub fn total(&self) -> Accounts {
        let mut total = Accounts::default();
        self.cpus.iter().for_each(|cpu| total.add(cpu));
        total
    }

    /// The accounts of each CPU, completed where packets were sampled.
    #[must_use]
    pub fn estimates(&self) -> Vec<Estimate> {
        let none = Sample::default();
        let samples = self.samples.iter().chain(std::iter::repeat(&none));
        self.cpus.iter().zip(samples).map(|(cpu, sample)| Estimate::of(cpu, sample)).collect()
    }

    /// Moves what was charged to sockets to their owners, once these are known.
    pub fn resolve(&mut self, owner: impl Fn(u64) -> Option<Owner>) {
        self.cpus.iter_mut().for_each(|cpu| cpu.resolve(&owner));
        self.samples.iter_mut().for_each(|sample| sample.resolve(&owner));
    }
}

/// Time that the ledger took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnCost {
    /// Its programs in the kernel, on all CPUs, in nanoseconds: their mean share while they were watched.
    /// Most of it is softirq time. `None`: not measured, since the kernel reported more time than its CPUs
    /// have.
    pub programs_ns: Option<u64>,
    /// This process, in nanoseconds.
    pub process_ns: u64,
}

/// A tick of the clock of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// The CPU.
    pub cpu: u32,
    /// Who was interrupted; `None` in the idle task.
    pub running: Option<Process>,
    /// Packets that the CPU has handled since its tick before.
    pub packets: u64,
    /// The bottom halves that it has run since then, in nanoseconds.
    pub bottom_half_ns: u64,
}

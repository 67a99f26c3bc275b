//! Changes of the ledger in an interval of time, and the cost of the measurement.

use serde::{Deserialize, Serialize};

use crate::charge::sample::{Estimate, Sample};
use crate::charge::{Accounts, Owner, Process};

/// Length of a tick, in nanoseconds: the paper's 100 Hz.
pub const TICK_NS: u64 = 10_000_000;

/// An interval of time, and the additions of the ledger in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Interval {
    /// Start, in nanoseconds since the start of its reader.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// The accounts of each CPU, by its number.
    pub cpus: Vec<Accounts>,
    /// Softirq time of rows that found no room in the kernel's table, in nanoseconds.
    pub unrecorded_ns: u64,
    /// The sampled windows of each CPU; empty if all packets are observed.
    pub samples: Vec<Sample>,
}

impl Interval {
    /// Its length, in nanoseconds.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }

    /// The accounts of all CPUs together, as measured.
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

    /// Moves the charges of sockets to their owners, once these are known.
    pub fn resolve(&mut self, owner: impl Fn(u64) -> Option<Owner>) {
        self.cpus.iter_mut().for_each(|cpu| cpu.resolve(&owner));
        self.samples.iter_mut().for_each(|sample| sample.resolve(&owner));
    }
}

/// CPU time of the ledger itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnCost {
    /// Time of its BPF programs on all CPUs, in nanoseconds: their mean share while they were observed. Most of
    /// it is softirq time. `None`: not measured, since the kernel reported more time than its CPUs have.
    pub programs_ns: Option<u64>,
    /// CPU time of this process, in nanoseconds.
    pub process_ns: u64,
}

/// A clock tick of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// The CPU.
    pub cpu: u32,
    /// The interrupted process; `None` in the idle task.
    pub running: Option<Process>,
    /// Packets that the CPU handled since its previous tick.
    pub packets: u64,
    /// Softirq time of the CPU since then, in nanoseconds.
    pub bottom_half_ns: u64,
}

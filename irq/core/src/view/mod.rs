//! The ledger as a table: who caused and who suffered bottom-half time, and what nobody did.

mod build;
mod error;
mod filter;
mod order;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::charge::sample::StandardError;

pub use order::Order;

/// Accounts of some time, with names, of one CPU or of several.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    /// How long it was, in nanoseconds.
    pub length_ns: u64,
    /// Bottom-half time, in nanoseconds.
    pub measured_ns: u64,
    /// Hard interrupts, in nanoseconds.
    pub hardirq_ns: u64,
    /// What is missing in the accounts, in nanoseconds: what was under way, or was lost.
    pub imbalance_ns: u64,
    /// Processes that caused or suffered some of it.
    pub processes: Vec<ProcessRow>,
    /// What no process caused.
    pub unowned: Vec<UnownedRow>,
    /// On whose time it ran.
    pub ran_on: RanOn,
    /// What was looked at, where that was a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sampled>,
}

/// Of which part of the packets the rest was estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sampled {
    /// Windows in which packets were looked at.
    pub windows: u64,
    /// Time of the polls that were looked at, in nanoseconds.
    pub looked_at_ns: u64,
    /// Time of those that were not, in nanoseconds.
    pub skipped_ns: u64,
}

/// A process.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProcessRow {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u32,
    /// Whether this row is an estimate: packets for sockets without a reader, whose owner was inferred
    /// from a wake-up. What is certain of the same process is a row of its own.
    pub estimate: bool,
    /// Its name, with octets escaped that are not text; none where it ended before anybody looked.
    pub command: Option<String>,
    /// Its control group, escaped likewise.
    pub cgroup: Option<String>,
    /// The container it is in.
    pub container: Option<String>,
    /// Whether it has ended.
    pub ended: bool,
    /// Bottom-half time spent for it, in nanoseconds.
    pub caused_ns: u64,
    /// Bottom-half time spent on its time, in nanoseconds.
    pub suffered_ns: u64,
    /// Packets for it.
    pub packets: u64,
    /// Nanoseconds for each of them; none without packets.
    pub ns_per_packet: Option<f64>,
    /// The standard error of what it caused, where that was estimated from two windows or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<StandardError>,
    /// What it caused, by device and direction.
    pub parts: Vec<Part>,
}

/// What a process caused by one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// The device.
    pub device: String,
    /// Which way its packets went.
    pub direction: Direction,
    /// Nanoseconds.
    pub ns: u64,
    /// Packets.
    pub packets: u64,
    /// As that of a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<StandardError>,
}

/// Which way packets went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// They came in.
    Rx,
    /// They left.
    Tx,
    /// They came in and left again.
    Through,
}

impl Direction {
    /// As a table has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Direction::Rx => "rx",
            Direction::Tx => "tx",
            Direction::Through => "through",
        }
    }
}

/// Bottom-half time without an owner.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct UnownedRow {
    /// What it was spent for: `forwarded`, `dropped`, `timer`.
    pub class: &'static str,
    /// Where packets came in.
    pub device: Option<String>,
    /// Where they left.
    pub to: Option<String>,
    /// Which way they went; none where there were no packets.
    pub direction: Option<Direction>,
    /// Why they were dropped.
    pub reason: Option<String>,
    /// Nanoseconds.
    pub ns: u64,
    /// Packets.
    pub packets: u64,
    /// Nanoseconds for each of them; none without packets.
    pub ns_per_packet: Option<f64>,
    /// As that of a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<StandardError>,
}

/// On whose time bottom halves ran, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RanOn {
    /// On processes'.
    pub processes_ns: u64,
    /// On nobody's: the CPU was idle.
    pub idle_ns: u64,
    /// On that of ksoftirqd.
    pub ksoftirqd_ns: u64,
    /// On that of threads of NAPI.
    pub napi_threads_ns: u64,
}

//! The ledger as a table: softirq time caused and suffered by processes, and time without an owner.

mod build;
mod error;
mod filter;
mod folded;
mod group;
mod interrupts;
mod order;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::charge::Attribution;
use crate::charge::sample::StandardError;

pub use group::{Fold, GroupKey, GroupRow, Groups};
pub use interrupts::InterruptRow;
pub use order::Order;

/// Accounts of a period, with names, of one CPU or of several.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    /// Its length, in nanoseconds.
    pub length_ns: u64,
    /// Softirq time, in nanoseconds.
    pub measured_ns: u64,
    /// Hard interrupt time, in nanoseconds.
    pub hardirq_ns: u64,
    /// The imbalance of the accounts, in nanoseconds: a softirq in progress, or lost events.
    pub imbalance_ns: u64,
    /// Processes that caused or suffered softirq time.
    pub processes: Vec<ProcessRow>,
    /// The processes of folded rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<GroupRow>,
    /// The same time by another key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Groups>,
    /// The part of the caused time that belongs to processes without a name, in nanoseconds.
    pub unnamed_ns: u64,
    /// Time that no process caused.
    pub unowned: Vec<UnownedRow>,
    /// Polls of devices with several receive queues: a part of the rows above, most time first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueRow>,
    /// Hard interrupts, most time first.
    pub interrupts: Vec<InterruptRow>,
    /// Caused time by the evidence for its cause.
    pub attributed: AttributedShares,
    /// The interrupted tasks.
    pub ran_on: SufferedShares,
    /// The sampled part, if packets were sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampledPart>,
}

/// The part of the packets from which the rest was estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SampledPart {
    /// Sampled windows.
    pub windows: u64,
    /// Time of the sampled polls, in nanoseconds.
    pub looked_at_ns: u64,
    /// Time of the skipped polls, in nanoseconds.
    pub skipped_ns: u64,
}

/// A process.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProcessRow {
    /// Its number.
    pub pid: u32,
    /// Its start, in clock ticks since boot.
    pub start_ticks: u32,
    /// Whether this row is an estimate ([`Attribution::Estimate`]). The same process has another row for certain
    /// time.
    pub estimate: bool,
    /// Its name, with octets that are not text escaped; none if it exited before it was read.
    pub command: Option<String>,
    /// Its control group, escaped likewise.
    pub cgroup: Option<String>,
    /// Its container.
    pub container: Option<String>,
    /// Its systemd unit.
    pub unit: Option<String>,
    /// The UID of its Kubernetes pod.
    pub pod: Option<String>,
    /// Its user.
    pub user: Option<String>,
    /// Whether it has exited.
    pub ended: bool,
    /// Softirq time that it caused, in nanoseconds.
    pub caused_ns: u64,
    /// Softirqs and hard interrupts on its time, in nanoseconds.
    pub suffered_ns: u64,
    /// Hard interrupts alone, in nanoseconds.
    pub interrupted_ns: u64,
    /// Packets for it.
    pub packets: u64,
    /// Nanoseconds per packet; none without packets.
    pub ns_per_packet: Option<f64>,
    /// The standard error of the time it caused, if that was estimated from two or more windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<StandardError>,
    /// The time it caused, by device and direction.
    pub parts: Vec<DeviceShare>,
}

/// The time that a process caused by one device, by one kind of evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceShare {
    /// The device.
    pub device: String,
    /// The direction of its packets.
    pub direction: Direction,
    /// The evidence that these are the process's packets.
    pub by: Attribution,
    /// Nanoseconds.
    pub ns: u64,
    /// Packets.
    pub packets: u64,
    /// As that of a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<StandardError>,
}

/// The softirq time of a receive queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct QueueRow {
    /// Its name.
    pub name: String,
    /// Its device.
    pub device: String,
    /// Nanoseconds.
    pub ns: u64,
    /// Packets.
    pub packets: u64,
}

/// The direction of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Received.
    Rx,
    /// Transmitted.
    Tx,
    /// Received and transmitted.
    Through,
}

impl Direction {
    /// The name in a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Direction::Rx => "rx",
            Direction::Tx => "tx",
            Direction::Through => "through",
        }
    }
}

/// Softirq time without an owner.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct UnownedRow {
    /// Its class: `forwarded`, `dropped`, `timer`.
    pub class: &'static str,
    /// The receiving device.
    pub device: Option<String>,
    /// The transmitting device.
    pub to: Option<String>,
    /// The direction of the packets; none without packets.
    pub direction: Option<Direction>,
    /// The drop reason.
    pub reason: Option<String>,
    /// Nanoseconds.
    pub ns: u64,
    /// Packets.
    pub packets: u64,
    /// Nanoseconds per packet; none without packets.
    pub ns_per_packet: Option<f64>,
    /// As that of a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<StandardError>,
}

/// Caused time by the evidence for its cause, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AttributedShares {
    /// Packets for the process that reads their socket.
    pub reader_ns: u64,
    /// Packets for the process that has their socket open, and was not observed reading it.
    pub owner_ns: u64,
    /// Connection requests, for the owner of the listening socket.
    pub listener_ns: u64,
    /// Packets whose owner is inferred.
    pub estimate_ns: u64,
    /// Packets and polls of the kernel, with their class.
    pub kernel_ns: u64,
    /// Packets without a known owner or destination.
    pub unknown_ns: u64,
    /// Softirqs other than reception.
    pub other_softirqs_ns: u64,
}

/// The tasks on whose time softirqs ran, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SufferedShares {
    /// Processes.
    pub processes_ns: u64,
    /// The idle task.
    pub idle_ns: u64,
    /// ksoftirqd.
    pub ksoftirqd_ns: u64,
    /// NAPI threads.
    pub napi_threads_ns: u64,
}

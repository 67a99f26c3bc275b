//! The table of each interval.

pub mod cells;
pub mod text;

use std::time::{Duration, SystemTime};

use onbeat_irq::names::Names;
use onbeat_irq_core::OwnCost;
use onbeat_irq_core::charge::sample::Estimate;
use onbeat_irq_core::view::{Order, Table};
use onbeat_realtime::interrupt;
use serde::Serialize;

use crate::watch::{Reading, Watch, wait};

/// Name and version of the JSON.
const SCHEMA: &str = "onbeat-irq-top/1";

/// Order and content of the table.
#[derive(Debug, Clone, Default)]
pub struct TableOptions {
    /// The order of processes.
    pub order: Order,
    /// Only packets of this device: `eth0`, or `eth0@4026532281` with the inode of its network namespace.
    pub device: Option<String>,
    /// A table for each CPU.
    pub per_cpu: bool,
}

/// The accounts of an interval, completed if sampled.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The end of the interval, RFC 3339 in UTC.
    pub time: String,
    /// The length of the interval, in nanoseconds.
    pub length_ns: u64,
    /// The accounts of each CPU, by its number.
    pub cpus: Vec<Estimate>,
    /// The cost of the measurement.
    pub own: OwnCost,
    /// Softirq time without room in the kernel's table, in nanoseconds.
    pub unrecorded_ns: u64,
    /// Tracepoints of hard interrupts that the kernel does not have.
    pub absent: Vec<&'static str>,
    /// The time around the handler of an interrupt, included for each, in nanoseconds; 0: not known.
    pub interrupt_entry_ns: u64,
}

/// The JSON object of an interval.
#[derive(Serialize)]
struct JsonSnapshot {
    schema: &'static str,
    time: String,
    #[serde(flatten)]
    table: Table,
    own: OwnCost,
    unrecorded_ns: u64,
    absent: Vec<&'static str>,
    interrupt_entry_ns: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cpus: Vec<CpuTable>,
}

/// The table of one CPU.
#[derive(Debug, Serialize)]
pub struct CpuTable {
    /// Its number.
    pub cpu: usize,
    /// The table.
    #[serde(flatten)]
    pub table: Table,
}

/// Passes snapshots to `show`, at most `count` if given, until `show` returns false or a signal stops it.
///
/// # Errors
/// Those of `show`; the kernel denies access to the ledger.
pub fn run<E: From<onbeat_irq::Error>>(
    mut watch: Watch,
    interval: Duration,
    count: Option<u64>,
    mut show: impl FnMut(&Snapshot, &mut Names) -> Result<bool, E>,
) -> Result<(), E> {
    let _guard = interrupt::Guard::install();
    let mut left = count;
    while left != Some(0) {
        let reading = watch.read(interval, |until| Ok::<_, E>(wait(until)))?;
        if reading.last {
            break;
        }
        let snapshot = Snapshot::of(reading, &watch);
        if !show(&snapshot, &mut watch.names)? {
            break;
        }
        left = left.map(|left| left - 1);
    }
    Ok(())
}

impl Snapshot {
    /// The snapshot of a reading of `watch`.
    #[must_use]
    pub fn of(mut reading: Reading, watch: &Watch) -> Self {
        reading.interval.resolve(|cookie| watch.meter.tracer().owner(cookie));
        Self {
            time: onbeat_report::rfc3339(SystemTime::now()),
            length_ns: reading.interval.length_ns(),
            cpus: reading.interval.estimates(),
            own: reading.own,
            unrecorded_ns: reading.interval.unrecorded_ns,
            absent: watch.meter.tracer().absent().to_vec(),
            interrupt_entry_ns: watch.meter.tracer().entry_ns(),
        }
    }

    fn table(&self, estimate: &Estimate, options: &TableOptions, names: &mut Names) -> Table {
        let mut table = Table::of_estimate(estimate, self.length_ns, names);
        if let Some(device) = &options.device {
            table.keep_device(device);
        }
        table.sort(options.order);
        table
    }

    /// The table of all CPUs together.
    #[must_use]
    pub fn all(&self, options: &TableOptions, names: &mut Names) -> Table {
        let mut total = Estimate::default();
        self.cpus.iter().for_each(|cpu| total.add(cpu));
        self.table(&total, options, names)
    }

    /// The tables of single CPUs, if the options require them.
    #[must_use]
    pub fn each(&self, options: &TableOptions, names: &mut Names) -> Vec<CpuTable> {
        let cpus = self.cpus.iter().enumerate().filter(|_| options.per_cpu);
        cpus.map(|(cpu, estimate)| CpuTable { cpu, table: self.table(estimate, options, names) })
            .collect()
    }

    /// A JSON object on one line.
    ///
    /// # Errors
    /// Those of `serde_json`.
    pub fn json(&self, options: &TableOptions, names: &mut Names) -> serde_json::Result<String> {
        let printed = JsonSnapshot {
            schema: SCHEMA,
            time: self.time.clone(),
            table: self.all(options, names),
            own: self.own,
            unrecorded_ns: self.unrecorded_ns,
            absent: self.absent.clone(),
            interrupt_entry_ns: self.interrupt_entry_ns,
            cpus: self.each(options, names),
        };
        Ok(serde_json::to_string(&printed)? + "\n")
    }
}

//! The table of each interval.

pub mod cells;
pub mod text;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use onbeat_irq::names::Names;
use onbeat_irq_core::OwnCost;
use onbeat_irq_core::charge::sample::Estimate;
use onbeat_irq_core::view::{Fold, GroupKey, Groups, Order, Table};
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
    /// The key of rows.
    pub by: GroupKey,
    /// The rows that are kept.
    pub fold: Fold,
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
    /// The NUMA node of each CPU.
    pub nodes: BTreeMap<u32, u32>,
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

/// The row of a CPU.
pub(crate) fn group_of_cpu(by: GroupKey, cpu: u32, nodes: &BTreeMap<u32, u32>) -> Option<String> {
    match by {
        GroupKey::Node => nodes.get(&cpu).map(u32::to_string),
        _ => Some(cpu.to_string()),
    }
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
            nodes: watch.nodes.clone(),
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

    fn grouped(&self, mut table: Table, groups: Option<Groups>, options: &TableOptions) -> Table {
        table.groups = groups;
        if let Some(groups) = &mut table.groups {
            groups.sort(options.order);
        }
        table.fold(options.fold);
        table
    }

    /// The table of all CPUs together.
    #[must_use]
    pub fn all(&self, options: &TableOptions, names: &mut Names) -> Table {
        let mut total = Estimate::default();
        self.cpus.iter().for_each(|cpu| total.add(cpu));
        let table = self.table(&total, options, names);
        let groups = match options.by {
            GroupKey::Process => None,
            by @ (GroupKey::Cpu | GroupKey::Node) => {
                let cpus = self.cpus.iter().map(|cpu| self.table(cpu, options, names));
                let cpus: Vec<Table> = cpus.collect();
                let named = (0..).map(|cpu| group_of_cpu(by, cpu, &self.nodes));
                Some(Groups::of_cpus(by, named.zip(&cpus)))
            }
            by => Some(Groups::of(by, &table)),
        };
        self.grouped(table, groups, options)
    }

    /// The tables of single CPUs, if the options require them.
    #[must_use]
    pub fn each(&self, options: &TableOptions, names: &mut Names) -> Vec<CpuTable> {
        let by = options.by;
        let is_grouped = !matches!(by, GroupKey::Process | GroupKey::Cpu | GroupKey::Node);
        let mut cpu_table = |estimate| {
            let table = self.table(estimate, options, names);
            let groups = is_grouped.then(|| Groups::of(by, &table));
            self.grouped(table, groups, options)
        };
        let cpus = self.cpus.iter().enumerate().filter(|_| options.per_cpu);
        cpus.map(|(cpu, estimate)| CpuTable { cpu, table: cpu_table(estimate) }).collect()
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

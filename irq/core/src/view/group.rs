//! Rows by command, group, user, device, CPU: sums over the rows of a table.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::build::per_packet;
use super::error::sum;
use super::{ProcessRow, QueueRow, Table, UnownedRow};
use crate::charge::sample::StandardError;

/// The key of grouped rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GroupKey {
    /// Process: one row for each, without grouping.
    #[default]
    Process,
    /// Command.
    Command,
    /// Control group.
    Cgroup,
    /// systemd unit.
    Unit,
    /// Container.
    Container,
    /// Kubernetes pod.
    Pod,
    /// Effective user.
    User,
    /// Receiving device.
    Device,
    /// Receive queue of a device.
    Queue,
    /// CPU.
    Cpu,
    /// NUMA node.
    Node,
}

impl GroupKey {
    /// All keys, with their names.
    pub const ALL: [(&'static str, GroupKey); 11] = [
        ("process", GroupKey::Process),
        ("command", GroupKey::Command),
        ("cgroup", GroupKey::Cgroup),
        ("unit", GroupKey::Unit),
        ("container", GroupKey::Container),
        ("pod", GroupKey::Pod),
        ("user", GroupKey::User),
        ("device", GroupKey::Device),
        ("queue", GroupKey::Queue),
        ("cpu", GroupKey::Cpu),
        ("node", GroupKey::Node),
    ];

    /// The key with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, key)| *key)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, key)| *key == self).map_or("", |(name, _)| name)
    }

    /// Its name in full.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            GroupKey::Cgroup => "control group",
            GroupKey::Unit => "systemd unit",
            GroupKey::Queue => "receive queue",
            GroupKey::Cpu => "CPU",
            GroupKey::Node => "NUMA node",
            _ => self.name(),
        }
    }

    /// The heading of its column.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            GroupKey::Process => "PROCESS",
            GroupKey::Command => "COMMAND",
            GroupKey::Cgroup => "CONTROL GROUP",
            GroupKey::Unit => "SYSTEMD UNIT",
            GroupKey::Container => "CONTAINER",
            GroupKey::Pod => "POD",
            GroupKey::User => "USER",
            GroupKey::Device => "DEVICE",
            GroupKey::Queue => "RECEIVE QUEUE",
            GroupKey::Cpu => "CPU",
            GroupKey::Node => "NUMA NODE",
        }
    }

    /// The next key, cyclically.
    #[must_use]
    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|(_, key)| *key == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()].1
    }

    /// Whether each process belongs to one group.
    #[must_use]
    pub fn is_of_process(self) -> bool {
        !matches!(self, GroupKey::Device | GroupKey::Queue | GroupKey::Cpu | GroupKey::Node)
    }

    /// The group of a process; `None`: it has none, or is unknown.
    #[must_use]
    pub fn of(self, row: &ProcessRow) -> Option<String> {
        match self {
            GroupKey::Process => Some(match &row.command {
                Some(command) => format!("{} {command}", row.pid),
                None => row.pid.to_string(),
            }),
            GroupKey::Command => row.command.clone(),
            GroupKey::Cgroup => row.cgroup.clone(),
            GroupKey::Unit => row.unit.clone(),
            GroupKey::Container => row.container.clone(),
            GroupKey::Pod => row.pod.clone(),
            GroupKey::User => row.user.clone(),
            GroupKey::Device | GroupKey::Queue | GroupKey::Cpu | GroupKey::Node => None,
        }
    }
}

impl Serialize for GroupKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A grouped table. Its rows, others and `without_process_ns` contain all time of the table that it was made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Groups {
    /// The key.
    pub by: GroupKey,
    /// The groups.
    pub rows: Vec<GroupRow>,
    /// The folded groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<GroupRow>,
    /// Time that no process caused, if it is not in the rows. Devices, queues, CPUs and nodes have it in their rows.
    pub without_process_ns: u64,
}

/// A group.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GroupRow {
    /// Its name; `None`: of processes without such a group, or of several groups.
    pub name: Option<String>,
    /// Number of its processes.
    pub processes: u64,
    /// Softirq time that they caused, in nanoseconds.
    pub caused_ns: u64,
    /// Softirq time that interrupted them, in nanoseconds.
    pub suffered_ns: u64,
    /// Packets for them.
    pub packets: u64,
    /// Nanoseconds per packet; none without packets.
    pub ns_per_packet: Option<f64>,
    /// The standard error of the time that they caused, if that was estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<StandardError>,
}

impl GroupRow {
    fn add(&mut self, ns: u64, packets: u64, error: Option<StandardError>) {
        // A row without time and packets has no error yet.
        self.standard_error = match (self.caused_ns, self.packets, ns, packets) {
            (0, 0, ..) => error,
            (_, _, 0, 0) => self.standard_error,
            _ => sum(self.standard_error, error),
        };
        self.caused_ns += ns;
        self.packets += packets;
        self.ns_per_packet = per_packet(self.caused_ns, self.packets);
    }

    fn add_process(&mut self, row: &ProcessRow) {
        self.add(row.caused_ns, row.packets, row.standard_error);
        self.processes += 1;
        self.suffered_ns += row.suffered_ns;
    }

    fn add_group(&mut self, row: &GroupRow) {
        self.add(row.caused_ns, row.packets, row.standard_error);
        self.processes += row.processes;
        self.suffered_ns += row.suffered_ns;
    }
}

impl Groups {
    /// The rows of a table by a key of processes, by device, or by queue.
    #[must_use]
    pub fn of(by: GroupKey, table: &Table) -> Self {
        let mut rows = Rows::default();
        if matches!(by, GroupKey::Device | GroupKey::Queue) {
            rows.devices(table);
            if by == GroupKey::Queue {
                table.queues.iter().for_each(|queue| rows.queue(queue));
            }
            return rows.into_groups(by, 0);
        }
        for row in &table.processes {
            rows.row(by.of(row)).add_process(row);
        }
        if let Some(others) = &table.others {
            rows.row(None).add_group(others);
        }
        rows.into_groups(by, table.unowned.iter().map(|row| row.ns).sum())
    }

    /// The rows of the tables of CPUs, each with the name of its CPU or node.
    #[must_use]
    pub fn of_cpus<'a>(
        by: GroupKey,
        cpus: impl Iterator<Item = (Option<String>, &'a Table)>,
    ) -> Self {
        let mut rows = Rows::default();
        for (name, table) in cpus {
            let group = rows.row(name);
            table.processes.iter().for_each(|row| group.add_process(row));
            table.others.iter().for_each(|row| group.add_group(row));
            for row in &table.unowned {
                group.add(row.ns, row.packets, row.standard_error);
            }
        }
        rows.into_groups(by, 0)
    }
}

/// Groups by name.
#[derive(Default)]
struct Rows(BTreeMap<Option<String>, GroupRow>);

impl Rows {
    fn row(&mut self, name: Option<String>) -> &mut GroupRow {
        self.0.entry(name).or_default()
    }

    /// Time suffered has no device.
    fn devices(&mut self, table: &Table) {
        let named = |device: &str| (device != "-").then(|| device.to_owned());
        for row in &table.processes {
            let mut devices: Vec<Option<String>> = Vec::new();
            for part in &row.parts {
                let device = named(&part.device);
                self.row(device.clone()).add(part.ns, part.packets, part.standard_error);
                devices.push(device);
            }
            devices.sort();
            devices.dedup();
            devices.into_iter().for_each(|device| self.row(device).processes += 1);
            if row.suffered_ns > 0 {
                self.row(None).suffered_ns += row.suffered_ns;
            }
        }
        if let Some(others) = &table.others {
            self.row(None).add_group(others);
        }
        for row in &table.unowned {
            let device = row.device.as_deref().and_then(named);
            self.row(device).add(row.ns, row.packets, row.standard_error);
        }
    }

    /// Moves the time and the packets of a queue from its device, which keeps the rest, to a row of its own.
    fn queue(&mut self, queue: &QueueRow) {
        let Some(device) = self.0.get_mut(&Some(queue.device.clone())) else { return };
        let (ns, packets) = (queue.ns.min(device.caused_ns), queue.packets.min(device.packets));
        device.caused_ns -= ns;
        device.packets -= packets;
        device.ns_per_packet = per_packet(device.caused_ns, device.packets);
        if device.caused_ns == 0 && device.packets == 0 {
            self.0.remove(&Some(queue.device.clone()));
        }
        self.row(Some(queue.name.clone())).add(ns, packets, None);
    }

    fn into_groups(self, by: GroupKey, without_process_ns: u64) -> Groups {
        let rows = self.0.into_iter().map(|(name, row)| GroupRow { name, ..row }).collect();
        let mut groups = Groups { by, rows, others: None, without_process_ns };
        groups.sort(super::Order::Caused);
        groups
    }
}

/// The rows that a table keeps; others are folded into one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fold {
    /// The least share of the softirq time, caused or suffered, of a row.
    pub least_share: f64,
    /// The largest number of rows.
    pub most_rows: usize,
}

impl Default for Fold {
    /// Keeps all rows.
    fn default() -> Self {
        Self { least_share: 0.0, most_rows: usize::MAX }
    }
}

impl Fold {
    /// The rows after the kept ones, which stay in their order.
    fn apply<R>(self, rows: &mut Vec<R>, measured_ns: u64, ns: impl Fn(&R) -> u64) -> Vec<R> {
        let least_ns = self.least_share * measured_ns as f64;
        let is_kept = |row: &R| ns(row) as f64 >= least_ns;
        let (mut kept, mut folded): (Vec<R>, Vec<R>) =
            std::mem::take(rows).into_iter().partition(is_kept);
        folded.extend(kept.drain(self.most_rows.min(kept.len())..));
        *rows = kept;
        folded
    }
}

impl Table {
    /// Folds rows with a small share, and those after the first, into `others`; classes into a class of that name.
    /// Groups are folded likewise. The sums stay the same.
    pub fn fold(&mut self, fold: Fold) {
        let measured_ns = self.measured_ns;
        let most = |row: &ProcessRow| row.caused_ns.max(row.suffered_ns);
        for row in fold.apply(&mut self.processes, measured_ns, most) {
            self.others.get_or_insert_default().add_process(&row);
        }
        let folded = fold.apply(&mut self.unowned, measured_ns, |row| row.ns);
        if let Some(others) = UnownedRow::sum_of(&folded) {
            self.unowned.push(others);
        }
        if let Some(groups) = &mut self.groups {
            let most = |row: &GroupRow| row.caused_ns.max(row.suffered_ns);
            for row in fold.apply(&mut groups.rows, measured_ns, most) {
                groups.others.get_or_insert_default().add_group(&row);
            }
        }
    }
}

impl UnownedRow {
    /// The class of folded classes.
    pub const OTHERS: &'static str = "others";

    fn sum_of(rows: &[Self]) -> Option<Self> {
        let (first, rest) = rows.split_first()?;
        let mut others = Self {
            class: Self::OTHERS,
            ns: first.ns,
            packets: first.packets,
            standard_error: first.standard_error,
            ..Self::default()
        };
        for row in rest {
            others.ns += row.ns;
            others.packets += row.packets;
            others.standard_error = sum(others.standard_error, row.standard_error);
        }
        others.ns_per_packet = per_packet(others.ns, others.packets);
        Some(others)
    }
}

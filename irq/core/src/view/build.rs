//! Builds the table from accounts.

use std::collections::BTreeMap;

use super::error::sum;
use super::{
    AttributedShares, DeviceShare, Direction, ProcessRow, QueueRow, SampledPart, SufferedShares,
    Table, UnownedRow,
};
use crate::charge::sample::{Estimate, Sample, StandardError};
use crate::charge::{
    Accounts, Amount, Attribution, Cause, Class, Device, Process, ReceiveQueue, Runner, Softirq,
};
use crate::names::{Names, Octets, ProcessInfo, cgroup};

impl Table {
    /// The table of accounts of a time of this length, in the order of time caused.
    #[must_use]
    pub fn of(accounts: &Accounts, length_ns: u64, names: &mut impl Names) -> Self {
        let estimate = Estimate::of(accounts, &Sample::default());
        Self::of_estimate(&estimate, length_ns, names)
    }

    /// The same of accounts that may be completed from a sample, with their errors.
    #[must_use]
    pub fn of_estimate(estimate: &Estimate, length_ns: u64, names: &mut impl Names) -> Self {
        let accounts = &estimate.accounts;
        // For each process, a certain row and an estimated one.
        let mut processes: BTreeMap<(Process, bool), ProcessRow> = BTreeMap::new();
        let mut unowned = Vec::new();
        for (cause, amount) in &accounts.caused {
            let error = estimate.error(cause).filter(|_| estimate.is_sampled());
            match cause {
                Cause::Process { process, device, by } => {
                    let estimate = *by == Attribution::Estimate;
                    let row = processes.entry((*process, estimate)).or_default();
                    row.add(DeviceShare::of(names.device(*device), *by, *amount, error));
                }
                Cause::Socket { device, .. } => {
                    let row = UnownedRow::of("socket without owner", *amount);
                    unowned.push(row.at(names.device(*device), Direction::Rx).with_error(error));
                }
                Cause::Unowned(class) => {
                    unowned.push(UnownedRow::of_class(*class, *amount, names).with_error(error));
                }
            }
        }
        let mut ran_on = SufferedShares::default();
        for (runner, ns) in &accounts.suffered {
            match runner {
                Runner::Process(process) => {
                    processes.entry((*process, false)).or_default().suffered_ns += ns;
                    ran_on.processes_ns += ns;
                }
                Runner::Idle => ran_on.idle_ns += ns,
                Runner::Ksoftirqd => ran_on.ksoftirqd_ns += ns,
                Runner::NapiThread => ran_on.napi_threads_ns += ns,
            }
        }
        for (runner, ns) in &accounts.interrupted {
            if let Runner::Process(process) = runner {
                let row = processes.entry((*process, false)).or_default();
                row.suffered_ns += ns;
                row.interrupted_ns += ns;
            }
        }
        let name = |((process, estimate), row): ((Process, bool), ProcessRow)| {
            ProcessRow { estimate, ..row }.of(process, names.process(process))
        };
        let mut table = Self {
            length_ns,
            measured_ns: accounts.measured_ns,
            hardirq_ns: accounts.hardirq_ns,
            imbalance_ns: accounts.imbalance_ns(),
            processes: processes.into_iter().map(name).collect(),
            others: None,
            groups: None,
            unnamed_ns: 0,
            unowned: merged(unowned),
            queues: queues(accounts, names),
            interrupts: super::interrupts::rows(accounts, names),
            attributed: AttributedShares::of(accounts),
            ran_on,
            sample: SampledPart::of(estimate),
        };
        table.name_time();
        table.sort(super::Order::Caused);
        table
    }

    /// Sums the time of processes without a name.
    pub(super) fn name_time(&mut self) {
        let unnamed = self.processes.iter().filter(|row| row.command.is_none());
        self.unnamed_ns = unnamed.map(|row| row.caused_ns).sum();
    }
}

/// The rows of receive queues, most time first.
fn queues(accounts: &Accounts, names: &mut impl Names) -> Vec<QueueRow> {
    let row = |(queue, amount): (&ReceiveQueue, &Amount)| QueueRow {
        name: names.queue(*queue),
        device: names.device(queue.device),
        ns: amount.ns,
        packets: amount.packets,
    };
    let mut rows: Vec<QueueRow> = accounts.queues.iter().map(row).collect();
    rows.sort_by(|a, b| (b.ns, &a.name).cmp(&(a.ns, &b.name)));
    rows
}

impl AttributedShares {
    fn of(accounts: &Accounts) -> Self {
        let mut shares = Self::default();
        for (cause, Amount { ns, .. }) in &accounts.caused {
            *shares.share(cause) += ns;
        }
        shares
    }

    fn share(&mut self, cause: &Cause) -> &mut u64 {
        match cause {
            Cause::Process { by, .. } => match by {
                Attribution::Reader => &mut self.reader_ns,
                Attribution::Owner => &mut self.owner_ns,
                Attribution::Listener => &mut self.listener_ns,
                Attribution::Estimate => &mut self.estimate_ns,
            },
            Cause::Socket { .. } => &mut self.unknown_ns,
            Cause::Unowned(class) => match class {
                Class::Unattributed(_) | Class::Connection(_) | Class::Unsampled(_) => {
                    &mut self.unknown_ns
                }
                Class::Softirq(_) => &mut self.other_softirqs_ns,
                _ => &mut self.kernel_ns,
            },
        }
    }
}

impl ProcessRow {
    fn add(&mut self, part: DeviceShare) {
        self.caused_ns += part.ns;
        self.packets += part.packets;
        self.standard_error = match self.parts.is_empty() {
            true => part.standard_error,
            false => sum(self.standard_error, part.standard_error),
        };
        self.parts.push(part);
        self.ns_per_packet = per_packet(self.caused_ns, self.packets);
    }

    /// A row without time.
    #[must_use]
    pub fn named(process: Process, known: ProcessInfo) -> Self {
        Self::default().of(process, known)
    }

    fn of(self, process: Process, known: ProcessInfo) -> Self {
        let ProcessInfo { description, ended } = known;
        let Process { pid, start_ticks } = process;
        let bare = Self { pid, start_ticks, ended, ..self };
        let Some(about) = description else { return bare };
        let text = |name: Octets| name.to_string();
        let path = about.cgroup.as_ref().map_or(&b""[..], Octets::as_slice);
        let unit = cgroup::unit(path).map(Octets::from).map(text);
        let pod = cgroup::pod(path);
        Self {
            command: Some(text(about.command)),
            cgroup: about.cgroup.map(text),
            container: about.container.map(text),
            user: about.user.map(text),
            unit,
            pod,
            ..bare
        }
    }

    /// Returns the row with only these parts.
    pub(super) fn with_parts(self, parts: Vec<DeviceShare>) -> Self {
        let bare =
            Self { caused_ns: 0, packets: 0, ns_per_packet: None, parts: Vec::new(), ..self };
        parts.into_iter().fold(bare, |mut row, part| {
            row.add(part);
            row
        })
    }
}

impl DeviceShare {
    /// Processes are charged for received packets only.
    fn of(
        device: String,
        by: Attribution,
        Amount { ns, packets }: Amount,
        standard_error: Option<StandardError>,
    ) -> Self {
        Self { device, direction: Direction::Rx, by, ns, packets, standard_error }
    }
}

impl DeviceShare {
    /// With the time and the packets of another one.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        let standard_error = sum(self.standard_error, other.standard_error);
        let (ns, packets) = (self.ns + other.ns, self.packets + other.packets);
        Self { ns, packets, standard_error, ..self }
    }
}

impl UnownedRow {
    fn of(class: &'static str, Amount { ns, packets }: Amount) -> Self {
        Self { class, ns, packets, ns_per_packet: per_packet(ns, packets), ..Self::default() }
    }

    fn at(self, device: String, direction: Direction) -> Self {
        Self { device: Some(device), direction: Some(direction), ..self }
    }

    fn of_class(class: Class, amount: Amount, names: &mut impl Names) -> Self {
        let row = |class| Self::of(class, amount);
        let mut rx = |class, device| row(class).at(names.device(device), Direction::Rx);
        match class {
            Class::Xdp(device) => rx("xdp", device),
            Class::XdpVerdict { device, verdict } => {
                let row = rx("xdp", device);
                Self { reason: Some(verdict.name().into()), ..row }
            }
            Class::Handshake(device) => rx("handshake", device),
            Class::Connection(device) => rx("connection without owner", device),
            Class::Icmp(device) => rx("icmp", device),
            Class::Neighbor(device) => rx("neighbor", device),
            Class::KernelSocket(device) => rx("kernel socket", device),
            Class::EmptyPoll(device) => rx("empty poll", device),
            Class::Unattributed(device) => rx("unattributed", device),
            Class::Unsampled(device) => rx("not sampled", device),
            Class::TxCompletion(device) => {
                row("tx completion").at(names.device(device), Direction::Tx)
            }
            Class::Dropped { device, reason } => {
                let row = rx("dropped", device);
                Self { reason: Some(names.reason(reason)), ..row }
            }
            Class::Forwarded { from, to } => through(row("forwarded"), from, to, names),
            Class::Bridged { from, to } => through(row("bridged"), from, to, names),
            Class::Softirq(vector) => {
                let direction = (vector == Softirq::NetTx).then_some(Direction::Tx);
                Self { direction, ..row(of_vector(vector)) }
            }
        }
    }
}

fn through(row: UnownedRow, from: Device, to: u32, names: &mut impl Names) -> UnownedRow {
    let to = names.device(Device { index: to, ..from });
    let row = row.at(names.device(from), Direction::Through);
    UnownedRow { to: Some(to), ..row }
}

fn of_vector(vector: Softirq) -> &'static str {
    match vector {
        Softirq::Hi => "tasklet, high priority",
        Softirq::Timer => "timer",
        Softirq::NetTx => "tx completion",
        Softirq::NetRx => "rx",
        Softirq::Block => "block",
        Softirq::IrqPoll => "block, polled",
        Softirq::Tasklet => "tasklet",
        Softirq::Sched => "scheduler",
        Softirq::HrTimer => "timer, high resolution",
        Softirq::Rcu => "rcu",
    }
}

pub(super) fn per_packet(ns: u64, packets: u64) -> Option<f64> {
    Amount { ns, packets }.ns_per_packet()
}

/// Merges equal rows: sockets have no row of their own, and devices without a name are the same.
fn merged(rows: Vec<UnownedRow>) -> Vec<UnownedRow> {
    let mut merged: Vec<UnownedRow> = Vec::new();
    for row in rows {
        let same = |other: &&mut UnownedRow| {
            let key = |row: &UnownedRow| (row.class, row.direction);
            key(other) == key(&row)
                && (&other.device, &other.to, &other.reason) == (&row.device, &row.to, &row.reason)
        };
        match merged.iter_mut().find(same) {
            Some(other) => {
                other.ns += row.ns;
                other.packets += row.packets;
                other.standard_error = sum(other.standard_error, row.standard_error);
                other.ns_per_packet = per_packet(other.ns, other.packets);
            }
            None => merged.push(row),
        }
    }
    merged
}

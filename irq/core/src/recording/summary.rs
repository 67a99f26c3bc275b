//! Totals of a recording.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;

use super::{
    Error, IntervalLine, Line, NameRecord, Reader, RecordingHeader, RecordingTrailer, Result, Times,
};
use crate::OwnCost;
use crate::charge::sample::{Estimate, Sample};
use crate::charge::tick::{Balance, Compensation, GAMMA, InterruptsPerTick};
use crate::charge::{Accounts, Attribution, Cause, Device, Owner, Process, ReceiveQueue};
use crate::names::{Description, Names, ProcessInfo};

/// A recording as a whole.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Method and machine of the recording.
    pub header: RecordingHeader,
    /// The last line; `None` if the recording was cut off.
    pub trailer: Option<RecordingTrailer>,
    /// Its length, in nanoseconds.
    pub length_ns: u64,
    /// The accounts of each CPU with activity; packets of a socket without a reader so far count
    /// for its first reader.
    pub cpus: BTreeMap<u32, Accounts>,
    /// The sampled windows of each of these CPUs; empty if all packets were observed.
    pub samples: BTreeMap<u32, Sample>,
    /// Softirq time that found no room in the kernel's table, in nanoseconds.
    pub unrecorded_ns: u64,
    /// CPU time of the recording itself.
    pub own: OwnCost,
    /// Length of the intervals that `own` covers for the BPF programs, in nanoseconds.
    pub own_length_ns: u64,
    /// The referenced processes, with the kernel's times and their errors.
    pub corrections: BTreeMap<Process, Correction>,
    /// N'(t) of the paper at the end: interrupts in a tick.
    pub per_tick: Option<u32>,
    /// The number of intervals.
    pub intervals: u64,
    owners: HashMap<u64, Owner>,
    processes: HashMap<Process, Description>,
    devices: HashMap<Device, String>,
    queues: HashMap<ReceiveQueue, String>,
    reasons: HashMap<u32, String>,
    lines: HashMap<u32, String>,
}

/// A process's CPU time in a recording, from the kernel and corrected, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Correction {
    /// User time of the kernel.
    pub user_ns: u64,
    /// System time of the kernel.
    pub system_ns: u64,
    /// The error: caused less suffered, if the kernel charged the process for suffered time.
    pub exact_ns: i64,
    /// The same by the paper's algorithm, in whole ticks.
    pub by_ticks_ns: i64,
}

impl Correction {
    /// User and system time with a correction applied: first to system time, then to user time.
    #[must_use]
    pub fn corrected(&self, by_ns: i64) -> (u64, u64) {
        let system_ns = self.system_ns as i64 + by_ns;
        let user_ns = (self.user_ns as i64 + system_ns.min(0)).max(0);
        (user_ns as u64, system_ns.max(0) as u64)
    }
}

impl Summary {
    /// Reads a recording to its end; with `partial`, accepts one without its last line.
    ///
    /// # Errors
    /// Read errors.
    pub fn of<R: BufRead>(mut reader: Reader<R>, partial: bool) -> Result<Self> {
        let header = reader.header().clone();
        let mut times = ProcessTimes::new(&header);
        let mut ticks = TickAlgorithm::new(header.tick_ns);
        let mut summary = Self { header, ..Self::default() };
        for line in &mut reader {
            match line {
                Ok(Line::Begin(_)) => unreachable!("the reader returns an error"),
                Ok(Line::Named(named)) => summary.named(named),
                Ok(Line::Owner { cookie, process, by, estimate }) => {
                    let by = if estimate { Attribution::Estimate } else { by };
                    summary.owner(cookie, Owner { process, by });
                }
                Ok(Line::Interval(interval)) => {
                    times.see(&interval);
                    ticks.see(&interval);
                    summary.interval(&interval);
                }
                Ok(Line::End(end)) => {
                    summary.length_ns = end.to_ns;
                    summary.trailer = Some(end);
                }
                Err(Error::CutOff { .. }) if partial => break,
                Err(error) => return Err(error),
            }
        }
        let Self { cpus, samples, owners, .. } = &mut summary;
        for accounts in cpus.values_mut() {
            accounts.resolve(|cookie| owners.get(&cookie).copied());
        }
        for sample in samples.values_mut() {
            sample.resolve(|cookie| owners.get(&cookie).copied());
        }
        summary.correct(&times, &ticks);
        Ok(summary)
    }

    /// The accounts of each CPU, completed where packets were sampled.
    pub fn estimates(&self) -> impl Iterator<Item = (u32, Estimate)> {
        let none = Sample::default();
        self.cpus.iter().map(move |(cpu, accounts)| {
            (*cpu, Estimate::of(accounts, self.samples.get(cpu).unwrap_or(&none)))
        })
    }

    /// The accounts of all CPUs together.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        let mut total = Estimate::default();
        self.estimates().for_each(|(_, cpu)| total.add(&cpu));
        total
    }

    /// As [`Summary::estimate`], without errors.
    #[must_use]
    pub fn total(&self) -> Accounts {
        self.estimate().accounts
    }

    /// The known description of a process.
    #[must_use]
    pub fn description(&self, process: Process) -> Option<&Description> {
        self.processes.get(&process)
    }

    /// Replaces a socket with its reader.
    #[must_use]
    pub fn resolve(&self, cause: Cause) -> Cause {
        match cause {
            Cause::Socket { cookie, device } => match self.owners.get(&cookie) {
                Some(owner) => owner.cause(device),
                None => cause,
            },
            _ => cause,
        }
    }

    /// Weaker evidence does not replace stronger.
    fn owner(&mut self, cookie: u64, owner: Owner) {
        let known = self.owners.entry(cookie).or_insert(owner);
        if owner.by <= known.by {
            *known = owner;
        }
    }

    fn named(&mut self, named: NameRecord) {
        match named {
            NameRecord::Process { process, command, cgroup, container, user } => {
                self.processes.insert(process, Description { command, cgroup, container, user });
            }
            NameRecord::Device { device, name } => drop(self.devices.insert(device, name)),
            NameRecord::Queue { queue, name } => drop(self.queues.insert(queue, name)),
            NameRecord::Reason { reason, name } => drop(self.reasons.insert(reason, name)),
            NameRecord::InterruptLine { number, name } => drop(self.lines.insert(number, name)),
        }
    }

    fn interval(&mut self, interval: &IntervalLine) {
        self.intervals += 1;
        self.length_ns = interval.to_ns;
        self.unrecorded_ns += interval.unrecorded_ns;
        if let Some(ns) = interval.own.programs_ns {
            *self.own.programs_ns.get_or_insert_default() += ns;
            self.own_length_ns += interval.to_ns.saturating_sub(interval.from_ns);
        }
        self.own.process_ns += interval.own.process_ns;
        for line in &interval.cpus {
            self.cpus.entry(line.cpu).or_default().add(&line.accounts());
            if line.sample.is_some() {
                self.samples.entry(line.cpu).or_default().add(&line.sample());
            }
        }
    }

    fn correct(&mut self, times: &ProcessTimes, ticks: &TickAlgorithm) {
        let total = self.total();
        let tick_ns = self.header.tick_ns.unwrap_or(0) as i64;
        let hz = self.header.user_hz.max(1);
        let ns = |ticks: u64| ticks * 1_000_000_000 / hz;
        // Time that the kernel excludes from a process's time needs no correction.
        let suffering_is_charged = self.header.irq_time_accounting != Some(true);
        self.per_tick = ticks.per_tick.as_ref().and_then(InterruptsPerTick::interrupts);
        for (&process, &(first, last)) in &times.seen {
            let (mut exact_ns, mut by_ticks_ns) = (total.compensation_ns(process), 0);
            if suffering_is_charged {
                by_ticks_ns = ticks.balance(process).ticks * tick_ns;
            } else {
                exact_ns += (total.suffered_ns(process) + total.interrupted_ns(process)) as i64;
            }
            let correction = Correction {
                user_ns: ns(last.0.saturating_sub(first.0)),
                system_ns: ns(last.1.saturating_sub(first.1)),
                exact_ns,
                by_ticks_ns,
            };
            self.corrections.insert(process, correction);
        }
    }
}

impl Names for Summary {
    fn process(&mut self, process: Process) -> ProcessInfo {
        ProcessInfo { description: self.processes.get(&process).cloned(), ended: false }
    }

    fn device(&mut self, device: Device) -> String {
        self.devices.get(&device).cloned().unwrap_or_else(|| device.to_string())
    }

    fn queue(&mut self, queue: ReceiveQueue) -> String {
        match self.queues.get(&queue) {
            Some(name) => name.clone(),
            None => format!("{}/napi-{}", self.device(queue.device), queue.napi),
        }
    }

    fn reason(&mut self, reason: u32) -> String {
        self.reasons.get(&reason).cloned().unwrap_or_else(|| format!("reason {reason}"))
    }

    fn line(&mut self, number: u32) -> String {
        self.lines.get(&number).cloned().unwrap_or_else(|| format!("line {number}"))
    }
}

/// User and system ticks.
type UserSystem = (u64, u64);

/// The first and the last times of processes.
struct ProcessTimes {
    there: HashMap<Process, UserSystem>,
    seen: BTreeMap<Process, (UserSystem, UserSystem)>,
}

impl ProcessTimes {
    fn new(header: &RecordingHeader) -> Self {
        let ticks = |times: &Times| (times.process, (times.user_ticks, times.system_ticks));
        Self { there: header.times.iter().map(ticks).collect(), seen: BTreeMap::new() }
    }

    fn see(&mut self, interval: &IntervalLine) {
        for &Times { process, user_ticks, system_ticks } in &interval.times {
            // A process that started during the recording starts at 0.
            let first = self.there.get(&process).copied().unwrap_or_default();
            self.seen.insert(process, (first, (user_ticks, system_ticks)));
        }
    }
}

/// The paper's algorithm, with the ticks and packets of each interval as input.
struct TickAlgorithm {
    per_tick: Option<InterruptsPerTick>,
    compensation: Compensation<Option<Process>>,
}

impl TickAlgorithm {
    fn new(tick_ns: Option<u64>) -> Self {
        Self {
            per_tick: tick_ns.and_then(|tick_ns| InterruptsPerTick::new(GAMMA, tick_ns)),
            compensation: Compensation::new(),
        }
    }

    fn see(&mut self, interval: &IntervalLine) {
        let Some(per_tick) = &mut self.per_tick else { return };
        for (cause, _, packets) in interval.cpus.iter().flat_map(|cpu| &cpu.caused) {
            if let Cause::Process { process, by: Attribution::Reader, .. } = cause {
                self.compensation.deliver(Some(*process), *packets);
            }
        }
        for tick in &interval.ticks {
            if tick.packets > 0 {
                per_tick.measure(tick.packets, tick.bottom_half_ns);
            }
            if let Some(interrupts) = per_tick.interrupts() {
                self.compensation.handle(tick.packets);
                self.compensation.tick(tick.running, interrupts);
            }
        }
    }

    fn balance(&self, process: Process) -> Balance {
        self.compensation.balance(&Some(process))
    }
}

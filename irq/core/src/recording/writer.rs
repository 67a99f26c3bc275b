//! Writes a recording.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::io::Write;

use super::{
    FORMAT, IntervalLine, Line, NameRecord, RecordingHeader, RecordingTrailer, Result, Times,
    VERSION,
};
use crate::charge::{
    Attribution, Cause, Class, Device, Interrupt, IpiSender, Owner, Process, ReceiveQueue, Runner,
};
use crate::names::{Description, Names};
use crate::{Interval, OwnCost, Tick};

/// Data of an interval besides its accounts.
#[derive(Debug, Default)]
pub struct IntervalExtras {
    /// CPU time of the recording itself.
    pub own: OwnCost,
    /// Clock ticks.
    pub ticks: Vec<Tick>,
}

/// Writes a recording. Its memory covers the last interval only, and is bounded.
#[derive(Debug)]
pub struct Writer<W> {
    into: W,
    processes: HashMap<Process, Option<Description>>,
    devices: HashMap<Device, String>,
    queues: HashMap<ReceiveQueue, String>,
    reasons: HashMap<u32, String>,
    lines: HashMap<u32, String>,
    /// Referenced sockets without a known reader; for some an estimate was written.
    unread: BTreeSet<u64>,
}

/// Maximum number of sockets without a reader: the capacity of the kernel's table.
const UNREAD: usize = 65536;

impl<W: Write> Writer<W> {
    /// Writes the first line.
    ///
    /// # Errors
    /// Write errors.
    pub fn start(into: W, header: RecordingHeader) -> Result<Self> {
        let mut writer = Self {
            into,
            processes: HashMap::new(),
            devices: HashMap::new(),
            queues: HashMap::new(),
            reasons: HashMap::new(),
            lines: HashMap::new(),
            unread: BTreeSet::new(),
        };
        let version = VERSION;
        writer.line(&Line::Begin(RecordingHeader { format: FORMAT.into(), version, ..header }))?;
        Ok(writer)
    }

    /// Writes the additions of the ledger. `times` returns the kernel's times of a process, `owner` the owner of a
    /// socket.
    ///
    /// # Errors
    /// Write errors.
    pub fn interval(
        &mut self,
        interval: &Interval,
        besides: IntervalExtras,
        names: &mut impl Names,
        times: impl Fn(Process) -> Option<Times>,
        owner: impl Fn(u64) -> Option<Owner>,
    ) -> Result<()> {
        let mut line = IntervalLine::from(interval);
        let mentioned = ReferencedIds::by(&line);
        let owners: Vec<Option<Owner>> = mentioned.sockets.iter().map(|one| owner(*one)).collect();
        self.name(&mentioned, &owners, names)?;
        for (cookie, owner) in mentioned.sockets.iter().zip(owners) {
            let estimate = owner.is_none_or(|owner| owner.by != Attribution::Reader);
            // The reader may be known by the end.
            let first = !estimate || self.unread.len() < UNREAD && self.unread.insert(*cookie);
            if let Some(owner) = owner.filter(|_| first) {
                self.owner(*cookie, owner)?;
            }
        }
        line.times = mentioned.processes.into_iter().filter_map(times).collect();
        (line.own, line.ticks) = (besides.own, besides.ticks);
        self.line(&Line::Interval(line))
    }

    /// Writes the owners of sockets that were referenced before these were known, and the last line.
    ///
    /// # Errors
    /// Write errors.
    pub fn finish(
        mut self,
        end: RecordingTrailer,
        owner: impl Fn(u64) -> Option<Owner>,
    ) -> Result<W> {
        for cookie in std::mem::take(&mut self.unread) {
            if let Some(owner) = owner(cookie) {
                self.owner(cookie, owner)?;
            }
        }
        self.line(&Line::End(end))?;
        self.into.flush()?;
        Ok(self.into)
    }

    fn owner(&mut self, cookie: u64, Owner { process, by }: Owner) -> Result<()> {
        self.line(&Line::Owner { cookie, process, by, estimate: false })
    }

    fn line(&mut self, line: &Line) -> Result<()> {
        serde_json::to_writer(&mut self.into, line).map_err(std::io::Error::from)?;
        Ok(self.into.write_all(b"\n")?)
    }

    /// Writes the names of referenced ids that the previous interval did not have.
    fn name(
        &mut self,
        mentioned: &ReferencedIds,
        owners: &[Option<Owner>],
        names: &mut impl Names,
    ) -> Result<()> {
        let mut processes = mentioned.processes.clone();
        processes.extend(owners.iter().flatten().map(|owner| owner.process));
        once(&mut processes);
        let describe = |process| names.process(process).description;
        for (process, description) in news(&mut self.processes, &processes, describe) {
            if let Some(Description { command, cgroup, container, user }) = description {
                let named = NameRecord::Process { process, command, cgroup, container, user };
                self.line(&Line::Named(named))?;
            }
        }
        let of_device = |device| names.device(device);
        for (device, name) in news(&mut self.devices, &mentioned.devices, of_device) {
            self.line(&Line::Named(NameRecord::Device { device, name }))?;
        }
        let of_queue = |queue| names.queue(queue);
        for (queue, name) in news(&mut self.queues, &mentioned.queues, of_queue) {
            self.line(&Line::Named(NameRecord::Queue { queue, name }))?;
        }
        let of_reason = |reason| names.reason(reason);
        for (reason, name) in news(&mut self.reasons, &mentioned.reasons, of_reason) {
            self.line(&Line::Named(NameRecord::Reason { reason, name }))?;
        }
        let of_line = |number| names.line(number);
        for (number, name) in news(&mut self.lines, &mentioned.lines, of_line) {
            self.line(&Line::Named(NameRecord::InterruptLine { number, name }))?;
        }
        Ok(())
    }
}

/// Resolves referenced ids; returns those whose names changed. `known` then has these ids only.
fn news<K: Copy + Eq + Hash, V: Clone + PartialEq>(
    known: &mut HashMap<K, V>,
    mentioned: &[K],
    mut look: impl FnMut(K) -> V,
) -> Vec<(K, V)> {
    let now: HashMap<K, V> = mentioned.iter().map(|&key| (key, look(key))).collect();
    let before = std::mem::replace(known, now);
    let value = |key| (key, known[&key].clone());
    mentioned.iter().copied().filter(|key| before.get(key) != known.get(key)).map(value).collect()
}

/// The ids in an interval, each once.
#[derive(Default)]
struct ReferencedIds {
    processes: Vec<Process>,
    devices: Vec<Device>,
    queues: Vec<ReceiveQueue>,
    reasons: Vec<u32>,
    lines: Vec<u32>,
    sockets: Vec<u64>,
}

impl ReferencedIds {
    fn by(line: &IntervalLine) -> Self {
        let mut all = Self::default();
        for cpu in &line.cpus {
            cpu.caused.iter().for_each(|(cause, ..)| all.cause(*cause));
            all.queues.extend(cpu.queues.iter().map(|(queue, ..)| *queue));
            for (runner, _) in cpu.suffered.iter().chain(&cpu.interrupted) {
                if let Runner::Process(process) = runner {
                    all.processes.push(*process);
                }
            }
            for (interrupt, ..) in &cpu.interrupts {
                match interrupt {
                    Interrupt::Line(number) => all.lines.push(*number),
                    Interrupt::Ipi { sender: IpiSender::Process(process), .. } => {
                        all.processes.push(*process);
                    }
                    Interrupt::Ipi { .. } | Interrupt::Vector(_) => {}
                }
            }
        }
        all.devices.retain(|device| device.index != 0);
        once(&mut all.processes);
        once(&mut all.devices);
        once(&mut all.queues);
        once(&mut all.reasons);
        once(&mut all.lines);
        once(&mut all.sockets);
        all
    }

    fn cause(&mut self, cause: Cause) {
        match cause {
            Cause::Process { process, device, .. } => {
                self.processes.push(process);
                self.devices.push(device);
            }
            Cause::Socket { cookie, device } => {
                self.sockets.push(cookie);
                self.devices.push(device);
            }
            Cause::Unowned(class) => match class {
                Class::Forwarded { from, to } | Class::Bridged { from, to } => {
                    self.devices.extend([from, Device { index: to, ..from }]);
                }
                Class::Dropped { device, reason } => {
                    self.devices.push(device);
                    self.reasons.push(reason);
                }
                Class::Xdp(device)
                | Class::XdpVerdict { device, .. }
                | Class::Handshake(device)
                | Class::Connection(device)
                | Class::Icmp(device)
                | Class::Neighbor(device)
                | Class::KernelSocket(device)
                | Class::EmptyPoll(device)
                | Class::TxCompletion(device)
                | Class::Unattributed(device)
                | Class::Unsampled(device) => self.devices.push(device),
                Class::Softirq(_) => {}
            },
        }
    }
}

fn once<T: Ord>(list: &mut Vec<T>) {
    list.sort_unstable();
    list.dedup();
}

//! Periodic reading of the ledger: the changes since the last reading.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::table::Row;
use super::{
    ON_CONSUME_SKB, ON_NET_DEV_START_XMIT, ON_NETIF_RECEIVE_SKB, ON_SOCK_RECV_LENGTH, Tracer,
    decode,
};
use crate::abi::irq_totals;
use crate::error::Result;
use onbeat_irq_core::Interval;
use onbeat_irq_core::charge::sample::Sample;
use onbeat_irq_core::charge::{Accounts, Amount, Attribution, Cause, Class, Process};

/// Reads a [`Tracer`] periodically.
///
/// Programs that few hosts need are attached on demand; before that, the time that they would distinguish is
/// [`Class::EmptyPoll`] or [`Class::Unattributed`].
///
/// A row without changes between two readings is removed from the kernel's table: the table holds only current
/// activity, for any number of processes.
#[derive(Debug)]
pub struct Meter {
    tracer: Tracer,
    began: Instant,
    last_reading_ns: u64,
    rows: HashMap<Vec<u8>, Vec<Amount>>,
    totals: Vec<irq_totals>,
    /// Changes since the last reading; windows end in between.
    pending: Interval,
    /// The need for headers of packets, for arrivals, and for reads.
    headers: UnneededReadings,
    arrivals: UnneededReadings,
    readers: UnneededReadings,
    /// The next walk over open files, and the number of its causes at the last one.
    next_walk: Instant,
    walks_wanted: u64,
    early_walk: Instant,
}

/// The longest and the shortest time between two walks over open files. A walk that is needed early waits for
/// this multiple of the duration of the last one.
const WALK_EVERY: Duration = Duration::from_secs(60);
const WALK_LEAST: Duration = Duration::from_secs(1);
const WALK_PART: u32 = 100;

/// A program on demand is detached after this number of readings without need.
const UNNEEDED: u32 = 3;

/// The number of readings in a row without need for a program.
#[derive(Debug, Default)]
struct UnneededReadings(u32);

impl UnneededReadings {
    /// Whether to attach (true) or to detach the program.
    fn update(&mut self, needed: bool) -> Option<bool> {
        self.0 = if needed { 0 } else { self.0 + 1 };
        (needed || self.0 >= UNNEEDED).then_some(needed)
    }

    fn persists(&self) -> bool {
        self.0 < UNNEEDED
    }
}

impl Meter {
    /// Starts from a new tracer: the first reading has all of its counts.
    #[must_use]
    pub fn new(mut tracer: Tracer) -> Self {
        if !tracer.forwards {
            tracer.detach(ON_NET_DEV_START_XMIT);
        }
        Self {
            tracer,
            headers: UnneededReadings::default(),
            arrivals: UnneededReadings::default(),
            readers: UnneededReadings::default(),
            next_walk: Instant::now() + WALK_EVERY,
            walks_wanted: 0,
            early_walk: Instant::now(),
            began: Instant::now(),
            last_reading_ns: 0,
            rows: HashMap::new(),
            totals: Vec::new(),
            pending: Interval::default(),
        }
    }

    /// The tracer.
    #[must_use]
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// Resumes after [`Meter::stop`].
    ///
    /// # Errors
    /// As [`Tracer::start`].
    pub fn resume(&mut self) -> Result<()> {
        self.tracer.resume()
    }

    /// As [`Tracer::attach_idle`].
    ///
    /// # Errors
    /// As [`Tracer::start`].
    pub fn attach_idle(&mut self) -> Result<()> {
        self.tracer.attach_idle()
    }

    /// Starts sampling packets.
    pub(super) fn begin_window(&mut self) -> Result<()> {
        self.tracer.sample_packets()
    }

    /// Stops sampling packets, and adds the window.
    pub(super) fn end_window(&mut self) -> Result<()> {
        self.tracer.skip_packets()?;
        let window = self.gather()?;
        self.pending.samples.resize_with(window.len(), Sample::default);
        for (mut accounts, sample) in window.into_iter().zip(&mut self.pending.samples) {
            accounts.resolve(|cookie| self.tracer.owner(cookie));
            sample.add_window(&accounts);
        }
        Ok(())
    }

    /// Stops the tracer: the next reading has all counts until now.
    pub fn stop(&mut self) {
        self.tracer.stop();
    }

    /// Moves the changes since the last call into the next reading, with the owners of their sockets. Between readings
    /// that are far apart this frees the kernel's tables. Returns the processes of the next reading.
    ///
    /// # Errors
    /// The kernel denies access.
    pub fn collect(&mut self) -> Result<BTreeSet<Process>> {
        self.gather()?;
        let Self { pending, tracer, .. } = self;
        pending.resolve(|cookie| tracer.owner(cookie));
        Ok(pending.cpus.iter().flat_map(Accounts::processes).collect())
    }

    /// Returns the changes since the last reading. CPUs continue meanwhile, so that a softirq in progress shows
    /// as a small imbalance.
    ///
    /// # Errors
    /// The kernel denies access.
    pub fn read(&mut self) -> Result<Interval> {
        self.gather()?;
        let next = Interval { from_ns: self.last_reading_ns, ..Interval::default() };
        Ok(std::mem::replace(&mut self.pending, next))
    }

    /// Adds the changes since its last call to `pending`, and returns them, by CPU.
    fn gather(&mut self) -> Result<Vec<Accounts>> {
        let totals = self.tracer.totals()?;
        let rows = self.tracer.rows()?;
        let before_ns = self.last_reading_ns;
        self.last_reading_ns = self.began.elapsed().as_nanos() as u64;

        let before = |cpu: usize| self.totals.get(cpu).copied().unwrap_or_default();
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let (mut unrecorded_ns, mut counts) = (0, irq_totals::default());
        let mut cpus = Vec::with_capacity(totals.len());
        for (cpu, now) in totals.iter().enumerate() {
            let before = before(cpu);
            unrecorded_ns += since(now.lost_ns, before.lost_ns);
            counts.arrived += since(now.arrived, before.arrived);
            counts.again += since(now.again, before.again);
            counts.inspected += since(now.inspected, before.inspected);
            counts.tapped += since(now.tapped, before.tapped);
            counts.work += since(now.work, before.work);
            counts.complex += since(now.complex, before.complex);
            cpus.push(Accounts {
                measured_ns: since(now.measured_ns, before.measured_ns),
                hardirq_ns: since(now.interrupt_ns, before.interrupt_ns),
                ..Accounts::default()
            });
        }
        let wanted = totals.iter().map(|totals| totals.unowned + totals.exits).sum();
        self.totals = totals;
        self.walk(wanted)?;
        self.tracer.attach_taps()?;

        let mut kept = HashMap::with_capacity(rows.len());
        for row in rows {
            let before = self.rows.remove(&row.octets);
            if before.as_ref() == Some(&row.amounts) {
                // Time may have been added since the reading, and must not be lost.
                let last = self.tracer.remove_row(&row)?;
                add(&mut cpus, &row, &last, &row.amounts);
            } else {
                add(&mut cpus, &row, &row.amounts, before.as_deref().unwrap_or_default());
                kept.insert(row.octets, row.amounts);
            }
        }
        self.rows = kept;
        self.demand(&cpus, &counts, self.last_reading_ns - before_ns)?;
        let pending = &mut self.pending;
        pending.to_ns = self.last_reading_ns;
        pending.unrecorded_ns += unrecorded_ns;
        pending.cpus.resize_with(cpus.len(), Accounts::default);
        pending.cpus.iter_mut().zip(&cpus).for_each(|(sum, cpu)| sum.add(cpu));
        Ok(cpus)
    }

    /// Walks over open files once a minute; earlier if packets reached sockets without a known owner, or an
    /// owner exited.
    fn walk(&mut self, wanted: u64) -> Result<()> {
        let now = Instant::now();
        if self.walks_wanted != wanted {
            self.next_walk = self.next_walk.min(self.early_walk);
        }
        if now < self.next_walk || !self.tracer.mode.kept {
            return Ok(());
        }
        self.walks_wanted = wanted;
        self.tracer.find_owners()?;
        self.tracer.taps.detach_unused(&self.tracer.object);
        self.next_walk = Instant::now() + WALK_EVERY;
        self.early_walk = Instant::now() + WALK_LEAST.max(WALK_PART * now.elapsed());
        Ok(())
    }

    /// Attaches programs on demand, if a hundredth of the packets need them: those at transmissions and those that
    /// inspect headers, for packets without an observed destination; the program at arrivals, for polls with several
    /// causes or without a known device; the program at reads, for sockets without a known reader. If a thousandth of
    /// a CPU's time went to polls without packets, the program at freed buffers.
    fn demand(&mut self, cpus: &[Accounts], since: &irq_totals, length_ns: u64) -> Result<()> {
        let observed = self.tracer.uses(ON_NETIF_RECEIVE_SKB);
        let packets = if observed { since.arrived } else { since.work };
        let needed = |count: u64| count > packets / 100;
        let ended = cpus.iter().map(|cpu| packets_of(cpu, is_end)).sum();
        let unended = (packets + since.tapped).saturating_sub(ended) + since.inspected;
        let unread = cpus.iter().map(|cpu| packets_of(cpu, is_unread)).sum();
        if packets > 0 {
            if needed(unended) || needed(since.again) {
                self.tracer.attach_on_demand(ON_NET_DEV_START_XMIT)?;
            }
            if let Some(on) = self.headers.update(needed(unended)) {
                self.tracer.inspect(on)?;
            }
            let complex = needed(since.complex) || needed(unended) || self.tracer.taps.any();
            self.arrivals.update(complex);
            self.readers.update(needed(unread));
            for (need, program) in self.needs() {
                if need {
                    self.tracer.attach_on_demand(program)?;
                }
            }
        }
        if cpus.iter().any(|cpu| empty_polls_ns(cpu) > length_ns / 1000) {
            self.tracer.attach_on_demand(ON_CONSUME_SKB)?;
        }
        Ok(())
    }

    /// Whether the programs at arrivals and at reads are needed.
    fn needs(&self) -> [(bool, &'static str); 2] {
        [
            (self.arrivals.persists(), ON_NETIF_RECEIVE_SKB),
            (self.readers.persists(), ON_SOCK_RECV_LENGTH),
        ]
    }

    /// Stops observing each arrival and each read of packets, while polls have one cause and sockets have a known
    /// reader; or resumes it. A caller resumes it for a part of the time, since only then new packet sockets and new
    /// readers of a socket are found. It is on before the first call.
    ///
    /// # Errors
    /// The kernel denies to attach a program.
    pub fn observe_all(&mut self, on: bool) -> Result<()> {
        for (need, program) in self.needs() {
            if on {
                self.tracer.attach_on_demand(program)?;
            } else if !need {
                self.tracer.detach(program);
            }
        }
        Ok(())
    }

    /// The time of the last reading, in nanoseconds since the start.
    #[must_use]
    pub fn last_reading_ns(&self) -> u64 {
        self.last_reading_ns
    }

    /// Rows of the kernel's table at the last reading.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }
}

/// Whether packets of a cause have an observed destination.
fn is_end(cause: &Cause) -> bool {
    match cause {
        Cause::Unowned(class) => matches!(
            class,
            Class::Forwarded { .. }
                | Class::Bridged { .. }
                | Class::Dropped { .. }
                | Class::KernelSocket(_)
                | Class::Handshake(_)
                | Class::Connection(_)
                | Class::Icmp(_)
                | Class::Neighbor(_)
        ),
        Cause::Process { .. } | Cause::Socket { .. } => true,
    }
}

/// Whether packets of a cause are for sockets without a known reader.
fn is_unread(cause: &Cause) -> bool {
    match cause {
        Cause::Process { by, .. } => *by == Attribution::Owner,
        Cause::Socket { .. } => true,
        Cause::Unowned(_) => false,
    }
}

fn packets_of(cpu: &Accounts, of: impl Fn(&Cause) -> bool) -> u64 {
    cpu.caused.iter().filter(|(cause, _)| of(cause)).map(|(_, amount)| amount.packets).sum()
}

/// Time of device polls without packets.
fn empty_polls_ns(cpu: &Accounts) -> u64 {
    let ns = cpu.caused.iter().map(|(cause, amount)| match cause {
        Cause::Unowned(Class::EmptyPoll(device)) if device.index != 0 => amount.ns,
        _ => 0,
    });
    ns.sum()
}

/// Adds the increase of a row's amounts to the CPUs' accounts.
fn add(cpus: &mut [Accounts], row: &Row, now: &[Amount], before: &[Amount]) {
    for (cpu, (accounts, now)) in cpus.iter_mut().zip(now).enumerate() {
        let before = before.get(cpu).copied().unwrap_or_default();
        decode::row(&row.key, now.since(before), accounts);
    }
}

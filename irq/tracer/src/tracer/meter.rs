//! What is added to the ledger from one look to the next, for as long as one likes.

use std::collections::HashMap;
use std::time::Instant;

use super::table::Row;
use super::{ON_CONSUME_SKB, ON_NET_DEV_START_XMIT, Tracer, decode};
use crate::abi::irq_totals;
use crate::error::Result;
use onbeat_irq_core::Interval;
use onbeat_irq_core::charge::sample::Sample;
use onbeat_irq_core::charge::{Accounts, Amount, Cause, Class};

/// Looks at a [`Tracer`] again and again.
///
/// Programs that few hosts need are attached once it sees that they do; until then, what they would tell
/// apart is [`Class::EmptyPoll`] or [`Class::Unattributed`].
///
/// A row to which nothing was added between two looks is taken out of the kernel's table: it holds what
/// happens now, however many processes come and go.
#[derive(Debug)]
pub struct Meter {
    tracer: Tracer,
    began: Instant,
    looked_ns: u64,
    rows: HashMap<Vec<u8>, Vec<Amount>>,
    totals: Vec<irq_totals>,
    /// What was added since the last look; windows end in between.
    pending: Interval,
}

impl Meter {
    /// Of a tracer that has just been started: the first look has all that it has counted.
    #[must_use]
    pub fn new(mut tracer: Tracer) -> Self {
        tracer.spare();
        Self {
            tracer,
            began: Instant::now(),
            looked_ns: 0,
            rows: HashMap::new(),
            totals: Vec::new(),
            pending: Interval::default(),
        }
    }

    /// The tracer, for what it knows besides.
    #[must_use]
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// Goes on after [`Meter::stop`].
    ///
    /// # Errors
    /// As [`Tracer::start`].
    pub fn resume(&mut self) -> Result<()> {
        self.tracer.resume()
    }

    /// Looks at packets from now on.
    pub(super) fn begin_window(&mut self) -> Result<()> {
        self.tracer.look_at_packets()
    }

    /// Skips packets from now on, and takes what there was since it began.
    pub(super) fn end_window(&mut self) -> Result<()> {
        self.tracer.skip_packets()?;
        let window = self.gather()?;
        self.pending.samples.resize_with(window.len(), Sample::default);
        for (mut accounts, sample) in window.into_iter().zip(&mut self.pending.samples) {
            accounts.resolve(|cookie| self.tracer.reader(cookie));
            sample.take(&accounts);
        }
        Ok(())
    }

    /// Stops the tracer: one more look has what was counted until now.
    pub fn stop(&mut self) {
        self.tracer.stop();
    }

    /// What was added since the last look. CPUs go on meanwhile, so that what is under way shows as a
    /// small imbalance.
    ///
    /// # Errors
    /// Where the kernel does not let us read.
    pub fn look(&mut self) -> Result<Interval> {
        self.gather()?;
        let next = Interval { from_ns: self.looked_ns, ..Interval::default() };
        Ok(std::mem::replace(&mut self.pending, next))
    }

    /// Adds what there was since it was last called to what is pending, and returns it, by CPU.
    fn gather(&mut self) -> Result<Vec<Accounts>> {
        let totals = self.tracer.totals()?;
        let rows = self.tracer.rows()?;
        let before_ns = self.looked_ns;
        self.looked_ns = self.began.elapsed().as_nanos() as u64;

        let before = |cpu: usize| self.totals.get(cpu).copied().unwrap_or_default();
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let (mut unrecorded_ns, mut arrived) = (0, 0);
        let mut cpus = Vec::with_capacity(totals.len());
        for (cpu, now) in totals.iter().enumerate() {
            let before = before(cpu);
            unrecorded_ns += since(now.lost_ns, before.lost_ns);
            arrived += since(now.arrived, before.arrived);
            cpus.push(Accounts {
                measured_ns: since(now.measured_ns, before.measured_ns),
                hardirq_ns: since(now.hardirq_ns, before.hardirq_ns),
                ..Accounts::default()
            });
        }
        self.totals = totals;

        let mut kept = HashMap::with_capacity(rows.len());
        for row in rows {
            let before = self.rows.remove(&row.octets);
            if before.as_ref() == Some(&row.amounts) {
                // Something may have been added since we looked, and it must not be lost.
                let last = self.tracer.take(&row)?;
                add(&mut cpus, &row, &last, &row.amounts);
            } else {
                add(&mut cpus, &row, &row.amounts, before.as_deref().unwrap_or_default());
                kept.insert(row.octets, row.amounts);
            }
        }
        self.rows = kept;
        self.demand(&cpus, arrived, self.looked_ns - before_ns)?;
        let pending = &mut self.pending;
        pending.to_ns = self.looked_ns;
        pending.unrecorded_ns += unrecorded_ns;
        pending.cpus.resize_with(cpus.len(), Accounts::default);
        pending.cpus.iter_mut().zip(&cpus).for_each(|(sum, cpu)| sum.add(cpu));
        Ok(cpus)
    }

    /// Has the tracer use what is missing: where a hundredth of the packets came to no end that it saw, what
    /// sees them leave again; where a thousandth of a CPU's time went to polls that found nothing, what sees
    /// buffers given back.
    fn demand(&mut self, cpus: &[Accounts], arrived: u64, length_ns: u64) -> Result<()> {
        let ended: u64 = cpus.iter().map(ended).sum();
        if ended + arrived / 100 < arrived {
            self.tracer.demand(ON_NET_DEV_START_XMIT)?;
        }
        if cpus.iter().any(|cpu| empty_polls_ns(cpu) > length_ns / 1000) {
            self.tracer.demand(ON_CONSUME_SKB)?;
        }
        Ok(())
    }

    /// When the last look was, in nanoseconds from the start.
    #[must_use]
    pub fn looked_ns(&self) -> u64 {
        self.looked_ns
    }

    /// Rows of the kernel's table, as of the last look.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }
}

/// Packets whose end was seen.
fn ended(cpu: &Accounts) -> u64 {
    let is_end = |cause: &Cause| match cause {
        Cause::Unowned(class) => matches!(
            class,
            Class::Forwarded { .. }
                | Class::Bridged { .. }
                | Class::Dropped { .. }
                | Class::KernelSocket(_)
        ),
        Cause::Process { .. } | Cause::Inferred { .. } | Cause::Socket { .. } => true,
    };
    cpu.caused.iter().filter(|(cause, _)| is_end(cause)).map(|(_, amount)| amount.packets).sum()
}

/// Time of the polls of devices that found nothing.
fn empty_polls_ns(cpu: &Accounts) -> u64 {
    let ns = cpu.caused.iter().map(|(cause, amount)| match cause {
        Cause::Unowned(Class::EmptyPoll(device)) if device.index != 0 => amount.ns,
        _ => 0,
    });
    ns.sum()
}

/// Puts what a row's amounts exceed earlier ones by into the CPUs' accounts.
fn add(cpus: &mut [Accounts], row: &Row, now: &[Amount], before: &[Amount]) {
    for (cpu, (accounts, now)) in cpus.iter_mut().zip(now).enumerate() {
        let before = before.get(cpu).copied().unwrap_or_default();
        decode::row(&row.key, now.since(before), accounts);
    }
}

//! Periodic reading of the ledger.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use onbeat_irq::names::Names;
use onbeat_irq::{CostMeter, Error, Meter, Sampler, Tracer, host};
use onbeat_irq_core::names::Names as _;
use onbeat_irq_core::{Interval, OwnCost};
use onbeat_realtime::interrupt;

/// The part of an interval in which the ledger's own programs are observed, which doubles their cost; at least
/// the second, and not more often than the third.
const WATCHED: u32 = 10;
const WATCHED_LEAST: Duration = Duration::from_millis(20);
const WATCHED_EVERY: Duration = Duration::from_secs(1);

/// The longest time between two readings of the kernel's tables.
const COLLECTED_EVERY: Duration = Duration::from_secs(1);

/// The ledger, read periodically.
#[derive(Debug)]
pub struct Watch {
    /// The ledger.
    pub meter: Meter,
    /// Names, as of the last reading.
    pub names: Names,
    /// The NUMA node of each CPU.
    pub nodes: BTreeMap<u32, u32>,
    sampler: Option<Sampler>,
    own: CostMeter,
    watched: Option<Instant>,
    due: Instant,
}

/// The additions to the ledger in an interval.
#[derive(Debug)]
pub struct Reading {
    /// The ledger.
    pub interval: Interval,
    /// The cost of the measurement.
    pub own: OwnCost,
    /// Whether it is the last one.
    pub last: bool,
}

impl Watch {
    /// Reads a tracer; with `sample`, samples packets for one part in `sample` of the time. Measures the time around
    /// hard interrupts first.
    ///
    /// # Errors
    /// Those of [`Tracer::measure_interrupt_entry`]; the kernel reports no CPU time of this process; those of [`Sampler::new`].
    pub fn new(mut tracer: Tracer, sample: Option<NonZeroU32>) -> Result<Self, Error> {
        tracer.measure_interrupt_entry()?;
        let names = tracer.names()?;
        let meter = Meter::new(tracer);
        let own = CostMeter::new()?;
        let sampler = sample.map(Sampler::new).transpose()?;
        let nodes = host::cpu_nodes();
        Ok(Self { meter, names, nodes, sampler, own, watched: None, due: Instant::now() })
    }

    /// Waits for the end of an interval, and reads it. `wait` waits until an instant, and returns false to make
    /// the interval the last one.
    ///
    /// # Errors
    /// Those of `wait`; the kernel denies access to the ledger.
    pub fn read<E: From<Error>>(
        &mut self,
        length: Duration,
        mut wait: impl FnMut(Instant) -> Result<bool, E>,
    ) -> Result<Reading, E> {
        let begun = Instant::now();
        // A late interval does not shorten the next ones.
        self.due = (self.due + length).max(begun + length / 2);
        let mut on = true;
        if self.watched.is_none_or(|at| at + WATCHED_EVERY <= begun + length / 2) {
            self.watched = Some(begun);
            self.own.start(self.meter.tracer())?;
            on = self.wait(self.due.min(begun + self.watched(length)), &mut wait)?;
            self.own.stop(self.meter.tracer())?;
        }
        if on {
            // Sampling windows observe all packets anyway.
            let until = self.due.min(Instant::now() + self.watched(length));
            self.meter.observe_all(true)?;
            on = self.wait(until, &mut wait)?;
            self.meter.observe_all(self.sampler.is_some())?;
        }
        if on {
            on = self.wait(self.due, &mut wait)?;
        }
        if !on {
            // The ledger adds nothing during the last reading.
            self.meter.stop();
        }
        let mut interval = self.meter.read()?;
        self.names.refresh();
        interval.resolve(|cookie| self.meter.tracer().owner(cookie));
        let own = self.own.cost(interval.length_ns())?;
        Ok(Reading { interval, own, last: !on })
    }

    fn wait<E: From<Error>>(
        &mut self,
        until: Instant,
        wait: &mut impl FnMut(Instant) -> Result<bool, E>,
    ) -> Result<bool, E> {
        match &mut self.sampler {
            Some(sampler) => sampler.wait(&mut self.meter, until, wait),
            None => self.collect(until, wait),
        }
    }

    /// Waits, and reads the kernel's tables meanwhile: they hold a limited number of short-lived processes.
    fn collect<E: From<Error>>(
        &mut self,
        until: Instant,
        wait: &mut impl FnMut(Instant) -> Result<bool, E>,
    ) -> Result<bool, E> {
        loop {
            let next = until.min(Instant::now() + COLLECTED_EVERY);
            if !wait(next)? {
                return Ok(false);
            }
            if next == until {
                return Ok(true);
            }
            for process in self.meter.collect()? {
                self.names.process(process);
            }
        }
    }

    /// Length of a sampling interval, with skipped and sampled packets; zero without sampling.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.sampler.as_ref().map_or(Duration::ZERO, Sampler::period)
    }

    /// Duration for which the ledger's own programs are observed: when sampling, for a window and the skipped time around
    /// it.
    fn watched(&self, length: Duration) -> Duration {
        WATCHED_LEAST.max(length / WATCHED).max(self.period())
    }
}

/// Starts a tracer, which samples if `sample` is given.
///
/// # Errors
/// Those of [`Tracer::start`].
pub fn start(sample: Option<NonZeroU32>) -> Result<Tracer, Error> {
    if sample.is_some() { Tracer::start_sampled() } else { Tracer::start() }
}

/// Waits until an instant; false after Ctrl-C.
pub fn wait(until: Instant) -> bool {
    interrupt::pause(until.saturating_duration_since(Instant::now())).is_ok()
}

//! The ledger during a measurement.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use onbeat_bpf::Runs;
use onbeat_irq::{Meter, Sampler, Tracer};
use onbeat_irq_core::charge::sample::Estimate;

use crate::Result;

/// The part of a measurement that observes all arrivals and reads.
const OBSERVED: Duration = Duration::from_millis(50);

/// Longer than any measurement.
const LONG: Duration = Duration::from_secs(3600);

/// The ledger, of all packets or of a sample.
#[derive(Debug)]
pub(super) struct Ledger {
    meter: Meter,
    sampler: Option<Sampler>,
}

impl Ledger {
    /// A ledger that is prepared, but not recording.
    pub(super) fn new(sample: Option<NonZeroU32>) -> Result<Self> {
        let tracer = match sample {
            Some(_) => Tracer::start_sampled()?,
            None => Tracer::start()?,
        };
        let mut meter = Meter::new(tracer);
        meter.stop();
        meter.read()?;
        Ok(Self { meter, sampler: sample.map(Sampler::new).transpose()? })
    }

    /// Records during a task; returns the task's result, and the accounts of each CPU.
    pub(super) fn during<T>(
        &mut self,
        what: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Vec<Estimate>)> {
        self.meter.resume()?;
        let Self { meter, sampler } = self;
        let done = beside(what, |wait| match sampler {
            Some(sampler) => sampler.wait(meter, Instant::now() + LONG, wait),
            // As the programs that read a ledger do.
            None => {
                meter.observe_all(true)?;
                wait(Instant::now() + OBSERVED)?;
                meter.observe_all(false)?;
                wait(Instant::now() + LONG)
            }
        });
        self.meter.stop();
        let mut interval = self.meter.read()?;
        interval.resolve(|cookie| self.meter.tracer().owner(cookie));
        Ok((done?, interval.estimates()))
    }

    /// Performs a task with attached programs that return at once.
    pub(super) fn idle_during<T>(&mut self, what: impl FnOnce() -> Result<T>) -> Result<T> {
        self.meter.attach_idle()?;
        let done = what();
        self.meter.stop();
        done
    }

    /// As [`Tracer::runs`].
    pub(super) fn runs(&self) -> Result<Vec<(String, Runs)>> {
        Ok(self.meter.tracer().runs()?)
    }
}

/// Performs a task beside one in another thread, whose function to wait returns false when the first is done.
fn beside<T>(
    what: impl FnOnce() -> Result<T>,
    other: impl FnOnce(&mut dyn FnMut(Instant) -> Result<bool>) -> Result<bool> + Send,
) -> Result<T> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            other(&mut |until| {
                while !over.load(Ordering::Relaxed) && Instant::now() < until {
                    thread::park_timeout(until.saturating_duration_since(Instant::now()));
                }
                Ok(!over.load(Ordering::Relaxed))
            })
        });
        let done = what();
        over.store(true, Ordering::Relaxed);
        thread.thread().unpark();
        thread.join().expect("it does not panic")?;
        done
    })
}

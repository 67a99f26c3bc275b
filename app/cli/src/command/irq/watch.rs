//! Looking at the ledger at intervals.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use onbeat_irq::names::Names;
use onbeat_irq::{Interval, Meter, OwnCost, OwnWatch, Sampler, Tracer};
use onbeat_realtime::{clock, interrupt};

use onbeat_terminal::exit::{Failure, Result};

/// What part of an interval the ledger's own programs are watched for, which costs as much again; not for
/// less than the second, and not more often than the third.
const WATCHED: u32 = 10;
const WATCHED_LEAST: Duration = Duration::from_millis(20);
const WATCHED_EVERY: Duration = Duration::from_secs(1);

/// Shortest interval: looking takes time, too.
const SHORTEST: Duration = Duration::from_millis(10);

/// The ledger, read periodically.
pub(super) struct Watch {
    pub(super) meter: Meter,
    pub(super) names: Names,
    sampler: Option<Sampler>,
    own: OwnWatch,
    watched: Option<Instant>,
    due: Instant,
}

/// What happened between two looks.
pub(super) struct Look {
    pub(super) interval: Interval,
    pub(super) own: OwnCost,
    /// Whether something wants it all to end.
    pub(super) last: bool,
}

impl Watch {
    /// Of a tracer that samples where `sample` says how much.
    pub(super) fn new(tracer: Tracer, sample: Option<NonZeroU32>) -> Result<Self> {
        let meter = Meter::new(tracer);
        let own = OwnWatch::new()?;
        let sampler = sample.map(Sampler::new).transpose()?;
        Ok(Self { meter, names: Names::new(), sampler, own, watched: None, due: Instant::now() })
    }

    /// Waits for the end of an interval, and looks. `wait` waits until an instant, and returns false
    /// where it is to be the last one.
    pub(super) fn look(
        &mut self,
        length: Duration,
        mut wait: impl FnMut(Instant) -> Result<bool>,
    ) -> Result<Look> {
        let begun = Instant::now();
        // Who was late is not made up for.
        self.due = (self.due + length).max(begun + length / 2);
        let mut on = true;
        if self.watched.is_none_or(|at| at + WATCHED_EVERY <= begun + length / 2) {
            self.watched = Some(begun);
            self.own.begin(self.meter.tracer())?;
            on = self.wait(self.due.min(begun + self.watched(length)), &mut wait)?;
            self.own.end(self.meter.tracer())?;
        }
        if on {
            on = self.wait(self.due, &mut wait)?;
        }
        if !on {
            // Nothing is added any more while the last look is taken.
            self.meter.stop();
        }
        let mut interval = self.meter.look()?;
        self.names.refresh();
        // Of other sockets the owner is an estimate, which may be better when it is shown.
        interval.resolve(|cookie| self.meter.tracer().reader(cookie));
        let own = self.own.cost(interval.length_ns())?;
        Ok(Look { interval, own, last: !on })
    }

    fn wait(
        &mut self,
        until: Instant,
        wait: &mut impl FnMut(Instant) -> Result<bool>,
    ) -> Result<bool> {
        match &mut self.sampler {
            Some(sampler) => sampler.wait(&mut self.meter, until, wait),
            None => wait(until),
        }
    }

    /// Length of a turn of skipped and sampled packets; zero without sampling.
    pub(super) fn stretch(&self) -> Duration {
        self.sampler.as_ref().map_or(Duration::ZERO, Sampler::stretch)
    }

    /// How long the ledger's own programs are watched: of one that samples for a window and all around it.
    fn watched(&self, length: Duration) -> Duration {
        WATCHED_LEAST.max(length / WATCHED).max(self.stretch())
    }
}

/// A tracer that samples, or one that does not.
pub(super) fn start(sample: Option<NonZeroU32>) -> Result<Tracer> {
    Ok(if sample.is_some() { Tracer::start_sampled()? } else { Tracer::start()? })
}

/// Waits until an instant; false after Ctrl-C.
pub(super) fn wait(until: Instant) -> Result<bool> {
    let left = until.saturating_duration_since(Instant::now());
    Ok(interrupt::pause_until(clock::now_ns() + left.as_nanos() as u64, || ()).is_ok())
}

/// Whether looks can be so close together.
pub(super) fn check_interval(interval: Duration) -> Result<()> {
    if interval < SHORTEST {
        return Err(Failure::new(format!(
            "--interval {interval:?} is too short; give 10ms or more"
        )));
    }
    Ok(())
}

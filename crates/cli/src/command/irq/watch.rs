//! Looking at the ledger at intervals.

use std::time::{Duration, Instant};

use onbeat_irq::names::Names;
use onbeat_irq::{Interval, Meter, OwnCost, OwnWatch, Tracer};
use onbeat_lab::{clock, interrupt};

use crate::exit::{Failure, Result};

/// What part of an interval the ledger's own programs are watched for, which costs as much again; not for
/// less than the second, and not more often than the third.
const WATCHED: u32 = 10;
const WATCHED_LEAST: Duration = Duration::from_millis(20);
const WATCHED_EVERY: Duration = Duration::from_secs(1);

/// Shortest interval: looking takes time, too.
const SHORTEST: Duration = Duration::from_millis(10);

/// The ledger, looked at again and again.
pub(super) struct Watch {
    pub(super) meter: Meter,
    pub(super) names: Names,
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
    pub(super) fn new(tracer: Tracer) -> Result<Self> {
        let meter = Meter::new(tracer);
        let own = OwnWatch::new()?;
        Ok(Self { meter, names: Names::new(), own, watched: None, due: Instant::now() })
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
            on = wait(self.due.min(begun + WATCHED_LEAST.max(length / WATCHED)))?;
            self.own.end(self.meter.tracer())?;
        }
        if on {
            on = wait(self.due)?;
        }
        if !on {
            // Nothing is added any more while the last look is taken.
            self.meter.stop();
        }
        let mut interval = self.meter.look()?;
        self.names.refresh();
        for accounts in &mut interval.cpus {
            accounts.resolve(|cookie| self.meter.tracer().owner(cookie));
        }
        let own = self.own.cost(interval.length_ns())?;
        Ok(Look { interval, own, last: !on })
    }
}

/// Waits until an instant; false after Ctrl-C.
pub(super) fn wait(until: Instant) -> Result<bool> {
    let left = until.saturating_duration_since(Instant::now());
    match interrupt::pause_until(clock::now_ns() + left.as_nanos() as u64, || ()) {
        Err(onbeat_lab::Error::Interrupted) => Ok(false),
        other => Ok(other.map(|()| true)?),
    }
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

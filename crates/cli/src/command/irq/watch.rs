//! Looking at the ledger at intervals.

use std::time::{Duration, Instant};

use onbeat_irq::names::Names;
use onbeat_irq::{Interval, Meter, OwnCost, OwnWatch, Tracer};
use onbeat_lab::{clock, interrupt};

use crate::exit::{Failure, Result};

/// What part of an interval the ledger's own programs are watched for: that costs as much again.
const WATCHED: u32 = 10;

/// Shortest interval: looking takes time, too.
const SHORTEST: Duration = Duration::from_millis(10);

/// The ledger, looked at again and again.
pub(super) struct Watch {
    pub(super) meter: Meter,
    pub(super) names: Names,
    own: OwnWatch,
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
        let meter = Meter::new(tracer)?;
        Ok(Self { meter, names: Names::new(), own: OwnWatch::new()?, due: Instant::now() })
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
        self.own.begin(self.meter.tracer())?;
        let mut on = wait(begun + length / WATCHED)?;
        let watched = self.own.end(self.meter.tracer(), length.as_nanos() as u64)?;
        if on {
            on = wait(self.due)?;
        }
        let mut interval = self.meter.look()?;
        self.names.refresh();
        for accounts in &mut interval.cpus {
            accounts.resolve(|cookie| self.meter.tracer().owner(cookie));
        }
        Ok(Look { interval, own: watched, last: !on })
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
        return Err(Failure::new(format!("--interval {interval:?} is too short; give 10ms or more")));
    }
    Ok(())
}

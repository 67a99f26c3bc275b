//! What the ledger takes itself.

use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

use super::Tracer;
use crate::error::{Error, Result};
use crate::statistics::Statistics;

/// Time that the ledger took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnCost {
    /// Its programs in the kernel, on all CPUs, in nanoseconds: what they took while they were watched,
    /// for as long as it was asked for. Most of it is in the bottom halves' time.
    pub programs_ns: u64,
    /// This process, in nanoseconds.
    pub process_ns: u64,
}

/// Watches what the ledger takes, now and then: the kernel's counting costs as much as the programs.
#[derive(Debug)]
pub struct OwnWatch {
    under_way: Option<(Statistics, u64, Instant)>,
    process_ns: u64,
}

impl OwnWatch {
    /// Nothing is watched yet.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn new() -> Result<Self> {
        Ok(Self { under_way: None, process_ns: process_ns()? })
    }

    /// Begins to watch.
    ///
    /// # Errors
    /// Where the kernel does not count the time of programs.
    pub fn begin(&mut self, tracer: &Tracer) -> Result<()> {
        let statistics = Statistics::enable()?;
        self.under_way = Some((statistics, taken_ns(tracer)?, Instant::now()));
        Ok(())
    }

    /// Stops watching: what the ledger has taken, were all of `length_ns` as what was watched. The time of
    /// this process is that since the call before.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn end(&mut self, tracer: &Tracer, length_ns: u64) -> Result<OwnCost> {
        let mut cost = OwnCost::default();
        if let Some((statistics, before, since)) = self.under_way.take() {
            let watched_ns = since.elapsed().as_nanos().max(1);
            let taken_ns = taken_ns(tracer)? - before;
            drop(statistics);
            let all_ns = u128::from(taken_ns) * u128::from(length_ns) / watched_ns;
            cost.programs_ns = all_ns as u64;
        }
        let process_ns = process_ns()?;
        cost.process_ns = process_ns.saturating_sub(self.process_ns);
        self.process_ns = process_ns;
        Ok(cost)
    }
}

/// What all programs have taken.
fn taken_ns(tracer: &Tracer) -> Result<u64> {
    Ok(tracer.runs()?.iter().map(|(_, runs)| runs.time_ns).sum())
}

fn process_ns() -> Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(|errno| {
        Error::kernel("ask for the time of this process", std::io::Error::from(errno).into())
    })?;
    let time = usage.user_time() + usage.system_time();
    Ok(time.num_nanoseconds() as u64)
}

//! What the ledger takes itself.

use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

use super::Tracer;
use crate::error::{Error, Result};
use crate::statistics::Watched;

/// Time that the ledger took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnCost {
    /// Its programs in the kernel, on all CPUs, in nanoseconds: as much as they took while they were last
    /// watched. Most of it is in the bottom halves' time.
    pub programs_ns: u64,
    /// This process, in nanoseconds.
    pub process_ns: u64,
}

/// Watches what the ledger takes, now and then: the kernel's counting costs as much as the programs.
#[derive(Debug)]
pub struct OwnWatch {
    under_way: Option<(Watched, Instant)>,
    /// The programs' share of one CPU's time, when they were last watched.
    share: f64,
    process_ns: u64,
}

impl OwnWatch {
    /// Nothing is watched yet.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn new() -> Result<Self> {
        Ok(Self { under_way: None, share: 0.0, process_ns: process_ns()? })
    }

    /// Begins to watch the programs.
    ///
    /// # Errors
    /// Where the kernel does not count the time of programs.
    pub fn begin(&mut self, tracer: &Tracer) -> Result<()> {
        self.under_way = Some((Watched::begin(|| tracer.runs())?, Instant::now()));
        Ok(())
    }

    /// Stops watching them.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn end(&mut self, tracer: &Tracer) -> Result<()> {
        if let Some((watched, since)) = self.under_way.take() {
            let watched_ns = since.elapsed().as_nanos().max(1);
            let taken_ns = watched.end(|| tracer.runs())?.time_ns;
            self.share = taken_ns as f64 / watched_ns as f64;
        }
        Ok(())
    }

    /// What the ledger took in this time: its programs as when they were last watched, this process since
    /// the call before.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn cost(&mut self, length_ns: u64) -> Result<OwnCost> {
        let process_ns = process_ns()?;
        let since = process_ns.saturating_sub(self.process_ns);
        self.process_ns = process_ns;
        Ok(OwnCost { programs_ns: (self.share * length_ns as f64) as u64, process_ns: since })
    }
}

fn process_ns() -> Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(|errno| {
        Error::kernel("ask for the time of this process", std::io::Error::from(errno).into())
    })?;
    let time = usage.user_time() + usage.system_time();
    Ok(time.num_nanoseconds() as u64)
}

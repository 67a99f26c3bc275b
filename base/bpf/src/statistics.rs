//! How often BPF programs run, and how long, as the kernel counts it while somebody wants to know.

use std::os::fd::OwnedFd;

use libbpf_rs::libbpf_sys as sys;

use crate::error::{Error, Result};
use crate::program::{Runs, owned};

/// While it lives, the kernel counts the runs of BPF programs and their time: two looks at the clock
/// for each run.
#[derive(Debug)]
pub struct Statistics {
    _fd: OwnedFd,
}

impl Statistics {
    /// Has the kernel count.
    ///
    /// # Errors
    /// Where the caller lacks CAP_SYS_ADMIN.
    pub fn enable() -> Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = owned(unsafe { sys::bpf_enable_stats(sys::BPF_STATS_RUN_TIME) });
        let fd = fd.map_err(|error| Error::kernel("turn BPF statistics on", error.into()))?;
        Ok(Self { _fd: fd })
    }
}

/// Programs that are watched for a while: counting costs as much as they take.
#[derive(Debug)]
pub struct Watched {
    statistics: Statistics,
    before: Runs,
}

impl Watched {
    /// Begins to count; `runs` are those of each program.
    ///
    /// # Errors
    /// As [`Statistics::enable`]; those of `runs`.
    pub fn begin(runs: impl FnOnce() -> Result<Vec<(String, Runs)>>) -> Result<Self> {
        let statistics = Statistics::enable()?;
        Ok(Self { statistics, before: Runs::of_all(&runs()?) })
    }

    /// What they took together since the begin.
    ///
    /// # Errors
    /// Those of `runs`.
    pub fn end(self, runs: impl FnOnce() -> Result<Vec<(String, Runs)>>) -> Result<Runs> {
        let since = Runs::of_all(&runs()?).since(self.before);
        drop(self.statistics);
        Ok(since)
    }
}

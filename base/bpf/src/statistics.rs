//! Run counts and run times of BPF programs, as counted by the kernel on request.

use std::os::fd::OwnedFd;

use libbpf_rs::libbpf_sys as sys;

use crate::error::{Error, Result};
use crate::program::{Runs, owned};

/// Makes the kernel count the runs of BPF programs and their time while it exists: two clock reads per run.
#[derive(Debug)]
pub struct Statistics {
    _fd: OwnedFd,
}

impl Statistics {
    /// Enables the counting.
    ///
    /// # Errors
    /// The caller lacks CAP_SYS_ADMIN.
    pub fn enable() -> Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = owned(unsafe { sys::bpf_enable_stats(sys::BPF_STATS_RUN_TIME) });
        let fd = fd.map_err(|error| Error::kernel("turn BPF statistics on", error.into()))?;
        Ok(Self { _fd: fd })
    }
}

/// A measurement of programs over an interval: counting costs as much as the programs.
#[derive(Debug)]
pub struct MeasuredRuns {
    statistics: Statistics,
    before: Runs,
}

impl MeasuredRuns {
    /// Starts to count; `runs` returns the runs of each program.
    ///
    /// # Errors
    /// Those of [`Statistics::enable`] and `runs`.
    pub fn begin(runs: impl FnOnce() -> Result<Vec<(String, Runs)>>) -> Result<Self> {
        let statistics = Statistics::enable()?;
        Ok(Self { statistics, before: Runs::of_all(&runs()?) })
    }

    /// Returns the runs of all programs since the start.
    ///
    /// # Errors
    /// Those of `runs`.
    pub fn end(self, runs: impl FnOnce() -> Result<Vec<(String, Runs)>>) -> Result<Runs> {
        let since = Runs::of_all(&runs()?).since(self.before);
        drop(self.statistics);
        Ok(since)
    }
}

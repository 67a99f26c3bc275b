//! How often BPF programs run, and how long, as the kernel counts it while somebody wants to know.

use std::os::fd::{BorrowedFd, OwnedFd};

use libbpf_rs::libbpf_sys as sys;

use crate::error::{Error, Result};
use crate::program::{ProgramInfo, owned};

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

/// Runs of a program, and the time they took, since it was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Runs {
    /// How many.
    pub count: u64,
    /// How long all of them took, in nanoseconds.
    pub time_ns: u64,
}

impl Runs {
    /// Those of a program.
    ///
    /// # Errors
    /// Where the descriptor is of no program.
    pub fn of(program: BorrowedFd<'_>) -> Result<Self> {
        let info = ProgramInfo::of(program)
            .map_err(|error| Error::kernel("ask for the runs of a BPF program", error.into()))?;
        Ok(info.runs)
    }

    /// Those of programs together.
    #[must_use]
    pub fn of_all(programs: &[(String, Self)]) -> Self {
        let mut sum = Self::default();
        for (_, runs) in programs {
            sum.count += runs.count;
            sum.time_ns += runs.time_ns;
        }
        sum
    }

    /// Those since an earlier moment.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self { count: self.count - before.count, time_ns: self.time_ns - before.time_ns }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_programs_together_since_a_moment() {
        let runs = |count, time_ns| Runs { count, time_ns };
        let programs = [("a".to_string(), runs(2, 30)), ("b".to_string(), runs(1, 4))];
        assert_eq!(Runs::of_all(&programs), runs(3, 34));
        assert_eq!(Runs::of_all(&programs).since(runs(1, 4)), runs(2, 30));
    }
}

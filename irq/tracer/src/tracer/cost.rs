//! CPU time of the ledger itself.

use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::{SysconfVar, sysconf};

use super::Tracer;
use crate::error::{Error, Result};
use onbeat_bpf::statistics::MeasuredRuns;
use onbeat_irq_core::OwnCost;

/// Observes the ledger's own cost, now and then: the kernel's statistics cost as much as the programs.
#[derive(Debug)]
pub struct CostMeter {
    under_way: Option<(MeasuredRuns, Instant)>,
    programs: ProgramTime,
    process_ns: u64,
}

/// The programs' time in all windows in which they were observed.
///
/// A window is short, and the kernel's time of a program includes that of whatever preempted it: a window with
/// more time than the CPUs have is discarded.
#[derive(Debug, PartialEq, Eq)]
struct ProgramTime {
    cpus: u64,
    taken_ns: u64,
    watched_ns: u64,
    /// Whether the last window had more time than the CPUs have.
    implausible: bool,
}

impl ProgramTime {
    fn new(cpus: u64) -> Self {
        Self { cpus, taken_ns: 0, watched_ns: 0, implausible: false }
    }

    fn add(&mut self, taken_ns: u64, watched_ns: u64) {
        self.implausible = taken_ns > watched_ns.saturating_mul(self.cpus);
        if !self.implausible {
            self.taken_ns += taken_ns;
            self.watched_ns += watched_ns;
        }
    }

    /// Time in an interval of `length_ns`, of which the CPUs have `length_ns` each.
    fn within(&self, length_ns: u64) -> Option<u64> {
        if self.implausible || self.watched_ns == 0 {
            return None;
        }
        let ns = u128::from(self.taken_ns) * u128::from(length_ns) / u128::from(self.watched_ns);
        u64::try_from(ns).ok()
    }
}

impl CostMeter {
    /// Observes nothing yet.
    ///
    /// # Errors
    /// The kernel reports no CPU time of this process.
    pub fn new() -> Result<Self> {
        let cpus = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten().unwrap_or(1);
        let programs = ProgramTime::new(cpus.max(1) as u64);
        Ok(Self { under_way: None, programs, process_ns: process_ns()? })
    }

    /// Starts observing the programs.
    ///
    /// # Errors
    /// The kernel does not measure the time of programs.
    pub fn start(&mut self, tracer: &Tracer) -> Result<()> {
        self.under_way = Some((MeasuredRuns::begin(|| tracer.runs())?, Instant::now()));
        Ok(())
    }

    /// Stops observing the programs.
    ///
    /// # Errors
    /// The kernel reports no statistics.
    pub fn stop(&mut self, tracer: &Tracer) -> Result<()> {
        if let Some((watched, since)) = self.under_way.take() {
            let taken_ns = watched.end(|| tracer.runs())?.time_ns;
            self.programs.add(taken_ns, since.elapsed().as_nanos() as u64);
        }
        Ok(())
    }

    /// The ledger's cost in this time: its programs by their mean share while observed, this process since the
    /// previous call.
    ///
    /// # Errors
    /// The kernel reports no CPU time of this process.
    pub fn cost(&mut self, length_ns: u64) -> Result<OwnCost> {
        let process_ns = process_ns()?;
        let since = process_ns.saturating_sub(self.process_ns);
        self.process_ns = process_ns;
        Ok(OwnCost { programs_ns: self.programs.within(length_ns), process_ns: since })
    }
}

fn process_ns() -> Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(|errno| {
        Error::kernel("read the CPU time of this process", std::io::Error::from(errno).into())
    })?;
    let time = usage.user_time() + usage.system_time();
    Ok(time.num_nanoseconds() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn windows_are_pooled_and_bounded_by_the_cpus() {
        let mut programs = ProgramTime::new(2);
        assert_eq!(programs.within(223 * MS), None, "nothing was observed");
        programs.add(2 * MS, 20 * MS);
        assert_eq!(programs.within(200 * MS), Some(20 * MS));
        // 4 of 60 ms in all.
        programs.add(2 * MS, 40 * MS);
        assert_eq!(programs.within(300 * MS), Some(20 * MS));
        // Six times what one CPU has: programs were preempted.
        programs.add(120 * MS, 20 * MS);
        assert_eq!(programs.within(223 * MS), None);
        programs.add(0, 20 * MS);
        assert_eq!(programs.within(400 * MS), Some(20 * MS));
    }

    #[test]
    fn all_of_the_cpus_is_possible() {
        let mut programs = ProgramTime::new(2);
        programs.add(40 * MS, 20 * MS);
        assert_eq!(programs.within(u64::MAX / 2), Some(u64::MAX - 1));
        programs.add(40 * MS + 1, 20 * MS);
        assert_eq!(programs.within(1), None);
    }
}

//! The CPU under measurement, and load on it.

use std::sync::atomic::Ordering;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::worker::Worker;
use crate::{Error, Result};

const THIS_THREAD: Pid = Pid::from_raw(0);

/// The CPUs that this thread may use, split into the measured CPU and the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cpus {
    pub(super) measured: usize,
    measured_set: CpuSet,
    others: CpuSet,
}

impl Cpus {
    /// Chooses `wanted`, or the last CPU: the first has most of the other work of the machine.
    pub(super) fn choose(wanted: Option<usize>) -> Result<Self> {
        let allowed = sched_getaffinity(THIS_THREAD)
            .map_err(|errno| Error::io("read the CPUs that may be used", errno))?;
        let list: Vec<usize> =
            (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false)).collect();
        let last = list.last().copied().unwrap_or(0);
        let measured = wanted.unwrap_or(last);
        if !list.contains(&measured) {
            let list: Vec<String> = list.iter().map(ToString::to_string).collect();
            return Err(Error::Option {
                option: "cpu",
                value: measured.to_string(),
                reason: format!("CPUs that may be used: {}", list.join(", ")),
            });
        }
        let mut measured_set = CpuSet::new();
        let mut others = allowed;
        let fits = measured_set.set(measured).and_then(|()| others.unset(measured));
        fits.map_err(|errno| Error::io(format!("choose CPU {measured}"), errno))?;
        if list.len() == 1 {
            others = allowed;
        }
        Ok(Self { measured, measured_set, others })
    }

    /// Returns a choice that measures on another CPU; `None`: this thread may use only one.
    pub(super) fn another(&self) -> Option<Self> {
        let is_other = |&cpu: &usize| self.others.is_set(cpu).unwrap_or(false);
        let other = (0..CpuSet::count()).find(is_other).filter(|cpu| *cpu != self.measured)?;
        Self::choose(Some(other)).ok()
    }

    /// Pins this thread, and the threads it starts meanwhile, to the measured CPU.
    pub(super) fn pin(&self) -> Result<AffinityGuard> {
        AffinityGuard::to(&self.measured_set)
    }

    /// Keeps this thread, and the threads it starts meanwhile, off the measured CPU if there is another
    /// one.
    pub(super) fn pin_to_others(&self) -> Result<AffinityGuard> {
        AffinityGuard::to(&self.others)
    }

    /// Gives this thread real-time priority until it exits, so that other work of the machine is not
    /// part of the measurement. Returns false if that is not permitted.
    pub(super) fn raise_priority() -> bool {
        let parameters = libc::sched_param { sched_priority: 1 };
        // SAFETY: the parameters live through the call.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
    }

    /// Keeps the measured CPU busy.
    pub(super) fn hog(&self) -> Result<Worker<()>> {
        let _pinned = self.pin()?;
        Worker::start("lab-hog", |stop| while !stop.load(Ordering::Relaxed) {})
    }
}

/// The CPU affinity of a thread, restored on drop.
#[derive(Debug)]
pub(super) struct AffinityGuard {
    former: CpuSet,
}

impl AffinityGuard {
    fn to(set: &CpuSet) -> Result<Self> {
        let pin = || {
            let former = sched_getaffinity(THIS_THREAD)?;
            sched_setaffinity(THIS_THREAD, set)?;
            Ok(Self { former })
        };
        pin().map_err(|errno: nix::errno::Errno| Error::io("pin a thread to a CPU", errno))
    }
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        // A thread that stays pinned is only slower.
        let _ = sched_setaffinity(THIS_THREAD, &self.former);
    }
}

//! One CPU for everything that is measured, and load on it.

use std::sync::atomic::Ordering;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::worker::Worker;
use crate::{Error, Result};

const THIS_THREAD: Pid = Pid::from_raw(0);

/// The CPUs that this thread may use, split into the measured one and the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cpus {
    pub(super) measured: usize,
    measured_set: CpuSet,
    others: CpuSet,
}

impl Cpus {
    /// `wanted`, or the last one there is: the first has the most to do besides.
    pub(super) fn choose(wanted: Option<usize>) -> Result<Self> {
        let allowed = sched_getaffinity(THIS_THREAD)
            .map_err(|errno| Error::io("ask which CPUs may be used", errno))?;
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

    /// Keeps this thread, and the threads it starts meanwhile, on the measured CPU.
    pub(super) fn pin(&self) -> Result<Pinned> {
        Pinned::to(&self.measured_set)
    }

    /// Keeps this thread, and the threads it starts meanwhile, off the measured CPU where there is
    /// another one.
    pub(super) fn pin_to_others(&self) -> Result<Pinned> {
        Pinned::to(&self.others)
    }

    /// Makes this thread, until it ends, go before all that is not real-time work, so that what
    /// else the machine does is not measured as well. False where that is not allowed.
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

/// Where a thread may run, until it is dropped.
#[derive(Debug)]
pub(super) struct Pinned {
    former: CpuSet,
}

impl Pinned {
    fn to(set: &CpuSet) -> Result<Self> {
        let pin = || {
            let former = sched_getaffinity(THIS_THREAD)?;
            sched_setaffinity(THIS_THREAD, set)?;
            Ok(Self { former })
        };
        pin().map_err(|errno: nix::errno::Errno| Error::io("keep a thread on a CPU", errno))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // That a thread stays where it is only makes it slower.
        let _ = sched_setaffinity(THIS_THREAD, &self.former);
    }
}

//! Where and with which priority the two nodes run.

use std::io;
use std::thread;

use onbeat_realtime::{DmaLatency, LockedMemory, Profile, Realtime, Scheduling};

use crate::{Error, Result, cpus};

/// CPUs and priority of the nodes' threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench) struct Place {
    pub(in crate::bench) mn_cpu: usize,
    pub(in crate::bench) cn_cpu: usize,
    /// Of SCHED_FIFO; `None`: as any other thread.
    pub(in crate::bench) priority: Option<u8>,
}

impl Place {
    /// `wanted`: of the managing and of the controlled node; else the first and the last one there
    /// are. A `priority` of 0 is none.
    pub(in crate::bench) fn choose(wanted: Option<(usize, usize)>, priority: u8) -> Result<Self> {
        let usable = cpus::usable()?;
        let ends =
            [usable.first(), usable.last()].map(|cpu| cpu.map_or(0, |cpu| usize::from(*cpu)));
        let (mn_cpu, cn_cpu) = wanted.unwrap_or(ends.into());
        cpus::check("cpus", mn_cpu, &usable)?;
        cpus::check("cpus", cn_cpu, &usable)?;
        let place = Self { mn_cpu, cn_cpu, priority: (priority > 0).then_some(priority) };
        // Refused now rather than in the middle.
        let tried = thread::scope(|scope| scope.spawn(|| place.take(mn_cpu).map(drop)).join());
        tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(place)
    }

    /// Keeps this thread on a CPU, at the priority, until what it gives is dropped.
    pub(in crate::bench) fn take(&self, cpu: usize) -> Result<Realtime> {
        let cpus = u16::try_from(cpu).into_iter().collect();
        let profile = Profile::default().on_cpus(cpus);
        let profile = match self.priority {
            Some(priority) => profile.scheduled(Scheduling::Fifo(priority)),
            None => profile,
        };
        profile.enter().map_err(|error| {
            Error::io(
                "place a thread (--priority 0 does without a priority)",
                io::Error::other(error),
            )
        })
    }
}

/// While it lives, memory stays where it is and CPUs do not sleep deeply; as far as the host lets
/// us.
#[derive(Debug)]
pub(in crate::bench) struct Awake {
    /// Whether the kernel was asked to keep CPUs out of deep sleep.
    pub(in crate::bench) no_deep_sleep: bool,
    /// Whether memory is locked.
    pub(in crate::bench) locked: bool,
    _held: (Option<DmaLatency>, Option<LockedMemory>),
}

impl Awake {
    pub(in crate::bench) fn begin() -> Self {
        let held = (DmaLatency::hold(0).ok(), LockedMemory::lock().ok());
        Self { no_deep_sleep: held.0.is_some(), locked: held.1.is_some(), _held: held }
    }
}

//! CPUs and priority of the two nodes.

use std::io;
use std::thread;

use onbeat_realtime::{DmaLatency, LockedMemory, Profile, Realtime, Scheduling};

use crate::{Error, Result, cpus};

/// CPUs and priority of the nodes' threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench) struct Placement {
    pub(in crate::bench) mn_cpu: usize,
    pub(in crate::bench) cn_cpu: usize,
    /// Priority of SCHED_FIFO; `None`: normal scheduling.
    pub(in crate::bench) priority: Option<u8>,
}

impl Placement {
    /// `wanted`: CPUs of the managing and of the controlled node; default: the first and the last one.
    /// A `priority` of 0 is none.
    pub(in crate::bench) fn choose(wanted: Option<(usize, usize)>, priority: u8) -> Result<Self> {
        let usable = cpus::usable()?;
        let ends =
            [usable.first(), usable.last()].map(|cpu| cpu.map_or(0, |cpu| usize::from(*cpu)));
        let (mn_cpu, cn_cpu) = wanted.unwrap_or(ends.into());
        cpus::check("cpus", mn_cpu, &usable)?;
        cpus::check("cpus", cn_cpu, &usable)?;
        let place = Self { mn_cpu, cn_cpu, priority: (priority > 0).then_some(priority) };
        // Fails here rather than during a measurement.
        let tried = thread::scope(|scope| scope.spawn(|| place.take(mn_cpu).map(drop)).join());
        tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(place)
    }

    /// Pins this thread to a CPU, at the priority, until the returned guard is dropped.
    pub(in crate::bench) fn take(&self, cpu: usize) -> Result<Realtime> {
        let cpus = u16::try_from(cpu).into_iter().collect();
        let profile = Profile::default().on_cpus(cpus);
        let profile = match self.priority {
            Some(priority) => profile.scheduled(Scheduling::Fifo(priority)),
            None => profile,
        };
        profile.enter().map_err(|error| {
            Error::io(
                "set CPU and priority of a thread (--priority 0 avoids a priority)",
                io::Error::other(error),
            )
        })
    }
}

/// Run conditions of the nodes.
#[derive(Debug, Clone, Copy)]
pub(in crate::bench) struct Machine {
    pub(in crate::bench) place: Placement,
    no_deep_sleep: bool,
    locked: bool,
}

impl Machine {
    pub(in crate::bench) fn new(place: Placement, awake: &LatencyGuard) -> Self {
        Self { place, no_deep_sleep: awake.no_deep_sleep, locked: awake.locked }
    }

    /// The note of a result; `request` names the frames of the managing nodes.
    pub(in crate::bench) fn note(&self, request: &str) -> String {
        let Placement { mn_cpu, cn_cpu, priority } = self.place;
        let priority = match priority {
            Some(priority) => format!("at SCHED_FIFO priority {priority}"),
            None => "without real-time priority".into(),
        };
        let awake = match (self.no_deep_sleep, self.locked) {
            (true, true) => "memory is locked, and deep idle states of CPUs are disabled",
            (true, false) => "memory is not locked, and deep idle states of CPUs are disabled",
            (false, true) => "memory is locked; deep idle states of CPUs could not be disabled",
            (false, false) => {
                "memory is not locked; deep idle states of CPUs could not be disabled"
            }
        };
        format!(
            "The managing nodes' threads are on CPU {mn_cpu}, as is the softirq work of a {request} up to the controlled node's interface; a response \
             by a program there is included; the controlled nodes' threads are on CPU {cn_cpu}; {priority}; \
             {awake}."
        )
    }
}

/// While it lives, memory is locked and deep idle states of CPUs are disabled, as far as permitted.
#[derive(Debug)]
pub(in crate::bench) struct LatencyGuard {
    /// Whether deep idle states of CPUs are disabled.
    no_deep_sleep: bool,
    /// Whether memory is locked.
    locked: bool,
    _held: (Option<DmaLatency>, Option<LockedMemory>),
}

impl LatencyGuard {
    pub(in crate::bench) fn begin() -> Self {
        let held = (DmaLatency::hold(0).ok(), LockedMemory::lock().ok());
        Self { no_deep_sleep: held.0.is_some(), locked: held.1.is_some(), _held: held }
    }
}

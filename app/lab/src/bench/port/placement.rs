//! Where and with which priority the two nodes run.

use std::io;
use std::thread;

use onbeat_realtime::{DmaLatency, LockedMemory, Profile, Realtime, Scheduling};

use crate::{Error, Result, cpus};

/// CPUs and priority of the nodes' threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench) struct Placement {
    pub(in crate::bench) mn_cpu: usize,
    pub(in crate::bench) cn_cpu: usize,
    /// Of SCHED_FIFO; `None`: as any other thread.
    pub(in crate::bench) priority: Option<u8>,
}

impl Placement {
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

/// What the nodes ran on.
#[derive(Debug, Clone, Copy)]
pub(in crate::bench) struct Machine {
    pub(in crate::bench) place: Placement,
    no_deep_sleep: bool,
    locked: bool,
}

impl Machine {
    pub(in crate::bench) fn new(place: Placement, awake: &Awake) -> Self {
        Self { place, no_deep_sleep: awake.no_deep_sleep, locked: awake.locked }
    }

    /// A note for a result; `request` is what the managing nodes send.
    pub(in crate::bench) fn note(&self, request: &str) -> String {
        let Placement { mn_cpu, cn_cpu, priority } = self.place;
        let priority = match priority {
            Some(priority) => format!("at priority {priority} of SCHED_FIFO"),
            None => "without real-time priority".into(),
        };
        let awake = match (self.no_deep_sleep, self.locked) {
            (true, true) => "memory is locked, and CPUs are kept out of deep sleep",
            (true, false) => "memory is not locked, and CPUs are kept out of deep sleep",
            (false, true) => "memory is locked; deep sleep of CPUs could not be ruled out",
            (false, false) => "memory is not locked; deep sleep of CPUs could not be ruled out",
        };
        format!(
            "The managing nodes' threads are on CPU {mn_cpu}, and with them the softirq work of a \
             {request} up to the controlled node's interface (and all of a response that a program \
             gives there); the controlled nodes' threads are on CPU {cn_cpu}; {priority}; {awake}."
        )
    }
}

/// While it lives, memory stays where it is and CPUs do not sleep deeply; as far as the host lets
/// us.
#[derive(Debug)]
pub(in crate::bench) struct Awake {
    /// Whether the kernel was asked to keep CPUs out of deep sleep.
    no_deep_sleep: bool,
    /// Whether memory is locked.
    locked: bool,
    _held: (Option<DmaLatency>, Option<LockedMemory>),
}

impl Awake {
    pub(in crate::bench) fn begin() -> Self {
        let held = (DmaLatency::hold(0).ok(), LockedMemory::lock().ok());
        Self { no_deep_sleep: held.0.is_some(), locked: held.1.is_some(), _held: held }
    }
}

//! All real-time settings of a thread, applied by one call.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::guard::{
    Affinity, DmaLatency, LockedMemory, SchedulingGuard, TimerSlack, prefault_stack,
};
use crate::{CpuSet, Result, Scheduling};

/// Requested settings of a cyclic thread. In a configuration file all keys are optional; omitted settings are
/// unchanged:
///
/// ```toml
/// scheduling = "fifo 49"
/// cpus = "1"
/// lock-memory = true
/// prefault-stack-octets = 262144
/// timer-slack-ns = 1
/// dma-latency-us = 0
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Profile {
    /// The thread's policy and priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// The CPUs of the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
    /// Whether to lock the process in memory.
    pub lock_memory: bool,
    /// Octets of the thread's stack to prefault.
    pub prefault_stack_octets: usize,
    /// Maximum delay of the thread's timers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer_slack_ns: Option<u32>,
    /// Maximum wake-up latency of an idle CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dma_latency_us: Option<u32>,
}

/// The policy of a thread that receives frames and sends in every cycle.
///
/// 49 is just below the interrupt threads of PREEMPT_RT and the NAPI threads of `Tuning` of onbeat-host, which are at
/// 50: a loop that polls for frames must not starve the threads that deliver its frames.
pub const CONTROL_LOOP: Scheduling = Scheduling::Fifo(49);

impl Profile {
    /// Returns the profile of a thread that sends and responds in every cycle: [`CONTROL_LOOP`], memory locked,
    /// 256 KiB of stack, no timer slack, CPUs without idle states.
    #[must_use]
    pub fn control_loop() -> Self {
        Self {
            scheduling: Some(CONTROL_LOOP),
            cpus: None,
            lock_memory: true,
            prefault_stack_octets: 256 * 1024,
            timer_slack_ns: Some(1),
            dma_latency_us: Some(0),
        }
    }

    /// Sets the CPUs.
    #[must_use]
    pub fn on_cpus(mut self, cpus: CpuSet) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Sets the policy.
    #[must_use]
    pub fn scheduled(mut self, scheduling: Scheduling) -> Self {
        self.scheduling = Some(scheduling);
        self
    }

    /// Sets the maximum wake-up latency of idle CPUs, in microseconds.
    #[must_use]
    pub fn within_us(mut self, latency_us: u32) -> Self {
        self.dma_latency_us = Some(latency_us);
        self
    }

    /// Applies all settings to the calling thread (memory and wake-up latency to its process and host), until
    /// the result is dropped. If one is refused, those applied before are undone.
    ///
    /// # Errors
    /// Those of the guards: [`DmaLatency::hold`], [`LockedMemory::lock`], [`prefault_stack`],
    /// [`TimerSlack::take`], [`Affinity::take`], [`SchedulingGuard::take`].
    pub fn enter(&self) -> Result<Realtime> {
        // The policy last: lengthy operations finish before the thread outranks others.
        let latency = self.dma_latency_us.map(DmaLatency::hold).transpose()?;
        let memory = self.lock_memory.then(LockedMemory::lock).transpose()?;
        if self.prefault_stack_octets > 0 {
            prefault_stack(self.prefault_stack_octets)?;
        }
        let slack = self.timer_slack_ns.map(TimerSlack::take).transpose()?;
        let affinity = self.cpus.as_ref().map(Affinity::take).transpose()?;
        let scheduled = self.scheduling.map(SchedulingGuard::take).transpose()?;
        let realtime = Realtime {
            profile: self.clone(),
            _scheduled: scheduled,
            _affinity: affinity,
            _slack: slack,
            memory,
            _latency: latency,
        };
        tracing::debug!("{realtime}");
        Ok(realtime)
    }
}

/// The applied settings of a [`Profile`]; undone on drop. The stack stays in memory.
#[derive(Debug)]
pub struct Realtime {
    profile: Profile,
    // In the order of restoration.
    _scheduled: Option<SchedulingGuard>,
    _affinity: Option<Affinity>,
    _slack: Option<TimerSlack>,
    memory: Option<LockedMemory>,
    _latency: Option<DmaLatency>,
}

impl Realtime {
    /// Returns the octets of the process that are locked in RAM, the cost of `lock-memory`.
    #[must_use]
    pub fn locked_octets(&self) -> u64 {
        self.memory.as_ref().map_or(0, LockedMemory::octets)
    }
}

/// The applied settings: `real time: fifo 49, CPUs 1, 12 MiB locked in RAM, wake-up within 0 us`.
impl fmt::Display for Realtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Profile { scheduling, cpus, timer_slack_ns, dma_latency_us, .. } = &self.profile;
        let taken = [
            scheduling.map(|scheduling| scheduling.to_string()),
            cpus.as_ref().map(|cpus| format!("CPUs {cpus}")),
            self.memory
                .as_ref()
                .map(|memory| format!("{} MiB locked in RAM", memory.octets().div_ceil(1 << 20))),
            timer_slack_ns.map(|slack| format!("timer slack {slack} ns")),
            dma_latency_us.map(|latency| format!("wake-up within {latency} us")),
        ];
        let taken: Vec<String> = taken.into_iter().flatten().collect();
        let taken = if taken.is_empty() { "no settings".to_owned() } else { taken.join(", ") };
        write!(f, "real time: {taken}")
    }
}

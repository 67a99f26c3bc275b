//! The current settings.

use super::{Manager, SettingLocation};
use onbeat_realtime::CpuSet;

/// The time that real-time tasks may run per period.
pub(super) const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// The current settings of a host and of interfaces. Those that a tuning cannot change may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// The online CPUs; empty if the kernel does not report them.
    pub cpus: CpuSet,
    /// One for each CPU with frequency scaling.
    pub governors: Vec<Governor>,
    /// `kernel.sched_rt_runtime_us`, if present.
    pub rt_runtime: Option<String>,
    /// The interfaces, in the requested order.
    pub interfaces: Vec<InterfaceSurvey>,
}

/// The frequency governor of a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Governor {
    /// The path of its file.
    pub path: String,
    /// The present governor.
    pub now: String,
    /// The governors that the driver offers; empty if unknown.
    pub available: Vec<String>,
}

/// The settings of an interface. A value is `None` if the device does not support it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterfaceSurvey {
    /// Its name.
    pub name: String,
    /// Whether it is one end of a veth pair, which has NAPI only with GRO or an XDP program.
    pub veth: bool,
    /// The merging offloads that are on and can be turned off.
    pub offloads: Option<String>,
    /// Interrupt coalescing.
    pub coalescing: Option<String>,
    /// Energy-efficient Ethernet.
    pub energy_efficient: Option<String>,
    /// The distribution of packets by each receive queue.
    pub steering: Vec<PacketSteering>,
    /// Whether NAPI runs in threads.
    pub threaded: Option<String>,
    /// The modes of its NAPI instances, if the kernel has one per instance.
    pub napi_modes: Option<String>,
    /// Its interrupts, with the CPUs of each.
    pub irqs: Vec<(u32, String)>,
    /// The threads of its NAPI instances.
    pub threads: Vec<NapiThread>,
    /// The network managers that know it: `managed`, `unmanaged`.
    pub managers: Vec<(Manager, String)>,
}

/// The distribution of packets by a receive queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketSteering {
    /// The number of the queue.
    pub queue: u16,
    /// The CPUs that receive them, as a mask (RPS); `None`: the kernel has no RPS.
    pub cpus: Option<String>,
    /// The number of flows that follow their readers (RFS); `None`: the kernel has no RFS.
    pub flows: Option<String>,
}

impl PacketSteering {
    /// Returns the settings of the queue, with their values.
    pub(super) fn values(&self, interface: &str) -> impl Iterator<Item = (SettingLocation, &str)> {
        let (interface, queue) = (interface.to_owned(), self.queue);
        let cpus = SettingLocation::SteeringCpus { interface: interface.clone(), queue };
        let flows = SettingLocation::SteeringFlows { interface, queue };
        let values = [(cpus, &self.cpus), (flows, &self.flows)].into_iter();
        values.filter_map(|(place, value)| Some((place, value.as_deref()?)))
    }
}

impl InterfaceSurvey {
    /// Returns the settings that other processes may change at any time, with their values: NAPI in threads, packet
    /// steering, CPUs of interrupts.
    #[must_use]
    pub fn shared(&self) -> Vec<(SettingLocation, String)> {
        let threaded = SettingLocation::Threaded { interface: self.name.clone() };
        let threaded = self.threaded.iter().map(|value| (threaded.clone(), value.as_str()));
        let modes = SettingLocation::NapiModes { interface: self.name.clone() };
        let modes = self.napi_modes.iter().map(|value| (modes.clone(), value.as_str()));
        let steering = self.steering.iter().flat_map(|queue| queue.values(&self.name));
        let irqs = self.irqs.iter();
        let irqs = irqs.map(|(irq, cpus)| (SettingLocation::Irq { irq: *irq }, cpus.as_str()));
        let values = threaded.chain(modes).chain(steering).chain(irqs);
        values.map(|(place, value)| (place, value.to_owned())).collect()
    }
}

/// A NAPI thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NapiThread {
    /// The process id.
    pub pid: i32,
    /// Its name, such as `napi/eth0-8193`.
    pub name: String,
    /// Its policy; `None`: one that cannot be restored.
    pub policy: Option<String>,
    /// The CPUs it may run on.
    pub cpus: String,
}

//! What there is to set, as it is now.

use onbeat_realtime::CpuSet;

/// How long real-time tasks may run in a period.
pub(super) const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// What there is to set on a host and on interfaces of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// The CPUs that are online; empty where the kernel does not say.
    pub cpus: CpuSet,
    /// Of each CPU whose frequency the kernel scales.
    pub governors: Vec<Governor>,
    /// `kernel.sched_rt_runtime_us`, where there is one.
    pub rt_runtime: Option<String>,
    /// The interfaces, in the order asked for.
    pub interfaces: Vec<InterfaceSurvey>,
}

/// The frequency governor of a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Governor {
    /// Its file.
    pub path: String,
    /// The governor now.
    pub now: String,
    /// Those that the driver offers; empty where it does not say.
    pub available: Vec<String>,
}

/// An interface. A value is `None` where the device has no such thing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterfaceSurvey {
    /// Its name.
    pub name: String,
    /// It is one end of a veth pair: it has NAPI only while it has GRO, or an XDP program.
    pub veth: bool,
    /// The merging offloads that are on and can be turned off.
    pub offloads: Option<String>,
    /// Interrupt coalescing.
    pub coalescing: Option<String>,
    /// Energy-efficient Ethernet.
    pub energy_efficient: Option<String>,
    /// Whether NAPI runs in threads.
    pub threaded: Option<String>,
    /// Its interrupts, and the CPUs that may take each.
    pub irqs: Vec<(u32, String)>,
    /// The threads that its NAPI instances run in.
    pub threads: Vec<NapiThread>,
}

/// A thread of NAPI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NapiThread {
    /// Its number.
    pub pid: i32,
    /// Its name, such as `napi/eth0-8193`.
    pub name: String,
    /// Its policy; `None` for one that could not be given back.
    pub policy: Option<String>,
    /// The CPUs it may run on.
    pub cpus: String,
}

//! Locations of settings: files, interrupts, features of interfaces, threads.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Manager;
use super::survey::RT_RUNTIME;
use super::value;

/// The location of a value. Values are text, in the form of the kernel or of [`Host`](super::Host).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingLocation {
    /// A file of /proc or /sys that contains one word.
    File {
        /// The absolute path: `/proc/sys/kernel/sched_rt_runtime_us`.
        path: String,
    },
    /// The CPUs that may take an interrupt: `0-1`.
    Irq {
        /// Its number.
        irq: u32,
    },
    /// Whether the interface's NAPI instances run in threads: `0`, `1`.
    Threaded {
        /// The interface.
        interface: String,
    },
    /// The modes of the interface's NAPI instances, where the kernel has one per instance (Linux 6.17): `8193=1 8194=0`.
    /// [`SettingLocation::Threaded`] replaces all of them.
    NapiModes {
        /// The interface.
        interface: String,
    },
    /// The merging offloads that are on: `rx-gro tx-tcp-segmentation`, or `none`.
    Offloads {
        /// The interface.
        interface: String,
    },
    /// Interrupt coalescing: `adaptive-rx=1 rx-usecs=50`.
    Coalescing {
        /// The interface.
        interface: String,
    },
    /// Energy-efficient Ethernet: `enabled=1 advertised=40`.
    EnergyEfficient {
        /// The interface.
        interface: String,
    },
    /// The CPUs to which a receive queue distributes packets (RPS), as a mask: `00000000,00000003`.
    SteeringCpus {
        /// The interface.
        interface: String,
        /// The number of the queue.
        queue: u16,
    },
    /// The number of flows whose packets a receive queue sends to the CPUs of their readers (RFS).
    SteeringFlows {
        /// The interface.
        interface: String,
        /// The number of the queue.
        queue: u16,
    },
    /// The policy of a NAPI thread: `other`, `fifo 50`.
    ThreadPolicy {
        /// The interface that it receives from.
        interface: String,
        /// The process id.
        pid: i32,
        /// The name, to distinguish it from a later process with the same id.
        name: String,
    },
    /// The CPUs of a NAPI thread: `0-1`.
    ThreadCpus {
        /// The interface that it receives from.
        interface: String,
        /// The process id.
        pid: i32,
        /// The name.
        name: String,
    },
    /// Whether a network manager configures the interface: `managed`, `unmanaged`.
    Manager {
        /// The manager.
        manager: Manager,
        /// The interface.
        interface: String,
    },
}

impl SettingLocation {
    /// Returns the interface, if the location depends on an interface name in a network namespace.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        match self {
            SettingLocation::File { .. } | SettingLocation::Irq { .. } => None,
            SettingLocation::Threaded { interface }
            | SettingLocation::NapiModes { interface }
            | SettingLocation::Offloads { interface }
            | SettingLocation::Coalescing { interface }
            | SettingLocation::EnergyEfficient { interface }
            | SettingLocation::SteeringCpus { interface, .. }
            | SettingLocation::SteeringFlows { interface, .. }
            | SettingLocation::ThreadPolicy { interface, .. }
            | SettingLocation::ThreadCpus { interface, .. }
            | SettingLocation::Manager { interface, .. } => Some(interface),
        }
    }

    /// Returns the same location of the interface under another name.
    #[must_use]
    pub(super) fn renamed(&self, name: &str) -> Self {
        let mut place = self.clone();
        match &mut place {
            SettingLocation::File { .. } | SettingLocation::Irq { .. } => {}
            // Its file has the former name.
            SettingLocation::Manager { .. } => {}
            SettingLocation::Threaded { interface }
            | SettingLocation::NapiModes { interface }
            | SettingLocation::Offloads { interface }
            | SettingLocation::Coalescing { interface }
            | SettingLocation::EnergyEfficient { interface }
            | SettingLocation::SteeringCpus { interface, .. }
            | SettingLocation::SteeringFlows { interface, .. }
            | SettingLocation::ThreadPolicy { interface, .. }
            | SettingLocation::ThreadCpus { interface, .. } => name.clone_into(interface),
        }
        place
    }

    /// Checks that a plan can contain the location: a journal must not reference any other.
    ///
    /// # Errors
    /// The invalid part, with its value.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(interface) = self.interface() {
            onbeat_netdev::check_name(interface).map_err(|error| error.to_string())?;
        }
        match self {
            SettingLocation::File { path } if *path != RT_RUNTIME && !is_governor(path) => {
                Err(format!("{path:?} is not a setting of this program"))
            }
            SettingLocation::ThreadPolicy { pid, name, .. }
            | SettingLocation::ThreadCpus { pid, name, .. }
                if *pid < 1 || !name.starts_with("napi/") =>
            {
                Err(format!("thread {pid} {name:?} is not a NAPI thread"))
            }
            SettingLocation::Manager { interface, .. } if !Manager::can_name(interface) => Err(
                format!("{interface:?} is no name that this program writes for a network manager"),
            ),
            _ => Ok(()),
        }
    }

    /// Returns whether its values are accessible only within the interface's network namespace. A thread is
    /// accessible from everywhere, and the file of a network manager outlives the interface.
    #[must_use]
    pub fn is_in_namespace(&self) -> bool {
        self.interface().is_some()
            && !matches!(
                self,
                SettingLocation::ThreadPolicy { .. }
                    | SettingLocation::ThreadCpus { .. }
                    | SettingLocation::Manager { .. }
            )
    }

    /// Returns whether `now` means the same as `wanted`, independent of the notation.
    #[must_use]
    pub fn agrees(&self, now: &str, wanted: &str) -> bool {
        match self {
            SettingLocation::Irq { .. } | SettingLocation::ThreadCpus { .. } => {
                value::same_cpus(now, wanted)
            }
            SettingLocation::Offloads { .. } => value::words(now) == value::words(wanted),
            SettingLocation::Coalescing { .. } | SettingLocation::EnergyEfficient { .. } => {
                value::includes(now, wanted)
            }
            SettingLocation::SteeringCpus { .. } => value::same_mask(now, wanted),
            SettingLocation::NapiModes { .. } => value::same_modes(now, wanted),
            SettingLocation::File { .. }
            | SettingLocation::Threaded { .. }
            | SettingLocation::SteeringFlows { .. }
            | SettingLocation::ThreadPolicy { .. }
            | SettingLocation::Manager { .. } => now == wanted,
        }
    }
}

/// Returns whether a path is that of a CPU's frequency governor.
fn is_governor(path: &str) -> bool {
    let cpu = path
        .strip_prefix("/sys/devices/system/cpu/cpu")
        .and_then(|rest| rest.strip_suffix("/cpufreq/scaling_governor"));
    cpu.is_some_and(|cpu| !cpu.is_empty() && cpu.bytes().all(|octet| octet.is_ascii_digit()))
}

/// The command or file with which a user reads the value.
impl fmt::Display for SettingLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingLocation::File { path } => f.write_str(path),
            SettingLocation::Irq { irq } => write!(f, "/proc/irq/{irq}/smp_affinity_list"),
            SettingLocation::Threaded { interface } => {
                write!(f, "/sys/class/net/{interface}/threaded")
            }
            SettingLocation::NapiModes { interface } => {
                write!(f, "napi-get {interface} threaded (netlink netdev)")
            }
            SettingLocation::SteeringCpus { interface, queue } => {
                write!(f, "/sys/class/net/{interface}/queues/rx-{queue}/rps_cpus")
            }
            SettingLocation::SteeringFlows { interface, queue } => {
                write!(f, "/sys/class/net/{interface}/queues/rx-{queue}/rps_flow_cnt")
            }
            SettingLocation::Offloads { interface } => write!(f, "ethtool -K {interface}"),
            SettingLocation::Coalescing { interface } => write!(f, "ethtool -C {interface}"),
            SettingLocation::EnergyEfficient { interface } => {
                write!(f, "ethtool --set-eee {interface}")
            }
            SettingLocation::ThreadPolicy { pid, name, .. } => write!(f, "chrt -p {pid} ({name})"),
            SettingLocation::ThreadCpus { pid, name, .. } => {
                write!(f, "taskset -pc {pid} ({name})")
            }
            SettingLocation::Manager { manager: Manager::NetworkManager, interface } => {
                write!(f, "nmcli device show {interface}")
            }
            SettingLocation::Manager { manager: Manager::Networkd, interface } => {
                write!(f, "networkctl status {interface}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_references_settings_of_this_program_only() {
        let file = |path: &str| SettingLocation::File { path: path.into() };
        let thread = |pid, name: &str| {
            let (interface, name) = ("eth0".into(), name.into());
            SettingLocation::ThreadPolicy { interface, pid, name }
        };
        for good in [
            file("/proc/sys/kernel/sched_rt_runtime_us"),
            file("/sys/devices/system/cpu/cpu12/cpufreq/scaling_governor"),
            SettingLocation::Irq { irq: 40 },
            SettingLocation::Threaded { interface: "eth0".into() },
            thread(7, "napi/eth0-8193"),
        ] {
            assert_eq!(good.check(), Ok(()));
        }
        for bad in [
            file("/etc/passwd"),
            file("/proc/sys/kernel/../../../etc/passwd"),
            file("/sys/devices/system/cpu/cpu1/../../../cpufreq/scaling_governor"),
            file("/sys/devices/system/cpu/cpu/cpufreq/scaling_governor"),
            SettingLocation::Threaded { interface: "../../x".into() },
            SettingLocation::Offloads { interface: String::new() },
            thread(1, "systemd"),
            thread(-1, "napi/eth0-8193"),
        ] {
            assert!(bad.check().is_err(), "{bad}");
        }
    }

    #[test]
    fn values_are_compared_by_meaning() {
        let interface = || "eth0".to_owned();
        let cpus = || SettingLocation::SteeringCpus { interface: interface(), queue: 0 };
        for (place, now, wanted, agree) in [
            (SettingLocation::Irq { irq: 4 }, "0,1", "0-1", true),
            (SettingLocation::Irq { irq: 4 }, "0", "0-1", false),
            (SettingLocation::Offloads { interface: interface() }, "b a", "a b", true),
            (SettingLocation::Offloads { interface: interface() }, "a", "none", false),
            (SettingLocation::Offloads { interface: interface() }, "none", "none", true),
            (
                SettingLocation::Coalescing { interface: interface() },
                "rx-usecs=0 x=1",
                "rx-usecs=0",
                true,
            ),
            (SettingLocation::Coalescing { interface: interface() }, "rx-usecs=0", "x=1", false),
            (SettingLocation::Threaded { interface: interface() }, "1", "0", false),
            (SettingLocation::NapiModes { interface: interface() }, "7=1 8=0", "7=1 8=1", false),
            (SettingLocation::NapiModes { interface: interface() }, "7=0 8=2", "8=2 7=0", true),
            // Its queues were replaced, and have new instances.
            (SettingLocation::NapiModes { interface: interface() }, "8=1 9=0", "7=1 8=1", true),
            (cpus(), "00000000,00000000", "0", true),
            (cpus(), "ff,00000001", "ff00000001", true),
            (cpus(), "00000000,00000001", "0", false),
            (cpus(), "1,00000000", "1", false),
            (SettingLocation::File { path: "/x".into() }, "performance", "performance", true),
        ] {
            assert_eq!(place.agrees(now, wanted), agree, "{place}: {now} for {wanted}");
        }
    }
}

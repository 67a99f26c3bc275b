//! Where a value is read and written.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::survey::RT_RUNTIME;
use super::value;

/// Where a value is. Values are text, as the kernel or [`Host`](super::Host) has it there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A file of /proc or /sys that holds one word.
    File {
        /// From the root: `/proc/sys/kernel/sched_rt_runtime_us`.
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
    /// The policy of a NAPI thread: `other`, `fifo 50`.
    ThreadPolicy {
        /// The interface whose frames it brings.
        interface: String,
        /// Its number,
        pid: i32,
        /// and its name, to know it from another process that got the number later.
        name: String,
    },
    /// The CPUs of a NAPI thread: `0-1`.
    ThreadCpus {
        /// The interface whose frames it brings.
        interface: String,
        /// Its number,
        pid: i32,
        /// and its name.
        name: String,
    },
}

impl Place {
    /// The interface it is of, where it is of one that has a name in a network namespace.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        match self {
            Place::File { .. } | Place::Irq { .. } => None,
            Place::Threaded { interface }
            | Place::Offloads { interface }
            | Place::Coalescing { interface }
            | Place::EnergyEfficient { interface }
            | Place::ThreadPolicy { interface, .. }
            | Place::ThreadCpus { interface, .. } => Some(interface),
        }
    }

    /// The same place of the interface under another name.
    #[must_use]
    pub(super) fn renamed(&self, name: &str) -> Self {
        let mut place = self.clone();
        match &mut place {
            Place::File { .. } | Place::Irq { .. } => {}
            Place::Threaded { interface }
            | Place::Offloads { interface }
            | Place::Coalescing { interface }
            | Place::EnergyEfficient { interface }
            | Place::ThreadPolicy { interface, .. }
            | Place::ThreadCpus { interface, .. } => name.clone_into(interface),
        }
        place
    }

    /// Checks that it is a place that a plan names: a journal must not lead elsewhere.
    ///
    /// # Errors
    /// What is wrong, with its value.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(interface) = self.interface() {
            onbeat_netdev::check_name(interface).map_err(|error| error.to_string())?;
        }
        match self {
            Place::File { path } if *path != RT_RUNTIME && !is_governor(path) => {
                Err(format!("{path:?} is not a setting of this program"))
            }
            Place::ThreadPolicy { pid, name, .. } | Place::ThreadCpus { pid, name, .. }
                if *pid < 1 || !name.starts_with("napi/") =>
            {
                Err(format!("thread {pid} {name:?} is not a NAPI thread"))
            }
            _ => Ok(()),
        }
    }

    /// Whether its values can be read and written only within the interface's network namespace.
    /// A thread is found from everywhere.
    #[must_use]
    pub fn is_in_namespace(&self) -> bool {
        self.interface().is_some()
            && !matches!(self, Place::ThreadPolicy { .. } | Place::ThreadCpus { .. })
    }

    /// Whether a value that was read there is the one wanted, however each is written.
    #[must_use]
    pub fn agrees(&self, now: &str, wanted: &str) -> bool {
        match self {
            Place::Irq { .. } | Place::ThreadCpus { .. } => value::same_cpus(now, wanted),
            Place::Offloads { .. } => value::words(now) == value::words(wanted),
            Place::Coalescing { .. } | Place::EnergyEfficient { .. } => {
                value::includes(now, wanted)
            }
            Place::File { .. } | Place::Threaded { .. } | Place::ThreadPolicy { .. } => {
                now == wanted
            }
        }
    }
}

/// Whether a path is that of a CPU's frequency governor.
fn is_governor(path: &str) -> bool {
    let cpu = path
        .strip_prefix("/sys/devices/system/cpu/cpu")
        .and_then(|rest| rest.strip_suffix("/cpufreq/scaling_governor"));
    cpu.is_some_and(|cpu| !cpu.is_empty() && cpu.bytes().all(|octet| octet.is_ascii_digit()))
}

/// As a person looks it up.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { path } => f.write_str(path),
            Place::Irq { irq } => write!(f, "/proc/irq/{irq}/smp_affinity_list"),
            Place::Threaded { interface } => write!(f, "/sys/class/net/{interface}/threaded"),
            Place::Offloads { interface } => write!(f, "ethtool -K {interface}"),
            Place::Coalescing { interface } => write!(f, "ethtool -C {interface}"),
            Place::EnergyEfficient { interface } => write!(f, "ethtool --set-eee {interface}"),
            Place::ThreadPolicy { pid, name, .. } => write!(f, "chrt -p {pid} ({name})"),
            Place::ThreadCpus { pid, name, .. } => write!(f, "taskset -pc {pid} ({name})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_leads_to_settings_of_this_program_only() {
        let file = |path: &str| Place::File { path: path.into() };
        let thread = |pid, name: &str| {
            let (interface, name) = ("eth0".into(), name.into());
            Place::ThreadPolicy { interface, pid, name }
        };
        for good in [
            file("/proc/sys/kernel/sched_rt_runtime_us"),
            file("/sys/devices/system/cpu/cpu12/cpufreq/scaling_governor"),
            Place::Irq { irq: 40 },
            Place::Threaded { interface: "eth0".into() },
            thread(7, "napi/eth0-8193"),
        ] {
            assert_eq!(good.check(), Ok(()));
        }
        for bad in [
            file("/etc/passwd"),
            file("/proc/sys/kernel/../../../etc/passwd"),
            file("/sys/devices/system/cpu/cpu1/../../../cpufreq/scaling_governor"),
            file("/sys/devices/system/cpu/cpu/cpufreq/scaling_governor"),
            Place::Threaded { interface: "../../x".into() },
            Place::Offloads { interface: String::new() },
            thread(1, "systemd"),
            thread(-1, "napi/eth0-8193"),
        ] {
            assert!(bad.check().is_err(), "{bad}");
        }
    }

    #[test]
    fn values_agree_by_what_they_mean() {
        let interface = || "eth0".to_owned();
        for (place, now, wanted, agree) in [
            (Place::Irq { irq: 4 }, "0,1", "0-1", true),
            (Place::Irq { irq: 4 }, "0", "0-1", false),
            (Place::Offloads { interface: interface() }, "b a", "a b", true),
            (Place::Offloads { interface: interface() }, "a", "none", false),
            (Place::Offloads { interface: interface() }, "none", "none", true),
            (Place::Coalescing { interface: interface() }, "rx-usecs=0 x=1", "rx-usecs=0", true),
            (Place::Coalescing { interface: interface() }, "rx-usecs=0", "x=1", false),
            (Place::Threaded { interface: interface() }, "1", "0", false),
            (Place::File { path: "/x".into() }, "performance", "performance", true),
        ] {
            assert_eq!(place.agrees(now, wanted), agree, "{place}: {now} for {wanted}");
        }
    }
}

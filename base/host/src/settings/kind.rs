//! The available settings, with purpose and cost of each.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A setting, by the name that `onbeat doctor` uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SettingKind {
    /// The frequency governor of each CPU.
    Governor,
    /// Throttling of real-time tasks.
    RtThrottling,
    /// GRO, LRO, GSO, TSO.
    Offloads,
    /// Delay of interrupts by the device.
    Coalescing,
    /// IEEE 802.3az.
    EnergyEfficient,
    /// Distribution of received packets to other CPUs (RPS, RFS).
    PacketSteering,
    /// NAPI in threads.
    ThreadedNapi,
    /// The CPUs that take the device's interrupts.
    IrqAffinity,
    /// The priority of the NAPI threads.
    NapiPriority,
    /// The CPUs of the NAPI threads.
    NapiAffinity,
    /// A network manager that configures the interface.
    Manager,
}

/// Descriptions of a setting.
struct Text {
    name: &'static str,
    what: &'static str,
    why: &'static str,
    cost: &'static str,
}

impl SettingKind {
    /// All settings, in the order in which they are changed.
    pub const ALL: [SettingKind; 11] = [
        SettingKind::Governor,
        SettingKind::RtThrottling,
        SettingKind::Offloads,
        SettingKind::Coalescing,
        SettingKind::EnergyEfficient,
        SettingKind::PacketSteering,
        SettingKind::ThreadedNapi,
        SettingKind::IrqAffinity,
        SettingKind::NapiPriority,
        SettingKind::NapiAffinity,
        SettingKind::Manager,
    ];

    /// Returns whether it is changed only on request by its name: it may cut the connection to the host.
    #[must_use]
    pub fn is_by_name(self) -> bool {
        self == SettingKind::Manager
    }

    /// Returns its stable name, such as `rt-throttling`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.text().name
    }

    /// Returns a description.
    #[must_use]
    pub fn what(self) -> &'static str {
        self.text().what
    }

    /// Returns the reason for changing it.
    #[must_use]
    pub fn why(self) -> &'static str {
        self.text().why
    }

    /// Returns the cost of the change.
    #[must_use]
    pub fn cost(self) -> &'static str {
        self.text().cost
    }

    /// Returns whether it is a setting of an interface instead of the host.
    #[must_use]
    pub fn is_of_interface(self) -> bool {
        !matches!(self, SettingKind::Governor | SettingKind::RtThrottling)
    }

    fn text(self) -> Text {
        let text = |name, what, why, cost| Text { name, what, why, cost };
        match self {
            SettingKind::Governor => text(
                "governor",
                "CPU frequency governor",
                "a CPU at low frequency processes the next frame later",
                "power and heat",
            ),
            SettingKind::RtThrottling => text(
                "rt-throttling",
                "throttling of real-time tasks",
                "the kernel throttles real-time tasks that exceed their share of the period",
                "a real-time task that never waits blocks its CPU",
            ),
            SettingKind::Offloads => text(
                "offloads",
                "merging and segmentation (GRO, LRO, GSO, TSO)",
                "a frame waits to be merged with others, or after up to 64 KiB of one send",
                "CPU time for bulk traffic on this interface",
            ),
            SettingKind::Coalescing => text(
                "coalescing",
                "interrupt coalescing",
                "the device delays the interrupt of a frame to collect more frames",
                "an interrupt per frame under load",
            ),
            SettingKind::EnergyEfficient => text(
                "energy-efficient",
                "energy-efficient Ethernet",
                "a link that sleeps between frames takes microseconds to wake up",
                "power; the link is renegotiated and down for seconds",
            ),
            SettingKind::PacketSteering => text(
                "packet-steering",
                "distribution of received packets to other CPUs (RPS, RFS)",
                "after it, frames are processed in softirq of another CPU, which no priority of a NAPI thread concerns",
                "the CPU that receives a frame also carries its protocol processing",
            ),
            SettingKind::ThreadedNapi => text(
                "threaded-napi",
                "reception in a dedicated thread (threaded NAPI)",
                "in softirq, frames wait for those of all other interfaces",
                "a context switch per batch of frames",
            ),
            SettingKind::IrqAffinity => text(
                "irq-affinity",
                "CPUs of its interrupts",
                "interrupts on other CPUs disturb their tasks and lose cache locality",
                "these CPUs carry all of the interface's load",
            ),
            SettingKind::NapiPriority => text(
                "napi-priority",
                "priority of its NAPI threads",
                "at normal priority, frames wait for every runnable task",
                "a flood of frames starves lower priorities on its CPU",
            ),
            SettingKind::NapiAffinity => text(
                "napi-affinity",
                "CPUs of its NAPI threads",
                "a migrating thread loses cache locality and disturbs other CPUs",
                "these CPUs carry all of the interface's load",
            ),
            SettingKind::Manager => text(
                "manager",
                "network manager (NetworkManager, systemd-networkd)",
                "it starts DHCP, and sets addresses, MTU and promiscuous mode of a port",
                "the interface loses addresses and routes of the manager, can go down, and connections over it end",
            ),
        }
    }
}

impl fmt::Display for SettingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_journal() {
        for kind in SettingKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}

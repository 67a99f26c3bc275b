//! The settings there are, with what each is for and what it costs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A setting, by the name under which `onbeat doctor` finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// The frequency governor of each CPU.
    Governor,
    /// Throttling of real-time tasks.
    RtThrottling,
    /// GRO, LRO, GSO, TSO.
    Offloads,
    /// How long the device holds interrupts back.
    Coalescing,
    /// IEEE 802.3az.
    EnergyEfficient,
    /// NAPI in threads.
    ThreadedNapi,
    /// The CPUs that take the device's interrupts.
    IrqAffinity,
    /// The priority of the NAPI threads.
    NapiPriority,
    /// The CPUs of the NAPI threads.
    NapiAffinity,
}

/// What is said of a setting.
struct Text {
    name: &'static str,
    what: &'static str,
    why: &'static str,
    cost: &'static str,
}

impl Kind {
    /// All of them, in the order in which they are changed.
    pub const ALL: [Kind; 9] = [
        Kind::Governor,
        Kind::RtThrottling,
        Kind::Offloads,
        Kind::Coalescing,
        Kind::EnergyEfficient,
        Kind::ThreadedNapi,
        Kind::IrqAffinity,
        Kind::NapiPriority,
        Kind::NapiAffinity,
    ];

    /// Its stable name, such as `rt-throttling`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.text().name
    }

    /// What is set.
    #[must_use]
    pub fn what(self) -> &'static str {
        self.text().what
    }

    /// Why it is changed.
    #[must_use]
    pub fn why(self) -> &'static str {
        self.text().why
    }

    /// What the change costs.
    #[must_use]
    pub fn cost(self) -> &'static str {
        self.text().cost
    }

    /// Whether it is a setting of an interface, not of the host.
    #[must_use]
    pub fn is_of_interface(self) -> bool {
        !matches!(self, Kind::Governor | Kind::RtThrottling)
    }

    fn text(self) -> Text {
        let text = |name, what, why, cost| Text { name, what, why, cost };
        match self {
            Kind::Governor => text(
                "governor",
                "CPU frequency governor",
                "a CPU that was slowed down takes longer for the next frame",
                "power and heat",
            ),
            Kind::RtThrottling => text(
                "rt-throttling",
                "throttling of real-time tasks",
                "the kernel stops real-time tasks that used up their share of the period",
                "a real-time task that never waits keeps its CPU for good",
            ),
            Kind::Offloads => text(
                "offloads",
                "merging and segmentation (GRO, LRO, GSO, TSO)",
                "a frame waits for others to be merged with, or behind up to 64 KiB of one send",
                "CPU time for bulk traffic on this interface",
            ),
            Kind::Coalescing => text(
                "coalescing",
                "interrupt coalescing",
                "the device holds the interrupt for a frame back to gather more",
                "an interrupt per frame under load",
            ),
            Kind::EnergyEfficient => text(
                "energy-efficient",
                "energy-efficient Ethernet",
                "a link that sleeps between frames takes microseconds to wake up",
                "power; the link is negotiated anew and is down for seconds",
            ),
            Kind::ThreadedNapi => text(
                "threaded-napi",
                "reception in a thread of its own (threaded NAPI)",
                "in softirq frames wait for those of all other interfaces",
                "a context switch per batch of frames",
            ),
            Kind::IrqAffinity => text(
                "irq-affinity",
                "CPUs that take its interrupts",
                "interrupts on another CPU disturb, and cost the cache",
                "these CPUs take all of the interface's load",
            ),
            Kind::NapiPriority => text(
                "napi-priority",
                "priority of its NAPI threads",
                "at normal priority frames wait for every task that is due",
                "a flood of frames keeps its CPU from all below that priority",
            ),
            Kind::NapiAffinity => text(
                "napi-affinity",
                "CPUs of its NAPI threads",
                "a thread that wanders finds a cold cache, and disturbs",
                "these CPUs take all of the interface's load",
            ),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Kind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names = Kind::ALL.map(Kind::name).join(", ");
            format!("{text:?} is no setting; they are: {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_and_serialised_alike() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert!("gro".parse::<Kind>().unwrap_err().contains("offloads, coalescing"));
    }
}

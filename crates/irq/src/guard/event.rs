//! What a guard tells, for people and for programs.

use std::fmt;

use serde::{Serialize, Serializer};

use super::budgets::Usage;
use crate::policy::{Limit, Rank};

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A device is received in threads from now on.
    Taken {
        /// The interface.
        interface: String,
        /// The threads of its NAPI instances.
        threads: Vec<u32>,
    },
    /// The priority of a device's threads changes.
    Follows {
        /// The interface.
        interface: String,
        /// What they had.
        #[serde(serialize_with = "shown")]
        from: Rank,
        /// What they have.
        #[serde(serialize_with = "shown")]
        to: Rank,
        /// For whom; `None`: nobody waits at more than the floor.
        who: Option<Who>,
    },
    /// A device is not there any more.
    Vanished {
        /// The interface.
        interface: String,
    },
    /// Something could not be set; it is told once.
    Refused {
        /// The interface.
        interface: String,
        /// What, and why.
        reason: String,
    },
}

/// The thread with the highest priority among those that wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Who {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Whether its own priority is higher than what threads of NAPI may have.
    pub above_ceiling: bool,
}

fn shown<S: Serializer>(rank: &Rank, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(rank)
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Taken { interface, threads } => {
                write!(f, "{interface}: received in threads")?;
                threads.iter().try_for_each(|thread| write!(f, " {thread}"))
            }
            Event::Follows { interface, from, to, who } => {
                write!(f, "{interface}: {from} -> {to}, ")?;
                match who {
                    None => f.write_str("nobody waits at more"),
                    Some(Who { pid, tid, name, above_ceiling }) => {
                        write!(f, "{name} ({pid}")?;
                        if tid != pid {
                            write!(f, ", thread {tid}")?;
                        }
                        f.write_str(") waits")?;
                        f.write_str(if *above_ceiling { ", above the ceiling" } else { "" })
                    }
                }
            }
            Event::Vanished { interface } => write!(f, "{interface}: vanished"),
            Event::Refused { interface, reason } => write!(f, "{interface}: {reason}"),
        }
    }
}

/// A process with a budget, as `--json` shows it.
impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let limit = match self.limit {
            Limit::None => None,
            Limit::PacketsPerSecond(packets) => Some(packets),
        };
        let mut usage = serializer.serialize_struct("Usage", 6)?;
        usage.serialize_field("pid", &self.process.pid)?;
        usage.serialize_field("command", &self.command)?;
        usage.serialize_field("budget_ns_per_s", &self.budget.ns_per_s)?;
        usage.serialize_field("caused_ns_per_s", &self.caused_ns_per_s)?;
        usage.serialize_field("limit_packets_per_s", &limit)?;
        usage.serialize_field("dropped_packets", &self.dropped)?;
        usage.end()
    }
}

/// `iperf3 (123): 23.1 % of a CPU, budget 10.0 %, limited to 4000 packets/s, 123 dropped`.
impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |ns_per_s: u64| ns_per_s as f64 / 1e7;
        write!(
            f,
            "{} ({}): {:.1} % of a CPU, budget {:.1} %",
            self.command,
            self.process.pid,
            percent(self.caused_ns_per_s),
            percent(self.budget.ns_per_s)
        )?;
        if let Limit::PacketsPerSecond(packets) = self.limit {
            write!(f, ", limited to {packets} packets/s")?;
        }
        write!(f, ", {} dropped", self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::Process;
    use crate::policy::Budget;

    #[test]
    fn events_in_words_and_as_json() {
        let who = |above_ceiling| Some(Who { pid: 7, tid: 8, name: "loop".into(), above_ceiling });
        let follows = |who| Event::Follows {
            interface: "eth0".into(),
            from: Rank::Normal { nice: 0 },
            to: Rank::Realtime { priority: 50 },
            who,
        };
        for (event, text) in [
            (
                Event::Taken { interface: "eth0".into(), threads: vec![7, 9] },
                "eth0: received in threads 7 9",
            ),
            (follows(who(false)), "eth0: normal -> real-time 50, loop (7, thread 8) waits"),
            (
                follows(who(true)),
                "eth0: normal -> real-time 50, loop (7, thread 8) waits, above the ceiling",
            ),
            (follows(None), "eth0: normal -> real-time 50, nobody waits at more"),
        ] {
            assert_eq!(event.to_string(), text);
        }
        let json = serde_json::to_value(follows(who(false))).unwrap();
        assert_eq!((&json["event"], &json["to"]), (&"follows".into(), &"real-time 50".into()));
        assert_eq!(json["who"]["tid"], 8);
    }

    #[test]
    fn usage_in_words_and_as_json() {
        let usage = Usage {
            process: Process { pid: 7, start_ticks: 1 },
            command: "iperf3".into(),
            budget: Budget { ns_per_s: 100_000_000 },
            caused_ns_per_s: 231_000_000,
            limit: Limit::PacketsPerSecond(4000),
            dropped: 12,
        };
        let text =
            "iperf3 (7): 23.1 % of a CPU, budget 10.0 %, limited to 4000 packets/s, 12 dropped";
        assert_eq!(usage.to_string(), text);
        let json = serde_json::to_value(&usage).unwrap();
        assert_eq!(json["limit_packets_per_s"], 4000);
        let free = Usage { limit: Limit::None, ..usage };
        assert!(serde_json::to_value(&free).unwrap()["limit_packets_per_s"].is_null());
    }
}

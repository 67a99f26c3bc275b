//! Reports of a guard, as text and JSON.

use std::fmt;

use serde::{Serialize, Serializer};

use onbeat_irq_core::charge::Process;
use onbeat_irq_core::policy::{Budget, Limit, Rank};

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The guard schedules the packet processing of an interface, which now runs in NAPI threads.
    Attached {
        /// The interface.
        interface: String,
        /// The threads of its NAPI instances.
        threads: Vec<u32>,
    },
    /// The priority of an interface's NAPI threads has changed.
    PriorityChanged {
        /// The interface.
        interface: String,
        /// The former priority.
        #[serde(serialize_with = "shown")]
        from: Rank,
        /// The new priority.
        #[serde(serialize_with = "shown")]
        to: Rank,
        /// The waiting thread; `None`: no waiting thread has a priority above the floor.
        waiter: Option<HighestWaiter>,
    },
    /// A source has interrupted a CPU of the guarded interfaces at least 100 times within a second.
    ForeignInterrupts {
        /// The CPU.
        cpu: u32,
        /// What interrupts it.
        source: InterruptSource,
        /// The source's name and number.
        name: String,
        /// Interrupts per second.
        per_s: u64,
        /// The command or setting that ends them.
        remedy: String,
    },
    /// An interface no longer exists.
    InterfaceMissing {
        /// The interface.
        interface: String,
    },
    /// One scan could not read all files and threads: the next continues it. Until it is complete, priorities
    /// follow the last complete scan, and rules apply to all processes that read a socket.
    ScanPartial,
    /// All limits are in use: starting with this process, processes share one limit for each budget.
    LimitsFull {
        /// Processes that have a limit of their own.
        processes: u64,
    },
    /// The table of processes is full: all processes without an entry share the strictest budget, also
    /// processes without a rule.
    TableFull {
        /// Processes that have an entry.
        processes: u64,
    },
    /// The ledger had no room for some of the time: the reported times of processes do not have it, their budgets do.
    LedgerFull {
        /// That time, in nanoseconds.
        unrecorded_ns: u64,
    },
    /// The guard has stopped.
    Restored {
        /// Settings that were restored.
        restored: usize,
        /// Settings that could not be restored; they stay in the journal.
        failed: usize,
    },
    /// Another process had changed a setting, which the guard has set again.
    SettingChanged {
        /// The interface.
        interface: String,
        /// The file or command with which a user reads it.
        setting: String,
        /// The value of the other process.
        found: String,
        /// The value of the guard.
        to: String,
    },
    /// A setting failed; reported once.
    SettingFailed {
        /// The interface.
        interface: String,
        /// The setting and the cause.
        reason: String,
    },
}

impl Event {
    /// The names of all events.
    pub const NAMES: [&'static str; 11] = [
        "attached",
        "priority-changed",
        "foreign-interrupts",
        "interface-missing",
        "scan-partial",
        "limits-full",
        "table-full",
        "ledger-full",
        "restored",
        "setting-changed",
        "setting-failed",
    ];

    /// Its name, as in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Attached { .. } => Self::NAMES[0],
            Self::PriorityChanged { .. } => Self::NAMES[1],
            Self::ForeignInterrupts { .. } => Self::NAMES[2],
            Self::InterfaceMissing { .. } => Self::NAMES[3],
            Self::ScanPartial => Self::NAMES[4],
            Self::LimitsFull { .. } => Self::NAMES[5],
            Self::TableFull { .. } => Self::NAMES[6],
            Self::LedgerFull { .. } => Self::NAMES[7],
            Self::Restored { .. } => Self::NAMES[8],
            Self::SettingChanged { .. } => Self::NAMES[9],
            Self::SettingFailed { .. } => Self::NAMES[10],
        }
    }
}

/// What interrupts a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptSource {
    /// The line of a device.
    Device,
    /// Packets of a device, in softirq.
    Packets,
    /// Another CPU, which steers packets to this one.
    Rps,
    /// Another CPU, which wakes a thread there.
    WakeUp,
    /// Another CPU, which calls a function there.
    FunctionCall,
}

impl fmt::Display for InterruptSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Device => "device",
            Self::Packets => "packets in softirq of",
            Self::Rps => "packets steered from another CPU (RPS),",
            Self::WakeUp => "wake-ups of",
            Self::FunctionCall => "calls of",
        })
    }
}

/// The waiting thread with the highest priority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HighestWaiter {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Whether its own priority is above the ceiling of NAPI threads.
    pub above_ceiling: bool,
}

fn shown<S: Serializer>(rank: &Rank, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(rank)
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Attached { interface, threads } => {
                write!(f, "{interface}: threaded NAPI:")?;
                threads.iter().try_for_each(|thread| write!(f, " {thread}"))
            }
            Event::PriorityChanged { interface, from, to, waiter } => {
                write!(f, "{interface}: {from} -> {to}, ")?;
                match waiter {
                    None => f.write_str("no waiting thread above the floor"),
                    Some(HighestWaiter { pid, tid, name, above_ceiling }) => {
                        write!(f, "{name} ({pid}")?;
                        if tid != pid {
                            write!(f, ", thread {tid}")?;
                        }
                        f.write_str(") waits")?;
                        f.write_str(if *above_ceiling { ", above the ceiling" } else { "" })
                    }
                }
            }
            Event::ForeignInterrupts { cpu, source, name, per_s, remedy } => {
                write!(f, "CPU {cpu}: {per_s} interrupts/s: {source} {name}; {remedy}")
            }
            Event::InterfaceMissing { interface } => write!(f, "{interface}: interface is missing"),
            Event::ScanPartial => f.write_str(
                "too many files or threads for one scan: priorities follow more slowly, budgets \
                 hold for all processes that read a socket",
            ),
            Event::LimitsFull { processes } => write!(
                f,
                "budgets: all {processes} limits are in use; further processes share the limit of their budget"
            ),
            Event::TableFull { processes } => write!(
                f,
                "budgets: the table is full with {processes} processes; all other processes of \
                 this namespace share the strictest budget"
            ),
            Event::LedgerFull { unrecorded_ns } => write!(
                f,
                "budgets: the ledger had no room for {:.3} ms of softirq time; the reported times of \
                 processes do not have it, their budgets do",
                *unrecorded_ns as f64 / 1e6
            ),
            Event::Restored { restored, failed } => {
                write!(f, "settings: {restored} restored, {failed} failed")
            }
            Event::SettingChanged { interface, setting, found, to } => {
                write!(
                    f,
                    "{interface}: another process has set {setting} to {found}; set to {to} again"
                )
            }
            Event::SettingFailed { interface, reason } => write!(f, "{interface}: {reason}"),
        }
    }
}

/// A process with a budget, as `--json` shows it: its usage and limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// The process.
    pub process: Process,
    /// Its name, escaped.
    pub command: String,
    /// The softirq time that it may cause.
    pub budget: Budget,
    /// The processes with which it shares the budget by its rule; `None`: the budget is its own.
    pub group: Option<String>,
    /// Whether it shares the budget with other processes, since there are more processes than limits.
    pub shared: bool,
    /// Softirq time that it caused in the last interval, in nanoseconds per second.
    pub caused_ns_per_s: u64,
    /// Its present packet limit; common to processes that share it.
    pub limit: Limit,
    /// Packets dropped by that limit since the process has a budget.
    pub dropped: u64,
}

/// As `--json` shows it.
impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let limit = match self.limit {
            Limit::None => None,
            Limit::PacketsPerSecond(packets) => Some(packets),
        };
        let mut usage = serializer.serialize_struct("Usage", 9)?;
        usage.serialize_field("event", "budget")?;
        usage.serialize_field("pid", &self.process.pid)?;
        usage.serialize_field("command", &self.command)?;
        usage.serialize_field("budget_ns_per_s", &self.budget.ns_per_s)?;
        usage.serialize_field("group", &self.group)?;
        usage.serialize_field("shared", &self.shared)?;
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
            let unit = if packets == 1 { "packet" } else { "packets" };
            write!(f, ", limited to {packets} {unit}/s")?;
        }
        write!(f, ", {} dropped", self.dropped)?;
        if let Some(group) = &self.group {
            write!(f, ", of {group}")?;
        }
        f.write_str(if self.shared { ", with other processes" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_irq_core::charge::Process;
    use onbeat_irq_core::policy::Budget;

    #[test]
    fn events_as_text_and_json() {
        let waiter = |above_ceiling| {
            Some(HighestWaiter { pid: 7, tid: 8, name: "loop".into(), above_ceiling })
        };
        let change = |waiter| Event::PriorityChanged {
            interface: "eth0".into(),
            from: Rank::Normal { nice: 0 },
            to: Rank::Realtime { priority: 50 },
            waiter,
        };
        for (event, text) in [
            (
                Event::Attached { interface: "eth0".into(), threads: vec![7, 9] },
                "eth0: threaded NAPI: 7 9",
            ),
            (change(waiter(false)), "eth0: normal -> real-time 50, loop (7, thread 8) waits"),
            (
                change(waiter(true)),
                "eth0: normal -> real-time 50, loop (7, thread 8) waits, above the ceiling",
            ),
            (change(None), "eth0: normal -> real-time 50, no waiting thread above the floor"),
            (
                Event::ForeignInterrupts {
                    cpu: 1,
                    source: InterruptSource::Device,
                    name: "eth1 (irq 45)".into(),
                    per_s: 450,
                    remedy: "echo 0 > /proc/irq/45/smp_affinity_list".into(),
                },
                "CPU 1: 450 interrupts/s: device eth1 (irq 45); echo 0 > /proc/irq/45/smp_affinity_list",
            ),
            (
                Event::LimitsFull { processes: 254 },
                "budgets: all 254 limits are in use; further processes share the limit of their budget",
            ),
            (
                Event::TableFull { processes: 65_536 },
                "budgets: the table is full with 65536 processes; all other processes of this \
                 namespace share the strictest budget",
            ),
            (
                Event::LedgerFull { unrecorded_ns: 1_234_567 },
                "budgets: the ledger had no room for 1.235 ms of softirq time; the reported times of \
                 processes do not have it, their budgets do",
            ),
        ] {
            assert_eq!(event.to_string(), text);
        }
        let restored = Event::Restored { restored: 4, failed: 1 };
        assert_eq!(restored.to_string(), "settings: 4 restored, 1 failed");
        assert_eq!(serde_json::to_value(restored).unwrap()["event"], "restored");
        let json = serde_json::to_value(change(waiter(false))).unwrap();
        assert_eq!(
            (&json["event"], &json["to"]),
            (&"priority-changed".into(), &"real-time 50".into())
        );
        assert_eq!(json["waiter"]["tid"], 8);
    }

    fn usage() -> Usage {
        Usage {
            process: Process { pid: 7, start_ticks: 1 },
            command: "iperf3".into(),
            budget: Budget { ns_per_s: 100_000_000 },
            group: None,
            shared: false,
            caused_ns_per_s: 231_000_000,
            limit: Limit::PacketsPerSecond(4000),
            dropped: 12,
        }
    }

    /// docs/reference/guard.md has a row for each event, with its keys.
    #[test]
    fn events_are_documented_with_their_keys() {
        let interface = String::from("eth0");
        let waiter = HighestWaiter { pid: 7, tid: 8, name: "loop".into(), above_ceiling: false };
        let rank = Rank::Normal { nice: 0 };
        let changed = Event::PriorityChanged {
            interface: interface.clone(),
            from: rank,
            to: rank,
            waiter: Some(waiter.clone()),
        };
        let events = [
            Event::Attached { interface: interface.clone(), threads: vec![7] },
            changed,
            Event::InterfaceMissing { interface: interface.clone() },
            Event::SettingFailed { interface: interface.clone(), reason: "no".into() },
            Event::SettingChanged {
                interface,
                setting: "x".into(),
                found: "3".into(),
                to: "0".into(),
            },
            Event::ForeignInterrupts {
                cpu: 1,
                source: InterruptSource::Rps,
                name: "x".into(),
                per_s: 100,
                remedy: "y".into(),
            },
            Event::ScanPartial,
            Event::LimitsFull { processes: 1 },
            Event::TableFull { processes: 1 },
            Event::LedgerFull { unrecorded_ns: 1 },
            Event::Restored { restored: 1, failed: 0 },
        ];
        assert_eq!(events.len(), Event::NAMES.len());
        for event in &events {
            assert_eq!(serde_json::to_value(event).unwrap()["event"], event.name());
        }
        let mut shown: Vec<_> =
            events.iter().map(|event| serde_json::to_value(event).unwrap()).collect();
        shown.push(serde_json::to_value(usage()).unwrap());
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/guard.md");
        let page = std::fs::read_to_string(page).unwrap();
        for event in shown {
            let name = event["event"].as_str().unwrap();
            let mut rows = page.lines().filter(|line| line.starts_with(&format!("| `{name}` |")));
            let row = rows.next().unwrap_or_else(|| panic!("no row for {name}"));
            let keys = event.as_object().unwrap().keys().filter(|key| *key != "event");
            for key in keys {
                assert!(row.contains(&format!("`{key}`")), "{name}: {key}");
            }
        }
        let waiter = serde_json::to_value(waiter).unwrap();
        for key in waiter.as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{key}`")), "waiter: {key}");
        }
    }

    #[test]
    fn usage_as_text_and_json() {
        let usage = usage();
        let text =
            "iperf3 (7): 23.1 % of a CPU, budget 10.0 %, limited to 4000 packets/s, 12 dropped";
        assert_eq!(usage.to_string(), text);
        let json = serde_json::to_value(&usage).unwrap();
        assert_eq!(
            (&json["event"], &json["limit_packets_per_s"]),
            (&"budget".into(), &4000.into())
        );
        let one = Usage { limit: Limit::PacketsPerSecond(1), shared: true, ..usage.clone() };
        let text = one.to_string();
        assert!(
            text.ends_with("limited to 1 packet/s, 12 dropped, with other processes"),
            "{text}"
        );
        let of_user = Usage { group: Some("user 7".into()), ..usage.clone() };
        assert_eq!(of_user.to_string(), format!("{usage}, of user 7"));
        assert_eq!(serde_json::to_value(&of_user).unwrap()["group"], "user 7");
        let free = Usage { limit: Limit::None, ..usage };
        assert!(serde_json::to_value(&free).unwrap()["limit_packets_per_s"].is_null());
    }
}

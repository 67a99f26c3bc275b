//! What a guard is told to do.

use std::str::FromStr;
use std::time::Duration;

use onbeat_realtime::CpuSet;

use onbeat_irq_core::names::Octets;
use onbeat_irq_core::policy::{Budget, Settings};

/// What a guard is told to do: the `[guard]` table of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The interfaces whose bottom halves it schedules.
    pub interfaces: Vec<String>,
    /// Whose sockets count.
    pub namespaces: Namespaces,
    /// The CPUs for their interrupts and NAPI threads; `None` leaves them where they are.
    pub cpus: Option<CpuSet>,
    /// How priorities follow.
    pub settings: Settings,
    /// How often it looks who waits.
    pub interval: Duration,
    /// What processes may cost; of several rules that fit the first holds.
    pub budgets: Vec<Rule>,
    /// Where what exceeds a budget is dropped.
    pub drop_at: DropAt,
    /// Rows of the ledger that budgets are held against; `None`: as [`Tracer::start`](onbeat_irq::Tracer::start)
    /// has them.
    pub ledger_rows: Option<u32>,
    /// Processes that can have a budget at a time, before all others share the strictest; `None`: 65,536.
    pub process_rows: Option<u32>,
}

/// Network namespaces whose sockets wait for the guarded interfaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Namespaces {
    /// That of the interfaces.
    #[default]
    Own,
    /// All: containers get their packets by bridges, routes and translation, which change at any time and
    /// are not followed. What waits in another namespace, other than on its loopback, counts for each
    /// guarded interface.
    All,
}

/// As configurations have it.
impl FromStr for Namespaces {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "own" => Ok(Self::Own),
            "all" => Ok(Self::All),
            _ => Err(format!("{text:?} says of no network namespaces whether they count")),
        }
    }
}

/// Where packets are dropped early.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DropAt {
    /// Where they enter the network stack: tc ingress. It gets on with whatever else is there.
    #[default]
    Tc,
    /// In the driver, before there is a socket buffer: XDP in native mode. Where that cannot be, since the
    /// driver has none or another program is there already, at tc ingress.
    Xdp,
}

/// As configurations have it.
impl FromStr for DropAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tc" => Ok(Self::Tc),
            "xdp" => Ok(Self::Xdp),
            _ => Err(format!("{text:?} is no place where packets are dropped")),
        }
    }
}

impl Config {
    /// How often a guard looks who waits, unless it is told otherwise.
    pub const INTERVAL: Duration = Duration::from_millis(100);

    /// Of these interfaces; everything else by default, and no budgets.
    #[must_use]
    pub fn of(interfaces: Vec<String>) -> Self {
        Self {
            interfaces,
            namespaces: Namespaces::default(),
            cpus: None,
            settings: Settings::default(),
            interval: Self::INTERVAL,
            budgets: Vec::new(),
            drop_at: DropAt::default(),
            ledger_rows: None,
            process_rows: None,
        }
    }
}

/// A budget, and the processes that have one each: those that fit all of what is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The process's name, as /proc/PID/comm has it; octets may be escaped ([`Octets`]).
    pub command: Option<String>,
    /// The control group it is in, or one above that: `/system.slice`; likewise.
    pub cgroup: Option<String>,
    /// What its traffic may cost.
    pub budget: Budget,
}

/// What is known of a process that may have a budget; `None`: it cannot be read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Facts<'a> {
    pub(super) command: Option<&'a Octets>,
    pub(super) cgroup: Option<&'a Octets>,
}

impl Rule {
    /// Longest name that a process has, in octets (TASK_COMM_LEN, less one).
    pub const LONGEST_COMMAND: usize = 15;

    /// Whether a process may have that name.
    #[must_use]
    pub fn is_command(text: &str) -> bool {
        Octets::readings(text).any(|octets| octets.len() <= Self::LONGEST_COMMAND)
    }

    /// Whether it fits a process; `None` where the known facts do not decide that.
    fn fits(&self, Facts { command, cgroup }: Facts<'_>) -> Option<bool> {
        let named = |wanted: &String| {
            command.map(|name| Octets::readings(wanted).any(|octets| *octets == *name.as_slice()))
        };
        let within = |wanted: &String| {
            let wanted = wanted.trim_end_matches('/');
            let below = |above: &[u8], group: &[u8]| {
                let rest = group.strip_prefix(above);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
            };
            cgroup
                .map(|group| Octets::readings(wanted).any(|above| below(&above, group.as_slice())))
        };
        let command = self.command.as_ref().map_or(Some(true), named);
        let cgroup = self.cgroup.as_ref().map_or(Some(true), within);
        match (command, cgroup) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        }
    }

    /// The rule that holds for a process: of those that fit the first. Where it is not known which one
    /// that is, the strictest of those that it may be.
    pub(super) fn of(rules: &[Rule], facts: Facts<'_>) -> Option<usize> {
        let mut possible = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            match rule.fits(facts) {
                Some(false) => {}
                None => possible.push(at),
                Some(true) => {
                    possible.push(at);
                    break;
                }
            }
        }
        possible.into_iter().min_by_key(|at| rules[*at].budget.ns_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(command: Option<&str>, cgroup: Option<&str>, ns_per_s: u64) -> Rule {
        let (command, cgroup) = (command.map(str::to_owned), cgroup.map(str::to_owned));
        Rule { command, cgroup, budget: Budget { ns_per_s } }
    }

    fn fits(rule: &Rule, command: &[u8], cgroup: &[u8]) -> Option<bool> {
        let (command, cgroup) = (Octets::from(command), Octets::from(cgroup));
        rule.fits(Facts { command: Some(&command), cgroup: Some(&cgroup) })
    }

    #[test]
    fn a_rule_fits_by_all_that_it_says() {
        for (command, cgroup, expected) in [
            (None, None, true),
            (Some("iperf3"), None, true),
            (Some("iperf"), None, false),
            (None, Some("/"), true),
            (None, Some("/system.slice"), true),
            (None, Some("/system.slice/"), true),
            (None, Some("/system.slice/iperf.service"), true),
            (None, Some("/system"), false),
            (Some("iperf3"), Some("/user.slice"), false),
        ] {
            let rule = rule(command, cgroup, 1);
            let found = fits(&rule, b"iperf3", b"/system.slice/iperf.service");
            assert_eq!(found, Some(expected), "{rule:?}");
        }
    }

    #[test]
    fn names_that_are_no_text_fit_as_octets() {
        let any = rule(None, None, 1);
        let named = rule(Some("\\xff\\xfe"), Some("/a\\x2db"), 1);
        assert_eq!(fits(&any, b"\xff\xfe", b"/\xff"), Some(true));
        assert_eq!(fits(&named, b"\xff\xfe", b"/a-b/c"), Some(true));
        // As a unit of systemd is called, whose own name has the escape.
        assert_eq!(fits(&named, b"\xff\xfe", b"/a\\x2db/c"), Some(true));
        assert_eq!(fits(&named, b"\xff\xff", b"/a-b/c"), Some(false));
        // What another octet is replaced by where it is shown as text.
        let replaced = rule(Some("\u{fffd}\u{fffd}"), None, 1);
        assert_eq!(fits(&replaced, b"\xff\xfe", b"/"), Some(false));
        assert!(Rule::is_command("fifteen.octets.") && !Rule::is_command("sixteen.octets.."));
        assert!(Rule::is_command(&"\\xff".repeat(15)));
    }

    #[test]
    fn what_is_not_known_of_a_process_makes_its_budget_no_larger() {
        let rules = [
            rule(Some("other"), None, 1),
            rule(Some("srv"), Some("/a"), 70),
            rule(None, Some("/b"), 50),
            rule(Some("srv"), None, 60),
            rule(None, None, 10),
        ];
        let (srv, x, a, c) = ("srv".into(), "x".into(), "/a".into(), "/c".into());
        for (command, cgroup, expected) in [
            (Some(&srv), Some(&a), Some(1)),
            (Some(&srv), Some(&c), Some(3)),
            (Some(&x), Some(&c), Some(4)),
            // It may be in any group: 70, 50 or 60, and never the last one.
            (Some(&srv), None, Some(2)),
            (Some(&x), None, Some(4)),
            // It may have any name.
            (None, Some(&a), Some(0)),
            (None, None, Some(0)),
        ] {
            assert_eq!(
                Rule::of(&rules, Facts { command, cgroup }),
                expected,
                "{command:?} {cgroup:?}"
            );
        }
        assert_eq!(Rule::of(&rules[..1], Facts { command: Some(&x), cgroup: None }), None);
    }
}

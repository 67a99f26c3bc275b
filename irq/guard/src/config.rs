//! Configuration of a guard.

use std::str::FromStr;
use std::time::Duration;

use onbeat_realtime::CpuSet;

use onbeat_irq_core::names::Octets;
use onbeat_irq_core::policy::{Budget, Settings};

/// Configuration of a guard: the `[guard]` table of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The interfaces whose softirq work the guard schedules.
    pub interfaces: Vec<String>,
    /// Whether a guard starts while none of them exists. Without, that is an error: a name is wrong.
    pub starts_without_interfaces: bool,
    /// The network namespaces whose sockets count.
    pub namespaces: Namespaces,
    /// The CPUs for the interfaces' interrupts and NAPI threads; `None` leaves them unchanged.
    pub cpus: Option<CpuSet>,
    /// Limits of priorities.
    pub settings: Settings,
    /// The interval between scans.
    pub interval: Duration,
    /// Budgets of processes; the first matching rule applies.
    pub budgets: Vec<Rule>,
    /// Where packets above a budget are dropped.
    pub drop_at: DropPoint,
    /// Rows of the ledger for budgets; `None`: the default of [`Tracer::start`](onbeat_irq::Tracer::start).
    pub ledger_rows: Option<u32>,
    /// Processes that can have a budget at the same time, before all others share the strictest; `None`:
    /// 65,536.
    pub process_rows: Option<u32>,
}

/// Network namespaces whose sockets wait for the guarded interfaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Namespaces {
    /// The namespace of the interfaces.
    #[default]
    Own,
    /// All namespaces: containers receive packets through bridges, routes and address translation, which change
    /// at any time and are not followed. A socket in another namespace, other than on its loopback, counts for
    /// each guarded interface.
    All,
}

/// The form used in configurations.
impl FromStr for Namespaces {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "own" => Ok(Self::Own),
            "all" => Ok(Self::All),
            _ => Err(format!("invalid namespaces {text:?}; use \"own\" or \"all\"")),
        }
    }
}

/// Where packets are dropped early.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DropPoint {
    /// Where they enter the network stack: tc ingress. Compatible with other programs there.
    #[default]
    Tc,
    /// In the driver, before a socket buffer exists: native XDP. At tc ingress if the driver does not support
    /// it or has another program.
    Xdp,
}

/// The form used in configurations.
impl FromStr for DropPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tc" => Ok(Self::Tc),
            "xdp" => Ok(Self::Xdp),
            _ => Err(format!("invalid place to drop packets {text:?}; use \"tc\" or \"xdp\"")),
        }
    }
}

impl Config {
    /// The default interval between scans.
    pub const INTERVAL: Duration = Duration::from_millis(100);

    /// A configuration for these interfaces; defaults otherwise, and no budgets.
    #[must_use]
    pub fn of(interfaces: Vec<String>) -> Self {
        Self {
            interfaces,
            starts_without_interfaces: false,
            namespaces: Namespaces::default(),
            cpus: None,
            settings: Settings::default(),
            interval: Self::INTERVAL,
            budgets: Vec::new(),
            drop_at: DropPoint::default(),
            ledger_rows: None,
            process_rows: None,
        }
    }
}

/// The processes that share a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BudgetScope {
    /// Each process has its own.
    #[default]
    Process,
    /// Processes of the same name.
    Command,
    /// Processes of the same control group.
    Cgroup,
    /// Processes of the same user.
    User,
    /// All processes of the rule.
    Rule,
}

/// The form used in configurations.
impl FromStr for BudgetScope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "process" => Ok(Self::Process),
            "command" => Ok(Self::Command),
            "cgroup" => Ok(Self::Cgroup),
            "user" => Ok(Self::User),
            "rule" => Ok(Self::Rule),
            _ => Err(format!(
                "invalid scope of a budget {text:?}; use \"process\", \"command\", \"cgroup\", \"user\" or \"rule\""
            )),
        }
    }
}

/// A budget, and its processes: those that match all conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The process's name, as /proc/PID/comm has it; octets may be escaped ([`Octets`]).
    pub command: Option<String>,
    /// Its control group, or a parent of that: `/system.slice`; escaped likewise.
    pub cgroup: Option<String>,
    /// Its real user.
    pub user: Option<u32>,
    /// The processes that share the budget.
    pub per: BudgetScope,
    /// The softirq time that they may cause.
    pub budget: Budget,
}

/// The known properties of a process that may have a budget; `None`: cannot be read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProcessProperties<'a> {
    pub(super) command: Option<&'a Octets>,
    pub(super) cgroup: Option<&'a Octets>,
    pub(super) user: Option<u32>,
}

impl Rule {
    /// A budget of each process.
    #[must_use]
    pub fn any(budget: Budget) -> Self {
        Self { command: None, cgroup: None, user: None, per: BudgetScope::Process, budget }
    }

    /// The longest name of a process, in octets (TASK_COMM_LEN, less one).
    pub const LONGEST_COMMAND: usize = 15;

    /// Whether a process can have this name.
    #[must_use]
    pub fn is_command(text: &str) -> bool {
        Octets::interpretations(text).any(|octets| octets.len() <= Self::LONGEST_COMMAND)
    }

    /// Whether the rule matches a process; `None` if the known properties do not decide that.
    fn fits(&self, properties: ProcessProperties<'_>) -> Option<bool> {
        let ProcessProperties { command, cgroup, user } = properties;
        let named = |wanted: &String| {
            command.map(|name| {
                Octets::interpretations(wanted).any(|octets| *octets == *name.as_slice())
            })
        };
        let within = |wanted: &String| {
            let wanted = wanted.trim_end_matches('/');
            let below = |above: &[u8], group: &[u8]| {
                let rest = group.strip_prefix(above);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
            };
            cgroup.map(|group| {
                Octets::interpretations(wanted).any(|above| below(&above, group.as_slice()))
            })
        };
        let command = self.command.as_ref().map_or(Some(true), named);
        let cgroup = self.cgroup.as_ref().map_or(Some(true), within);
        let of_user = |wanted| user.map(|user| user == wanted);
        let conditions = [command, cgroup, self.user.map_or(Some(true), of_user)];
        if conditions.contains(&Some(false)) {
            return Some(false);
        }
        (!conditions.contains(&None)).then_some(true)
    }

    /// The rule of a process: the first match. If unknown properties leave several candidates, the strictest of
    /// these.
    pub(super) fn of(rules: &[Rule], facts: ProcessProperties<'_>) -> Option<usize> {
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
        Rule { command, cgroup, ..Rule::any(Budget { ns_per_s }) }
    }

    fn fits(rule: &Rule, command: &[u8], cgroup: &[u8]) -> Option<bool> {
        let (command, cgroup) = (Octets::from(command), Octets::from(cgroup));
        let (command, cgroup) = (Some(&command), Some(&cgroup));
        rule.fits(ProcessProperties { command, cgroup, user: Some(1000) })
    }

    #[test]
    fn a_rule_matches_if_all_its_conditions_match() {
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
    fn names_that_are_not_text_match_as_octets() {
        let any = rule(None, None, 1);
        let named = rule(Some("\\xff\\xfe"), Some("/a\\x2db"), 1);
        assert_eq!(fits(&any, b"\xff\xfe", b"/\xff"), Some(true));
        assert_eq!(fits(&named, b"\xff\xfe", b"/a-b/c"), Some(true));
        // As a systemd unit whose own name has the escape.
        assert_eq!(fits(&named, b"\xff\xfe", b"/a\\x2db/c"), Some(true));
        assert_eq!(fits(&named, b"\xff\xff", b"/a-b/c"), Some(false));
        // The replacement of another octet where it is shown as text.
        let replaced = rule(Some("\u{fffd}\u{fffd}"), None, 1);
        assert_eq!(fits(&replaced, b"\xff\xfe", b"/"), Some(false));
        assert!(Rule::is_command("fifteen.octets.") && !Rule::is_command("sixteen.octets.."));
        assert!(Rule::is_command(&"\\xff".repeat(15)));
    }

    #[test]
    fn unknown_properties_select_the_strictest_rule() {
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
            // It may be in any group: 70, 50 or 60, but not the last one.
            (Some(&srv), None, Some(2)),
            (Some(&x), None, Some(4)),
            // It may have any name.
            (None, Some(&a), Some(0)),
            (None, None, Some(0)),
        ] {
            assert_eq!(
                Rule::of(&rules, ProcessProperties { command, cgroup, user: None }),
                expected,
                "{command:?} {cgroup:?}"
            );
        }
        assert_eq!(
            Rule::of(
                &rules[..1],
                ProcessProperties { command: Some(&x), ..ProcessProperties::default() }
            ),
            None
        );
    }

    #[test]
    fn a_rule_of_a_user() {
        let rule = Rule { user: Some(1000), ..rule(Some("srv"), None, 1) };
        assert_eq!(fits(&rule, b"srv", b"/"), Some(true));
        assert_eq!(fits(&rule, b"other", b"/"), Some(false));
        let another = Rule { user: Some(0), ..rule.clone() };
        assert_eq!(fits(&another, b"srv", b"/"), Some(false));
        let srv = "srv".into();
        let unknown = ProcessProperties { command: Some(&srv), ..ProcessProperties::default() };
        assert_eq!(rule.fits(unknown), None);
    }

    #[test]
    fn scopes_as_configurations_have_them() {
        for (text, scope) in [
            ("process", BudgetScope::Process),
            ("command", BudgetScope::Command),
            ("cgroup", BudgetScope::Cgroup),
            ("user", BudgetScope::User),
            ("rule", BudgetScope::Rule),
        ] {
            assert_eq!(text.parse(), Ok(scope));
        }
        let error = "thread".parse::<BudgetScope>().unwrap_err();
        assert!(error.starts_with("invalid scope of a budget \"thread\"; use "), "{error}");
    }
}

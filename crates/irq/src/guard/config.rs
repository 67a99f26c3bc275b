//! What a guard is told to do.

use std::str::FromStr;
use std::time::Duration;

use onbeat_realtime::CpuSet;

use crate::Description;
use crate::policy::{Budget, Settings};

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
        }
    }
}

/// A budget, and the processes that have one each: those that fit all of what is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The process's name, as /proc/PID/comm has it.
    pub command: Option<String>,
    /// The control group it is in, or one above that: `/system.slice`.
    pub cgroup: Option<String>,
    /// What its traffic may cost.
    pub budget: Budget,
}

impl Rule {
    pub(super) fn fits(&self, process: &Description) -> bool {
        let named = |command: &String| process.command == *command;
        let within = |cgroup: &String| {
            let above = cgroup.trim_end_matches('/');
            let rest = process.cgroup.as_deref().and_then(|group| group.strip_prefix(above));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.command.as_ref().is_none_or(named) && self.cgroup.as_ref().is_none_or(within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_fits_by_all_that_it_says() {
        let process = Description {
            command: "iperf3".into(),
            cgroup: Some("/system.slice/iperf.service".into()),
            container: None,
        };
        for (command, cgroup, fits) in [
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
            let (command, cgroup) = (command.map(str::to_owned), cgroup.map(str::to_owned));
            let rule = Rule { command, cgroup, budget: Budget { ns_per_s: 1 } };
            assert_eq!(rule.fits(&process), fits, "{rule:?}");
        }
    }
}

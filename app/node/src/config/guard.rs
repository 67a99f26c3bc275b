//! The `[guard]` table: interfaces whose receive processing runs at the priority of the waiting process.

use std::path::Path;
use std::time::Duration;

use nix::unistd::User;
use onbeat_irq_core::policy::{Budget, Policy, Rank, Settings};
use onbeat_irq_guard::{BudgetScope, Config, DropPoint, Namespaces, Rule};

use super::reader::{self, Value};
use super::realtime::parse as parse_text;
use super::{LoadError, Source, interface, parse, source_of};

/// Longest time: one hour.
const LONGEST_MS: u32 = 3_600_000;
/// All of 1024 CPUs.
const MOST_US_PER_SECOND: u32 = 1_024_000_000;

/// Maximum number of budgets: each has a limit that processes share if there are very many.
const MOST_BUDGETS: usize = 64;

const COMMAND_HELP: &str = "use at most 15 octets, as /proc/PID/comm has them; \\xNN is an octet";

const CGROUP_HELP: &str = "use a value such as \"/system.slice\", as /proc/PID/cgroup has it";

const USER_HELP: &str = "use a name or a number of this host; list users: getent passwd";

const PER_HELP: &str = "write \"process\", \"command\", \"cgroup\", \"user\" or \"rule\": these processes share the budget";

const DROP_AT_HELP: &str = "write \"tc\", or \"xdp\" to drop in the driver if it supports XDP";

const NAMESPACES_HELP: &str = "write \"own\", or \"all\" to include sockets of containers";

const RANK_HELP: &str = "use a value such as \"normal\", \"nice -5\" or \"fifo 50\"";

/// Reads only the `[guard]` table of a file: the configuration of a node, or a file with only this table.
///
/// # Errors
/// The file cannot be read, has no such table, or the table has faults.
pub fn load_guard(path: &Path) -> Result<Config, LoadError> {
    let (text, file) = source_of(path)?;
    let source = Source { file, text: text.into() };
    let root = parse(&source.text, &source)?;
    let (config, faults) = reader::read(&root, |mut table, _| {
        for of_node in ["node", "port", "stream"] {
            table.has(of_node);
        }
        let value = table.require("guard", "{ interfaces = [\"eth0\"] }");
        let config = value.and_then(|value| read(&value));
        table.finish();
        config
    });
    faults.into_result(&source)?;
    Ok(config.expect("without faults there is one"))
}

pub(super) fn read(value: &Value<'_>) -> Option<Config> {
    let mut table = value.table()?;
    let interfaces = table.require("interfaces", "[\"eth0\"]").and_then(|value| names(&value));
    let mut config = Config::of(interfaces.unwrap_or_default());
    let namespaces = table.take("namespaces");
    let namespaces = namespaces.and_then(|value| parse_text::<Namespaces>(&value, NAMESPACES_HELP));
    config.namespaces = namespaces.unwrap_or_default();
    let cpus = table.take("cpus");
    config.cpus =
        cpus.and_then(|value| parse_text(&value, "use a value such as \"1\" or \"2-3,5\""));
    let mut rank = |key| table.take(key).and_then(|value| parse_text::<Rank>(&value, RANK_HELP));
    let Settings { floor, ceiling, hold_ns } = config.settings;
    config.settings.floor = rank("floor").unwrap_or(floor);
    config.settings.ceiling = rank("ceiling").unwrap_or(ceiling);
    let hold_ms = table.take("hold-ms").and_then(|value| value.number(0..=LONGEST_MS));
    config.settings.hold_ns = hold_ms.map_or(hold_ns, |ms| u64::from(ms) * 1_000_000);
    if let Err(error) = Policy::<u32, u32>::new(config.settings) {
        value.fault(error.to_string(), RANK_HELP);
    }
    let interval = table.take("interval-ms").and_then(|value| value.number(1..=60_000_u32));
    config.interval = interval.map_or(config.interval, |ms| Duration::from_millis(u64::from(ms)));
    let drop_at = table.take("drop-at");
    let drop_at = drop_at.and_then(|value| parse_text::<DropPoint>(&value, DROP_AT_HELP));
    config.drop_at = drop_at.unwrap_or_default();
    let budgets = table.items("budget");
    if let Some(beyond) = budgets.get(MOST_BUDGETS) {
        beyond.fault(
            format!("more than {MOST_BUDGETS} budgets"),
            "use one budget for several processes: it applies to each process that matches",
        );
    }
    config.budgets = budgets.iter().filter_map(rule).collect();
    table.finish();
    Some(config)
}

fn names(value: &Value<'_>) -> Option<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for one in value.array()? {
        let Some(name) = interface::read(&one) else { continue };
        if names.contains(&name) {
            one.fault(format!("{name:?} is listed twice"), "list each interface once");
        }
        names.push(name);
    }
    if value.array().is_some_and(|all| all.is_empty()) {
        value.fault("no interface is named", "use a value such as [\"eth0\"]");
    }
    Some(names)
}

fn rule(value: &Value<'_>) -> Option<Rule> {
    let mut table = value.table()?;
    let mut text = |key, is_valid: fn(&str) -> bool, what: &str, help: &str| {
        let value = table.take(key)?;
        let text = value.text()?;
        if !is_valid(text) {
            value.fault(format!("{text:?} {what}"), help);
        }
        Some(text.to_owned())
    };
    let command =
        text("command", Rule::is_command, "matches no process: it is too long", COMMAND_HELP);
    let is_path = |path: &str| path.starts_with('/');
    let cgroup = text("cgroup", is_path, "matches no process: it is not absolute", CGROUP_HELP);
    let user = table.take("user").and_then(|value| user(&value));
    let per = table.take("per");
    let per = per.and_then(|value| parse_text::<BudgetScope>(&value, PER_HELP));
    let us = table.require("us-per-second", "100000");
    let us = us.and_then(|value| value.number(1..=MOST_US_PER_SECOND));
    table.finish();
    let budget = Budget { ns_per_s: u64::from(us?) * 1000 };
    Some(Rule { command, cgroup, user, per: per.unwrap_or_default(), budget })
}

/// A user of this host, by name or number.
fn user(value: &Value<'_>) -> Option<u32> {
    let text = value.text()?;
    let named = || User::from_name(text).ok().flatten().map(|user| user.uid.as_raw());
    let user = text.parse().ok().or_else(named);
    if user.is_none() {
        value.fault(format!("{text:?} is no user of this host"), USER_HELP);
    }
    user
}

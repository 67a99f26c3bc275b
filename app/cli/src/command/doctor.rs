//! `onbeat doctor`

mod fix;
mod restore;

use std::collections::BTreeSet;
use std::path::PathBuf;

use onbeat_node::doctor::{Finding, Level, Target, table, worst};
use serde::Serialize;

use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output;

/// Check this host's capabilities and real-time settings, and change them
///
/// Without --fix or --restore, prints findings, each with its remedy. --fix changes the settings of the host
/// and of the given interfaces, verifies each change, and restores all of them if one fails. Until the
/// next boot, --restore restores the settings from before the first --fix, also after a kill -9.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat doctor
  onbeat doctor eth0 eth1
  onbeat doctor eth0 --json | jq '.findings[] | select(.level == \"bad\")'
  onbeat doctor --fix eth1 --cpu 1 --dry-run
  onbeat doctor --fix eth1 --cpu 1
  onbeat doctor --fix --hold eth1 -- ./control-loop eth1
  onbeat doctor --restore

Exit status: 0 no finding worse than a warning, or all settings are changed or restored as requested; 1 a \
requirement is not met, a setting could not be changed or restored, or the command of --hold failed; 2 error.")]
pub(crate) struct Arguments {
    /// Interfaces to check as ports of a node; without any, check the host and its nodes
    #[arg(value_name = "INTERFACE")]
    interfaces: Vec<String>,
    /// Print the findings or changes as JSON
    #[arg(long, conflicts_with = "hold")]
    json: bool,
    #[command(flatten)]
    fix: fix::FixOptions,
    #[command(flatten)]
    restore: restore::RestoreOptions,
    /// Directory with /proc, /sys and /run of the host
    #[arg(long, hide = true, value_name = "DIRECTORY")]
    root: Option<PathBuf>,
}

/// Most interfaces of one command: more than a host has ports.
const MOST_INTERFACES: usize = 1024;

/// Output of `--json`.
#[derive(Serialize)]
struct Report {
    worst: Level,
    findings: Vec<Finding>,
}

impl Arguments {
    pub(crate) fn execute(mut self) -> Result {
        let mut known = BTreeSet::new();
        self.interfaces.retain(|name| known.insert(name.clone()));
        if self.interfaces.len() > MOST_INTERFACES {
            let count = self.interfaces.len();
            return Err(Failure::new(format!(
                "{count} interfaces are too many: at most {MOST_INTERFACES} per command; divide them among several"
            )));
        }
        let at = Target { root: self.root };
        if self.fix.fix {
            return self.fix.execute(&at, self.interfaces, self.json);
        }
        if self.restore.restore {
            return self.restore.execute(&at, self.json);
        }
        let mut findings = at.examine(&self.interfaces);
        if self.interfaces.is_empty() {
            findings.extend(at.examine_nodes());
        }
        let worst = worst(&findings);
        if self.json {
            output::print_json(&Report { worst, findings })?;
        } else {
            output::print(&table(&findings))?;
        }
        Ok(CommandResult::good_if(worst < Level::Bad))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    fn parse_doctor(line: &str) -> std::result::Result<Arguments, clap::Error> {
        match parse(&format!("doctor {line}"))? {
            Command::Doctor(doctor) => Ok(doctor),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn accepts_any_number_of_interfaces() {
        let doctor = parse_doctor("eth0 --json eth1").unwrap();
        assert_eq!(doctor.interfaces, ["eth0", "eth1"]);
        assert!(doctor.json && !doctor.fix.fix && !doctor.restore.restore);
    }

    #[test]
    fn fix_accepts_cpus_settings_and_a_command() {
        let line = "--fix eth1 --cpu 1-2 --cpu 5 --only coalescing,napi-priority --keep-going \
                    --napi-priority 60 --hold --latency-us 20 -- sleep -v 1";
        let doctor = parse_doctor(line).unwrap();
        let tuning = doctor.fix.tuning(doctor.interfaces);
        assert_eq!(tuning.interfaces, ["eth1"]);
        assert_eq!(tuning.cpus.unwrap().to_string(), "1-2,5");
        assert_eq!(tuning.only.map_names(), ["coalescing", "napi-priority"]);
        assert_eq!(tuning.napi.to_string(), "fifo 60");
        assert_eq!(doctor.fix.command, ["sleep", "-v", "1"]);
        assert!(doctor.fix.keep_going && doctor.fix.hold);
        let all = parse_doctor("--fix").unwrap().fix.tuning(Vec::new());
        assert_eq!(all, onbeat_host::settings::Tuning::default());
    }

    trait Names {
        fn map_names(&self) -> Vec<&'static str>;
    }

    impl Names for Vec<onbeat_host::settings::SettingKind> {
        fn map_names(&self) -> Vec<&'static str> {
            self.iter().map(|kind| kind.name()).collect()
        }
    }

    #[test]
    fn conflicting_options_are_refused() {
        for line in [
            "--fix --restore",
            "--restore eth0",
            "--restore --dry-run",
            "--restore --cpu 1",
            "--restore --napi-priority 50",
            "--restore --only governor",
            "--restore --keep-going",
            "--restore --hold",
            "--restore --hold --latency-us 3",
            "--restore -- true",
            "--dry-run",
            "--cpu 1",
            "--hold",
            "--forget",
            "--fix --hold --dry-run",
            "--fix --hold --json",
            "--fix -- true",
            "--fix --latency-us 3",
            "--fix --cpu x",
            "--fix --only gro",
            "--fix --napi-priority 100",
        ] {
            assert!(parse_doctor(line).is_err(), "{line}");
        }
    }
}

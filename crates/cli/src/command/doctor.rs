//! `onbeat doctor`

use onbeat_node::doctor::{Finding, Level, Root, examine, table, worst};
use serde::Serialize;

use crate::exit::{Answer, Result};
use crate::output;

/// Say what this host can do, what is set badly for real time, and how to change it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat doctor
  onbeat doctor eth0 eth1
  onbeat doctor eth0 --json | jq '.findings[] | select(.level == \"bad\")'

Exit code: 0 nothing worse than a warning, 1 something does not work, 2 it could not look.")]
pub(crate) struct Arguments {
    /// Interfaces to be ports of a node; without any, only the host is looked at
    #[arg(value_name = "INTERFACE")]
    interfaces: Vec<String>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    worst: Level,
    findings: Vec<Finding>,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        let findings = examine(&Root::host(), &self.interfaces);
        let worst = worst(&findings);
        if self.json {
            output::print_json(&Report { worst, findings })?;
        } else {
            output::print(&table(&findings))?;
        }
        Ok(Answer::good_if(worst < Level::Bad))
    }
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, parse};

    #[test]
    fn takes_any_number_of_interfaces() {
        let Ok(Command::Doctor(doctor)) = parse("doctor eth0 --json eth1") else { panic!() };
        assert_eq!(doctor.interfaces, ["eth0", "eth1"]);
        assert!(doctor.json);
    }
}

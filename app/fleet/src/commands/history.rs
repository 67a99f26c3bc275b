//! `onbeat fleet history`

use std::time::{Duration, UNIX_EPOCH};

use onbeat_report::rfc3339;
use onbeat_rollout::record::{self, Batch, Manifest};
use onbeat_rollout::{Current, Phase};
use onbeat_terminal::exit::{CommandResult, Result};
use onbeat_terminal::output::print;

use super::FleetOption;
use super::apply::OpenFleet;
use crate::controller::FleetReader;
use crate::error::Error;
use crate::files;

/// List the plans in the store
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet history

Exit status: 0 success; 2 error.")]
pub(crate) struct History {
    #[command(flatten)]
    fleet: FleetOption,
}

impl History {
    pub(crate) fn execute(self) -> Result<CommandResult> {
        let mut fleet = OpenFleet::open(&self.fleet)?;
        let current = FleetReader::default().read(&mut fleet.store, &fleet.public)?.current;
        let mut rows = Vec::new();
        for generation in files::generations(&mut fleet.store, "plan/")? {
            let key = onbeat_rollout::key::manifest(generation);
            let Some(found) = files::read_one(&mut fleet.store, &key)? else { continue };
            let manifest = record::open(&key, &found.value, &fleet.public).map_err(Error::from)?;
            let batch = files::valid_batch(&mut fleet.store, &fleet.public, generation)?;
            rows.push(row(&current, &manifest, batch.as_ref()));
        }
        print(&(HEAD.to_owned() + &rows.concat()))?;
        Ok(CommandResult::Success)
    }
}

const HEAD: &str = "PLAN  STORED                SHA-256       STATE          NODES\n";

/// Nodes that a row names.
const NAMED: usize = 4;

fn row(current: &Current, manifest: &Manifest, batch: Option<&Batch>) -> String {
    let Manifest { generation, nodes, plan, stored_s } = manifest;
    let stored = match stored_s {
        0 => "-".to_owned(),
        _ => rfc3339(UNIX_EPOCH + Duration::from_secs(*stored_s)),
    };
    let state = match batch {
        _ if *generation == current.from => "runs".to_owned(),
        _ if *generation == current.to && current.phase != Phase::Rest => "is rolled out".into(),
        Some(batch) => format!("batch from {}", batch.first),
        None => String::new(),
    };
    let named: Vec<&str> = nodes.keys().take(NAMED).map(String::as_str).collect();
    let rest = match nodes.len() - named.len() {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    let hash = &plan.to_string()[..12];
    let row =
        format!("{generation:>4}  {stored:<20}  {hash}  {state:<13}  {}{rest}", named.join(", "));
    row.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use onbeat_rollout::record::FileHash;

    use super::*;

    #[test]
    fn rows_have_the_time_and_the_nodes_of_a_plan() {
        let nodes = |count| (0..count).map(|n| (format!("r{n}"), FileHash::default())).collect();
        let manifest = |generation, count, stored_s| {
            let (nodes, plan) = (nodes(count), FileHash([0xa5; 32]));
            Manifest { generation, nodes, plan, stored_s }
        };
        let current = Current { step: 9, from: 2, to: 3, phase: Phase::Prove, prev: Phase::Accept };
        let batch = Batch { generation: 4, first: 2, plan: FileHash::default() };
        let rows = [
            row(&current, &manifest(1, 4, 0), None),
            row(&current, &manifest(2, 6, 1_796_040_000), None),
            row(&current, &manifest(3, 1, 1_796_040_001), Some(&batch)),
            row(&current, &manifest(4, 1, 1_796_040_002), Some(&batch)),
        ];
        assert_eq!(
            HEAD.to_owned() + &rows.concat(),
            "PLAN  STORED                SHA-256       STATE          NODES\n   \
             1  -                     a5a5a5a5a5a5                 r0, r1, r2, r3\n   \
             2  2026-11-30T12:00:00Z  a5a5a5a5a5a5  runs           r0, r1, r2, r3 and 2 more\n   \
             3  2026-11-30T12:00:01Z  a5a5a5a5a5a5  is rolled out  r0\n   \
             4  2026-11-30T12:00:02Z  a5a5a5a5a5a5  batch from 2   r0\n"
        );
    }
}

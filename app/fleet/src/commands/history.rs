//! `onbeat fleet history`

use onbeat_rollout::Phase;
use onbeat_rollout::record::{self, Manifest};
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
        let mut text = String::from("PLAN  NODES  SHA-256       STATE\n");
        for generation in files::generations(&mut fleet.store, "plan/")? {
            let key = onbeat_rollout::key::manifest(generation);
            let Some(found) = files::read_one(&mut fleet.store, &key)? else { continue };
            let manifest: Manifest =
                record::open(&key, &found.value, &fleet.public).map_err(Error::from)?;
            let state = match generation {
                _ if generation == current.from => "runs",
                _ if generation == current.to && current.phase != Phase::Rest => "is rolled out",
                _ => "",
            };
            let (nodes, hash) = (manifest.nodes.len(), manifest.plan.to_string());
            let row = format!("{generation:>4}  {nodes:>5}  {}  {state}", &hash[..12]);
            text += &(row.trim_end().to_owned() + "\n");
        }
        print(&text)?;
        Ok(CommandResult::Success)
    }
}

//! `onbeat fleet diff`

use std::path::PathBuf;

use onbeat_plan::report;
use onbeat_report::{Counters, Run};
use onbeat_rollout::Phase;
use onbeat_rollout::change::{self, PlanFiles};
use onbeat_terminal::exit::{CommandResult, Result};
use onbeat_terminal::output;

use super::FleetOption;
use super::apply::{OpenFleet, RolloutOptions, read_plan};
use crate::controller::FleetReader;
use crate::files;

/// Show what a roll-out would change, or why it would be refused
///
/// Compares a plan with the one that runs, or that is being rolled out. Changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet diff plan-2
  onbeat fleet diff plan-2 --json

Exit status: 0 no difference; 1 the plans differ; 2 error.")]
pub(crate) struct Diff {
    /// Directory that `onbeat plan -o` wrote
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: RolloutOptions,
    #[command(flatten)]
    fleet: FleetOption,
}

impl Diff {
    pub(crate) fn execute(self) -> Result<CommandResult> {
        let run = Run::analysis("fleet-diff");
        let mut fleet = OpenFleet::open(&self.fleet)?;
        let (_, manifest, files) = read_plan(&self.plan)?;
        let current = FleetReader::default().read(&mut fleet.store, &fleet.public)?.current;
        // After a roll-out that returned, the old plan runs.
        let present = if current.phase == Phase::Rest { current.from } else { current.to };
        let from = files::plan(&mut fleet.store, &fleet.public, present)?;
        let to = PlanFiles::new(present + 1, manifest, files);
        let [streams, nodes] = report::differences(&from.manifest(), &to.manifest());
        let mut refused = Counters::new(["refused because"]);
        let prepared = change::prepare(&from, &to, &self.options.settings());
        let refusals = prepared.err().unwrap_or_default();
        for refusal in &refusals {
            refused.row([refusal.to_string()]);
        }
        let is_same = from.files == to.files && from.streams == to.streams;
        let mut outcome = run.finish();
        outcome.figure("streams", streams);
        outcome.figure("nodes", nodes);
        if !refusals.is_empty() {
            outcome.figure("refusals", refused);
        }
        output::report_and_print(outcome, self.json, None)?;
        Ok(CommandResult::good_if(is_same))
    }
}

//! `onbeat fleet status`

use onbeat_rollout::{Current, Phase};
use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output::{print, print_json};
use serde::Serialize;

use super::FleetOption;
use super::apply::OpenFleet;
use crate::controller;

/// Exit statuses of their own: a roll-out is under way; the fleet is not healthy.
const UNDER_WAY: u8 = 3;
const NOT_HEALTHY: u8 = 4;

/// Show the plan that runs, and the nodes that are missing
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet status
  onbeat fleet status --json

Exit status: 0 all nodes run the plan; 2 error; 3 a roll-out is under way; 4 a node is missing, or refuses.")]
pub(crate) struct Status {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fleet: FleetOption,
}

#[derive(Debug, Serialize)]
struct NodeLine {
    node: String,
    /// `ok`, `waiting`, `refused`, `missing`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
}

#[derive(Debug, Serialize)]
struct FleetStatus {
    step: u64,
    from: u64,
    to: u64,
    phase: Phase,
    is_returning: bool,
    nodes: Vec<NodeLine>,
}

fn line(current: &Current, node: String, state: Option<onbeat_rollout::NodeState>) -> NodeLine {
    let Some(state) = state else {
        return NodeLine { node, state: "missing", step: None, sha256: None, why: String::new() };
    };
    let word = match (state.current.step == current.step, state.ok) {
        (true, true) => "ok",
        (_, false) => "refused",
        (false, true) => "waiting",
    };
    let (step, sha256) = (Some(state.current.step), Some(state.hash.to_string()));
    NodeLine { node, state: word, step, sha256, why: state.why }
}

impl Status {
    pub(crate) fn execute(self) -> Result<CommandResult> {
        let mut fleet = OpenFleet::open(&self.fleet)?;
        let read = controller::read(&mut fleet.store, &fleet.public, &mut None)?;
        let current = read.current;
        let nodes: Vec<NodeLine> = read
            .nodes
            .into_iter()
            .chain(read.others)
            .map(|(node, state)| line(&current, node, state))
            .collect();
        let is_healthy = nodes.iter().all(|node| ["ok", "waiting"].contains(&node.state));
        let is_over = current.phase == Phase::Rest && nodes.iter().all(|node| node.state == "ok");
        let Current { step, from, to, phase, .. } = current;
        let status =
            FleetStatus { step, from, to, phase, is_returning: current.is_returning(), nodes };
        if self.json {
            print_json(&status)?;
        } else {
            print(&text(&status))?;
        }
        let code = match (is_healthy, is_over) {
            (true, true) => return Ok(CommandResult::Success),
            (true, false) => UNDER_WAY,
            (false, _) => NOT_HEALTHY,
        };
        let what = if is_healthy { "a roll-out is under way" } else { "not all nodes are healthy" };
        Err(Failure::with_code(what, code))
    }
}

fn text(status: &FleetStatus) -> String {
    let FleetStatus { step, from, to, phase, is_returning, nodes } = status;
    let plans = match (from == to || *phase == Phase::Rest, is_returning) {
        (true, _) => format!("plan {from}"),
        (false, false) => format!("plan {from} to {to}, {phase}"),
        (false, true) => format!("plan {from} to {to}, {phase}, returning"),
    };
    let width = nodes.iter().map(|node| node.node.len()).max().unwrap_or(0).max(4);
    let rows = nodes.iter().map(|node| {
        let step = node.step.map_or("-".into(), |step| step.to_string());
        let hash = node.sha256.as_deref().map_or("-", |hash| &hash[..12]);
        let row = format!(
            "{:<width$}  {:<7}  {step:>4}  {hash:<12}  {}",
            node.node, node.state, node.why
        );
        row.trim_end().to_owned() + "\n"
    });
    let head =
        format!("{:<width$}  {:<7}  {:>4}  {:<12}  WHY\n", "NODE", "STATE", "STEP", "SHA-256");
    format!("step {step}: {plans}\n\n{head}{}", rows.collect::<String>())
}

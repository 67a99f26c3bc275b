//! `onbeat fleet drain`

use std::collections::BTreeMap;
use std::path::PathBuf;

use onbeat_plan::manifest::Manifest;
use onbeat_plan::{Network, Plan, node_file};
use onbeat_report::format::count;
use onbeat_rollout::change::PlanFiles;
use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output::print;

use super::FleetOption;
use super::apply::{OpenFleet, RolloutOptions};
use crate::files;

/// Lines about streams at most.
const SHOWN: usize = 10;

/// Move all streams away from a node
///
/// Plans the network without paths through the node, with the paths that run kept, and rolls that plan out. Streams that start
/// or end at the node remain. Stop the node then; `rollback` returns its streams.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet drain relay1 --network net.toml

Exit status: 0 no path leads through the node; 1 a stream would have less protection, or the roll-out returned; 2 error.")]
pub(crate) struct Drain {
    /// Name of the node
    node: String,
    /// File of the network, from which `onbeat plan` made the plan that runs
    #[arg(long, value_name = "FILE")]
    network: PathBuf,
    /// Accept that streams have less protection, or none
    #[arg(long)]
    unprotected: bool,
    #[command(flatten)]
    options: RolloutOptions,
    #[command(flatten)]
    fleet: FleetOption,
}

/// The better the higher.
fn protection(state: &str) -> u8 {
    match state {
        "protected" => 2,
        "shared" => 1,
        _ => 0,
    }
}

impl Drain {
    pub(crate) fn execute(self) -> Result<CommandResult> {
        let mut network = Network::load(&self.network)?;
        let place = network.nodes.iter().position(|node| node.name == self.node);
        let place = place.ok_or_else(|| {
            Failure::new(format!("{} has no node {:?}", self.network.display(), self.node))
        })?;
        network.nodes[place].relay = false;
        let mut fleet = OpenFleet::open(&self.fleet)?;
        let current = fleet.at_rest()?;
        let from = files::plan(&mut fleet.store, &fleet.public, current.from)?;
        let mut planned: Vec<&str> =
            network.streams.iter().map(|stream| &stream.name[..]).collect();
        let mut running: Vec<&str> = from.streams.iter().map(|stream| &stream.name[..]).collect();
        planned.sort_unstable();
        running.sort_unstable();
        if planned != running {
            let differs = |a: &[&str], b: &[&str]| {
                a.iter().find(|name| !b.contains(name)).copied().map(str::to_owned)
            };
            let name = differs(&planned, &running).or(differs(&running, &planned));
            return Err(Failure::new(format!(
                "{} does not have the streams of the plan that runs: {:?} is in one of both; use the file of that plan, or roll \
                 it out first",
                self.network.display(),
                name.unwrap_or_default()
            )));
        }
        let plan = Plan::new(&network, &from.manifest().previous(&network));
        let node_files = node_file::all(&network, &plan);
        let manifest = Manifest::new(&network, &plan, &node_files);
        let before: BTreeMap<&str, &str> =
            from.streams.iter().map(|stream| (&stream.name[..], &stream.state[..])).collect();
        let has_less = |name: &str, state: &str| {
            before.get(name).is_some_and(|before| protection(before) > protection(state))
        };
        let less: Vec<String> = manifest
            .streams
            .iter()
            .filter(|stream| has_less(&stream.name, &stream.state))
            .map(|stream| format!("  {}: {} {}\n", stream.name, stream.state, stream.reason))
            .collect();
        if !less.is_empty() && !self.unprotected {
            let shown = less[..less.len().min(SHOWN)].concat();
            print(&format!(
                "without node {:?}, {} would have less protection; add links, or accept it by --unprotected:\n{shown}",
                self.node,
                count(less.len() as u64, "stream"),
            ))?;
            return Ok(CommandResult::Negative);
        }
        let ends = network.streams.iter().filter(|stream| {
            stream.talker as usize == place
                || stream.listeners.iter().any(|node| *node as usize == place)
        });
        let ends = ends.count() as u64;
        let text = serde_json::to_string(&manifest)?;
        let name = |file: &node_file::NodeFile| network.nodes[file.node as usize].name.clone();
        let texts = node_files.iter().map(|file| (name(file), file.text.clone())).collect();
        let to = PlanFiles::new(current.from + 1, manifest, texts);
        let result = match from.files == to.files && from.streams == to.streams {
            true => CommandResult::Success,
            false => fleet.change(from, &to, Some(&text), &self.options)?,
        };
        if result == CommandResult::Success {
            print(&format!(
                "no path leads through node {:?}; {} there\n",
                self.node,
                if ends == 0 {
                    "it may be stopped: no stream starts or ends".into()
                } else {
                    format!("{} still start or end", count(ends, "stream"))
                }
            ))?;
        }
        Ok(result)
    }
}

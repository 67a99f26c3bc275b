//! `onbeat fleet apply`, `rollback`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use onbeat_plan::manifest::Manifest;
use onbeat_report::format::{count, count_of};
use onbeat_rollout::change::{self, PlanFiles, PreparedChange, Settings};
use onbeat_rollout::controller::Goal;
use onbeat_rollout::record::{Change, FileHash, LONGEST_FILE};
use onbeat_rollout::store::Keys;
use onbeat_rollout::{Current, Generation, Phase, key};
use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output::print;

use super::FleetOption;
use crate::controller::{self, End};
use crate::credentials::{Credentials, PublicKey, SigningKey};
use crate::disk;
use crate::error::Error;
use crate::files;
use crate::store::EtcdStore;

/// Nodes that a line names.
const NAMED: usize = 3;

/// Longest manifest of `onbeat plan`.
const LONGEST_PLAN: u64 = 1 << 30;

/// Roll a plan out
///
/// Nodes accept frames of both plans, prove new paths by probes, send along them, and remove old paths. A refusal, a dead
/// node or a missed deadline before that returns the roll-out. Ctrl-C leaves all nodes in a safe state; --continue goes on.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet apply plan-2
  onbeat fleet apply plan-2 --soak 60 --deadline 60
  onbeat fleet apply --continue

Exit status: 0 all nodes run the plan; 1 the change is refused, or the roll-out returned; 2 error.")]
pub(crate) struct Apply {
    /// Directory that `onbeat plan -o` wrote
    #[arg(value_name = "PLAN", required_unless_present = "continue")]
    plan: Option<PathBuf>,
    /// Complete the roll-out that is under way
    #[arg(long, conflicts_with = "plan")]
    r#continue: bool,
    /// Seconds for which new paths are used before old ones are removed
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=86_400))]
    soak: u32,
    /// Seconds within which nodes must acknowledge a phase
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(5..=86_400))]
    deadline: u32,
    /// Foreign bridges have the static entries of both plans
    #[arg(long)]
    bridges_loaded: bool,
    #[command(flatten)]
    fleet: FleetOption,
}

/// Return to a former plan
///
/// While a roll-out is under way, returns to its old plan, unless old paths are being removed. Otherwise rolls out the plan
/// before the present one, or plan GENERATION, in the same phases.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet rollback
  onbeat fleet rollback 3

Exit status: 0 all nodes run that plan; 1 the change is refused, or nothing is there to return to; 2 error.")]
pub(crate) struct Rollback {
    /// Number of the plan (see `history`)
    #[arg(value_name = "GENERATION")]
    generation: Option<Generation>,
    /// Foreign bridges have the static entries of both plans
    #[arg(long)]
    bridges_loaded: bool,
    #[command(flatten)]
    fleet: FleetOption,
}

/// An open fleet.
pub(super) struct OpenFleet {
    pub(super) store: EtcdStore,
    signer: SigningKey,
    pub(super) public: PublicKey,
}

impl OpenFleet {
    pub(super) fn open(option: &FleetOption) -> Result<Self> {
        let credentials = Credentials::open(&option.fleet)?;
        Ok(Self {
            store: EtcdStore::new(&credentials)?,
            signer: credentials.signing_key()?,
            public: credentials.public_key()?,
        })
    }

    /// `from`: the plan for which the change was prepared.
    fn run(
        &mut self,
        goal: Goal,
        from: Option<Generation>,
        deadline_s: u32,
    ) -> Result<CommandResult> {
        let mut last = None;
        let report = |fleet: &controller::Fleet| {
            let Current { step, from, to, phase, .. } = fleet.current;
            let (missing, all) = (fleet.missing(), fleet.nodes.len());
            let waits = match &missing[..] {
                [] => String::new(),
                [some @ .., last] if some.len() < NAMED => {
                    let names: Vec<&str> = some.iter().chain([last]).copied().collect();
                    format!("; waits for {}", names.join(", "))
                }
                [first, rest @ ..] => format!("; waits for {first} and {} more", rest.len()),
            };
            let missing = missing.len();
            let refused = fleet.nodes.iter().find_map(|(node, state)| {
                let state = state.as_ref().filter(|state| state.refuses(step))?;
                Some(format!("; {node} refuses: {}", state.why))
            });
            let line = format!(
                "step {step}: {phase} of plan {from} to {to}, {}{waits}{}\n",
                count_of((all - missing) as u64, all as u64, "node"),
                refused.unwrap_or_default()
            );
            if last.as_ref() != Some(&line) {
                // The roll-out goes on without a reader.
                let _ = print(&line);
                last = Some(line);
            }
        };
        let end = controller::run(
            &mut self.store,
            (&self.signer, &self.public),
            (goal, from),
            deadline_s,
            report,
        )?;
        let text = match end {
            End::Done => "all nodes run the new plan\n",
            End::Returned => "all nodes run the old plan\n",
            End::Idle => "no roll-out is under way\n",
        };
        print(text)?;
        let is_wanted = match end {
            End::Done => goal != Goal::Return,
            End::Returned => goal == Goal::Return,
            End::Idle => true,
        };
        Ok(CommandResult::good_if(is_wanted))
    }

    /// Rolls out a plan that the store has.
    fn reach(&mut self, prepared: &PreparedChange) -> Result<CommandResult> {
        files::upload_change(&mut self.store, &self.signer, prepared)?;
        let Change { from, to, affected, deadline_s, .. } = &prepared.change;
        let nodes = count(affected.len() as u64, "node");
        print(&format!("plan {from} to {to}: the files of {nodes} change\n"))?;
        self.run(Goal::Reach(*to), Some(*from), *deadline_s)
    }
}

/// Prepares a change; `None`: it is refused, for reasons that were printed.
fn prepare(
    from: &PlanFiles,
    to: &PlanFiles,
    settings: Settings,
    bridges_loaded: bool,
) -> Result<Option<PreparedChange>> {
    match change::prepare(from, to, settings, bridges_loaded) {
        Ok(prepared) => Ok(Some(prepared)),
        Err(refusals) => {
            let lines: Vec<String> =
                refusals.iter().map(|refusal| format!("refused: {refusal}\n")).collect();
            print(&lines.concat())?;
            Ok(None)
        }
    }
}

/// Reads what `onbeat plan -o` wrote, with the text of its manifest.
fn read_plan(directory: &Path) -> Result<(String, Manifest, BTreeMap<String, String>)> {
    let path = directory.join("manifest.json");
    let text = disk::read(&path, LONGEST_PLAN)?;
    let manifest = Manifest::parse(&text, &path.display().to_string()).map_err(Failure::new)?;
    let mut files = BTreeMap::new();
    for node in &manifest.nodes {
        // A name that leads out of the directory is none of `onbeat plan`.
        if node.file != format!("{}.toml", node.name) || !key::is_node_name(&node.name) {
            return Err(Failure::new(format!(
                "{}: {:?} is not the file of a node; use the manifest that `onbeat plan -o` wrote",
                path.display(),
                node.file
            )));
        }
        let file = directory.join(&node.file);
        let text = disk::read(&file, LONGEST_FILE)?;
        let hash = FileHash::of(&text).to_string();
        if node.sha256.as_ref().is_some_and(|sha256| *sha256 != hash) {
            return Err(Failure::new(format!(
                "{}: changed since `onbeat plan` wrote it; plan again, or restore it",
                file.display()
            )));
        }
        files.insert(node.name.clone(), text);
    }
    Ok((text, manifest, files))
}

impl Apply {
    pub(crate) fn execute(self) -> Result<CommandResult> {
        let mut fleet = OpenFleet::open(&self.fleet)?;
        let current = controller::read(&mut fleet.store, &fleet.public, &mut None)?.current;
        let Some(directory) = &self.plan else {
            return fleet.run(Goal::Continue, None, self.deadline);
        };
        let (text, manifest, files) = read_plan(directory)?;
        let is_resting = current.phase == Phase::Rest;
        if !is_resting {
            let running = files::manifest(&mut fleet.store, &fleet.public, current.to)?;
            // The same plan once more: its roll-out goes on.
            return match running.plan == FileHash::of(&text) && !current.is_returning() {
                true => fleet.run(Goal::Continue, None, self.deadline),
                false => Err(Error::Busy(current).into()),
            };
        }
        let from = files::plan(&mut fleet.store, &fleet.public, current.from)?;
        if from.files == files && from.streams == manifest.streams {
            print(&format!("plan {} is this one: nothing to change\n", current.from))?;
            return Ok(CommandResult::Success);
        }
        let settings = Settings { soak_ms: u64::from(self.soak) * 1000, deadline_s: self.deadline };
        // Refused before anything is written.
        let first = current.from.max(current.to) + 1;
        let to = PlanFiles::new(first, manifest, files);
        let Some(mut prepared) = prepare(&from, &to, settings, self.bridges_loaded)? else {
            return Ok(CommandResult::Negative);
        };
        let all = to.files.len();
        let uploaded = |number| tracing::info!("{number} of {all} files are in the store");
        let (store, signer) = (&mut fleet.store, &fleet.signer);
        prepared.set_generation(files::upload(store, signer, first, &text, &to.files, uploaded)?);
        fleet.reach(&prepared)
    }
}

impl Rollback {
    pub(crate) fn execute(self) -> Result<CommandResult> {
        let mut fleet = OpenFleet::open(&self.fleet)?;
        let current = controller::read(&mut fleet.store, &fleet.public, &mut None)?.current;
        let settings = Settings { soak_ms: 10_000, deadline_s: 30 };
        if current.phase != Phase::Rest {
            if self.generation.is_some_and(|wanted| wanted != current.from) {
                return Err(Error::Busy(current).into());
            }
            if current.phase == Phase::Drain {
                print("old paths are being removed: complete it with --continue, then return\n")?;
                return Ok(CommandResult::Negative);
            }
            return fleet.run(Goal::Return, None, settings.deadline_s);
        }
        let to = match self.generation {
            Some(generation) => generation,
            None => match before(&mut fleet.store, current.from)? {
                Some(generation) => generation,
                None => {
                    print(&format!("there is no plan before plan {}\n", current.from))?;
                    return Ok(CommandResult::Negative);
                }
            },
        };
        if to == current.from || to == 0 {
            let what = if to == 0 { "has no streams: roll out a plan" } else { "runs" };
            print(&format!("plan {to} {what}\n"))?;
            return Ok(CommandResult::good_if(to != 0));
        }
        let from = files::plan(&mut fleet.store, &fleet.public, current.from)?;
        let to = files::plan(&mut fleet.store, &fleet.public, to)?;
        match prepare(&from, &to, settings, self.bridges_loaded)? {
            Some(prepared) => fleet.reach(&prepared),
            None => Ok(CommandResult::Negative),
        }
    }
}

/// The plan from which the present one was reached last.
fn before(store: &mut EtcdStore, generation: Generation) -> Result<Option<Generation>> {
    let prefix = format!("plan/{generation}/from/");
    let mut changes = files::read_all(store, &Keys::Prefix(prefix.clone()))?;
    changes.sort_by_key(|change| change.mod_revision);
    let from = changes.iter().rev().find_map(|change| {
        // Changes of single nodes are below.
        change.key.strip_prefix(&prefix)?.parse::<Generation>().ok()
    });
    Ok(from.filter(|from| *from != 0))
}

//! `onbeat fleet apply`, `rollback`

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use onbeat_plan::manifest::Manifest;
use onbeat_report::format::{count, count_of};
use onbeat_rollout::change::{self, PlanFiles, PreparedChange, Settings};
use onbeat_rollout::controller::Goal;
use onbeat_rollout::record::{
    self, Batch, Change, FileHash, LONGEST_FILE, NodeState, Signer, Verifier,
};
use onbeat_rollout::store::{Keys, Store, Transaction};
use onbeat_rollout::{Current, Generation, Phase, key};
use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output::print;

use super::{FleetOption, pause};
use crate::controller::{self, FleetReader, RolloutEnd};
use crate::credentials::{Credentials, PublicKey, SigningKey};
use crate::disk;
use crate::error::{self, Error};
use crate::files;
use crate::store::EtcdStore;

/// Nodes that a line names.
const NAMED: usize = 3;

/// Time without an answer of the store after which progress shows it.
const AWAY: Duration = Duration::from_secs(2);

/// Longest manifest of `onbeat plan`.
const LONGEST_PLAN: u64 = 1 << 30;

/// How a plan is rolled out.
#[derive(Debug, clap::Args)]
pub(super) struct RolloutOptions {
    /// Seconds without lost frames before old paths are removed; 0: losses do not return the roll-out
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=86_400))]
    soak: u32,
    /// Seconds within which nodes must acknowledge a phase
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(5..=86_400))]
    deadline: u32,
    /// Change one stream first, then this number or share of the changed streams at a time
    #[arg(long, value_name = "STREAMS|PERCENT%")]
    batch: Option<BatchSize>,
    /// Do not wait for this node, which is dead, and forwards nothing (repeatable)
    #[arg(long, value_name = "NODE")]
    without: Vec<String>,
    /// Foreign bridges have the static entries of both plans
    #[arg(long)]
    bridges_loaded: bool,
}

impl RolloutOptions {
    pub(super) fn settings(&self) -> Settings {
        Settings {
            soak_ms: u64::from(self.soak) * 1000,
            deadline_s: self.deadline,
            bridges_loaded: self.bridges_loaded,
            without: self.without.iter().cloned().collect(),
        }
    }
}

/// Streams that change together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchSize {
    Streams(usize),
    Percent(usize),
}

impl FromStr for BatchSize {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
        let percent = text.strip_suffix('%').and_then(number).filter(|percent| *percent <= 100);
        let size = percent.map(Self::Percent).or_else(|| number(text).map(Self::Streams));
        size.ok_or("a number of streams from 1, or a share from 1% to 100%")
    }
}

impl BatchSize {
    /// Streams of each batch, given all that change.
    fn of(self, all: usize) -> usize {
        match self {
            Self::Streams(streams) => streams,
            Self::Percent(percent) => (all * percent).div_ceil(100),
        }
    }
}

/// Roll a plan out
///
/// Nodes accept frames of both plans, prove new paths by probes, send along them, and remove old paths. A refusal, a dead
/// node, lost frames or a missed deadline before that return the roll-out. Ctrl-C leaves all nodes in a safe state.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet apply plan-2
  onbeat fleet apply plan-2 --batch 10% --soak 60 --deadline 60
  onbeat fleet apply --continue

Exit status: 0 all nodes run the plan; 1 the change is refused, or the roll-out returned or pauses; 2 error.")]
pub(crate) struct Apply {
    /// Directory that `onbeat plan -o` wrote
    #[arg(value_name = "PLAN", required_unless_present = "continue")]
    plan: Option<PathBuf>,
    /// Complete the roll-out that is under way: after Ctrl-C, a pause, or a restore of the store
    #[arg(long, conflicts_with = "plan")]
    r#continue: bool,
    #[command(flatten)]
    options: RolloutOptions,
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
    #[command(flatten)]
    options: RolloutOptions,
    #[command(flatten)]
    fleet: FleetOption,
}

/// An open fleet.
pub(super) struct OpenFleet {
    pub(super) store: EtcdStore,
    pub(super) signer: SigningKey,
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
        (deadline_s, without): (u32, &BTreeSet<String>),
    ) -> Result<CommandResult> {
        let mut progress = Progress::default();
        let end = controller::run(
            &mut self.store,
            (&self.signer, &self.public),
            (goal, from, without),
            deadline_s,
            |read| progress.report(read),
        )?;
        let text = match &end {
            RolloutEnd::Done => "all nodes run the new plan\n",
            RolloutEnd::Returned => "the roll-out has returned to the old plan\n",
            RolloutEnd::Idle => "no roll-out is under way\n",
            RolloutEnd::Paused => {
                "the fleet is paused; go on with `onbeat fleet apply --continue`\n"
            }
            RolloutEnd::Refused(why) => &format!(
                "the roll-out has ended, and not all nodes run its plan: {why}; see `onbeat fleet status`\n"
            ),
        };
        print(text)?;
        let is_wanted = match end {
            RolloutEnd::Done => goal != Goal::Return,
            RolloutEnd::Returned => goal == Goal::Return,
            RolloutEnd::Idle => true,
            RolloutEnd::Paused | RolloutEnd::Refused(_) => false,
        };
        Ok(CommandResult::good_if(is_wanted))
    }

    /// The present record. While no other roll-out may start, an error.
    pub(super) fn at_rest(&mut self) -> Result<Current> {
        let fleet = FleetReader::default().read(&mut self.store, &self.public)?;
        if fleet.is_restored {
            return Err(Error::Restored(fleet.current.step).into());
        }
        if let Some(why) = fleet.pause {
            return Err(Error::Paused(why).into());
        }
        match fleet.current.phase {
            Phase::Rest => Ok(fleet.current),
            _ => Err(Error::Busy(fleet.current).into()),
        }
    }

    /// Rolls out a plan from the one that runs, in batches. `text`: its manifest, unless the store has it.
    pub(super) fn change(
        &mut self,
        from: PlanFiles,
        to: &PlanFiles,
        text: Option<&str>,
        options: &RolloutOptions,
    ) -> Result<CommandResult> {
        let settings = options.settings();
        // Refused before anything is written.
        let Some(whole) = prepare(&from, to, &settings)? else {
            return Ok(CommandResult::Negative);
        };
        let plan = match text {
            Some(text) => FileHash::of(text),
            None => files::manifest(&mut self.store, &self.public, to.generation)?.plan,
        };
        // After Ctrl-C between two batches a batch runs.
        let batch = files::valid_batch(&mut self.store, &self.public, from.generation)?;
        let first = batch.filter(|batch| batch.plan == plan).map(|batch| batch.first);
        let first = first.unwrap_or(from.generation);
        let all = change::changed(&from, to).len();
        let size = options.batch.map_or(all, |size| size.of(all));
        let mut number = 0;
        let (mut from, mut count) = (from, if options.batch.is_some() { 1 } else { all });
        loop {
            let changed = change::changed(&from, to);
            let Some(names) = changed.get(..count).filter(|_| count < changed.len()) else { break };
            let names: BTreeSet<&str> = names.iter().copied().collect();
            let generation = from.generation.max(to.generation) + 1;
            let batch = from.with_streams(to, &names, generation);
            let Some(prepared) = prepare(&from, &batch, &settings)? else {
                return Ok(CommandResult::Negative);
            };
            let part = count_of(names.len() as u64, changed.len() as u64, "stream");
            number += 1;
            print(&format!("batch {number}: {part}\n"))?;
            let manifest = serde_json::to_string(&batch.manifest())?;
            let generation = self.store_plan(&batch, &manifest)?;
            let record = Batch { generation, first, plan };
            files::upload_batch(&mut self.store, &self.signer, &record)?;
            let result = self.reach(prepared, generation, &settings.without)?;
            if result != CommandResult::Success {
                return Ok(result);
            }
            from = PlanFiles { generation, ..batch };
            count = size;
        }
        let prepared = match number == 0 {
            true => Some(whole),
            false => prepare(&from, to, &settings)?,
        };
        let Some(prepared) = prepared else { return Ok(CommandResult::Negative) };
        let generation = match text {
            Some(text) => self.store_plan(to, text)?,
            None => to.generation,
        };
        let result = self.reach(prepared, generation, &settings.without)?;
        self.clean_after(result)
    }

    /// After a success, removes batches and the oldest plans.
    fn clean_after(&mut self, result: CommandResult) -> Result<CommandResult> {
        if result == CommandResult::Success {
            clean(&mut self.store, (&self.signer, &self.public))?;
        }
        Ok(result)
    }

    /// Leaves nodes out of the roll-out that is under way: its change no longer has them.
    fn leave_out(&mut self, options: &RolloutOptions) -> Result<BTreeSet<String>> {
        let without = options.settings().without;
        if without.is_empty() {
            return Ok(without);
        }
        let current = FleetReader::default().read(&mut self.store, &self.public)?.current;
        if current.from == current.to {
            return Ok(without);
        }
        let mut change = files::change(&mut self.store, &self.public, (current.from, current.to))?;
        for plan in [current.from, current.to].into_iter().filter(|plan| *plan != 0) {
            let plan = files::plan_manifest(&mut self.store, &self.public, plan)?;
            let talks = plan.streams.iter().find(|stream| without.contains(&stream.talker));
            if let Some(stream) = talks {
                return Err(Failure::new(format!(
                    "--without: {:?} is the talker of stream {:?}; repair it, or wait for it",
                    stream.talker, stream.name
                )));
            }
        }
        change.affected.retain(|node| !without.contains(node));
        let prepared = PreparedChange { change, nodes: Vec::new() };
        files::upload_change(&mut self.store, &self.signer, &prepared)?;
        Ok(without)
    }

    /// Writes a plan; returns its number.
    fn store_plan(&mut self, plan: &PlanFiles, manifest: &str) -> Result<Generation> {
        let all = plan.files.len();
        let uploaded =
            |number| tracing::info!("file {number} of {all} is being written to the store");
        let first = plan.generation;
        Ok(files::upload(&mut self.store, &self.signer, first, manifest, &plan.files, uploaded)?)
    }

    /// Rolls out a plan that the store has under this number.
    fn reach(
        &mut self,
        mut prepared: PreparedChange,
        to: Generation,
        without: &BTreeSet<String>,
    ) -> Result<CommandResult> {
        prepared.set_generation(to);
        files::upload_change(&mut self.store, &self.signer, &prepared)?;
        let Change { from, to, affected, deadline_s, .. } = &prepared.change;
        let nodes = count(affected.len() as u64, "node");
        print(&format!("plan {from} to {to}: the files of {nodes} change\n"))?;
        self.run(Goal::Reach(*to), Some(*from), (*deadline_s, without))
    }
}

/// Lines that show a roll-out to people.
#[derive(Default)]
struct Progress {
    last: String,
    /// Since when the store has not answered.
    away: Option<Instant>,
}

impl Progress {
    fn report(&mut self, read: std::result::Result<&controller::Fleet, &Error>) {
        let line = match read {
            Ok(fleet) => {
                self.away = None;
                line(fleet)
            }
            Err(error) => {
                let since = *self.away.get_or_insert_with(Instant::now);
                if since.elapsed() < AWAY {
                    return;
                }
                format!("{error}; the roll-out goes on when it answers\n")
            }
        };
        if self.last != line {
            // The roll-out goes on without a reader.
            let _ = print(&line);
            self.last = line;
        }
    }
}

fn line(fleet: &controller::Fleet) -> String {
    let current = &fleet.current;
    let Current { step, from, to, phase, .. } = current;
    let (missing, all) = (fleet.missing(), fleet.nodes.len());
    let waits = match &missing[..] {
        [] => String::new(),
        [some @ .., last] if some.len() < NAMED => {
            let names: Vec<&str> = some.iter().chain([last]).copied().collect();
            format!("; waits for {}", names.join(", "))
        }
        [first, rest @ ..] => format!("; waits for {first} and {} more", rest.len()),
    };
    let said = |word: &str, is_said: fn(&NodeState, &Current) -> bool| {
        let found = fleet.nodes.iter().find_map(|(node, state)| {
            let state = state.as_ref().filter(|state| is_said(state, current))?;
            Some(format!("; {node} {word}: {}", state.why))
        });
        found.unwrap_or_default()
    };
    let refused = said("refuses", NodeState::refuses);
    let lossy = said("loses frames", |state, current| state.current == *current && state.lost > 0);
    let here = all - missing.len();
    let nodes = count_of(here as u64, all as u64, "node");
    if let Some(why) = &fleet.returns {
        return format!("step {step}: {phase} of plan {from} to {to} returns: {why}\n");
    }
    format!("step {step}: {phase} of plan {from} to {to}, {nodes}{waits}{refused}{lossy}\n")
}

/// Prepares a change; `None`: it is refused, for reasons that were printed.
fn prepare(
    from: &PlanFiles,
    to: &PlanFiles,
    settings: &Settings,
) -> Result<Option<PreparedChange>> {
    match change::prepare(from, to, settings) {
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
pub(super) fn read_plan(directory: &Path) -> Result<(String, Manifest, BTreeMap<String, String>)> {
    let path = directory.join("manifest.json");
    if !disk::exists(&path).unwrap_or(false) {
        return Err(Failure::new(format!(
            "{}: no such file; name the directory that `onbeat plan -o` wrote",
            path.display()
        )));
    }
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
        let Some(directory) = &self.plan else {
            pause::end(&mut fleet.store)?;
            let without = fleet.leave_out(&self.options)?;
            let result = fleet.run(Goal::Continue, None, (self.options.deadline, &without))?;
            return fleet.clean_after(result);
        };
        let (text, manifest, files) = read_plan(directory)?;
        let read = FleetReader::default().read(&mut fleet.store, &fleet.public)?;
        let current = read.current;
        if current.phase != Phase::Rest && !read.is_restored && read.pause.is_none() {
            let running = files::manifest(&mut fleet.store, &fleet.public, current.to)?;
            let without = self.options.settings().without;
            // The same plan once more: its roll-out goes on, or a batch of it.
            if running.plan == FileHash::of(&text) && !current.is_returning() {
                let result = fleet.run(Goal::Continue, None, (self.options.deadline, &without))?;
                return fleet.clean_after(result);
            }
            let mut streams = |plan| -> error::Result<_> {
                let plan = files::plan_manifest(&mut fleet.store, &fleet.public, plan)?;
                Ok(plan.streams)
            };
            let from = if current.from == 0 { Vec::new() } else { streams(current.from)? };
            let is_batch = change::is_between(&from, &streams(current.to)?, &manifest.streams);
            if is_batch && !current.is_returning() {
                let result = fleet.run(Goal::Continue, None, (self.options.deadline, &without))?;
                if result != CommandResult::Success {
                    return Ok(result);
                }
            }
        }
        let current = fleet.at_rest()?;
        let from = files::plan(&mut fleet.store, &fleet.public, current.from)?;
        if from.files == files && from.streams == manifest.streams {
            print(&format!("plan {} is this one: nothing to change\n", current.from))?;
            return Ok(CommandResult::Success);
        }
        let to = PlanFiles::new(current.from + 1, manifest, files);
        fleet.change(from, &to, Some(&text), &self.options)
    }
}

impl Rollback {
    pub(crate) fn execute(self) -> Result<CommandResult> {
        let mut fleet = OpenFleet::open(&self.fleet)?;
        let read = FleetReader::default().read(&mut fleet.store, &fleet.public)?;
        let current = read.current;
        if current.phase != Phase::Rest && !read.is_restored {
            if self.generation.is_some_and(|wanted| wanted != current.from) {
                return Err(Error::Busy(current).into());
            }
            let without = fleet.leave_out(&self.options)?;
            return fleet.run(Goal::Return, None, (self.options.deadline, &without));
        }
        let current = fleet.at_rest()?;
        let to = match self.generation {
            Some(to) => to,
            None => match before(&mut fleet.store, &fleet.public, current.from)? {
                Some(to) => to,
                None => {
                    print("no former plan is in the store\n")?;
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
        fleet.change(from, &to, None, &self.options)
    }
}

/// The plan before the present one: that before all batches, or the one from which it was reached last.
fn before(
    store: &mut impl Store,
    verifier: &impl Verifier,
    generation: Generation,
) -> error::Result<Option<Generation>> {
    let before = match files::batch(store, verifier, generation)? {
        Some(batch) => Some(batch.first),
        None => match predecessor(store, verifier, generation)? {
            Some(from) => Some(first_of(store, verifier, (from, generation))?.unwrap_or(from)),
            None => None,
        },
    };
    let Some(before) = before else { return Ok(None) };
    Ok(files::read_one(store, &key::manifest(before))?.map(|_| before))
}

/// The plan from which one was reached last.
fn predecessor(
    store: &mut impl Store,
    verifier: &impl Verifier,
    generation: Generation,
) -> error::Result<Option<Generation>> {
    let mut latest = None;
    for from in files::generations(store, &format!("plan/{generation}/from/"))? {
        let of_change = key::change(from, generation);
        let keys = [of_change.clone(), key::manifest(from)].map(Keys::One);
        let read = store.transact(&Transaction::read(keys))?;
        if let [[change], [_]] = read.reads.iter().map(Vec::as_slice).collect::<Vec<_>>()[..] {
            // One that the fleet did not sign is none.
            if record::open::<Change>(&of_change, &change.value, verifier).is_ok() {
                latest = latest.max(Some((change.mod_revision, from)));
            }
        }
    }
    Ok(latest.map(|(_, from)| from))
}

/// The plan before all batches, if `last` is the last one on the way to a plan: a command that was interrupted in the roll-out
/// after it recorded no change between both.
fn first_of(
    store: &mut impl Store,
    verifier: &impl Verifier,
    (last, generation): (Generation, Generation),
) -> error::Result<Option<Generation>> {
    let Some(batch) = files::valid_batch(store, verifier, last)? else { return Ok(None) };
    let plan = files::manifest(store, verifier, generation)?.plan;
    Ok((batch.plan == plan).then_some(batch.first))
}

/// Removes the batches on the way to the plan that rests, and the oldest plans. A rollback then returns to the plan before the
/// batches.
fn clean(
    store: &mut impl Store,
    (signer, verifier): (&impl Signer, &impl Verifier),
) -> error::Result<()> {
    let Some(found) = files::read_one(store, key::CURRENT)? else { return Ok(()) };
    let Current { from, to, .. } = record::open(key::CURRENT, &found.value, verifier)?;
    // After a batch others follow, and plan 0 has no files.
    if from != to || from == 0 || files::valid_batch(store, verifier, from)?.is_some() {
        return Ok(());
    }
    let last = predecessor(store, verifier, from)?;
    let first = match last {
        Some(last) => first_of(store, verifier, (last, from))?,
        None => None,
    };
    if let Some((last, first)) = last.zip(first) {
        let change = Change { from: first, ..files::change(store, verifier, (last, from))? };
        // A roll-out between both writes those of its nodes first.
        let prepared = PreparedChange { change, nodes: Vec::new() };
        files::upload_change(store, signer, &prepared)?;
    }
    let plan = files::manifest(store, verifier, from)?.plan;
    let batches = match first.or(last) {
        Some(first) => files::batches(store, verifier, (first, plan))?,
        None => Vec::new(),
    };
    files::remove_former(store, verifier, from, &batches)
}

#[cfg(test)]
mod tests {
    use onbeat_rollout::store::{MemoryStore, Operation};

    use super::*;

    #[test]
    fn a_rollback_returns_to_the_plan_before_all_batches() {
        let signer = SigningKey::generate();
        let (public, mut store) = (signer.verifier(), MemoryStore::default());
        let files = BTreeMap::from([("a".to_owned(), String::new())]);
        for plan in 1..=4 {
            files::upload(&mut store, &signer, plan, "{}", &files, |_| {}).unwrap();
        }
        let put = |store: &mut MemoryStore, key, value| {
            let put = Operation::Put { key, value, lease: 0 };
            store.transact(&Transaction::write(vec![put])).unwrap();
        };
        // Plan 1, two batches, plan 4; Ctrl-C after each of them. Changes of nodes are below those of plans.
        let change = |from, to| Change {
            from,
            to,
            affected: vec!["a".into()],
            drain_ms: 1000,
            soak_ms: 0,
            deadline_s: 30,
        };
        for (from, to) in [(1, 2), (2, 3), (3, 4)] {
            put(&mut store, key::change(from, to), record::seal(&change(from, to), &signer));
            put(&mut store, key::node_change(from, to, "a"), Vec::new());
        }
        let before = |store: &mut MemoryStore, plan| before(store, &public, plan).unwrap();
        assert_eq!(before(&mut store, 3), Some(2), "an ordinary plan");
        // Changes that the fleet did not sign, and later.
        put(&mut store, key::change(1, 3), b"{}".to_vec());
        put(&mut store, key::change(1, 3), record::seal(&change(1, 3), &SigningKey::generate()));
        assert_eq!(before(&mut store, 3), Some(2), "junk chooses no plan");
        // The manifest of plan 4.
        let plan = FileHash::of("{}");
        for generation in [2, 3] {
            let batch = Batch { generation, first: 1, plan };
            files::upload_batch(&mut store, &signer, &batch).unwrap();
        }
        for plan in 2..=4 {
            assert_eq!(before(&mut store, plan), Some(1));
        }
        assert_eq!(before(&mut store, 1), None);
        // Those of the same roll-out are removed at its end.
        let other = Batch { generation: 1, first: 1, plan: FileHash::of("another") };
        files::upload_batch(&mut store, &signer, &other).unwrap();
        assert_eq!(files::batches(&mut store, &public, (1, plan)).unwrap(), [2, 3]);
        // Also once they are removed, and whatever command completed the roll-out.
        let resting = Current { step: 9, from: 4, to: 4, phase: Phase::Rest, prev: Phase::Rest };
        put(&mut store, key::batch(1), b"junk".to_vec());
        put(&mut store, key::CURRENT.into(), record::seal(&resting, &signer));
        for _ in 0..2 {
            clean(&mut store, (&signer, &public)).unwrap();
            assert_eq!(files::generations(&mut store, "plan/").unwrap(), [1, 4].into());
            assert_eq!(before(&mut store, 4), Some(1));
        }
        // One that the fleet did not sign decides nothing.
        let forged =
            record::seal(&Batch { generation: 3, first: 4, plan }, &SigningKey::generate());
        put(&mut store, key::batch(3), forged);
        assert!(super::before(&mut store, &public, 3).is_err());
    }
}

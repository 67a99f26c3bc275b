//! The agent of a node: executes the actions of [`onbeat_rollout::Agent`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use onbeat_node::control::{
    Client, ClientError, LinkState, PROVED, Request, Response, SHORTEST_PROBES,
};
use onbeat_report::format as report;
use onbeat_rollout::agent::{Action, DiskRecord, Outcome};
use onbeat_rollout::record::{
    self, FileHash, LONGEST_FILE, LONGEST_REASON, NodeKey, NodeReport, NodeState, SilentMember,
};
use onbeat_rollout::stage::NewMember;
use onbeat_rollout::store::{Condition, Keys, LeaseId, Operation, Store, StoreError, Transaction};
use onbeat_rollout::{Agent, Current, Phase, Step, key};
use serde::{Deserialize, Serialize};

use crate::credentials::{Credentials, PublicKey, SigningKey};
use crate::disk;
use crate::error::{Error, Result};
use crate::history;
use crate::metrics::AgentMetrics;
use crate::node_plans::NodePlans;
use crate::store::EtcdStore;

/// Without a change of `plan/current`: the lease is kept, and the record read.
const INTERVAL: Duration = Duration::from_secs(5);

/// Until frames lost in the phase send are counted again.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);

/// Until an action that failed is repeated: a node that is busy, probes that are on their way.
const RETRY: Duration = Duration::from_millis(200);

/// Between probes of one step at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// Until the node's file is checked again.
const RECHECK: Duration = Duration::from_secs(60);

/// Until a report is written again.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// TTL of the lease of a state. Below 5 s each election of etcd looks like an outage.
const LEASE_S: u32 = 15;

/// Rounds of probes of a step. Each has 12 on a path, and its member must count 10: a talker that has no new member itself
/// acknowledges once they have left, and repeats none, so two lost ones must not return the roll-out. A path that drops the
/// longest frames passes 3 of the shortest in each round: never 10 of them.
const ROUNDS: usize = 3;
const _: () = assert!(ROUNDS * SHORTEST_PROBES < PROVED);

/// Streams of a request to prove.
const STREAMS_AT_ONCE: usize = 1024;

/// Options of an agent.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Directory that `onbeat fleet invite` wrote
    #[arg(value_name = "DIRECTORY")]
    credentials: PathBuf,
    /// Directory of the agent's state
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/onbeat-fleet")]
    state: PathBuf,
    #[command(flatten)]
    history: history::HistoryOptions,
    /// Keep metrics of the agent in this file, for the textfile collector of node_exporter
    #[arg(long, value_name = "FILE.prom")]
    textfile: Option<PathBuf>,
}

/// What the disk has, beside the stage.
#[derive(Debug, Serialize, Deserialize)]
struct AgentFile {
    instance: u64,
    #[serde(default)]
    current: Option<Current>,
    /// Signature of `current`.
    #[serde(default)]
    proof: String,
    #[serde(default)]
    sha256: FileHash,
}

/// The files of an agent.
struct Disk {
    directory: PathBuf,
}

impl Disk {
    fn kept(&self) -> Result<Option<AgentFile>> {
        let path = self.directory.join("agent.json");
        let Some(text) = disk::read_if_there(&path, LONGEST_FILE)? else { return Ok(None) };
        let read = serde_json::from_str(&text).map(Some);
        read.map_err(|fault| Error::Content {
            path,
            fault: format!("{fault}; remove it: the agent then starts from the store"),
        })
    }

    fn keep(&self, kept: &AgentFile) -> Result<()> {
        disk::replace(&self.directory.join("agent.json"), &serde_json::to_vec(kept).expect("text"))
    }

    fn stage(&self) -> PathBuf {
        self.directory.join("stage.toml")
    }
}

/// Probes of a step. A lost lease, or plans that are read again, start no other: rounds add up in the counters of members.
struct ProbeRound {
    step: Step,
    /// Signature of the record: a store that was restored can have another one of this step.
    proof: String,
    /// When they are sent again.
    due: Instant,
    /// Until they are sent once more after that: a plant under load is not to be flooded.
    pause: Duration,
    /// Rounds that were begun.
    begun: usize,
    /// Whether the probes of all own sources have left at least once.
    has_sent: bool,
    /// Number of new members.
    all: usize,
    /// Those that have not counted their probes.
    missing: Vec<NewMember>,
}

impl ProbeRound {
    fn new(step: Step, proof: String, members: &[NewMember], now: Instant) -> Self {
        Self {
            step,
            proof,
            due: now,
            pause: INTERVAL,
            begun: 0,
            has_sent: false,
            all: members.len(),
            missing: members.to_vec(),
        }
    }

    fn is_of(&self, step: Step, proof: &str) -> bool {
        self.step == step && self.proof == proof
    }

    /// What follows for a member that has not counted its probes.
    fn outlook(&self) -> &'static str {
        match self.begun {
            ROUNDS => {
                "; this node sends no more probes in this step: repair the path, and roll the plan out again"
            }
            _ => "",
        }
    }

    /// Whether probes are sent now.
    fn begin(&mut self, now: Instant) -> bool {
        let is_due = self.due <= now && self.begun < ROUNDS;
        if is_due {
            self.begun += 1;
            self.due = now + self.pause;
            self.pause = LONGEST_PAUSE.min(2 * self.pause);
        }
        is_due
    }
}

/// Executes actions.
struct Runner {
    node: String,
    disk: Disk,
    instance: u64,
    store: EtcdStore,
    key: PublicKey,
    own_key: SigningKey,
    lease: Option<LeaseId>,
    /// Of the record that was prepared or proved last: plans and their changes stay as they are.
    plans: Option<NodePlans>,
    /// Hash of the stage that this process wrote to the disk last.
    stage_on_disk: Option<FileHash>,
    /// Signatures of the records that the disk has, and that were read last.
    proofs: Vec<(Current, String)>,
    /// Probes of the step that is being proved.
    round: Option<ProbeRound>,
    /// Lost frames by stream when a step of the phase send was applied.
    losses: Option<(u64, BTreeMap<String, u64>)>,
    /// Packets of members when a report was written.
    inputs: BTreeMap<SilentMember, u64>,
    /// Whether no plan has a file for the node: nothing is to be repeated soon.
    is_absent: bool,
    /// What was reported last.
    reported: String,
    metrics: AgentMetrics,
}

/// Starts the agent of a node; returns on an error only.
pub(crate) fn run(options: &Options) -> Result<()> {
    let credentials = Credentials::open(&options.credentials)?;
    let node = credentials.node()?.to_owned();
    disk::create_directory(&options.state)?;
    let disk = Disk { directory: options.state.clone() };
    let kept = match disk.kept()? {
        Some(kept) => kept,
        None => {
            let kept = AgentFile {
                instance: drawn(),
                current: None,
                proof: String::new(),
                sha256: FileHash::default(),
            };
            disk.keep(&kept)?;
            kept
        }
    };
    let saved = kept.current.map(|current| DiskRecord { current, hash: kept.sha256 });
    let mut agent = Agent::start(kept.instance, saved);
    let store = EtcdStore::new(&credentials)?;
    let (ring, bell) = channel();
    store.ring(key::CURRENT, ring);
    let mut runner = Runner {
        metrics: AgentMetrics::new(&node, options.textfile.clone())?,
        node,
        disk,
        instance: kept.instance,
        store,
        key: credentials.public_key()?,
        own_key: credentials.node_key()?,
        lease: None,
        plans: None,
        proofs: kept.current.map(|current| (current, kept.proof)).into_iter().collect(),
        stage_on_disk: None,
        round: None,
        losses: None,
        inputs: BTreeMap::new(),
        is_absent: false,
        reported: String::new(),
    };
    history::start(&runner.node, &options.history)?;
    tracing::info!("agent of node {:?} has started", runner.node);
    runner.serve(&mut agent, &bell)
}

/// A number that no other installation has.
fn drawn() -> u64 {
    use ring::rand::SecureRandom;
    let mut octets = [0; 8];
    // Zero is a number like any other.
    let _ = ring::rand::SystemRandom::new().fill(&mut octets);
    u64::from_ne_bytes(octets)
}

impl Runner {
    fn serve(&mut self, agent: &mut Agent, bell: &Receiver<()>) -> Result<()> {
        let (mut kept_at, mut checked_at) = (Instant::now(), Instant::now());
        let mut reported_at: Option<Instant> = None;
        let mut failures = 0_u32;
        loop {
            agent.wake();
            let (mut pause, mut has_failed) = (INTERVAL, false);
            loop {
                let action = agent.action();
                if action == Action::Idle {
                    break;
                }
                let outcome = self.execute(&action).unwrap_or_else(|error| {
                    self.report(format!("{}: {error}", name(&action)));
                    Outcome::Failed
                });
                has_failed |= outcome == Outcome::Failed;
                pause = match outcome {
                    Outcome::Proved { missing: 1.., .. } => RETRY,
                    Outcome::Lost(..) => COUNT_INTERVAL,
                    _ => pause,
                };
                self.metrics.note(agent, &action, &outcome);
                agent.complete(outcome);
            }
            failures = if has_failed && !self.is_absent { failures + 1 } else { 0 };
            if failures > 0 {
                // A store that is away gets fewer and fewer requests, and not from all agents at once.
                let spread = Duration::from_millis(self.instance % 200);
                pause = INTERVAL.min(RETRY * (1 << failures.min(5))) + spread;
            }
            self.metrics.write(agent);
            if agent.is_twin() {
                self.report(format!(
                    "another node has the name {:?}: its agent runs, or it was invited later; end that agent, or invite this \
                     node by another name",
                    self.node
                ));
            }
            if kept_at.elapsed() >= INTERVAL {
                kept_at = Instant::now();
                if !self.keep_lease() {
                    continue;
                }
            }
            if reported_at.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL) {
                reported_at = Some(Instant::now());
                // No roll-out depends on it.
                if let Err(error) = self.write_report() {
                    self.report(format!("report: {error}"));
                }
            }
            if checked_at.elapsed() >= RECHECK {
                checked_at = Instant::now();
                agent.recheck();
                continue;
            }
            match bell.recv_timeout(pause) {
                // Several changes are one: the record is read as it is.
                Ok(()) => while bell.try_recv().is_ok() {},
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(pause),
            }
        }
    }

    /// Reports once what happens again and again.
    fn report(&mut self, what: String) {
        if what != self.reported {
            tracing::warn!("{what}");
            self.reported = what;
        }
    }

    /// Returns whether the lease lives. After its end the state is absent, and the next read leads to another acknowledgement.
    fn keep_lease(&mut self) -> bool {
        let Some(lease) = self.lease else { return true };
        let has_ended = matches!(self.store.keep(lease), Err(StoreError::NoLease(_)));
        self.lease = self.lease.filter(|_| !has_ended);
        !has_ended
    }

    fn execute(&mut self, action: &Action) -> Result<Outcome> {
        match action {
            Action::Idle => Ok(Outcome::Done),
            Action::Read => self.read(),
            Action::Prepare(current) => self.prepare(*current),
            Action::Save(saved) => self.save(*saved),
            Action::Apply(saved) => self.apply(*saved),
            Action::Inspect => self.inspect(),
            Action::Prove(current) => self.prove(*current),
            Action::Count(current) => self.count(*current),
            Action::Acknowledge(state, revision) => self.acknowledge(state, *revision),
        }
    }

    fn read(&mut self) -> Result<Outcome> {
        let (own, own_key) = (key::state(&self.node), key::node_key(&self.node));
        let keys = [key::CURRENT.to_owned(), own.clone(), own_key.clone()].map(Keys::One);
        let read = self.store.transact(&Transaction::read(keys))?;
        let mut reads = read.reads.into_iter().map(|keys| keys.into_iter().next());
        let current = reads.next().flatten();
        let proof = current.as_ref().and_then(|found| record::signature(&found.value));
        let current = current.map(|found| record::open(key::CURRENT, &found.value, &self.key));
        let current: Option<Current> = current.transpose()?;
        if let Some((current, proof)) = current.zip(proof) {
            self.proofs.truncate(1);
            self.proofs.push((current, proof));
        }
        let state = reads.next().flatten();
        let admitted =
            reads.next().flatten().ok_or_else(|| Error::NotAdmitted(self.node.clone()))?;
        let admitted: NodeKey = record::open(&own_key, &admitted.value, &self.key)?;
        if admitted.public != self.own_key.public() {
            return Ok(Outcome::Twin);
        }
        let revision = state.as_ref().map_or(0, |found| found.mod_revision);
        if revision == 0 {
            // A store that was restored, whose states are removed then, can get other plans of the same numbers.
            self.plans = None;
        }
        // A state that another node wrote is replaced.
        let state = state.and_then(|found| {
            let opened = record::open::<NodeState>(&own, &found.value, &self.own_key.verifier());
            opened.map_err(|error| self.report(error.to_string())).ok()
        });
        Ok(Outcome::Read { current, own: state, revision })
    }

    /// The signature of a record that was read.
    fn proof(&self, current: &Current) -> String {
        let known = self.proofs.iter().rev().find(|(known, _)| known == current);
        known.map(|(_, proof)| proof.clone()).unwrap_or_default()
    }

    /// What the plans of a record have for the node.
    fn plans(&mut self, current: Current) -> Result<&NodePlans> {
        let plans = match self.plans.take().filter(|plans| plans.are_of(current)) {
            Some(known) => known,
            None => NodePlans::read(&mut self.store, &self.key, current, &self.node)?,
        };
        Ok(self.plans.insert(plans))
    }

    fn prepare(&mut self, current: Current) -> Result<Outcome> {
        if current.phase == Phase::Accept && !current.is_returning() {
            // A change that is repeated can wait for other nodes.
            self.plans = None;
        }
        let plans = self.plans(current)?;
        let signed = plans.signed_hash(current.phase);
        let refused = plans.stages(current.phase).err();
        self.is_absent = signed.is_none();
        let Some(signed) = signed else {
            self.report(format!(
                "plans {} and {} have no file for node {:?}, which keeps what it runs",
                current.from, current.to, self.node
            ));
            return Ok(Outcome::Failed);
        };
        Ok(match refused {
            Some(refusal) => {
                // The next attempt reads them again.
                self.plans = None;
                Outcome::Refused(refusal.to_string())
            }
            None => Outcome::Hash(signed),
        })
    }

    fn save(&mut self, saved: DiskRecord) -> Result<Outcome> {
        let phase = saved.current.phase;
        let text = self.plans(saved.current)?.stages(phase)?.text(phase).to_owned();
        // The stage first: the record that refers to it has its hash. Several phases have the same.
        if self.stage_on_disk.take() != Some(saved.hash) {
            disk::replace(&self.disk.stage(), text.as_bytes())?;
        }
        self.stage_on_disk = Some(saved.hash);
        let kept = AgentFile {
            instance: self.instance,
            current: Some(saved.current),
            proof: self.proof(&saved.current),
            sha256: saved.hash,
        };
        self.disk.keep(&kept)?;
        self.proofs = vec![(saved.current, kept.proof)];
        Ok(Outcome::Done)
    }

    fn apply(&mut self, saved: DiskRecord) -> Result<Outcome> {
        let path = self.disk.stage();
        let written = self.stage_on_disk.take();
        let text = disk::read(&path, LONGEST_FILE)?;
        if FileHash::of(&text) != saved.hash {
            return Err(Error::Content {
                path,
                fault: "not the stage that was saved; remove agent.json beside it: the agent then starts from the store".into(),
            });
        }
        self.stage_on_disk = written;
        if saved.current.phase == Phase::Send && !saved.current.is_returning() {
            // A node that was replaced does not have the streams yet, and without a store their names are unknown.
            self.losses = self.lost(saved.current).ok().map(|lost| (saved.current.step, lost));
        }
        // The node keeps the text as its own, and runs it, or does neither.
        match self.node()?.request(&Request::ReplaceFile { text }) {
            Ok(_) => Ok(Outcome::Done),
            Err(ClientError::Refused(why) | ClientError::Conflict(why)) => {
                Ok(Outcome::Refused(shortened(why)))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn node(&self) -> Result<Client> {
        Ok(Client::to_managed(&self.node)?)
    }

    fn inspect(&mut self) -> Result<Outcome> {
        let answer = self.node()?.request(&Request::Ping)?;
        let Response::Pong { configuration: Some(version), .. } = answer else {
            return Ok(Outcome::Refused("the node is of a version without hashes of files".into()));
        };
        // Streams that were changed one by one are not those of the file.
        let hash = match version.streams_changed {
            true => FileHash::default(),
            false => FileHash::try_from(version.sha256).unwrap_or_default(),
        };
        Ok(Outcome::Hash(hash))
    }

    fn prove(&mut self, current: Current) -> Result<Outcome> {
        let mut node = self.node()?;
        let now = Instant::now();
        self.plans(current)?.stages(current.phase)?;
        let proof = self.proof(&current);
        let known = self.round.take().filter(|round| round.is_of(current.step, &proof));
        let plans = self.plans(current)?;
        let stages = plans.stages(current.phase)?;
        let first = || ProbeRound::new(current.step, proof, &stages.new_members, now);
        let mut round = known.unwrap_or_else(first);
        // Also if a path refuses: the others are not to be flooded.
        let is_due = round.begin(now);
        let unproved: BTreeSet<&String> = plans.unproved().iter().collect();
        let probes =
            stages.probes.iter().filter(|(stream, _)| is_due && !unproved.contains(stream));
        let probes: Vec<String> = probes.map(|(_, text)| text.clone()).collect();
        let round = self.round.insert(round);
        let mut refused = None;
        for some in probes.chunks(STREAMS_AT_ONCE) {
            let text = Some(some.concat());
            let file = format!("plan {}", current.to);
            let sent = node.request(&Request::Prove { streams: Vec::new(), text, file });
            refused = refused.or(sent.err());
        }
        round.has_sent |= is_due && refused.is_none();
        match refused {
            Some(error) => return Err(error.into()),
            None if !round.has_sent => return Ok(Outcome::Failed),
            None => {}
        }
        let mut names: Vec<String> =
            round.missing.iter().map(|member| member.stream.clone()).collect();
        names.dedup();
        let mut counted = BTreeMap::new();
        for some in names.chunks(STREAMS_AT_ONCE) {
            for stream in node.streams(some.to_vec())? {
                let inputs = stream.members.iter().map(|member| member.input_packets);
                counted.insert(stream.name.clone(), inputs.collect::<Vec<u64>>());
            }
        }
        round.missing.retain(|member| {
            let input = counted.get(&member.stream).and_then(|inputs| inputs.get(member.member));
            input.is_none_or(|input| *input < PROVED as u64)
        });
        let (all, missing) = (round.all, round.missing.len());
        if let Some(first) = round.missing.first() {
            let what = format!(
                "step {}: member {} of stream {:?} has not counted {PROVED} probes, and {} others: a path of plan {} is \
                 interrupted, or its source has not sent them yet{}",
                current.step,
                first.member,
                first.stream,
                missing - 1,
                current.to,
                round.outlook()
            );
            self.report(what);
        }
        Ok(Outcome::Proved { counted: (all - missing) as u32, missing: missing as u32 })
    }

    /// Writes the report that `onbeat fleet status` shows.
    fn write_report(&mut self) -> Result<()> {
        let status = self.node()?.status()?;
        let mut inputs = BTreeMap::new();
        let (mut silent, mut lost) = (BTreeSet::new(), 0);
        for stream in &status.streams {
            for member in &stream.members {
                let place = SilentMember { stream: stream.name.clone(), port: member.port.clone() };
                // A listener knows. For a relay the frames of the last interval say it.
                let before = self.inputs.get(&place).copied().unwrap_or_default();
                let is_silent = stream.recovery.is_none()
                    && stream.generation.is_none()
                    && before > 0
                    && before == member.input_packets;
                lost += u64::from(member.lost);
                if member.lost || is_silent {
                    silent.insert(place.clone());
                }
                inputs.insert(place, member.input_packets);
            }
        }
        self.inputs = inputs;
        let down = status.ports.iter().filter(|port| port.link == LinkState::Down);
        let report = NodeReport {
            version: env!("CARGO_PKG_VERSION").into(),
            seen_s: unix_time(),
            streams: status.streams.len() as u64,
            silent: lost,
            members: silent.into_iter().take(NodeReport::NAMED).collect(),
            ports_down: down.map(|port| port.name.clone()).take(NodeReport::NAMED).collect(),
        };
        let value = record::seal(&report, &self.own_key);
        let put = Operation::Put { key: key::inventory(&self.node), value, lease: 0 };
        self.store.transact(&Transaction::write(vec![put]))?;
        Ok(())
    }

    /// Lost frames of the streams with new paths.
    fn lost(&mut self, current: Current) -> Result<BTreeMap<String, u64>> {
        let members = &self.plans(current)?.stages(current.phase)?.new_members;
        let names: BTreeSet<String> = members.iter().map(|member| member.stream.clone()).collect();
        let names: Vec<String> = names.into_iter().collect();
        let (mut node, mut lost) = (self.node()?, BTreeMap::new());
        for some in names.chunks(STREAMS_AT_ONCE) {
            for stream in node.streams(some.to_vec())? {
                lost.insert(
                    stream.name,
                    stream.recovery.map_or(0, |recovery| recovery.really_lost()),
                );
            }
        }
        Ok(lost)
    }

    fn count(&mut self, current: Current) -> Result<Outcome> {
        let now = self.lost(current)?;
        let known = self.losses.take().filter(|(step, _)| *step == current.step);
        // An agent that was started since counts from now on.
        let (_, before) = self.losses.insert(known.unwrap_or_else(|| (current.step, now.clone())));
        let since = |(name, lost): (&String, &u64)| {
            let lost = lost.saturating_sub(before.get(name).copied().unwrap_or_default());
            (lost > 0).then(|| (name.clone(), lost))
        };
        let lost: Vec<(String, u64)> = now.iter().filter_map(since).collect();
        let why = lost.first().map_or(String::new(), |(name, lost)| {
            format!(
                "stream {name:?} lost {} since it uses new paths",
                report::count(*lost, "frame")
            )
        });
        Ok(Outcome::Lost(lost.iter().map(|(_, lost)| lost).sum(), shortened(why)))
    }

    fn acknowledge(&mut self, state: &NodeState, revision: u64) -> Result<Outcome> {
        let lease = match self.lease {
            Some(lease) => lease,
            None => *self.lease.insert(self.store.grant(LEASE_S)?),
        };
        let own = key::state(&self.node);
        let compare = match revision {
            0 => Condition::CreateRevision(own.clone(), 0),
            _ => Condition::ModRevision(own.clone(), revision),
        };
        let state = &NodeState { proof: self.proof(&state.current), ..state.clone() };
        let value = record::seal(state, &self.own_key);
        let written = self.store.transact(&Transaction {
            compare: vec![compare],
            success: vec![Operation::Put { key: own, value, lease }],
            ..Transaction::default()
        });
        if let Err(StoreError::NoLease(_)) = written {
            self.lease = None;
        }
        let is_written = written?.succeeded;
        if is_written {
            let Current { step, from, to, phase, .. } = state.current;
            match state.ok {
                true if state.lost > 0 => tracing::warn!("step {step}: {}", state.why),
                true => tracing::info!("step {step}: {phase} of plan {from} to {to}"),
                false => tracing::warn!(
                    "step {step}: {phase} of plan {from} to {to} refused: {}",
                    state.why
                ),
            }
            self.reported.clear();
        }
        Ok(if is_written { Outcome::Done } else { Outcome::Failed })
    }
}

/// The present time, for people: seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A refusal within the bounds of a record.
fn shortened(why: String) -> String {
    let mut why = why.replace(char::is_control, " ");
    if why.len() > LONGEST_REASON {
        let at = (0..=LONGEST_REASON - 3).rev().find(|at| why.is_char_boundary(*at));
        why.truncate(at.unwrap_or(0));
        why.push_str("...");
    }
    why
}

fn name(action: &Action) -> &'static str {
    match action {
        Action::Idle => "wait",
        Action::Read => "read",
        Action::Prepare(_) => "prepare",
        Action::Save(_) => "save",
        Action::Apply(_) => "apply",
        Action::Inspect => "inspect",
        Action::Prove(_) => "prove",
        Action::Count(_) => "count",
        Action::Acknowledge(..) => "acknowledge",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_of_a_step_have_pauses_and_an_end() {
        let start = Instant::now();
        let mut round = ProbeRound::new(7, "signature".into(), &[], start);
        let begun: Vec<u64> =
            (0..600).filter(|second| round.begin(start + Duration::from_secs(*second))).collect();
        assert_eq!(begun, [0, 5, 15], "a fourth round of the shortest alone would prove a path");
        assert!(round.outlook().contains("roll the plan out again"));
        assert!(round.is_of(7, "signature"));
        assert!(!round.is_of(8, "signature") && !round.is_of(7, "of a restored store"));
    }
}

//! The agent of a node: executes the actions of [`onbeat_rollout::Agent`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use onbeat_node::control::{Client, ClientError, DIRECTORY, Request, Response};
use onbeat_rollout::agent::{Action, DiskRecord, Outcome};
use onbeat_rollout::record::{self, FileHash, LONGEST_FILE, LONGEST_REASON, NodeChange, NodeState};
use onbeat_rollout::stage::Stages;
use onbeat_rollout::store::{Condition, Keys, LeaseId, Operation, Store, StoreError, Transaction};
use onbeat_rollout::{Agent, Current, Generation, key};
use serde::{Deserialize, Serialize};

use crate::credentials::{Credentials, PublicKey};
use crate::disk;
use crate::error::{Error, Result};
use crate::files;
use crate::store::EtcdStore;

/// Without a change of `plan/current`: the lease is kept, and the record read.
const INTERVAL: Duration = Duration::from_secs(5);

/// Until an action that failed is repeated: a node that is busy, probes that are on their way.
const RETRY: Duration = Duration::from_millis(200);

/// Until the node's file is checked again.
const RECHECK: Duration = Duration::from_secs(60);

/// TTL of the lease of a state. Below 5 s each election of etcd looks like an outage.
const LEASE_S: u32 = 15;

/// Probes that each new member counts, of those that a source sends.
const PROBES: u64 = 10;

/// Streams of a request to prove.
const STREAMS_AT_ONCE: usize = 1024;

/// Options of an agent.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Directory that `onbeat fleet invite` wrote
    #[arg(value_name = "DIRECTORY")]
    credentials: PathBuf,
    /// File of the node, which the agent writes
    #[arg(long, value_name = "FILE")]
    node_file: PathBuf,
    /// Directory for what the agent keeps
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/onbeat-fleet")]
    state: PathBuf,
}

/// What the disk has, beside the stage.
#[derive(Debug, Serialize, Deserialize)]
struct AgentFile {
    instance: u64,
    #[serde(default)]
    current: Option<Current>,
    #[serde(default)]
    sha256: FileHash,
}

/// The files of an agent.
struct Disk {
    directory: PathBuf,
    node_file: PathBuf,
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

/// Executes actions.
struct Runner {
    node: String,
    disk: Disk,
    instance: u64,
    store: EtcdStore,
    key: PublicKey,
    lease: Option<LeaseId>,
    /// The stages of a record, which were computed to prepare or to prove it.
    stages: Option<(Current, Stages)>,
    /// What is signed for this node in a change from one plan to another; records of changes stay as they are.
    signed: Option<((Generation, Generation), Option<NodeChange>)>,
    /// When probes of a step were sent.
    probed: Option<(u64, Instant)>,
    /// Whether no plan has a file for the node: nothing is to be repeated soon.
    is_absent: bool,
    /// What was reported last.
    reported: String,
}

/// Starts the agent of a node; returns on an error only.
pub(crate) fn run(options: &Options) -> Result<()> {
    let credentials = Credentials::open(&options.credentials)?;
    let node = credentials.node()?.to_owned();
    disk::create_directory(&options.state)?;
    let disk = Disk { directory: options.state.clone(), node_file: options.node_file.clone() };
    let kept = match disk.kept()? {
        Some(kept) => kept,
        None => {
            let kept = AgentFile { instance: drawn(), current: None, sha256: FileHash::default() };
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
        node,
        disk,
        instance: kept.instance,
        store,
        key: credentials.public_key()?,
        lease: None,
        stages: None,
        signed: None,
        probed: None,
        is_absent: false,
        reported: String::new(),
    };
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
        loop {
            agent.wake();
            let mut pause = INTERVAL;
            loop {
                let action = agent.action();
                if action == Action::Idle {
                    break;
                }
                let outcome = self.execute(&action).unwrap_or_else(|error| {
                    self.report(format!("{}: {error}", name(&action)));
                    Outcome::Failed
                });
                let is_pending =
                    matches!(outcome, Outcome::Failed | Outcome::Proved { missing: 1.., .. });
                if is_pending && !self.is_absent {
                    pause = RETRY;
                }
                agent.complete(outcome);
            }
            if agent.is_twin() {
                self.report(format!(
                    "the store has a state of another node with the name {:?}; end that agent, or invite this node by another \
                     name",
                    self.node
                ));
            }
            if kept_at.elapsed() >= INTERVAL {
                kept_at = Instant::now();
                self.keep_lease();
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

    fn keep_lease(&mut self) {
        let Some(lease) = self.lease else { return };
        // After the end of the lease the state is absent, and the next read leads to another acknowledgement.
        if let Err(StoreError::NoLease(_)) = self.store.keep(lease) {
            self.lease = None;
        }
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
            Action::Acknowledge(state, revision) => self.acknowledge(state, *revision),
        }
    }

    fn read(&mut self) -> Result<Outcome> {
        let own = key::state(&self.node);
        let keys = [key::CURRENT.to_owned(), own.clone()].map(Keys::One);
        let read = self.store.transact(&Transaction::read(keys))?;
        let mut reads = read.reads.into_iter().map(|keys| keys.into_iter().next());
        let current = reads.next().flatten();
        let current = current.map(|found| record::open(key::CURRENT, &found.value, &self.key));
        let state = reads.next().flatten().map(|found| {
            record::decode::<NodeState>(&own, &found.value).map(|state| (state, found.mod_revision))
        });
        Ok(Outcome::Read { current: current.transpose()?, own: state.transpose()? })
    }

    /// The stages of a record.
    fn stages(&mut self, current: Current) -> Result<&Stages> {
        let is_known = self
            .stages
            .as_ref()
            .is_some_and(|(known, _)| (known.from, known.to) == (current.from, current.to));
        if !is_known {
            let mut file =
                |generation| files::node_file(&mut self.store, &self.key, generation, &self.node);
            let (from, to) = (file(current.from)?, file(current.to)?);
            let stages = Stages::new(&self.node, from.as_deref(), to.as_deref())?;
            self.stages = Some((current, stages));
        }
        self.stages.as_ref().map(|(_, stages)| stages).ok_or(Error::NoFleet)
    }

    fn prepare(&mut self, current: Current) -> Result<Outcome> {
        let signed = self.signed_hash(current)?;
        self.is_absent = signed.is_none();
        let Some(signed) = signed else {
            self.report(format!(
                "plans {} and {} have no file for node {:?}, which keeps what it runs",
                current.from, current.to, self.node
            ));
            return Ok(Outcome::Failed);
        };
        let hash = match self.stages(current) {
            Ok(stages) => FileHash::of(stages.text(current.phase)),
            Err(Error::Stage(refusal)) => return Ok(Outcome::Refused(refusal.to_string())),
            Err(other) => return Err(other),
        };
        if signed != hash {
            let why = "its stage does not have the hash that the controller signed: a file of the plan was removed from the \
                       store, or agent and controller have different versions of onbeat-fleet";
            return Ok(Outcome::Refused(why.into()));
        }
        Ok(Outcome::Hash(hash))
    }

    /// The hash of the stage, from signed records alone: who can write to the store can remove files. `None`: no plan has a
    /// file for this node.
    fn signed_hash(&mut self, current: Current) -> Result<Option<FileHash>> {
        let Current { from, to, phase, .. } = current;
        if from != to {
            let plans = (from, to);
            if self.signed.as_ref().is_none_or(|(known, _)| *known != plans) {
                let change = files::change(&mut self.store, &self.key, plans)?;
                let own = change
                    .affected
                    .contains(&self.node)
                    .then(|| files::node_change(&mut self.store, &self.key, plans, &self.node));
                self.signed = Some((plans, own.transpose()?));
            }
            if let Some((_, Some(own))) = &self.signed {
                return Ok(Some(own.hash(phase)));
            }
        }
        match from {
            0 => Ok(None),
            _ => {
                let manifest = files::manifest(&mut self.store, &self.key, from)?;
                Ok(manifest.nodes.get(&self.node).copied())
            }
        }
    }

    fn save(&mut self, saved: DiskRecord) -> Result<Outcome> {
        let text = self.stages(saved.current)?.text(saved.current.phase).to_owned();
        // The stage first: the record that refers to it has its hash.
        disk::replace(&self.disk.stage(), text.as_bytes())?;
        let kept =
            AgentFile { instance: self.instance, current: Some(saved.current), sha256: saved.hash };
        self.disk.keep(&kept)?;
        Ok(Outcome::Done)
    }

    fn apply(&mut self, saved: DiskRecord) -> Result<Outcome> {
        let path = self.disk.stage();
        let text = disk::read(&path, LONGEST_FILE)?;
        if FileHash::of(&text) != saved.hash {
            return Err(Error::Content {
                path,
                fault: "not the stage that was saved; remove agent.json beside it: the agent then starts from the store".into(),
            });
        }
        let before = disk::read_if_there(&self.disk.node_file, LONGEST_FILE)?;
        if before.as_deref() != Some(&text) {
            disk::replace(&self.disk.node_file, text.as_bytes())?;
        }
        let mut node = self.node()?;
        match node.request(&Request::Reload { force: true }) {
            Ok(_) => Ok(Outcome::Done),
            Err(ClientError::Refused(why) | ClientError::Conflict(why)) => {
                // A start of the node reads what it runs.
                if let Some(before) = before {
                    disk::replace(&self.disk.node_file, before.as_bytes())?;
                }
                Ok(Outcome::Refused(shortened(why)))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn node(&self) -> Result<Client> {
        Ok(Client::to_node(Some(&self.node), Path::new(DIRECTORY))?)
    }

    fn inspect(&mut self) -> Result<Outcome> {
        let answer = self.node()?.request(&Request::Ping)?;
        let Response::Pong { configuration: Some(version), .. } = answer else {
            return Ok(Outcome::Refused("the node is of a version without hashes of files".into()));
        };
        let real = |path: &Path| fs::canonicalize(path).ok();
        if real(Path::new(&version.file)) != real(&self.disk.node_file) {
            self.report(format!(
                "node {:?} runs {}, and this agent writes {}; name that file by --node-file",
                self.node,
                version.file,
                self.disk.node_file.display()
            ));
        }
        // Streams that were changed one by one are not those of the file.
        let hash = match version.streams_changed {
            true => FileHash::default(),
            false => FileHash::try_from(version.sha256).unwrap_or_default(),
        };
        Ok(Outcome::Hash(hash))
    }

    fn prove(&mut self, current: Current) -> Result<Outcome> {
        let stages = self.stages(current)?;
        let (probes, members) = (stages.probes.clone(), stages.new_members.clone());
        let mut node = self.node()?;
        let is_sent =
            self.probed.is_some_and(|(step, at)| step == current.step && at.elapsed() < INTERVAL);
        if !is_sent {
            // Also if a path refuses: the others are not to be flooded.
            self.probed = Some((current.step, Instant::now()));
            for some in probes.chunks(STREAMS_AT_ONCE) {
                let text = some.iter().map(|(_, text)| text.as_str()).collect();
                let request = Request::Prove {
                    streams: Vec::new(),
                    text: Some(text),
                    file: format!("plan {}", current.to),
                };
                node.request(&request)?;
            }
        }
        let mut names: Vec<String> = members.iter().map(|member| member.stream.clone()).collect();
        names.dedup();
        let mut counted = BTreeMap::new();
        for some in names.chunks(STREAMS_AT_ONCE) {
            for stream in node.streams(some.to_vec())? {
                let inputs = stream.members.iter().map(|member| member.input_packets);
                counted.insert(stream.name.clone(), inputs.collect::<Vec<u64>>());
            }
        }
        let has_counted = |member: &&onbeat_rollout::stage::NewMember| {
            let input = counted.get(&member.stream).and_then(|inputs| inputs.get(member.member));
            input.is_some_and(|input| *input >= PROBES)
        };
        let (some, missing): (Vec<_>, Vec<_>) = members.iter().partition(has_counted);
        if let Some(first) = missing.first() {
            self.report(format!(
                "step {}: member {} of stream {:?} has not counted its {PROBES} probes, and {} others: a path of plan {} is \
                 interrupted, or its source has not sent them yet",
                current.step,
                first.member,
                first.stream,
                missing.len() - 1,
                current.to
            ));
        }
        Ok(Outcome::Proved { counted: some.len() as u32, missing: missing.len() as u32 })
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
        let value = record::encode(state);
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

/// A refusal within the bound of a record.
fn shortened(mut why: String) -> String {
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
        Action::Acknowledge(..) => "acknowledge",
    }
}

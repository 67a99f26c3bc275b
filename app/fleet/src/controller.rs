//! Roll-outs: executes the decisions of [`onbeat_rollout::Controller`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use onbeat_rollout::controller::{ChangeTimes, Decision, ExpectedState, Goal, View, adopted};
use onbeat_rollout::record::{
    self, Change, ClusterNumber, FileHash, MAX_NODES, NodeChange, NodeKey, NodeReport, NodeState,
    Pause,
};
use onbeat_rollout::store::{
    Condition, KeyValue, Keys, Operation, Revision, Store, StoreError, Transaction,
};
use onbeat_rollout::{Controller, Current, Generation, Phase, Step, key};

use crate::credentials::{self, PublicKey, SigningKey};
use crate::error::{Error, Result};
use crate::files;

/// Until the states are read again.
const INTERVAL: Duration = Duration::from_millis(100);

const NS_PER_MS: u64 = 1_000_000;

/// Until keys of nodes are read again because a state is not signed by the one that is known.
const KEYS_INTERVAL: Duration = Duration::from_secs(2);

/// Time for nodes to acknowledge the end of a roll-out, which waits for nothing else.
const REST_TIME: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// Time for all agents to say what they run: each reads the store every 5 s.
const ADOPTION_TIME: Duration = Duration::from_secs(30);

/// What the store has of a roll-out.
#[derive(Debug, Clone)]
pub(crate) struct Fleet {
    pub(crate) current: Current,
    pub(crate) revision: u64,
    /// Nodes whose acknowledgement is awaited, with their states.
    pub(crate) nodes: Vec<(String, Option<NodeState>)>,
    /// The other nodes of the plan that runs.
    pub(crate) others: Vec<(String, Option<NodeState>)>,
    /// Nodes with a state that is not signed by their key.
    pub(crate) unsigned: Vec<String>,
    pub(crate) is_late: bool,
    /// Why the roll-out begins to return.
    pub(crate) returns: Option<String>,
    /// Why no step may be written.
    pub(crate) pause: Option<String>,
    /// Whether the store was restored from a snapshot: its states can be older than what nodes run.
    pub(crate) is_restored: bool,
    /// The number of the cluster.
    cluster: u64,
}

/// Signed records of the plans of [`Current`], which never change.
#[derive(Debug)]
pub(crate) struct Plans {
    from: Generation,
    to: Generation,
    /// The change from the old plan to the new one; none while one plan rests.
    change: Option<Change>,
    /// Its nodes.
    changes: BTreeMap<String, NodeChange>,
    /// Nodes of the old plan, with the hashes of their files.
    nodes: BTreeMap<String, FileHash>,
}

impl Plans {
    fn read(store: &mut impl Store, public: &PublicKey, current: Current) -> Result<Self> {
        let Current { from, to, .. } = current;
        let is_change = from != to;
        let change = is_change.then(|| files::change(store, public, (from, to))).transpose()?;
        let affected = change.as_ref().map_or(&[][..], |change| &change.affected);
        let changes = files::node_changes(store, public, (from, to), affected)?;
        let nodes = files::nodes(store, public, from)?;
        Ok(Self { from, to, change, changes, nodes })
    }

    fn are_of(&self, current: Current) -> bool {
        (self.from, self.to) == (current.from, current.to)
    }

    /// Nodes whose acknowledgement is awaited.
    fn awaited(&self) -> Vec<&String> {
        match &self.change {
            Some(change) => change.affected.iter().collect(),
            None => self.nodes.keys().collect(),
        }
    }

    /// A state as it counts: one that contradicts the signed plans is a refusal.
    fn judge(&self, node: &str, current: &Current, state: NodeState) -> NodeState {
        let of_change = self.changes.get(node).map(|change| change.expected(current.phase));
        let of_plan = |hash: &FileHash| ExpectedState { hash: *hash, new_members: 0 };
        let expected = of_change.or_else(|| self.nodes.get(node).map(of_plan));
        match expected {
            Some(expected) => expected.judge(current, state),
            None => state,
        }
    }
}

impl Fleet {
    /// Names of the nodes whose acknowledgement is missing.
    pub(crate) fn missing(&self) -> Vec<&str> {
        let acknowledges = |state: &Option<NodeState>| {
            state.as_ref().is_some_and(|state| state.acknowledges(&self.current))
        };
        let missing = self.nodes.iter().filter(|(_, state)| !acknowledges(state));
        missing.map(|(node, _)| node.as_str()).collect()
    }
}

/// How a roll-out ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RolloutEnd {
    /// The wanted plan rests.
    Done,
    /// The roll-out went back to the old plan.
    Returned,
    /// None was under way.
    Idle,
    /// The operator holds it.
    Paused,
    /// A plan rests, and a node refuses it: its name, and why.
    Refused(String),
}

/// Reads record and states, and keeps what does not change.
#[derive(Debug, Default)]
pub(crate) struct FleetReader {
    plans: Option<Plans>,
    /// Public keys of nodes, and when they were read.
    keys: BTreeMap<String, PublicKey>,
    keys_at: Option<Instant>,
    /// States by node, with the revision of their key; none: it is not signed by the node.
    states: BTreeMap<String, (Revision, Option<NodeState>)>,
    /// The latest step that was read: a restored store has former ones.
    step: Step,
}

impl FleetReader {
    /// Reads all at one revision.
    pub(crate) fn read(&mut self, store: &mut impl Store, public: &PublicKey) -> Result<Fleet> {
        let keys = [
            Keys::One(key::CURRENT.into()),
            Keys::One(key::CLUSTER.into()),
            Keys::One(key::PAUSE.into()),
            Keys::Prefix(key::STATES.into()),
            Keys::Prefix(key::DEADLINES.into()),
        ];
        let read = store.transact(&Transaction::read(keys))?;
        let [current, cluster, pause, states, deadlines] =
            <[_; 5]>::try_from(read.reads).map_err(|_| Error::NoFleet)?;
        let found = current.into_iter().next().ok_or(Error::NoFleet)?;
        let current: Current = record::open(key::CURRENT, &found.value, public)?;
        let cluster = cluster
            .first()
            .map(|found| record::open::<ClusterNumber>(key::CLUSTER, &found.value, public));
        let cluster = cluster.transpose()?.map_or(read.cluster, |known| known.number);
        let pause =
            pause.first().map(|found| record::open::<Pause>(key::PAUSE, &found.value, public));
        self.verify(store, public, &current, states)?;
        let is_former = self.step > current.step;
        self.step = self.step.max(current.step);
        let plans = match self.plans.take().filter(|plans| plans.are_of(current)) {
            Some(known) => self.plans.insert(known),
            None => self.plans.insert(Plans::read(store, public, current)?),
        };
        let states = &self.states;
        let state = |node: &String| {
            let (_, state) = states.get(node)?;
            Some(plans.judge(node, &current, state.clone()?))
        };
        let is_newer = |(_, state): &(Revision, Option<NodeState>)| {
            state.as_ref().is_some_and(|state| state.current.step > current.step)
        };
        let awaited = plans.awaited();
        let known: BTreeSet<&String> = awaited.iter().copied().collect();
        let is_other = |node: &&String| !known.contains(node);
        let with_state = |node: &String| (node.clone(), state(node));
        let own = key::deadline(current.step);
        Ok(Fleet {
            current,
            revision: found.mod_revision,
            nodes: awaited.into_iter().map(with_state).collect(),
            others: plans.nodes.keys().filter(is_other).map(with_state).collect(),
            unsigned: states
                .iter()
                .filter(|(_, (_, state))| state.is_none())
                .map(|(node, _)| node.clone())
                .collect(),
            is_late: !deadlines.iter().any(|deadline| deadline.key == own),
            returns: None,
            pause: pause.transpose()?.map(|pause| pause.why),
            is_restored: cluster != read.cluster || is_former || states.values().any(is_newer),
            cluster: read.cluster,
        })
    }

    /// Opens the states that changed. One that its node did not sign counts as none.
    fn verify(
        &mut self,
        store: &mut impl Store,
        public: &PublicKey,
        current: &Current,
        found: Vec<KeyValue>,
    ) -> Result<()> {
        let mut former = std::mem::take(&mut self.states);
        for found in found {
            let Some(node) = found.key.strip_prefix(key::STATES) else { continue };
            let known = former
                .remove(node)
                .filter(|(revision, state)| *revision == found.mod_revision && state.is_some());
            let state = match known {
                Some((_, state)) => state,
                None => self.open(store, public, node, &found)?,
            };
            // A later record is one that the fleet wrote before a restore, or an invention of the node.
            let state = state.filter(|state| {
                state.current.step <= current.step || record::is_of_fleet(state, public)
            });
            self.states.insert(node.to_owned(), (found.mod_revision, state));
        }
        Ok(())
    }

    fn open(
        &mut self,
        store: &mut impl Store,
        public: &PublicKey,
        node: &str,
        found: &KeyValue,
    ) -> Result<Option<NodeState>> {
        loop {
            let own = self.keys.get(node);
            let opened = own.and_then(|own| record::open(&found.key, &found.value, own).ok());
            let is_recent = self.keys_at.is_some_and(|at| at.elapsed() < KEYS_INTERVAL);
            if opened.is_some() || is_recent {
                return Ok(opened);
            }
            self.keys_at = Some(Instant::now());
            self.keys.clear();
            for found in files::read_all(store, key::NODE_KEYS, MAX_NODES)? {
                // A node without a valid key has no valid state.
                let known = record::open::<NodeKey>(&found.key, &found.value, public).ok();
                let key = known.and_then(|NodeKey { node, public }| {
                    Some((node, credentials::public_key(&public)?))
                });
                self.keys.extend(key);
            }
        }
    }

    /// Reports of nodes, as far as their nodes signed them.
    pub(crate) fn reports(&self, store: &mut impl Store) -> Result<BTreeMap<String, NodeReport>> {
        let found = files::read_all(store, key::INVENTORIES, MAX_NODES)?;
        let report = |found: KeyValue| {
            let node = found.key.strip_prefix(key::INVENTORIES)?;
            let report = record::open(&found.key, &found.value, self.keys.get(node)?).ok()?;
            Some((node.to_owned(), report))
        };
        Ok(found.into_iter().filter_map(report).collect())
    }

    /// Nodes with a state, whatever plan they are of.
    fn states(&self) -> impl Iterator<Item = (&String, &NodeState)> {
        self.states.iter().filter_map(|(node, (_, state))| Some((node, state.as_ref()?)))
    }
}

/// Continues a restored store with the record of its nodes.
fn adopt(
    store: &mut impl Store,
    (signer, public): (&SigningKey, &PublicKey),
    deadline_s: u32,
) -> Result<Current> {
    // Those of the snapshot say what nodes ran when it was taken.
    let removed = vec![Operation::Delete(Keys::Prefix(key::STATES.into()))];
    store.transact(&Transaction::write(removed))?;
    let (start, mut reader) = (Instant::now(), FleetReader::default());
    loop {
        let fleet = reader.read(store, public)?;
        let states = reader.states().map(|(_, state)| state.current);
        let latest = states.max_by_key(|current| current.step).unwrap_or(fleet.current);
        let mut names = files::nodes(store, public, latest.from)?;
        names.extend(files::nodes(store, public, latest.to)?);
        let names: Vec<String> = names.into_keys().collect();
        let known: BTreeMap<&String, &NodeState> = reader.states().collect();
        let states: Vec<Option<NodeState>> =
            names.iter().map(|node| known.get(node).copied().cloned()).collect();
        if let Some(next) = adopted(&states).or(names.is_empty().then_some(fleet.current)) {
            let next = if next.step > fleet.current.step + 1 { next } else { fleet.current };
            write(store, signer, &fleet, next, deadline_s)?;
            return Ok(next);
        }
        if start.elapsed() > ADOPTION_TIME {
            let missing = names.iter().zip(&states).filter(|(_, state)| state.is_none());
            let missing: Vec<&str> = missing.map(|(node, _)| node.as_str()).collect();
            return Err(Error::UnreportedNodes { nodes: missing.join(", ") });
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Executes a roll-out until its end.
pub(crate) fn run(
    store: &mut impl Store,
    (signer, public): (&SigningKey, &PublicKey),
    (goal, from, without): (Goal, Option<Generation>, &BTreeSet<String>),
    deadline_s: u32,
    mut report: impl FnMut(Result<&Fleet, &Error>),
) -> Result<RolloutEnd> {
    let start = Instant::now();
    let (mut controller, mut reader) = (Controller::default(), FleetReader::default());
    let (mut has_begun, mut rest) = (false, None);
    loop {
        let fleet = match reader.read(store, public) {
            Ok(fleet) => fleet,
            // Nodes keep what they have; the roll-out goes on when the store is back.
            Err(error @ Error::Store(StoreError::Unknown | StoreError::Unavailable(_))) => {
                report(Err(&error));
                std::thread::sleep(INTERVAL);
                continue;
            }
            Err(error) => return Err(error),
        };
        if fleet.pause.is_some() {
            return Ok(RolloutEnd::Paused);
        }
        if fleet.is_restored {
            if goal != Goal::Continue {
                return Err(Error::Restored(fleet.current.step));
            }
            adopt(store, (signer, public), deadline_s)?;
            (controller, reader) = (Controller::default(), FleetReader::default());
            continue;
        }
        report(Ok(&fleet));
        let current = &fleet.current;
        let change = reader.plans.as_ref().and_then(|plans| plans.change.as_ref());
        // While one plan rests, only nodes with an agent that lives are awaited.
        // Of a roll-out that returned, those that are left out are not awaited either.
        let is_awaited = |(node, state): &&(String, Option<NodeState>)| match current.phase {
            Phase::Rest if without.contains(node) => false,
            _ => change.is_some() || state.is_some(),
        };
        let states = fleet.nodes.iter().filter(is_awaited).map(|(_, state)| state.clone());
        let states: Vec<Option<NodeState>> = states.collect();
        let view = View { current: *current, states: &states, is_late: fleet.is_late };
        let wait_ns = |ms: fn(&Change) -> u64| change.map_or(0, ms) * NS_PER_MS;
        let times = ChangeTimes {
            drain_ns: wait_ns(|change| change.drain_ms),
            soak_ns: wait_ns(|change| change.soak_ms),
        };
        // Nodes without an acknowledgement of this record are in the phase before, until they read it.
        if current.phase == Phase::Rest && has_begun {
            let is_behind = |state: &NodeState| !state.acknowledges(current);
            let rests_since = *rest.get_or_insert_with(Instant::now);
            if states.iter().flatten().any(is_behind) && rests_since.elapsed() < REST_TIME {
                std::thread::sleep(INTERVAL);
                continue;
            }
            if let Some(refusal) = refusal(&fleet) {
                return Ok(RolloutEnd::Refused(refusal));
            }
            let is_done = match goal {
                Goal::Reach(to) => current.from == to,
                Goal::Continue | Goal::Return => change.is_none(),
            };
            return Ok(if is_done { RolloutEnd::Done } else { RolloutEnd::Returned });
        }
        // Another controller was faster: the change was prepared for another plan.
        if from.is_some_and(|from| from != current.from) {
            return Err(Error::Busy(*current));
        }
        has_begun |= current.phase != Phase::Rest;
        let now_ns = start.elapsed().as_nanos() as u64;
        match controller.decide(&view, times, goal, now_ns) {
            Decision::Write(next) => {
                if next.is_returning() && !current.is_returning() {
                    let returns = Some(reason(&fleet, goal, deadline_s));
                    report(Ok(&Fleet { returns, ..fleet.clone() }));
                }
                write(store, signer, &fleet, next, deadline_s)?;
            }
            Decision::Rest => {
                let is_reached = matches!(goal, Goal::Reach(to) if to == current.from);
                return Ok(if is_reached { RolloutEnd::Done } else { RolloutEnd::Idle });
            }
            Decision::Wait
                if !has_begun && start.elapsed() > Duration::from_secs(deadline_s.into()) =>
            {
                return Err(Error::NotReady { nodes: fleet.missing().join(", ") });
            }
            Decision::Wait | Decision::WaitUntil(_) => std::thread::sleep(INTERVAL),
            Decision::Busy => return Err(Error::Busy(*current)),
            Decision::Restored(_) => return Err(Error::Restored(current.step)),
        }
    }
}

/// The first node that refuses the record, and why.
fn refusal(fleet: &Fleet) -> Option<String> {
    let states = fleet.nodes.iter().filter_map(|(node, state)| Some((node, state.as_ref()?)));
    let mut refusals = states.filter(|(_, state)| state.refuses(&fleet.current));
    refusals.next().map(|(node, state)| format!("{node} refuses: {}", state.why))
}

/// Why a roll-out returns.
fn reason(fleet: &Fleet, goal: Goal, deadline_s: u32) -> String {
    let current = &fleet.current;
    if let Some(refusal) = refusal(fleet) {
        return refusal;
    }
    let mut states = fleet.nodes.iter().filter_map(|(node, state)| Some((node, state.as_ref()?)));
    if let Some((node, state)) =
        states.find(|(_, state)| state.current == *current && state.lost > 0)
    {
        return format!("{node}: {}", state.why);
    }
    match goal {
        Goal::Return => "the operator wants the old plan".into(),
        Goal::Continue | Goal::Reach(_) => format!(
            "not acknowledged within {deadline_s} s by {}: the log of its agent has the cause",
            fleet.missing().join(", ")
        ),
    }
}

/// Writes the next step with its deadline, unless another controller did, or the fleet is paused.
fn write(
    store: &mut impl Store,
    signer: &SigningKey,
    fleet: &Fleet,
    next: Current,
    deadline_s: u32,
) -> Result<()> {
    let lease = match store.grant(deadline_s) {
        Ok(lease) => lease,
        Err(StoreError::Unknown | StoreError::Unavailable(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let put = |key: String, value, lease| Operation::Put { key, value, lease };
    let step = Transaction {
        compare: vec![
            Condition::ModRevision(key::CURRENT.into(), fleet.revision),
            Condition::CreateRevision(key::PAUSE.into(), 0),
        ],
        success: vec![
            put(key::CURRENT.into(), record::seal(&next, signer), 0),
            put(
                key::CLUSTER.into(),
                record::seal(&ClusterNumber { number: fleet.cluster }, signer),
                0,
            ),
            put(key::deadline(next.step), Vec::new(), lease),
        ],
        ..Transaction::default()
    };
    match store.transact(&step) {
        // Whether it was written, and by whom, shows the next read.
        Ok(_) | Err(StoreError::Unknown | StoreError::Unavailable(_) | StoreError::NoLease(_)) => {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use onbeat_rollout::store::MemoryStore;

    use super::*;
    use crate::credentials::SigningKey;

    /// A store with the first record, and keys of nodes.
    struct World {
        store: MemoryStore,
        signer: SigningKey,
        nodes: BTreeMap<&'static str, SigningKey>,
    }

    fn put(store: &mut impl Store, key: &str, value: Vec<u8>) {
        let put = Operation::Put { key: key.into(), value, lease: 0 };
        let put = Transaction::write(vec![put]);
        store.transact(&put).expect("a store");
    }

    impl World {
        /// Plan 1 rests on nodes a and b.
        fn new(current: Current) -> Self {
            let mut store = MemoryStore::default();
            let signer = SigningKey::generate();
            let nodes: BTreeMap<_, _> =
                ["a", "b"].map(|node| (node, SigningKey::generate())).into();
            put(&mut store, key::CURRENT, record::seal(&current, &signer));
            for (node, own) in &nodes {
                let public = own.public();
                let known = NodeKey { node: (*node).into(), public };
                put(&mut store, &key::node_key(node), record::seal(&known, &signer));
            }
            let files = ["a", "b"].map(|node| (node.to_owned(), String::new())).into();
            for plan in [1, 2] {
                files::upload(&mut store, &signer, plan, "{}", &files, |_| {}).expect("a plan");
            }
            let change = Change {
                from: 1,
                to: 2,
                affected: vec!["a".into(), "b".into()],
                drain_ms: 1000,
                soak_ms: 0,
                deadline_s: 30,
            };
            put(&mut store, &key::change(1, 2), record::seal(&change, &signer));
            for node in ["a", "b"] {
                let (node, hashes) = (node.to_owned(), [1, 2, 2, 3, 4].map(|n| FileHash([n; 32])));
                let unproved = Vec::new();
                let change = NodeChange { from: 1, to: 2, node, hashes, new_members: 2, unproved };
                let key = key::node_change(1, 2, &change.node);
                put(&mut store, &key, record::seal(&change, &signer));
            }
            Self { store, signer, nodes }
        }

        fn state(&self, of: &str, by: &str, current: Current) {
            self.state_with_proof(of, by, current, &self.signer);
        }

        /// The state of a node, signed by one, with a record that `prover` signed.
        fn state_with_proof(&self, of: &str, by: &str, current: Current, prover: &SigningKey) {
            // The file of each plan is empty.
            let hash = match current.from == current.to {
                true => FileHash::of(""),
                false => FileHash([[1, 2, 2, 3, 4][current.phase as usize]; 32]),
            };
            let state = NodeState {
                current,
                hash,
                ok: true,
                why: String::new(),
                instance: 7,
                proved: 2,
                lost: 0,
                proof: record::signature(&record::seal(&current, prover)).expect("sealed"),
            };
            self.put_state(of, by, &state);
        }

        fn put_state(&self, of: &str, by: &str, state: &NodeState) {
            let value = record::seal(state, &self.nodes[by]);
            put(&mut self.store.clone(), &key::state(of), value);
        }

        fn read(&mut self, reader: &mut FleetReader) -> Fleet {
            reader.read(&mut self.store, &self.signer.verifier()).expect("a fleet")
        }
    }

    const RESTING: Current =
        Current { step: 5, from: 1, to: 1, phase: Phase::Rest, prev: Phase::Rest };

    /// Some versions of etcd let a node write the state of another (CVE-2026-33343).
    #[test]
    fn a_state_that_another_node_signed_counts_as_none() {
        let mut world = World::new(RESTING);
        let mut reader = FleetReader::default();
        world.state("a", "a", RESTING);
        world.state("b", "a", RESTING);
        assert_eq!(world.read(&mut reader).missing(), ["b"]);
        put(&mut world.store, &key::state("b"), b"{}".to_vec());
        assert_eq!(world.read(&mut reader).missing(), ["b"]);
        // The node replaces it.
        world.state("b", "b", RESTING);
        reader.keys_at = None;
        assert!(world.read(&mut reader).missing().is_empty());
        // A node that is invited again has another key.
        let other = SigningKey::generate();
        let known = NodeKey { node: "b".into(), public: other.public() };
        put(&mut world.store, &key::node_key("b"), record::seal(&known, &world.signer));
        world.nodes.insert("b", other);
        world.state("b", "b", RESTING);
        reader.keys_at = None;
        assert!(world.read(&mut reader).missing().is_empty());
    }

    #[test]
    fn an_acknowledgement_with_another_hash_is_a_refusal_by_name() {
        let proving =
            Current { step: 7, to: 2, phase: Phase::Prove, prev: Phase::Accept, ..RESTING };
        let mut world = World::new(proving);
        world.state("a", "a", proving);
        world.state("b", "b", proving);
        let fleet = world.read(&mut FleetReader::default());
        assert!(fleet.missing().is_empty());
        let right = fleet.nodes[1].1.clone().expect("a state");
        for (state, why) in [
            (NodeState { hash: FileHash([9; 32]), ..right.clone() }, "0909"),
            (NodeState { proved: 1, ..right.clone() }, "1 of 2 new members"),
        ] {
            world.put_state("b", "b", &state);
            let fleet = world.read(&mut FleetReader::default());
            assert_eq!(fleet.missing(), ["b"]);
            let reason = reason(&fleet, Goal::Reach(2), 30);
            assert!(reason.starts_with("b refuses: ") && reason.contains(why), "{reason}");
        }
        // The roll-out returns instead of going on.
        let (mut store, signer) = (world.store.clone(), &world.signer);
        let keys = (signer, &signer.verifier());
        let mut returns = None;
        let goal = (Goal::Reach(2), None, &BTreeSet::new());
        let interrupted = run(&mut store, keys, goal, 30, |read| {
            let Ok(fleet) = read else { return };
            match &fleet.returns {
                Some(why) => returns = Some(why.clone()),
                // Ends the test after the next step.
                None if fleet.current != proving => {
                    assert_eq!(
                        (fleet.current.phase, fleet.current.prev),
                        (Phase::Accept, Phase::Prove)
                    );
                    let pause = record::seal(&Pause { why: "seen".into() }, signer);
                    put(&mut world.store.clone(), key::PAUSE, pause);
                }
                None => {}
            }
        });
        assert_eq!(interrupted.expect("an end"), RolloutEnd::Paused);
        assert!(returns.is_some_and(|why| why.starts_with("b refuses")));
    }

    /// The file that a plan at rest has is signed, too.
    #[test]
    fn a_node_with_another_file_does_not_acknowledge_a_plan_that_rests() {
        let mut world = World::new(RESTING);
        world.state("a", "a", RESTING);
        world.state("b", "b", RESTING);
        assert!(world.read(&mut FleetReader::default()).missing().is_empty());
        let other = NodeState {
            hash: FileHash::of("other"),
            ..world.read(&mut FleetReader::default()).nodes[1].1.clone().expect("a state")
        };
        world.put_state("b", "b", &other);
        assert_eq!(world.read(&mut FleetReader::default()).missing(), ["b"]);
    }

    #[test]
    fn a_roll_out_that_ends_with_a_refusal_names_the_node() {
        let draining =
            Current { step: 9, to: 2, phase: Phase::Drain, prev: Phase::Send, ..RESTING };
        let world = World::new(draining);
        world.state("a", "a", draining);
        world.state("b", "b", draining);
        let (mut store, public) = (world.store.clone(), world.signer.verifier());
        let goal = (Goal::Reach(2), None, &BTreeSet::new());
        let mut has_refused = false;
        let end = run(&mut store, (&world.signer, &public), goal, 30, |read| {
            let Ok(fleet) = read else { return };
            if fleet.current.phase == Phase::Rest && !has_refused {
                has_refused = true;
                world.state("a", "a", fleet.current);
                let state = NodeState {
                    current: fleet.current,
                    hash: FileHash([9; 32]),
                    ok: true,
                    why: String::new(),
                    instance: 7,
                    proved: 0,
                    lost: 0,
                    proof: String::new(),
                };
                world.put_state("b", "b", &state);
            }
        });
        let end = end.expect("an end");
        assert!(
            matches!(&end, RolloutEnd::Refused(why) if why.starts_with("b refuses") && why.contains("restart")),
            "{end:?}"
        );
    }

    #[test]
    fn no_step_is_written_while_the_fleet_is_paused() {
        let mut world = World::new(RESTING);
        let pause = record::seal(&Pause { why: "shift".into() }, &world.signer);
        put(&mut world.store, key::PAUSE, pause);
        let fleet = world.read(&mut FleetReader::default());
        assert_eq!(fleet.pause.as_deref(), Some("shift"));
        // Also if the pause begins after the read.
        let next = Current { step: 6, to: 2, phase: Phase::Accept, ..RESTING };
        write(&mut world.store, &world.signer, &fleet, next, 30).expect("a store");
        assert_eq!(world.read(&mut FleetReader::default()).current, RESTING);
        let keys = (&world.signer, &world.signer.verifier());
        let end = run(&mut world.store, keys, (Goal::Reach(2), None, &BTreeSet::new()), 30, |_| {})
            .expect("an end");
        assert_eq!(end, RolloutEnd::Paused);
    }

    #[test]
    fn a_restored_store_continues_from_its_nodes() {
        let mut world = World::new(RESTING);
        for node in ["a", "b"] {
            world.state(node, node, RESTING);
        }
        let number = record::seal(&ClusterNumber { number: 7 }, &world.signer);
        put(&mut world.store, key::CLUSTER, number);
        assert!(world.read(&mut FleetReader::default()).is_restored);
        let public = world.signer.verifier();
        let keys = (&world.signer, &public);
        let refused = run(
            &mut world.store.clone(),
            keys,
            (Goal::Reach(2), None, &BTreeSet::new()),
            30,
            |_| {},
        );
        assert!(matches!(refused, Err(Error::Restored(5))), "{refused:?}");

        // The states of the snapshot are removed; the nodes say what they run: steps 8 and 7 of a later roll-out.
        let late = Current { step: 8, to: 2, phase: Phase::Prove, prev: Phase::Accept, ..RESTING };
        let before = Current { step: 7, phase: Phase::Accept, prev: Phase::Rest, ..late };
        let adopted = std::thread::scope(|scope| {
            let mut store = world.store.clone();
            let adopting = scope.spawn({
                let (signer, public) = (&world.signer, &public);
                move || adopt(&mut store, (signer, public), 30)
            });
            let states = Transaction::read([Keys::Prefix(key::STATES.into())]);
            let mut store = world.store.clone();
            while !store.transact(&states).expect("a store").reads[0].is_empty() {
                assert!(!adopting.is_finished(), "it removes states first");
                std::thread::sleep(Duration::from_millis(1));
            }
            world.state("a", "a", late);
            world.state("b", "b", before);
            adopting.join().expect("it ends")
        });
        assert_eq!(adopted.expect("all nodes"), Current { step: 9, ..late });
        let fleet = world.read(&mut FleetReader::default());
        assert!(!fleet.is_restored && fleet.current.step == 9);
        // A later record that the fleet never signed is an invention of the node.
        let invented = Current { step: 1000, ..late };
        world.state_with_proof("a", "a", invented, &world.nodes["a"]);
        let fleet = world.read(&mut FleetReader::default());
        assert!(!fleet.is_restored && fleet.unsigned == ["a"]);
        assert_eq!(fleet.missing(), ["a", "b"], "of the new step");
    }
}

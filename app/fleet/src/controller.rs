//! Roll-outs: executes the decisions of [`onbeat_rollout::Controller`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use onbeat_rollout::controller::{ChangeTimes, Decision, Goal, View};
use onbeat_rollout::record::{self, Change, NodeState};
use onbeat_rollout::store::{Condition, Keys, Operation, Store, StoreError, Transaction};
use onbeat_rollout::{Controller, Current, Generation, Phase, key};

use crate::credentials::{PublicKey, SigningKey};
use crate::error::{Error, Result};
use crate::files;
use crate::store::EtcdStore;

/// Until the states are read again.
const INTERVAL: Duration = Duration::from_millis(100);

const NS_PER_MS: u64 = 1_000_000;

/// What the store has of a roll-out.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) current: Current,
    pub(crate) revision: u64,
    /// Nodes whose acknowledgement is awaited, with their states.
    pub(crate) nodes: Vec<(String, Option<NodeState>)>,
    /// The other nodes of the plan that runs.
    pub(crate) others: Vec<(String, Option<NodeState>)>,
    pub(crate) is_late: bool,
}

/// Signed records of the plans of [`Current`], which never change.
#[derive(Debug)]
pub(crate) struct Plans {
    from: Generation,
    to: Generation,
    /// The change from the old plan to the new one; none while one plan rests.
    change: Option<Change>,
    /// Nodes of the old plan.
    nodes: Vec<String>,
}

impl Plans {
    fn read(store: &mut EtcdStore, public: &PublicKey, current: Current) -> Result<Self> {
        let Current { from, to, .. } = current;
        let is_change = from != to;
        let change = is_change.then(|| files::change(store, public, (from, to))).transpose()?;
        let nodes = files::nodes(store, public, from)?;
        Ok(Self { from, to, change, nodes })
    }

    fn are_of(&self, current: Current) -> bool {
        (self.from, self.to) == (current.from, current.to)
    }
}

impl Fleet {
    /// Names of the nodes whose acknowledgement is missing.
    pub(crate) fn missing(&self) -> Vec<&str> {
        let step = self.current.step;
        let acknowledges = |state: &Option<NodeState>| {
            state.as_ref().is_some_and(|state| state.acknowledges(step))
        };
        let missing = self.nodes.iter().filter(|(_, state)| !acknowledges(state));
        missing.map(|(node, _)| node.as_str()).collect()
    }
}

/// How a roll-out ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The wanted plan rests.
    Done,
    /// The roll-out went back to the old plan.
    Returned,
    /// None was under way.
    Idle,
}

/// Reads record and states at one revision. `plans`: those of the last reading.
pub(crate) fn read(
    store: &mut EtcdStore,
    public: &PublicKey,
    plans: &mut Option<Plans>,
) -> Result<Fleet> {
    let keys = [
        Keys::One(key::CURRENT.into()),
        Keys::Prefix(key::STATES.into()),
        Keys::Prefix(key::DEADLINES.into()),
    ];
    let read = store.transact(&Transaction::read(keys))?;
    let [current, states, deadlines] =
        <[_; 3]>::try_from(read.reads).map_err(|_| Error::NoFleet)?;
    let found = current.into_iter().next().ok_or(Error::NoFleet)?;
    let current: Current = record::open(key::CURRENT, &found.value, public)?;
    let plans = match plans.take().filter(|plans| plans.are_of(current)) {
        Some(known) => plans.insert(known),
        None => plans.insert(Plans::read(store, public, current)?),
    };
    let mut known: BTreeMap<String, NodeState> = states
        .iter()
        .filter_map(|found| {
            let node = found.key.strip_prefix(key::STATES)?;
            Some((node.to_owned(), record::decode(&found.key, &found.value).ok()?))
        })
        .collect();
    let awaited = plans.change.as_ref().map_or(&plans.nodes, |change| &change.affected);
    let is_other = |node: &&String| !awaited.contains(node);
    let mut with_state = |node: &String| (node.clone(), known.remove(node));
    let nodes = awaited.iter().map(&mut with_state).collect();
    let others = plans.nodes.iter().filter(is_other).map(with_state).collect();
    let own = key::deadline(current.step);
    let is_late = !deadlines.iter().any(|deadline| deadline.key == own);
    Ok(Fleet { current, revision: found.mod_revision, nodes, others, is_late })
}

/// Executes a roll-out until its end.
pub(crate) fn run(
    store: &mut EtcdStore,
    keys: (&SigningKey, &PublicKey),
    (goal, from): (Goal, Option<Generation>),
    deadline_s: u32,
    mut report: impl FnMut(&Fleet),
) -> Result<End> {
    let (signer, public) = keys;
    let start = Instant::now();
    let (mut controller, mut plans) = (Controller::default(), None);
    let mut has_begun = false;
    loop {
        let fleet = match read(store, public, &mut plans) {
            Ok(fleet) => fleet,
            // Nodes keep what they have; the roll-out goes on when the store is back.
            Err(Error::Store(StoreError::Unknown | StoreError::Unavailable(_))) => {
                std::thread::sleep(INTERVAL);
                continue;
            }
            Err(error) => return Err(error),
        };
        report(&fleet);
        let current = &fleet.current;
        let change = plans.as_ref().and_then(|plans| plans.change.as_ref());
        // While one plan rests, only nodes with an agent that lives are awaited.
        let is_awaited = |state: &Option<NodeState>| change.is_some() || state.is_some();
        let states = fleet.nodes.iter().map(|(_, state)| state.clone()).filter(is_awaited);
        let states: Vec<Option<NodeState>> = states.collect();
        let view = View { current: *current, states: &states, is_late: fleet.is_late };
        let wait_ns = |ms: fn(&Change) -> u64| change.map_or(0, ms) * NS_PER_MS;
        let times = ChangeTimes {
            drain_ns: wait_ns(|change| change.drain_ms),
            soak_ns: wait_ns(|change| change.soak_ms),
        };
        // Nodes without an acknowledgement of this record are in the phase before, until they read it.
        if current.phase == Phase::Rest && has_begun {
            let is_done = match goal {
                Goal::Reach(to) => current.from == to,
                Goal::Continue | Goal::Return => change.is_none(),
            };
            return Ok(if is_done { End::Done } else { End::Returned });
        }
        // Another controller was faster: the change was prepared for another plan.
        if from.is_some_and(|from| from != current.from) {
            return Err(Error::Busy(*current));
        }
        has_begun |= current.phase != Phase::Rest;
        let now_ns = start.elapsed().as_nanos() as u64;
        match controller.decide(&view, times, goal, now_ns) {
            Decision::Write(next) => write(store, signer, &fleet, next, deadline_s)?,
            Decision::Rest => {
                let is_reached = matches!(goal, Goal::Reach(to) if to == current.from);
                return Ok(if is_reached { End::Done } else { End::Idle });
            }
            Decision::Wait
                if !has_begun && start.elapsed() > Duration::from_secs(deadline_s.into()) =>
            {
                return Err(Error::NotReady { nodes: fleet.missing().join(", ") });
            }
            Decision::Wait | Decision::WaitUntil(_) => std::thread::sleep(INTERVAL),
            Decision::Busy => return Err(Error::Busy(*current)),
            Decision::Restored(step) => return Err(Error::Restored { own: current.step, step }),
        }
    }
}

/// Writes the next step with its deadline, unless another controller did.
fn write(
    store: &mut EtcdStore,
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
        compare: vec![Condition::ModRevision(key::CURRENT.into(), fleet.revision)],
        success: vec![
            put(key::CURRENT.into(), record::seal(&next, signer), 0),
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

//! Fleets in virtual time: agents and controllers over a store in memory, with faults, while streams flow through the pure
//! data plane of random networks. Every frame arrives once. The control changes all nodes in one step, and loses.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use onbeat_plan::manifest::Manifest;
use onbeat_plan::{Network, network as plan_network};
use onbeat_rollout::agent::{Action, Agent, DiskRecord, Outcome};
use onbeat_rollout::change::{self, PlanFiles, Settings};
use onbeat_rollout::controller::{ChangeTimes, Controller, Decision, Goal, View};
use onbeat_rollout::key;
use onbeat_rollout::record::{self, Change, FileHash, NodeChange, NodeState, Signer, Verifier};
use onbeat_rollout::stage::Stages;
use onbeat_rollout::store::{
    Condition, KeyValue, Keys, LeaseId, MemoryStore, Operation, Revision, Store, StoreError,
    Transaction,
};
use onbeat_rollout::{Current, Generation, Phase, Step};

use super::network::{self, Random};
use super::plane::World;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

/// Interval of frames while a node on the way of their stream changes, and at other times: frames then meet the same
/// tables, and all have one fate. Both are shorter than each reset timeout.
const BUSY_INTERVAL: u64 = 5 * MS;
const CALM_INTERVAL: u64 = 25 * MS;

/// Time before and after a change of a node in which streams send often: frames on their way, and the first ones after it.
const BEFORE_CHANGE: u64 = 40 * MS;
const AFTER_CHANGE: u64 = 10 * MS;

/// Longest time between two reads of an agent, which without faults is 5 s.
const TICK_MS: usize = 2000;

/// Time to live of leases.
const TTL_S: u32 = 15;

/// Time of a phase. A slow node that is interrupted, too, can miss it.
const DEADLINE_S: u32 = 10;

/// A key whose signature is a sum: forged records are not the subject here.
struct Key;

impl Signer for Key {
    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let sum = message.iter().fold(7u64, |sum, octet| {
            sum.wrapping_mul(0x100_0000_01b3).wrapping_add(u64::from(*octet))
        });
        sum.to_be_bytes().to_vec()
    }
}

impl Verifier for Key {
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.sign(message) == signature
    }
}

/// A node's agent, its disk and its client.
struct Host {
    name: String,
    client: MemoryStore,
    lease: Option<LeaseId>,
    agent: Option<Agent>,
    disk: Option<DiskRecord>,
    /// Both plans' files of the saved record, and the text of its stage.
    prepared: Option<(Current, Stages)>,
    saved: Option<(Current, Stages)>,
    /// Frames of new members before probes, by the stream and member; of this step.
    baseline: (Step, BTreeMap<(String, usize), u64>),
    is_slow: bool,
}

struct Operator {
    client: MemoryStore,
    controller: Controller,
    /// States by key, with the revision: a fleet has thousands, of which few differ from those of the read before.
    states: BTreeMap<String, (Revision, NodeState)>,
    /// The change that was read last, with those of its nodes.
    change: Option<(Change, Vec<NodeChange>)>,
}

impl Operator {
    fn new(client: MemoryStore) -> Self {
        let (controller, states) = (Controller::default(), BTreeMap::new());
        Self { client, controller, states, change: None }
    }

    /// The change of a record, if the store can be reached.
    fn change(&mut self, Current { from, to, .. }: Current) -> Option<&(Change, Vec<NodeChange>)> {
        let known = self.change.take().filter(|(change, _)| (change.from, change.to) == (from, to));
        let known = match known {
            Some(known) => known,
            None => {
                let key = key::change(from, to);
                let octets = get(&mut self.client, &key).ok()??;
                let change: Change = record::open(&key, &octets, &Key).expect("a change");
                let nodes = change.affected.iter().map(|node| {
                    let key = key::node_change(from, to, node);
                    let octets = get(&mut self.client, &key).ok()??;
                    Some(record::open(&key, &octets, &Key).expect("a change"))
                });
                let nodes: Option<Vec<NodeChange>> = nodes.collect();
                (change, nodes?)
            }
        };
        Some(self.change.insert(known))
    }

    /// Decodes the states that differ.
    fn decode(&mut self, found: &[KeyValue]) {
        let mut former = std::mem::take(&mut self.states);
        for found in found {
            let known = former.remove(&found.key);
            let state = match known.filter(|(revision, _)| *revision == found.mod_revision) {
                Some((_, state)) => state,
                None => record::decode(&found.key, &found.value).expect("a state"),
            };
            self.states.insert(found.key.clone(), (found.mod_revision, state));
        }
    }
}

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// An agent executes its action.
    Act(usize),
    /// An agent wakes: at a change of the record, and now and then.
    Wake(usize),
    Tick(usize),
    Start(usize),
    Connect(usize),
    Control(usize),
    Send(usize),
    Fault,
}

/// When a stream sends.
#[derive(Default)]
struct Traffic {
    next: u64,
    /// When nodes on its way change.
    changes: BTreeSet<u64>,
}

struct Fleet {
    random: Random,
    network: Network,
    world: World,
    hosts: Vec<Host>,
    operators: Vec<Operator>,
    store: MemoryStore,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    now: u64,
    goal: Goal,
    has_faults: bool,
    traffic: Vec<Traffic>,
    /// Streams in the files of a node.
    users: Vec<BTreeSet<usize>>,
    /// How often a roll-out returned.
    returns: usize,
    manifest: Option<Manifest>,
    plan: PlanFiles,
}

fn get(client: &mut MemoryStore, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let result = client.transact(&Transaction::read([Keys::One(key.into())]))?;
    Ok(result.reads[0].first().map(|key| key.value.clone()))
}

fn put(client: &mut MemoryStore, key: String, value: Vec<u8>) {
    let compare = vec![Condition::CreateRevision(key.clone(), 0)];
    let success = vec![Operation::Put { key, value, lease: 0 }];
    client.transact(&Transaction { compare, success, failure: Vec::new() }).expect("a store");
}

/// The numbers of the streams in a file: `NUMBER` in `name = "sNUMBER.v101"`.
fn streams(text: &str) -> impl Iterator<Item = usize> {
    let names = text.lines().filter_map(|line| line.strip_prefix("name = \"s"));
    names.filter_map(|name| name.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
}

impl Fleet {
    fn new(seed: u64, nodes: usize, streams: usize, has_faults: bool) -> Self {
        let mut random = Random(seed);
        let network = network::random(&mut random, nodes, streams);
        let store = MemoryStore::default();
        let host = |index: usize| Host {
            name: network.nodes[index].name.clone(),
            client: store.clone(),
            lease: None,
            agent: Some(Agent::start(index as u64, None)),
            disk: None,
            prepared: None,
            saved: None,
            baseline: (0, BTreeMap::new()),
            is_slow: false,
        };
        let operator = || Operator::new(store.clone());
        let mut fleet = Self {
            world: World::new(&network),
            hosts: (0..nodes).map(host).collect(),
            operators: vec![operator(), operator()],
            store: store.clone(),
            events: BinaryHeap::new(),
            order: 0,
            now: 0,
            goal: Goal::Continue,
            has_faults,
            traffic: (0..streams).map(|_| Traffic::default()).collect(),
            users: vec![BTreeSet::new(); nodes],
            returns: 0,
            manifest: None,
            plan: PlanFiles::default(),
            random,
            network,
        };
        put(&mut fleet.store, key::CURRENT.into(), record::seal(&Current::FIRST, &Key));
        for node in 0..nodes {
            fleet.at(node as u64 * MS, Event::Act(node));
            fleet.in_ms(TICK_MS, Event::Tick(node));
        }
        fleet.at(0, Event::Control(0));
        fleet.at(0, Event::Control(1));
        fleet.at(0, Event::Fault);
        for stream in 0..streams {
            fleet.send_at(stream, stream as u64 * BUSY_INTERVAL / streams as u64);
        }
        fleet
    }

    fn send_at(&mut self, stream: usize, time: u64) {
        self.traffic[stream].next = time;
        self.at(time, Event::Send(stream));
    }

    /// A node will change: its streams send often around that time.
    fn expect_change(&mut self, node: usize, time: u64) {
        for stream in self.users[node].clone() {
            self.traffic[stream].changes.insert(time);
            let first = time.saturating_sub(BEFORE_CHANGE).max(self.now);
            if first < self.traffic[stream].next {
                self.send_at(stream, first);
            }
        }
    }

    /// A talker's application sends, unless the frame was due earlier.
    fn send(&mut self, stream: usize) {
        let (now, traffic) = (self.now, &mut self.traffic[stream]);
        if traffic.next != now {
            return;
        }
        traffic.changes = traffic.changes.split_off(&now.saturating_sub(AFTER_CHANGE));
        let calm = now + CALM_INTERVAL;
        let change = traffic
            .changes
            .first()
            .map_or(calm, |change| change.saturating_sub(BEFORE_CHANGE).max(now + BUSY_INTERVAL));
        let plan_network::Stream { talker, address, .. } = self.network.streams[stream];
        self.world.send(talker as usize, address, now);
        self.send_at(stream, calm.min(change));
    }

    /// An agent executes its action after some time.
    fn act_in_ms(&mut self, node: usize, most: usize) {
        let mut time = self.now + (1 + self.random.below(most)) as u64 * MS;
        let agent = self.hosts[node].agent.as_ref();
        if agent.is_some_and(|agent| matches!(agent.action(), Action::Apply(_))) {
            time += BEFORE_CHANGE;
            self.expect_change(node, time);
        }
        self.at(time, Event::Act(node));
    }

    fn at(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, event)));
    }

    fn in_ms(&mut self, most: usize, event: Event) {
        let time = self.now + (1 + self.random.below(most)) as u64 * MS;
        self.at(time, event);
    }

    fn current(&self) -> Current {
        let octets = get(&mut self.store.clone(), key::CURRENT).expect("a store");
        record::open(key::CURRENT, &octets.expect("a record"), &Key).expect("a valid record")
    }

    /// Plans the network beside the running plan, and writes the records of the change. `None`: it is refused.
    fn publish(&mut self) -> Result<Generation, Vec<change::Refusal>> {
        let number = self.plan.generation + 1;
        let (manifest, plan) = network::plan(&self.network, self.manifest.as_ref(), number);
        let settings = Settings {
            soak_ms: 100,
            deadline_s: DEADLINE_S,
            bridges_loaded: false,
            without: BTreeSet::new(),
        };
        let prepared = change::prepare(&self.plan, &plan, &settings)?;
        let mut client = self.store.clone();
        for (node, text) in &plan.files {
            put(&mut client, key::part(number, node, 0), text.clone().into_bytes());
        }
        let from = prepared.change.from;
        put(&mut client, key::change(from, number), record::seal(&prepared.change, &Key));
        for node in &prepared.nodes {
            let key = key::node_change(from, number, &node.node);
            put(&mut client, key, record::seal(node, &Key));
        }
        for (index, host) in self.hosts.iter().enumerate() {
            let files = [&self.plan, &plan].map(|plan| plan.files.get(&host.name));
            self.users[index] =
                files.into_iter().flatten().flat_map(|text| streams(text)).collect();
        }
        (self.manifest, self.plan) = (Some(manifest), plan);
        Ok(number)
    }

    fn act(&mut self, index: usize) {
        let Some(agent) = &self.hosts[index].agent else { return };
        let action = agent.action();
        if action == Action::Idle {
            return;
        }
        let outcome = self.execute(index, action);
        let host = &mut self.hosts[index];
        host.agent.as_mut().expect("it runs").complete(outcome);
        let latency = if host.is_slow { 500 } else { 20 };
        self.act_in_ms(index, latency);
    }

    fn execute(&mut self, index: usize, action: Action) -> Outcome {
        let now = self.now;
        let is_lossy = self.has_faults && self.random.one_in(20);
        // As often in a roll-out of a large fleet as of a small one: others would never end.
        let is_refused = self.has_faults && self.random.one_in(10 * self.hosts.len());
        let executed = self.random.one_in(2);
        // A path is proved by 10 of 12 probes.
        let lost_probes = if self.has_faults { self.random.below(3) } else { 0 };
        let is_lossy_path = self.has_faults && self.random.one_in(30 * self.hosts.len());
        let host = &mut self.hosts[index];
        match action {
            Action::Idle => Outcome::Failed,
            Action::Read => {
                let state = key::state(&host.name);
                let keys = [Keys::One(key::CURRENT.into()), Keys::One(state.clone())];
                let Ok(result) = host.client.transact(&Transaction::read(keys)) else {
                    return Outcome::Failed;
                };
                let current = result.reads[0].first();
                let current = current
                    .map(|key| record::open(key::CURRENT, &key.value, &Key).expect("a record"));
                let own = result.reads[1].first();
                let revision = own.map_or(0, |key| key.mod_revision);
                let own = own.map(|key| record::decode(&state, &key.value).expect("a state"));
                Outcome::Read { current, own, revision }
            }
            Action::Prepare(_) if is_refused => Outcome::Refused("no room".into()),
            Action::Prepare(current) => match prepare(host, current) {
                Ok((stages, hash)) => {
                    host.prepared = Some((current, stages));
                    Outcome::Hash(hash)
                }
                Err(_) => Outcome::Failed,
            },
            Action::Save(saved) => {
                host.disk = Some(saved);
                host.saved.clone_from(&host.prepared);
                Outcome::Done
            }
            Action::Apply(saved) => {
                let (current, stages) = host.saved.as_ref().expect("it is saved");
                assert_eq!(*current, saved.current);
                let text = stages.text(saved.current.phase).to_owned();
                let members = stages.new_members.clone();
                self.world.apply(index, &text).expect("a valid stage");
                // An agent that was killed applies it again, perhaps after the probes.
                let step = saved.current.step;
                if saved.current.phase == Phase::Accept && self.hosts[index].baseline.0 != step {
                    let counts = members.into_iter().map(|member| {
                        let count = self.world.input(index, &member.stream, member.member, now);
                        ((member.stream, member.member), count)
                    });
                    self.hosts[index].baseline = (step, counts.collect());
                }
                Outcome::Done
            }
            Action::Inspect => Outcome::Hash(FileHash::of(self.world.text(index))),
            Action::Prove(_) => {
                let (_, stages) = host.saved.clone().expect("it is saved");
                for (_, text) in &stages.probes {
                    self.world.probe(index, text, 12 - lost_probes, now);
                }
                let (_, baseline) = &self.hosts[index].baseline;
                let (mut counted, mut missing) = (0, 0);
                for member in &stages.new_members {
                    let before = baseline.get(&(member.stream.clone(), member.member));
                    let count = self.world.input(index, &member.stream, member.member, now);
                    match count >= before.copied().unwrap_or_default() + 10 {
                        true => counted += 1,
                        false => missing += 1,
                    }
                }
                Outcome::Proved { counted, missing }
            }
            // Frames that another cause lost, in few phases of any fleet.
            Action::Count(_) => Outcome::Lost(u64::from(is_lossy_path), String::new()),
            Action::Acknowledge(state, revision) => {
                let lease = match host.lease {
                    Some(lease) => lease,
                    None => match host.client.grant(TTL_S) {
                        Ok(lease) => *host.lease.insert(lease),
                        Err(_) => return Outcome::Failed,
                    },
                };
                let key = key::state(&host.name);
                let value = record::encode(&state);
                let transaction = Transaction {
                    compare: vec![Condition::ModRevision(key.clone(), revision)],
                    success: vec![Operation::Put { key, value, lease }],
                    failure: Vec::new(),
                };
                let was_partitioned = host.client.is_partitioned();
                if is_lossy && !was_partitioned {
                    host.client.lose_next_outcome(executed);
                }
                match host.client.transact(&transaction) {
                    Ok(_) => Outcome::Done,
                    Err(StoreError::NoLease(_)) => {
                        host.lease = None;
                        Outcome::Failed
                    }
                    Err(_) => Outcome::Failed,
                }
            }
        }
    }

    /// A controller reads, decides and writes.
    fn control(&mut self, number: usize) {
        let executed = self.random.one_in(2);
        let is_lossy = self.has_faults && self.random.one_in(20);
        let is_killed = self.has_faults && self.random.one_in(50);
        let operator = &mut self.operators[number];
        if is_killed {
            operator.controller = Controller::default();
        }
        let keys = [
            Keys::One(key::CURRENT.into()),
            Keys::Prefix("deadline/".into()),
            Keys::Prefix(key::STATES.into()),
        ];
        let Ok(result) = operator.client.transact(&Transaction::read(keys)) else { return };
        let [current, deadlines, states] = &result.reads[..] else { return };
        let revision = current[0].mod_revision;
        let current: Current =
            record::open(key::CURRENT, &current[0].value, &Key).expect("a record");
        operator.decode(states);
        let (nodes, waits) = match current.from == current.to {
            true => (Vec::new(), ChangeTimes { drain_ns: 0, soak_ns: 0 }),
            false => {
                let Some((change, nodes)) = operator.change(current) else { return };
                let waits =
                    ChangeTimes { drain_ns: change.drain_ms * MS, soak_ns: change.soak_ms * MS };
                (nodes.clone(), waits)
            }
        };
        let state = |change: &NodeChange| {
            let (_, state) = operator.states.get(&key::state(&change.node))?;
            Some(change.expected(current.phase).judge(&current, state.clone()))
        };
        let states: Vec<Option<NodeState>> = nodes.iter().map(state).collect();
        let deadline = key::deadline(current.step);
        let is_late = !deadlines.iter().any(|key| key.key == deadline);
        let view = View { current, states: &states, is_late };
        let decision = operator.controller.decide(&view, waits, self.goal, self.now);
        let Decision::Write(next) = decision else { return };
        let Ok(lease) = operator.client.grant(DEADLINE_S) else { return };
        if is_lossy {
            operator.client.lose_next_outcome(executed);
        }
        let put = |key: String, value: Vec<u8>, lease| Operation::Put { key, value, lease };
        let transaction = Transaction {
            compare: vec![Condition::ModRevision(key::CURRENT.into(), revision)],
            success: vec![
                put(key::CURRENT.into(), record::seal(&next, &Key), 0),
                put(key::deadline(next.step), Vec::new(), lease),
            ],
            failure: Vec::new(),
        };
        let result = operator.client.transact(&transaction);
        if result.is_ok_and(|result| result.succeeded) {
            self.returns += usize::from(next.is_returning() && !current.is_returning());
            // The doorbell, which some do not hear.
            for node in 0..self.hosts.len() {
                if !self.random.one_in(10) {
                    self.in_ms(10, Event::Wake(node));
                }
            }
        }
    }

    fn fault(&mut self) {
        self.in_ms(600, Event::Fault);
        if !self.has_faults {
            return;
        }
        let node = self.random.below(self.hosts.len());
        match self.random.below(4) {
            0 => {
                self.hosts[node].client.set_partitioned(true);
                self.in_ms(3000, Event::Connect(node));
            }
            1 => {
                self.hosts[node].agent = None;
                self.in_ms(1000, Event::Start(node));
            }
            2 => self.hosts[node].is_slow = self.random.one_in(8),
            // Each gives all leases their time again: a deadline must be able to pass.
            _ if self.random.one_in(8) => self.store.elect(),
            _ => {}
        }
    }

    fn step(&mut self) {
        let Some(Reverse((time, _, event))) = self.events.pop() else { return };
        self.now = time;
        self.store.advance_to(time);
        self.world.run_until(time);
        match event {
            Event::Act(node) => self.act(node),
            Event::Tick(node) => {
                self.in_ms(TICK_MS, Event::Tick(node));
                self.in_ms(5, Event::Wake(node));
            }
            Event::Wake(node) => {
                let host = &mut self.hosts[node];
                let Some(agent) = &mut host.agent else { return };
                if let Some(lease) = host.lease {
                    if host.client.keep(lease) == Err(StoreError::NoLease(lease)) {
                        host.lease = None;
                    }
                }
                if agent.action() == Action::Idle {
                    agent.wake();
                    self.in_ms(5, Event::Act(node));
                }
            }
            Event::Start(node) => {
                let host = &mut self.hosts[node];
                if host.agent.is_none() {
                    host.agent = Some(Agent::start(node as u64, host.disk));
                    self.act_in_ms(node, 5);
                }
            }
            Event::Connect(node) => self.hosts[node].client.set_partitioned(false),
            Event::Control(number) => {
                self.control(number);
                // 100 ms in the mean, as the program.
                self.in_ms(200, Event::Control(number));
            }
            Event::Send(stream) => self.send(stream),
            Event::Fault => self.fault(),
        }
    }

    /// Runs until a plan rests on all nodes, or for some time.
    fn roll_out(&mut self, to: Generation) {
        self.goal = Goal::Reach(to);
        let end = self.now + 600 * S;
        while self.now < end && self.current().from != to {
            for _ in 0..200 {
                self.step();
            }
        }
        assert_eq!(self.current().from, to, "the roll-out does not end: {:?}", self.current());
    }

    fn run(&mut self, time: u64) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    /// Frames that a listener lost and got twice, of streams in a plan, sent since a time.
    fn judge(&self, since: u64, plan: &PlanFiles) -> (usize, usize) {
        let (mut lost, mut doubled) = (0, 0);
        for stream in &self.network.streams {
            let entry = plan.streams.iter().find(|entry| entry.name == stream.name);
            if entry.is_none_or(|entry| entry.state == "refused") {
                continue;
            }
            for listener in &stream.listeners {
                let found = self.world.judge(stream.address, *listener as usize, since);
                (lost, doubled) = (lost + found.0, doubled + found.1);
            }
        }
        (lost, doubled)
    }
}

/// The stage of a record, from the files in the store.
fn prepare(host: &mut Host, current: Current) -> Result<(Stages, FileHash), StoreError> {
    let Current { from, to, phase, .. } = current;
    let mut file = |plan| {
        let octets = get(&mut host.client, &key::part(plan, &host.name, 0))?;
        Ok(octets.map(|octets| String::from_utf8(octets).expect("text")))
    };
    let (old, new) = (file(from)?, file(to)?);
    let stages =
        Stages::new(&host.name, old.as_deref(), new.as_deref()).expect("a possible change");
    let hash = stages.hashes()[phase as usize];
    let key = key::node_change(from, to, &host.name);
    if let Some(octets) = get(&mut host.client, &key)? {
        let change: NodeChange = record::open(&key, &octets, &Key).expect("a change");
        assert_eq!(hash, change.hash(phase), "the controller knows the hash beforehand");
    }
    Ok((stages, hash))
}

/// What a simulation did.
#[derive(Debug, Clone, Copy, Default)]
struct SimulationResult {
    rollouts: usize,
    /// How often one returned.
    returns: usize,
    frames: usize,
    virtual_s: u64,
}

impl SimulationResult {
    fn add(&mut self, other: Self) {
        self.rollouts += other.rollouts;
        self.returns += other.returns;
        self.frames += other.frames;
        self.virtual_s += other.virtual_s;
    }
}

/// Roll-outs of a fleet with faults, of those plans that are possible.
fn simulate(seed: u64, nodes: usize, streams: usize, rollouts: usize) -> SimulationResult {
    let mut fleet = Fleet::new(seed, nodes, streams, true);
    let first = fleet.publish().expect("a first plan");
    fleet.roll_out(first);
    fleet.run(S);
    let since = fleet.now;
    let mut done = 0;
    // Streams that some plan refuses have no paths meanwhile.
    let mut plans = vec![fleet.plan.clone()];
    for _ in 0..rollouts {
        network::disturb(&mut fleet.random, &mut fleet.network);
        let Ok(number) = fleet.publish() else { continue };
        fleet.roll_out(number);
        plans.push(fleet.plan.clone());
        done += 1;
    }
    fleet.run(S);
    // Frames that are on their way.
    let end = fleet.now;
    fleet.world.run_until(end + S);
    let mut all = fleet.plan.clone();
    all.streams.retain(|stream| {
        plans.iter().all(|plan| {
            plan.streams.iter().any(|other| other.name == stream.name && other.state != "refused")
        })
    });
    assert!(!all.streams.is_empty());
    assert_eq!(fleet.judge(since, &all), (0, 0), "seed {seed}: lost, doubled");
    SimulationResult {
        rollouts: done,
        returns: fleet.returns,
        frames: fleet.world.frames(),
        virtual_s: fleet.now / S,
    }
}

#[test]
fn every_frame_arrives_once_while_plans_change() {
    let mut found = SimulationResult::default();
    for seed in 1..=6 {
        found.add(simulate(seed, 8 + seed as usize, 12, 3));
    }
    eprintln!("{found:?}");
    assert!(found.rollouts >= 12 && found.returns > 0, "{found:?}");
}

#[test]
fn a_change_in_one_step_loses_frames() {
    let mut fleet = Fleet::new(3, 10, 12, false);
    let first = fleet.publish().expect("a first plan");
    fleet.roll_out(first);
    fleet.run(S);
    let since = fleet.now;
    network::disturb(&mut fleet.random, &mut fleet.network);
    fleet.publish().expect("another plan");
    for node in 0..fleet.hosts.len() {
        fleet.expect_change(node, fleet.now + 20 * MS);
        fleet.run(20 * MS);
        let file = fleet.plan.files.get(&fleet.hosts[node].name).cloned();
        let text = file.unwrap_or_default();
        fleet.world.apply(node, &text).expect("a valid file");
    }
    fleet.run(S);
    let end = fleet.now;
    fleet.world.run_until(end + S);
    let (lost, _) = fleet.judge(since, &fleet.plan.clone());
    assert!(lost > 0, "nothing was lost");
}

/// Nodes of the fleet of a seed: of 100 fleets one has 1,000, and most have 10, whose roll-outs take milliseconds.
fn nodes(seed: u64) -> usize {
    match seed % 100 {
        10 => 1000,
        60 => 300,
        number if number % 20 == 5 => 100,
        number if number % 10 == 1 => 30,
        _ => 10,
    }
}

/// Fleets of 10 to 1,000 nodes for `SOAK_SECONDS`, from seed `SOAK_SEED` on.
#[test]
#[ignore = "minutes: make soak SOAK=rollout"]
fn every_frame_arrives_once_in_larger_fleets() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (seconds, first) = (number("SOAK_SECONDS", 60), number("SOAK_SEED", 1));
    let start = std::time::Instant::now();
    let mut found: BTreeMap<usize, (SimulationResult, Duration)> = BTreeMap::new();
    for seed in first.. {
        if start.elapsed().as_secs() >= seconds {
            eprintln!("seeds {first} to {}", seed - 1);
            break;
        }
        let (nodes, start) = (nodes(seed), std::time::Instant::now());
        let simulated = simulate(seed, nodes, 12 + nodes / 20, 5);
        let (sum, time) = found.entry(nodes).or_default();
        sum.add(simulated);
        *time += start.elapsed();
    }
    for (nodes, (sum, time)) in &found {
        eprintln!("{nodes} nodes: {sum:?} in {time:.1?}");
    }
    println!("{}", found.values().map(|(sum, _)| sum.rollouts).sum::<usize>());
}

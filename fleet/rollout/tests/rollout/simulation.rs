//! Fleets in virtual time: agents and controllers over a store in memory, with faults, while streams flow through the pure
//! data plane of random networks. Every frame arrives once. The control changes all nodes in one step, and loses.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use onbeat_plan::manifest::Manifest;
use onbeat_plan::{Network, network as plan_network};
use onbeat_rollout::agent::{Action, Agent, DiskRecord, Outcome};
use onbeat_rollout::change::{self, PlanFiles, Settings};
use onbeat_rollout::controller::{ChangeTimes, Controller, Decision, Goal, View};
use onbeat_rollout::key;
use onbeat_rollout::record::{self, Change, FileHash, NodeChange, NodeState, Signer, Verifier};
use onbeat_rollout::stage::Stages;
use onbeat_rollout::store::{
    Condition, Keys, LeaseId, MemoryStore, Operation, Store, StoreError, Transaction,
};
use onbeat_rollout::{Current, Generation, Phase};

use super::network::{self, Random};
use super::plane::World;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

/// Time to live of leases.
const TTL_S: u32 = 15;

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
    /// Frames of new members before probes, by the stream and member.
    baseline: BTreeMap<(String, usize), u64>,
    is_slow: bool,
}

struct Operator {
    client: MemoryStore,
    controller: Controller,
}

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// An agent executes its action.
    Act(usize),
    /// An agent wakes.
    Wake(usize),
    Start(usize),
    Connect(usize),
    Control(usize),
    Send(usize),
    Fault,
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
    numbers: Vec<u32>,
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
            baseline: BTreeMap::new(),
            is_slow: false,
        };
        let operator = || Operator { client: store.clone(), controller: Controller::default() };
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
            numbers: vec![0; streams],
            returns: 0,
            manifest: None,
            plan: PlanFiles::default(),
            random,
            network,
        };
        put(&mut fleet.store, key::CURRENT.into(), record::seal(&Current::FIRST, &Key));
        for node in 0..nodes {
            fleet.at(node as u64 * MS, Event::Act(node));
        }
        fleet.at(0, Event::Control(0));
        fleet.at(0, Event::Control(1));
        fleet.at(0, Event::Fault);
        for stream in 0..streams {
            fleet.at(stream as u64 * MS / 2, Event::Send(stream));
        }
        fleet
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
            deadline_s: 30,
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
        let latency = if host.is_slow { 2000 } else { 20 };
        self.in_ms(latency, Event::Act(index));
    }

    fn execute(&mut self, index: usize, action: Action) -> Outcome {
        let now = self.now;
        let is_lossy = self.has_faults && self.random.one_in(20);
        let is_refused = self.has_faults && self.random.one_in(100);
        let executed = self.random.one_in(2);
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
                if saved.current.phase == Phase::Accept {
                    for member in members {
                        let count = self.world.input(index, &member.stream, member.member, now);
                        self.hosts[index].baseline.insert((member.stream, member.member), count);
                    }
                }
                Outcome::Done
            }
            Action::Inspect => Outcome::Hash(FileHash::of(self.world.text(index))),
            Action::Prove(_) => {
                let (_, stages) = host.saved.clone().expect("it is saved");
                for (_, text) in &stages.probes {
                    self.world.probe(index, text, now);
                }
                let baseline = &self.hosts[index].baseline;
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
        let (affected, waits) = match current.from == current.to {
            true => (Vec::new(), ChangeTimes { drain_ns: 0, soak_ns: 0 }),
            false => {
                let key = key::change(current.from, current.to);
                let Ok(Some(octets)) = get(&mut operator.client, &key) else { return };
                let change: Change = record::open(&key, &octets, &Key).expect("a change");
                let waits =
                    ChangeTimes { drain_ns: change.drain_ms * MS, soak_ns: change.soak_ms * MS };
                (change.affected, waits)
            }
        };
        let mut by_key: BTreeMap<&str, NodeState> = states
            .iter()
            .map(|key| (&key.key[..], record::decode(&key.key, &key.value).expect("a state")))
            .collect();
        let states: Vec<Option<NodeState>> =
            affected.iter().map(|node| by_key.remove(&key::state(node)[..])).collect();
        let deadline = key::deadline(current.step);
        let is_late = !deadlines.iter().any(|key| key.key == deadline);
        let view = View { current, states: &states, is_late };
        let decision = operator.controller.decide(&view, waits, self.goal, self.now);
        let Decision::Write(next) = decision else { return };
        let Ok(lease) = operator.client.grant(30) else { return };
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
            2 => self.hosts[node].is_slow = !self.hosts[node].is_slow,
            _ => self.store.elect(),
        }
    }

    fn step(&mut self) {
        let Some(Reverse((time, _, event))) = self.events.pop() else { return };
        self.now = time;
        self.store.advance_to(time);
        self.world.run_until(time);
        match event {
            Event::Act(node) => self.act(node),
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
                    self.in_ms(5, Event::Act(node));
                }
            }
            Event::Connect(node) => self.hosts[node].client.set_partitioned(false),
            Event::Control(number) => {
                self.control(number);
                self.in_ms(40, Event::Control(number));
            }
            Event::Send(stream) => {
                let plan_network::Stream { talker, address, .. } = self.network.streams[stream];
                self.numbers[stream] += 1;
                self.world.send(talker as usize, address, self.numbers[stream], time);
                self.at(time + 5 * MS, Event::Send(stream));
            }
            Event::Fault => self.fault(),
        }
        // Each agent reads each 5 s.
        if self.order % 50 == 0 {
            let node = self.random.below(self.hosts.len());
            self.in_ms(500, Event::Wake(node));
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

/// Roll-outs of a fleet with faults; returns those that were possible, and how often one returned.
fn simulate(seed: u64, nodes: usize, streams: usize, rollouts: usize) -> (usize, usize) {
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
    (done, fleet.returns)
}

#[test]
fn every_frame_arrives_once_while_plans_change() {
    let (mut done, mut returns) = (0, 0);
    for seed in 1..=6 {
        let (rollouts, returned) = simulate(seed, 8 + seed as usize, 12, 3);
        done += rollouts;
        returns += returned;
    }
    eprintln!("{done} roll-outs, {returns} returned");
    assert!(done >= 12 && returns > 0, "{done}, {returns}");
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

/// Fleets of 10 to 1,000 nodes for `SOAK_SECONDS`, from seed `SOAK_SEED` on.
#[test]
#[ignore = "minutes: make soak SOAK=rollout"]
fn every_frame_arrives_once_in_larger_fleets() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (seconds, first) = (number("SOAK_SECONDS", 60), number("SOAK_SEED", 1));
    let start = std::time::Instant::now();
    // By the size of the fleet: roll-outs, and those that returned.
    let mut found: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for seed in first.. {
        if start.elapsed().as_secs() >= seconds {
            break;
        }
        let nodes = [10, 30, 10, 100, 10, 30, 300, 10, 30, 1000][(seed % 10) as usize];
        let (done, returned) = simulate(seed, nodes, 12 + nodes / 5, 5);
        let entry = found.entry(nodes).or_default();
        *entry = (entry.0 + done, entry.1 + returned);
    }
    eprintln!("nodes: (roll-outs, returned): {found:?}");
    println!("{}", found.values().map(|(done, _)| done).sum::<usize>());
}

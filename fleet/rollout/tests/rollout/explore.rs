//! All interleavings of small fleets, breadth first. The controllers and agents are those of the crate; store, disks,
//! nodes and time are models. What an explorer adds are faults: lost and late writes, unknown outcomes, processes killed
//! between two actions, nodes without power, lost leases, deadlines that pass, slow processes, a store that is restored.
//!
//! Rules that hold in every state:
//! 1. No node is more than one phase from another.
//! 2. Every node accepts the frames that are on their way: those that a node sends, and those sent less than D ago.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Instant;

use onbeat_rollout::agent::{Action, Agent, DiskRecord, Outcome};
use onbeat_rollout::controller::{
    ChangeTimes, Controller, Decision, ExpectedState, Goal, View, adopted,
};
use onbeat_rollout::record::FileHash;
use onbeat_rollout::{Current, Generation, NodeState, Phase, Step};

/// D in model time.
const D: u64 = 10;

/// The present: time passes by aging the memory of controllers.
const NOW: u64 = 100;

/// A mistake, as a control: some rule must break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// Acknowledgements count for any step.
    AcknowledgementWithoutStep,
    /// Without all acknowledgements, two phases back.
    TwoPhasesBack,
    /// The record is written without compare.
    WriteWithoutCompare,
    /// No acknowledgements are required.
    NoBarrier,
    /// Old paths are removed without waiting for D.
    NoDrainTime,
    /// A restored store continues with the states of its snapshot.
    StatesOfSnapshot,
    /// Controllers do not recognize a restored store by the number of its cluster.
    RestoreUnnoticed,
    /// Acknowledgements count with any hash.
    AcknowledgementWithoutHash,
}

/// What can happen beside lost and late writes, unknown outcomes and killed processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// A node starts from its file.
    Power,
    /// A node gets an empty disk.
    Replacement,
    /// A state ends with its lease.
    Lease,
    /// A node or its agent refuses.
    Refusal,
    /// The deadline passes.
    Deadline,
    /// The store is restored, once, from a snapshot of the start.
    Restore,
    /// A node keeps its stage without an error, and its agent acknowledges without a comparison of hashes.
    FaultyAgent,
}

/// What became of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Snapshot {
    /// Not restored.
    None,
    Restored,
    /// The states of the snapshot were removed.
    WithoutStates,
    /// It has the record of the nodes.
    Adopted,
}

/// What a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Stage {
    /// No file.
    Nothing,
    Plan(Generation),
    Mixture(Generation, Generation, Phase),
}

impl Stage {
    fn of(current: Current) -> Self {
        match current.phase {
            Phase::Rest => Self::Plan(current.from),
            Phase::Drain => Self::Plan(current.to),
            phase => Self::Mixture(current.from, current.to, phase),
        }
    }

    /// The file of the phases accept and prove is the same.
    fn hash(self) -> FileHash {
        let mut octets = [0; 32];
        let (kind, from, to) = match self {
            Self::Nothing => (0, 0, 0),
            Self::Plan(plan) => (1, plan, plan),
            Self::Mixture(from, to, Phase::Send) => (3, from, to),
            Self::Mixture(from, to, _) => (2, from, to),
        };
        octets[..3].copy_from_slice(&[kind, from as u8, to as u8]);
        FileHash(octets)
    }

    fn is_adjacent(self, other: Self) -> bool {
        let position = |stage, from, to| match stage {
            Self::Plan(plan) if plan == from => Some(0),
            Self::Plan(plan) if plan == to => Some(4),
            Self::Mixture(a, b, phase) if (a, b) == (from, to) => Some(phase as i8),
            _ => None,
        };
        match (self, other) {
            (Self::Nothing, _) | (_, Self::Nothing) => true,
            (Self::Mixture(from, to, phase), stage) | (stage, Self::Mixture(from, to, phase)) => {
                position(stage, from, to).is_some_and(|at| (at - phase as i8).abs() <= 1)
            }
            (a, b) => a == b,
        }
    }

    /// The plan whose frames a source sends.
    fn sends(self) -> Option<Generation> {
        match self {
            Self::Nothing => None,
            Self::Plan(plan) | Self::Mixture(_, plan, Phase::Send) | Self::Mixture(plan, ..) => {
                Some(plan)
            }
        }
    }

    fn accepts(self, plan: Generation) -> bool {
        match self {
            // As with any node without power.
            Self::Nothing => true,
            Self::Plan(own) => own == plan,
            Self::Mixture(from, to, _) => from == plan || to == plan,
        }
    }
}

/// A node with its agent and its state in the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Node {
    /// None: killed.
    agent: Option<Agent>,
    disk: Option<DiskRecord>,
    /// The node's file, with which it starts.
    file: Stage,
    running: Stage,
    state: Option<NodeState>,
    /// A write of its state that the store executes later.
    stray: Option<NodeState>,
}

/// A controller between two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Operator {
    controller: Controller,
    /// A record to write, by compare of the step that was read. The store can execute it at any later time.
    write: Option<(Current, Step)>,
}

/// A state of `A` nodes and `C` controllers, which are numbered by [`Interner`]s and in order: they are interchangeable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct World<const A: usize, const C: usize> {
    current: Current,
    is_late: bool,
    nodes: [u32; A],
    operators: [u32; C],
    /// Plans whose frames are on their way, as bits.
    in_flight: u8,
    snapshot: Snapshot,
}

/// Values by number.
struct Interner<T> {
    values: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T: Clone + Eq + Hash> Interner<T> {
    fn new() -> Self {
        Self { values: Vec::new(), numbers: HashMap::new() }
    }

    fn number(&mut self, value: T) -> u32 {
        let next = self.values.len() as u32;
        *self.numbers.entry(value).or_insert_with_key(|value| {
            self.values.push(value.clone());
            next
        })
    }

    fn get(&self, number: u32) -> &T {
        &self.values[number as usize]
    }
}

/// A fleet to explore.
#[derive(Debug, Clone, Copy)]
struct Fleet<'f> {
    /// Last step.
    steps: Step,
    /// The record at the start.
    start: Current,
    goals: &'f [Goal],
    mistake: Option<Mistake>,
    failures: &'f [Failure],
    /// Most states.
    limit: usize,
}

impl Fleet<'_> {
    fn has(&self, failure: Failure) -> bool {
        self.failures.contains(&failure)
    }
}

#[derive(Debug)]
struct Exploration {
    states: usize,
    /// States in which all nodes run the new plan.
    ends: usize,
    /// Actions that lead to a broken rule.
    broken: Option<Vec<String>>,
    is_complete: bool,
}

type Label = &'static str;

struct Explorer<'f, const A: usize, const C: usize> {
    fleet: Fleet<'f>,
    nodes: Interner<Node>,
    operators: Interner<Operator>,
    /// The successors of a node, given the record and whether a stray write is permitted.
    known: HashMap<(u32, Current, bool), Vec<(u32, Label)>>,
}

impl<'f, const A: usize, const C: usize> Explorer<'f, A, C> {
    fn new(fleet: Fleet<'f>) -> Self {
        let (nodes, operators) = (Interner::new(), Interner::new());
        Self { fleet, nodes, operators, known: HashMap::new() }
    }

    fn first(&mut self) -> World<A, C> {
        let current = self.fleet.start;
        let stage = Stage::of(current);
        let saved = DiskRecord { current, hash: stage.hash() };
        let node = Node {
            agent: Some(Agent::start(7, Some(saved))),
            disk: Some(saved),
            file: stage,
            running: stage,
            state: None,
            stray: None,
        };
        let nodes = [self.nodes.number(node); A];
        let operators = [self.operators.number(Operator::default()); C];
        let before = Stage::of(Current { phase: current.prev, ..current });
        let before = before.sends().map_or(0, |plan| 1 << plan);
        self.settle(World {
            current,
            is_late: false,
            nodes,
            operators,
            in_flight: before,
            snapshot: Snapshot::None,
        })
    }

    /// Notes what nodes send, removes what has no effect, and orders nodes and operators.
    fn settle(&mut self, mut world: World<A, C>) -> World<A, C> {
        for number in &mut world.nodes {
            let node = self.nodes.get(*number);
            world.in_flight |= node.running.sends().map_or(0, |plan| 1 << plan);
            // Acknowledgements of former steps do not count.
            let is_old = |state: &NodeState| state.current.step < world.current.step;
            let counts = self.fleet.mistake == Some(Mistake::AcknowledgementWithoutStep);
            if !counts && node.state.as_ref().is_some_and(is_old) {
                *number = self.nodes.number(Node { state: None, ..node.clone() });
            }
        }
        world.nodes.sort_unstable();
        world.operators.sort_unstable();
        world
    }

    fn broken(&self, world: &World<A, C>) -> Option<String> {
        let running = world.nodes.map(|node| self.nodes.get(node).running);
        for (number, stage) in running.iter().enumerate() {
            if let Some(other) = running[..number].iter().find(|other| !other.is_adjacent(*stage)) {
                return Some(format!("{stage:?} beside {other:?}"));
            }
            let mut plans = (0..8).filter(|plan| world.in_flight & 1 << plan != 0);
            if let Some(plan) = plans.find(|plan| !stage.accepts(*plan)) {
                return Some(format!("{stage:?} with frames of plan {plan}"));
            }
        }
        None
    }

    /// All states after one action.
    fn successors(
        &mut self,
        world: World<A, C>,
        visit: &mut impl FnMut(&Self, World<A, C>, Label),
    ) {
        let has_stray = world.nodes.iter().any(|node| self.nodes.get(*node).stray.is_some());
        for number in 0..A {
            let key = (world.nodes[number], world.current, !has_stray);
            if !self.known.contains_key(&key) {
                let found = self.node_successors(key.0, world.current, !has_stray);
                self.known.insert(key, found);
            }
            for index in 0..self.known[&key].len() {
                let (node, label) = self.known[&key][index];
                let mut next = world;
                next.nodes[number] = node;
                let next = self.settle(next);
                visit(self, next, label);
            }
        }
        for number in 0..C {
            let mut put = |this: &mut Self, operator, mut next: World<A, C>, label| {
                next.operators[number] = this.operators.number(operator);
                let next = this.settle(next);
                visit(this, next, label);
            };
            for operator in self.decisions(&world, number) {
                put(self, operator, world, "controller reads and decides");
            }
            let operator = *self.operators.get(world.operators[number]);
            if let Some((current, read)) = operator.write {
                let ignores = self.fleet.mistake == Some(Mistake::WriteWithoutCompare);
                let next = match world.current.step == read || ignores {
                    true => World { current, is_late: false, ..world },
                    false => world,
                };
                put(self, Operator { write: None, ..operator }, next, "store writes the record");
            }
            put(self, Operator::default(), world, "controller killed");
        }
        if self.fleet.has(Failure::Restore) {
            if let Some((next, label)) = self.restored(world) {
                let next = self.settle(next);
                visit(self, next, label);
            }
        }
        if self.fleet.has(Failure::Deadline) {
            visit(self, World { is_late: true, ..world }, "deadline passes");
        }
        // Time for all frames to arrive.
        let mut next = World { in_flight: 0, ..world };
        for number in &mut next.operators {
            let mut operator = *self.operators.get(*number);
            operator.controller.age(D, NOW - D);
            *number = self.operators.number(operator);
        }
        let next = self.settle(next);
        visit(self, next, "D passes");
    }

    /// The next state of a store that is restored. Requests to the old servers end with them.
    fn restored(&mut self, world: World<A, C>) -> Option<(World<A, C>, Label)> {
        let states = world.nodes.map(|node| self.nodes.get(node).state.clone());
        let mut with_states = |state: Option<NodeState>| {
            world.nodes.map(|number| {
                let node = self.nodes.get(number).clone();
                self.nodes.number(Node { state: state.clone(), stray: None, ..node })
            })
        };
        let next = match world.snapshot {
            Snapshot::None => {
                let current = self.fleet.start;
                let nodes = with_states(Some(acknowledged(current)));
                let operators = [self.operators.number(Operator::default()); C];
                let snapshot = Snapshot::Restored;
                (World { current, is_late: true, nodes, operators, snapshot, ..world }, "restore")
            }
            Snapshot::Restored => {
                let keeps = self.fleet.mistake == Some(Mistake::StatesOfSnapshot);
                let nodes = if keeps { world.nodes } else { with_states(None) };
                let snapshot = Snapshot::WithoutStates;
                (World { nodes, snapshot, ..world }, "states of the snapshot removed")
            }
            Snapshot::WithoutStates => {
                let current = adopted(&states).filter(|next| next.step > world.current.step + 1)?;
                let snapshot = Snapshot::Adopted;
                (
                    World { current, is_late: false, snapshot, ..world },
                    "record of the nodes adopted",
                )
            }
            Snapshot::Adopted => return None,
        };
        Some(next)
    }

    /// Reads and decides, for all intentions.
    fn decisions(&self, world: &World<A, C>, number: usize) -> Vec<Operator> {
        let current = world.current;
        let mistake = self.fleet.mistake;
        let mut states = world.nodes.map(|node| self.nodes.get(node).state.clone());
        for state in &mut states {
            if mistake != Some(Mistake::AcknowledgementWithoutHash) {
                *state = state.take().map(|state| expected(current).judge(&current, state));
            }
            match mistake {
                Some(Mistake::AcknowledgementWithoutStep) => {
                    state.iter_mut().for_each(|state| state.current.step = current.step);
                }
                Some(Mistake::NoBarrier) => *state = Some(acknowledged(current)),
                _ => {}
            }
        }
        let view = View { current, states: &states, is_late: world.is_late };
        let drain_ns = if mistake == Some(Mistake::NoDrainTime) { 0 } else { D };
        let waits = ChangeTimes { drain_ns, soak_ns: drain_ns.min(1) };
        let is_unknown = matches!(world.snapshot, Snapshot::Restored | Snapshot::WithoutStates);
        if is_unknown && mistake != Some(Mistake::RestoreUnnoticed) {
            return Vec::new();
        }
        let mut found: Vec<Operator> = Vec::new();
        for goal in self.fleet.goals {
            let mut operator = *self.operators.get(world.operators[number]);
            let decision = operator.controller.decide(&view, waits, *goal, NOW);
            operator.write = match decision {
                Decision::Write(mut next) if next.step <= self.fleet.steps => {
                    let is_back = next.phase < current.phase && next.from == current.from;
                    let is_unconfirmed = view.missing().next().is_some();
                    if mistake == Some(Mistake::TwoPhasesBack) && is_back && is_unconfirmed {
                        next.phase = next.phase.before().unwrap_or(next.phase);
                    }
                    Some((next, current.step))
                }
                _ => None,
            };
            if !found.contains(&operator) {
                found.push(operator);
            }
        }
        found
    }

    /// A node after each of its actions. Actions that no other process can observe are one with the action before.
    fn node_successors(
        &mut self,
        number: u32,
        current: Current,
        permits_stray: bool,
    ) -> Vec<(u32, Label)> {
        let fleet = self.fleet;
        let node = self.nodes.get(number).clone();
        let mut found: Vec<(Node, Label)> = Vec::new();
        let with = |edit: &mut dyn FnMut(&mut Node)| {
            let mut next = node.clone();
            edit(&mut next);
            next
        };
        if let Some(state) = &node.stray {
            let late = with(&mut |node| (node.state, node.stray) = (Some(state.clone()), None));
            found.push((late, "late acknowledgement"));
        }
        if fleet.has(Failure::Lease) {
            found.push((with(&mut |node| node.state = None), "lease lost"));
        }
        if fleet.has(Failure::Power) {
            let off = with(&mut |node| (node.agent, node.running) = (None, node.file));
            found.push((off, "power lost"));
        }
        if fleet.has(Failure::Replacement) {
            let other = with(&mut |node| {
                *node = Node {
                    agent: None,
                    disk: None,
                    file: Stage::Nothing,
                    running: Stage::Nothing,
                    state: None,
                    stray: node.stray.take(),
                };
            });
            found.push((other, "node replaced"));
        }
        match &node.agent {
            None => {
                let start = with(&mut |node| node.agent = Some(Agent::start(7, node.disk)));
                found.push((start, "agent starts"));
            }
            Some(_) => {
                found.push((with(&mut |node| node.agent = None), "agent killed"));
                found.extend(self.outcomes(&node, current, permits_stray));
            }
        }
        // What no other process can observe is one with the action before: a read that waits is a later read, and an
        // agent that is killed meanwhile could have been killed before.
        let mut numbers = Vec::new();
        while let Some((node, label)) = found.pop() {
            let is_hidden = |agent: &Agent| {
                let action = agent.action();
                matches!(
                    action,
                    Action::Prepare(_)
                        | Action::Inspect
                        | Action::Prove(_)
                        | Action::Count(_)
                        | Action::Read
                )
            };
            if node.agent.as_ref().is_some_and(is_hidden) {
                let outcomes = self.outcomes(&node, current, permits_stray);
                found.extend(outcomes.into_iter().map(|(node, _)| (node, label)));
                continue;
            }
            let number = self.nodes.number(node);
            if !numbers.iter().any(|(other, _)| *other == number) {
                numbers.push((number, label));
            }
        }
        numbers
    }

    /// A node after its agent's action in progress.
    fn outcomes(&self, node: &Node, current: Current, permits_stray: bool) -> Vec<(Node, Label)> {
        let fleet = self.fleet;
        let mut found = Vec::new();
        let agent = node.agent.as_ref().expect("it runs");
        let mut complete = |label, outcome: Outcome, edit: &mut dyn FnMut(&mut Node)| {
            let mut next = node.clone();
            edit(&mut next);
            next.agent.as_mut().expect("it runs").complete(outcome);
            found.push((next, label));
        };
        let nothing = &mut |_: &mut Node| {};
        match agent.action() {
            Action::Idle => {
                let mut next = node.clone();
                next.agent.as_mut().expect("it runs").wake();
                found.push((next, "agent wakes"));
            }
            Action::Read => {
                let own = node.state.clone();
                let read = Outcome::Read { current: Some(current), own, revision: 1 };
                complete("agent reads", read, nothing);
                complete("agent cannot read", Outcome::Failed, nothing);
            }
            Action::Prepare(current) => {
                complete("agent prepares", Outcome::Hash(Stage::of(current).hash()), nothing);
                if fleet.has(Failure::Refusal) {
                    complete("agent refuses", Outcome::Refused(String::new()), nothing);
                }
            }
            Action::Save(saved) => {
                let save = &mut |node: &mut Node| node.disk = Some(saved);
                complete("agent saves", Outcome::Done, save);
                complete("agent saves, unknown", Outcome::Failed, save);
            }
            Action::Apply(saved) => {
                let stage = Stage::of(saved.current);
                let apply = &mut |node: &mut Node| (node.file, node.running) = (stage, stage);
                complete("node applies", Outcome::Done, apply);
                complete("node applies, unknown", Outcome::Failed, apply);
                complete("node does not apply", Outcome::Failed, nothing);
                // The file of accept is that of prove: a node with one has the other.
                if fleet.has(Failure::FaultyAgent) && node.running.hash() != stage.hash() {
                    complete("node keeps its stage", Outcome::Done, nothing);
                }
                if fleet.has(Failure::Power) {
                    let write = &mut |node: &mut Node| node.file = stage;
                    complete("node has its file only", Outcome::Failed, write);
                }
                if fleet.has(Failure::Refusal) {
                    complete("node refuses", Outcome::Refused(String::new()), nothing);
                }
            }
            Action::Inspect => {
                complete("agent inspects", Outcome::Hash(node.running.hash()), nothing);
                if let Some(saved) = agent.saved().filter(|_| fleet.has(Failure::FaultyAgent)) {
                    complete("agent compares no hashes", Outcome::Hash(saved.hash), nothing);
                }
            }
            Action::Prove(_) => {
                complete("probes arrive", Outcome::Proved { counted: 1, missing: 0 }, nothing);
                complete("probes are lost", Outcome::Proved { counted: 0, missing: 1 }, nothing);
            }
            Action::Count(_) => {
                complete("no frame is lost", Outcome::Lost(0, String::new()), nothing);
                if fleet.has(Failure::Refusal) {
                    complete("frames are lost", Outcome::Lost(1, String::new()), nothing);
                }
            }
            // The store ignores the compare: late writes then succeed that a store refuses.
            Action::Acknowledge(mut state, _) => {
                if state.ok && fleet.has(Failure::FaultyAgent) {
                    state.hash = node.running.hash();
                }
                let put = &mut |node: &mut Node| node.state = Some(state.clone());
                complete("agent acknowledges", Outcome::Done, put);
                complete("acknowledgement lost", Outcome::Failed, nothing);
                if permits_stray {
                    let stray = &mut |node: &mut Node| node.stray = Some(state.clone());
                    complete("acknowledgement is late", Outcome::Failed, stray);
                }
            }
        }
        found
    }

    fn explore(mut self) -> Exploration {
        let first = self.first();
        // Each state with the state and action before it.
        let mut seen: HashMap<World<A, C>, (World<A, C>, Label)> = HashMap::new();
        let keeps_traces = self.fleet.mistake.is_some()
            || self.fleet.has(Failure::Restore)
            || self.fleet.has(Failure::FaultyAgent);
        let mut visited: HashSet<World<A, C>> = HashSet::from([first]);
        let mut open = VecDeque::from([first]);
        let (mut ends, mut broken) = (0, None);
        while let (Some(world), None, true) =
            (open.pop_front(), &broken, visited.len() < self.fleet.limit)
        {
            self.successors(world, &mut |this, next, label| {
                if broken.is_some() || !visited.insert(next) {
                    return;
                }
                if keeps_traces {
                    seen.insert(next, (world, label));
                }
                if let Some(rule) = this.broken(&next) {
                    let mut trace = vec![rule];
                    let mut at = next;
                    while let Some((before, label)) = seen.get(&at) {
                        trace.push((*label).to_owned());
                        at = *before;
                    }
                    trace.reverse();
                    broken = Some(trace);
                }
                let is_end = |node: &u32| this.nodes.get(*node).running == Stage::Plan(1);
                ends += usize::from(next.nodes.iter().all(is_end));
                open.push_back(next);
            });
        }
        let is_complete = open.is_empty();
        Exploration { states: visited.len(), ends, broken, is_complete }
    }
}

/// What each node must report.
fn expected(current: Current) -> ExpectedState {
    ExpectedState { hash: Stage::of(current).hash(), new_members: 1 }
}

fn acknowledged(current: Current) -> NodeState {
    NodeState {
        current,
        hash: expected(current).hash,
        ok: true,
        why: String::new(),
        instance: 7,
        proved: 1,
        lost: 0,
        proof: String::new(),
    }
}

/// A roll-out, and its return at any time: what a refusal or a missed deadline leads to is part of it.
const GOALS: &[Goal] = &[Goal::Reach(1), Goal::Return];

const BASE: Fleet<'static> = Fleet {
    steps: 5,
    start: Current::FIRST,
    goals: GOALS,
    mistake: None,
    failures: &[],
    limit: 2_000_000,
};

/// Explores a fleet without mistakes.
fn holds<const A: usize, const C: usize>(name: &str, fleet: Fleet<'_>) -> Exploration {
    let start = Instant::now();
    let found = Explorer::<A, C>::new(fleet).explore();
    eprintln!("{name}: {} states in {:.1?}", found.states, start.elapsed());
    assert_eq!(found.broken, None, "{name}");
    assert!(found.is_complete, "{name}: {} states", found.states);
    found
}

/// All sources send along the new paths, and the last old frames are on their way.
const SENDING: Fleet<'static> = Fleet {
    steps: 8,
    start: Current { step: 4, from: 0, to: 1, phase: Phase::Send, prev: Phase::Prove },
    ..BASE
};

#[test]
fn no_interleaving_of_a_small_fleet_breaks_a_rule() {
    let found = holds::<2, 1>("2 agents, 1 controller, 6 steps", Fleet { steps: 6, ..BASE });
    assert!(found.ends > 0, "no roll-out ends");
    holds::<2, 2>("2 agents, 2 controllers, 4 steps", Fleet { steps: 4, ..BASE });
    // A roll-out that is complete, and the next one with the labels of the first.
    let found = holds::<2, 1>(
        "from send on, another plan",
        Fleet { goals: &[Goal::Continue, Goal::Return, Goal::Reach(2)], ..SENDING },
    );
    assert!(found.ends > 0, "no roll-out ends");
    // Nothing but the goal: what makes it return is a refusal or the deadline.
    let goals = &[Goal::Reach(1)];
    for failure in [Failure::Power, Failure::Lease, Failure::Deadline] {
        let name = format!("{failure:?}");
        holds::<2, 1>(&name, Fleet { failures: &[failure], ..BASE });
    }
    for failure in [Failure::Replacement, Failure::Refusal] {
        let name = format!("{failure:?}, 3 steps");
        holds::<2, 1>(&name, Fleet { failures: &[failure], steps: 3, goals, ..BASE });
    }
    let faulty = Fleet { failures: &[Failure::FaultyAgent], steps: 4, ..BASE };
    holds::<2, 1>("FaultyAgent, 4 steps", faulty);
    holds::<2, 1>("restored store", Fleet { failures: &[Failure::Restore], steps: 4, ..BASE });
}

#[test]
fn each_mistake_of_the_protocol_breaks_a_rule() {
    let breaks = |name: &str, found: Exploration| {
        let trace = found.broken.unwrap_or_else(|| panic!("{name}: nothing broken"));
        eprintln!("{name}: {} states\n  {}", found.states, trace.join("\n  "));
        assert!(trace.len() > 3, "{name}");
    };
    let with = |mistake| Fleet { mistake: Some(mistake), ..BASE };
    let without_step = with(Mistake::AcknowledgementWithoutStep);
    breaks("acknowledgement without step", Explorer::<2, 1>::new(without_step).explore());
    breaks("two phases back", Explorer::<2, 1>::new(with(Mistake::TwoPhasesBack)).explore());
    breaks("no compare", Explorer::<2, 2>::new(with(Mistake::WriteWithoutCompare)).explore());
    breaks("no barrier", Explorer::<2, 1>::new(with(Mistake::NoBarrier)).explore());
    breaks("no drain time", Explorer::<2, 1>::new(with(Mistake::NoDrainTime)).explore());
    let without_hash = with(Mistake::AcknowledgementWithoutHash);
    let fleet = Fleet { failures: &[Failure::FaultyAgent], steps: 4, ..without_hash };
    breaks("acknowledgement without hash", Explorer::<2, 1>::new(fleet).explore());
    for mistake in [Mistake::StatesOfSnapshot, Mistake::RestoreUnnoticed] {
        let fleet = Fleet { failures: &[Failure::Restore], steps: 7, ..with(mistake) };
        breaks(&format!("{mistake:?}"), Explorer::<2, 1>::new(fleet).explore());
    }
}

/// The states of the soak: run by `make soak SOAK=rollout`, which prints them.
#[test]
#[ignore = "minutes: make soak SOAK=rollout"]
fn no_interleaving_of_larger_fleets_breaks_a_rule() {
    let base = Fleet { limit: 30_000_000, ..BASE };
    let sending = Fleet {
        goals: &[Goal::Continue, Goal::Return, Goal::Reach(2)],
        limit: base.limit,
        ..SENDING
    };
    let states = [
        holds::<3, 1>("3 agents, 1 controller, 5 steps", base),
        holds::<2, 2>("2 agents, 2 controllers, 6 steps", Fleet { steps: 6, ..base }),
        holds::<2, 1>("2 agents, 1 controller, 9 steps", Fleet { steps: 9, ..base }),
        holds::<2, 2>("from send on, 2 agents, 2 controllers", sending),
        holds::<3, 1>("from send on, 3 agents, 1 controller", sending),
        holds::<2, 1>(
            "power, leases, deadlines",
            Fleet { failures: &[Failure::Power, Failure::Lease, Failure::Deadline], ..base },
        ),
        holds::<2, 1>(
            "refusals, power",
            Fleet { failures: &[Failure::Refusal, Failure::Power], ..base },
        ),
        holds::<2, 1>(
            "replaced nodes, leases",
            Fleet { failures: &[Failure::Replacement, Failure::Lease], ..base },
        ),
        holds::<2, 1>("faulty agents", Fleet { failures: &[Failure::FaultyAgent], ..base }),
        holds::<2, 1>("restored store", Fleet { failures: &[Failure::Restore], steps: 6, ..base }),
    ];
    println!("{}", states.map(|found| found.states).iter().sum::<usize>());
}

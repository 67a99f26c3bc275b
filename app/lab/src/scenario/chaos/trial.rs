//! Trial of one network: build, disturb, capture, check.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use onbeat_node::control::{NodeStatus, StreamStatus};
use onbeat_realtime::clock::{SECOND, now_ns};
use onbeat_realtime::interrupt::{pause_until, wait_until};
use onbeat_report::format::count;

use super::super::options::DataPlaneOptions;
use super::super::stage::Stage;
use super::actions::{self, ActionLog, Actor, host, topology};
use super::capture::{CapturedFrames, PortCaptures};
use super::check::{
    NodeCounters, RecoveryCounters, Sighting, StreamCounters, TrialCase, Verdict, check,
};
use super::decode::DecodeResult;
use super::plan::{HOST, Node, Plan};
use super::schedule::Step;
use super::spec::Function;
use super::talkers::{Rates, Talker};
use super::tick;
use crate::{Result, World};

/// Time without captured frames after which no frame is in flight. A wire holds frames for half a
/// second at most.
const QUIET_NS: u64 = 700_000_000;
const BOUND: Duration = Duration::from_secs(30);

/// Result of the trial of a network.
pub(super) struct Trial {
    pub(super) plan: Plan,
    pub(super) steps: Vec<Step>,
    pub(super) log: ActionLog,
    pub(super) captured: CapturedFrames,
    /// Reasons why the captures are incomplete; empty: they are complete.
    pub(super) inconclusive: Vec<String>,
    pub(super) verdict: Verdict,
}

/// Configured functions of nodes, by node and stream.
pub(super) type NodeFunctions = Vec<Vec<Option<Function>>>;

/// The functions of the plan.
pub(super) fn as_planned(plan: &Plan) -> NodeFunctions {
    let nodes = 0..plan.nodes.len();
    nodes.map(|node| plan.streams.iter().map(|s| s.functions[node].clone()).collect()).collect()
}

/// Runs a network for its planned time, or until CLOCK_MONOTONIC reaches `end_ns`.
pub(super) fn run(
    stage: &mut Stage<'_>,
    plane: &DataPlaneOptions,
    plan: Plan,
    configured: &NodeFunctions,
    steps: Vec<Step>,
    end_ns: u64,
) -> Result<Trial> {
    let program: PathBuf = stage.onbeat_bin().to_owned();
    let mut world = stage.open(&topology(&plan, configured), plane)?;
    let (captures, ticks) = (PortCaptures::start()?, tick::ClockMonitor::start()?);
    let rates: Rates =
        Arc::new(plan.streams.iter().map(|stream| AtomicU64::new(stream.rate)).collect());
    let log = ActionLog::new(&plan);
    let mut actor = Actor {
        plan: &plan,
        world: &mut world,
        captures: &captures,
        rates: &rates,
        program: &program,
        log,
    };
    actor.capture_all()?;
    let mut talkers = Vec::new();
    for east in [true, false] {
        // The talkers of streams to the east are in the west.
        let namespace = actor.world.namespace(host(!east))?;
        talkers.push(Talker::start(namespace, "eth0", &plan.streams, east, &rates)?);
    }
    let start_ns = now_ns();
    let mut show = |what: &str| {
        let frames = count(captures.frames(), "frame");
        stage
            .progress
            .update(|| format!("chaos: network {:#x}: {what}; {frames} captured", plan.seed));
    };
    let life_ns = (start_ns + plan.life_ms * 1_000_000).min(end_ns.max(start_ns + SECOND));
    let mut open = BTreeSet::new();
    for (number, step) in steps.iter().enumerate() {
        let due = start_ns + step.at_ms * 1_000_000;
        // With less time, started faults are reverted, and no other one starts.
        let object = step.action.object();
        let acts = match step.action.ends() {
            true => open.remove(&object),
            false => due <= life_ns && (open.insert(object) || object.0 == "rate"),
        };
        if !acts {
            continue;
        }
        let what = step.action.to_string();
        pause_until(due.min(life_ns), || show(&what))?;
        actor.act(number, step)?;
    }
    pause_until(life_ns, || show("no more faults"))?;
    let refused: u64 = talkers.into_iter().map(Talker::stop).sum();
    let log = actor.log;
    let mut inconclusive = doubts(&plan, &world, refused, log.overrun)?;
    let (statuses, settled) = settled_statuses(stage, &world, &captures)?;
    if !settled {
        inconclusive.push(format!(
            "frames still arrived {} s after the last transmission",
            BOUND.as_secs()
        ));
    }
    drop(world);
    let captured = captures.stop();
    let clock_late_ns = ticks.latest_ns();
    Ok(evaluate(plan, steps, log, captured, (&statuses, clock_late_ns), inconclusive))
}

/// Reads the counters of nodes until they are stable; also returns whether they became stable.
fn settled_statuses(
    stage: &Stage<'_>,
    world: &World,
    captures: &PortCaptures,
) -> Result<(Vec<NodeStatus>, bool)> {
    let end_ns = now_ns() + BOUND.as_nanos() as u64;
    let quiet = || wait_until(BOUND, || captures.quiet_ns() > QUIET_NS);
    quiet()?;
    loop {
        let frames = captures.frames();
        let statuses = stage.statuses(world)?;
        // A node without CPU time may have counted queued frames since.
        let from_ns = now_ns();
        pause_until(from_ns + QUIET_NS, || ())?;
        let settled = quiet()? && captures.frames() == frames;
        if settled || now_ns() > end_ns {
            return Ok((statuses, settled));
        }
    }
}

/// Lost frames that make the trial inconclusive.
fn doubts(plan: &Plan, world: &World, refused: u64, overrun: u64) -> Result<Vec<String>> {
    let mut doubts = Vec::new();
    if refused > 0 {
        doubts.push(format!("interfaces of the hosts refused {}", count(refused, "frame")));
    }
    let overrun = overrun + world.wires().map(|(_, wire)| actions::overrun(wire)).sum::<u64>();
    if overrun > 0 {
        doubts.push(format!("queues of links overflowed: {} lost", count(overrun, "frame")));
    }
    // No fault affects these interfaces: they drop only if queues are full, outside of the checked
    // nodes.
    for east in [false, true] {
        let node = &plan.nodes[plan.edge(east)].name;
        let dropped = world.handle(node)?.statistics(HOST)?.tx_dropped;
        if dropped > 0 {
            doubts.push(format!("the host of {node} dropped {}", count(dropped, "frame")));
        }
    }
    Ok(doubts)
}

/// Runs the checker.
pub(super) fn evaluate(
    plan: Plan,
    steps: Vec<Step>,
    log: ActionLog,
    captured: CapturedFrames,
    (statuses, clock_late_ns): (&[NodeStatus], u64),
    mut inconclusive: Vec<String>,
) -> Trial {
    if captured.missed > 0 {
        inconclusive.push(format!("the captures missed {}", count(captured.missed, "frame")));
    }
    let mut foreign: Vec<Vec<u64>> =
        plan.nodes.iter().map(|node| vec![0; node.ports.len()]).collect();
    let mut sightings = Vec::with_capacity(captured.frames.len());
    let mut corrupted = 0;
    for (index, frame) in captured.frames.iter().enumerate() {
        let point = frame.point;
        match frame.what {
            DecodeResult::TalkerFrame(seen) if (seen.stream as usize) < plan.streams.len() => {
                sightings.push(Sighting {
                    at: frame.at,
                    node: point.node,
                    port: point.port,
                    entering: frame.entering,
                    stream: seen.stream as usize,
                    sequence: seen.sequence,
                    number: seen.number,
                    destination: seen.destination,
                    vlan: seen.vlan,
                    index,
                });
            }
            DecodeResult::Corrupted => corrupted += 1,
            DecodeResult::Foreign | DecodeResult::TalkerFrame(_) if frame.entering => {
                foreign[point.node][point.port] += 1;
            }
            DecodeResult::Foreign | DecodeResult::TalkerFrame(_) => {}
        }
    }
    let names = |node: &Node| {
        (node.name.clone(), node.ports.iter().map(|port| port.name.clone()).collect())
    };
    let counted = plan.nodes.iter().map(|node| {
        let status = statuses.iter().find(|status| status.node == node.name);
        status.map(|status| counted(&plan, node, status))
    });
    let case = TrialCase {
        nodes: plan.nodes.iter().map(names).collect(),
        streams: plan.streams.iter().map(|stream| stream.name.clone()).collect(),
        eras: log.eras.clone(),
        disturbances: log.disturbances.clone(),
        sightings,
        corrupted,
        foreign,
        clock_late_ns,
        counted: counted.collect(),
    };
    let verdict = check(&case);
    Trial { plan, steps, log, captured, inconclusive, verdict }
}

/// The counters in a node's status, by number instead of by name.
fn counted(plan: &Plan, node: &Node, status: &NodeStatus) -> NodeCounters {
    let place = |name: &str| node.ports.iter().position(|port| port.name == name);
    let by_port = |value: fn(&onbeat_node::control::PortStatus) -> u64| {
        let of = |name: &str| status.ports.iter().find(|port| port.name == name).map_or(0, value);
        node.ports.iter().map(|port| of(&port.name)).collect()
    };
    let stream = |stream: &StreamStatus| StreamCounters {
        inputs: stream
            .members
            .iter()
            .filter_map(|member| Some((place(&member.port)?, member.input_packets)))
            .collect(),
        individual: stream
            .members
            .iter()
            .filter_map(|member| {
                Some((place(&member.port)?, member.individual.as_ref()?.counters.discarded))
            })
            .collect(),
        outputs: stream
            .egress
            .iter()
            .filter_map(|egress| Some((place(&egress.port)?, egress.output_packets)))
            .collect(),
        recovery: stream.recovery.as_ref().map(|recovery| RecoveryCounters {
            passed: recovery.counters.passed,
            discarded: recovery.counters.discarded,
            rogue: recovery.counters.rogue,
            tagless: recovery.counters.tagless,
        }),
        next_number: stream.generation.as_ref().map(|generation| generation.gen_seq_num),
    };
    let find = |name: &str| status.streams.iter().find(|other| other.name == name).map(stream);
    NodeCounters {
        streams: plan.streams.iter().map(|stream| find(&stream.name)).collect(),
        unmatched: by_port(|port| port.unmatched),
        inputs: by_port(|port| port.input_packets),
    }
}

impl Trial {
    /// The last executed step of the schedule before a time, with its number.
    pub(super) fn step_at(&self, at: u64) -> Option<(usize, &Step)> {
        let done = self.log.done.iter().rposition(|(_, span)| span.from <= at)?;
        let number = self.log.done[done].0;
        Some((number, &self.steps[number]))
    }
}

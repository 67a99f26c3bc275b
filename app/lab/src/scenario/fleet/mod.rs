//! Plans are rolled out to a plant while its streams flow, and while links, agents, the controller and etcd fail.
//!
//! ```text
//!   etcd0 etcd1 etcd2          management network: loopback of one namespace
//!      \    |    /
//!   controller, agents --- control sockets --- nodes: a ladder of rings (`network`), one namespace each
//!                                                |
//!                                              hosts: all streams (`traffic`)
//! ```
//!
//! Frames are judged where they arrive: at the hosts of the listeners. At most one link is cut at a time, so a path of each
//! stream is left: no frame may be lost or arrive twice. The control, the same change in one step, must lose frames.

mod faults;
mod network;
mod plant;
mod process;
mod report;
mod rollout;
mod store;
mod stub;
mod traffic;

use std::path::Path;
use std::time::Duration;

use onbeat_node::control::{Client, Request};
use onbeat_realtime::clock::{SECOND, now_ns};
use onbeat_realtime::interrupt::pause;
use onbeat_report::format::count;

use self::faults::FaultDeck;
use self::network::{Ladder, PlanOutput};
use self::plant::{Plant, RolloutEnd};
use self::process::{Launcher, Process};
use self::report::{AgentFigures, FleetReport, OutageReport, TrafficReport};
use self::rollout::{RolloutRecord, RolloutSequence};
use self::store::{Etcd, require_etcd};
use self::stub::NodeStubs;
use self::traffic::{DeliveryCounts, Traffic};
use super::options::{DataPlaneOptions, SeedOptions};
use super::stage::Stage;
use crate::world::Mounts;
use crate::{Error, Result, Topology, World};

const NODES: u32 = 12;
const STREAMS: u32 = 1000;
const RATE: u64 = 2000;
/// Streams per node for which the tables of nodes have room during a roll-out.
const STREAMS_PER_NODE: u32 = 150;
/// Most nodes of which a drawing is readable.
const DRAWN: u32 = 16;

/// Time for which idle agents are observed: longer than their interval of 5 s.
const IDLE: Duration = Duration::from_secs(6);
/// Time for which requests of agents are counted before and after an outage of etcd: two intervals of agents.
const OBSERVED: Duration = Duration::from_secs(10);
/// Time of the control before and after its change.
const CONTROL: Duration = Duration::from_secs(1);

/// Directory of etcd, credentials, plans and logs, in the private /run of the world.
const DIRECTORY: &str = onbeat_host::run_directory!("lab/fleet");

/// Options of the scenario.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    plane: DataPlaneOptions,
    /// Number of nodes, a multiple of 4, at least 8
    #[arg(long, value_name = "NUMBER", default_value_t = NODES, value_parser = clap::value_parser!(u32).range(1..=1000))]
    nodes: u32,
    /// Number of streams, at most 150 for each node
    #[arg(long, value_name = "NUMBER", default_value_t = STREAMS, value_parser = clap::value_parser!(u32).range(1..))]
    streams: u32,
    /// Number of roll-outs
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rollouts: u32,
    /// Frames per second of all streams together
    #[arg(long, value_name = "FRAMES", default_value_t = RATE, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,
    /// Stop all servers of etcd for this time before the roll-outs
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=86_400))]
    outage: u64,
    /// Answer agents instead of running nodes: time of store and agents alone, without traffic and faults
    #[arg(long, conflicts_with_all = ["backend", "rate", "outage"])]
    no_nodes: bool,
    /// Inject no faults: time of roll-outs
    #[arg(long, conflicts_with = "no_nodes")]
    no_faults: bool,
    #[command(flatten)]
    pub(super) seed: SeedOptions,
}

impl Options {
    fn ladder(&self) -> Result<Ladder> {
        let refused = |option, value: u32, reason: String| {
            Err(Error::Option { option, value: value.to_string(), reason })
        };
        if self.nodes < 8 || self.nodes % 4 != 0 {
            let reason = "use a multiple of 4, at least 8: rings have 4 nodes";
            return refused("nodes", self.nodes, reason.into());
        }
        let most = STREAMS_PER_NODE * self.nodes;
        if self.streams > most {
            let (streams, nodes) = (count(most as u64, "stream"), count(self.nodes as u64, "node"));
            let reason = format!("use at most {streams} with {nodes}");
            return refused("streams", self.streams, reason);
        }
        Ok(Ladder::draw(self.nodes, self.streams, self.rate, self.seed.seed))
    }
}

/// The network of the default options.
pub(super) fn network() -> Topology {
    Ladder::draw(NODES, STREAMS, RATE, 1).topology(None)
}

pub(super) fn play(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    require_etcd()?;
    let ladder = options.ladder()?;
    stage.show_step("planning");
    let plans = ladder.plans()?;
    if options.no_nodes {
        return without_nodes(stage, options, &ladder, &plans);
    }
    let world = build(stage, &ladder, &plans[0], options)?;
    let mut plant = start(stage, &ladder, &plans)?;
    let traffic = Traffic::start(&world, &ladder, options.rate)?;
    let start_ns = now_ns();
    // Before the first change each stream has sent.
    while traffic.sent() < u64::from(options.streams) {
        pause(Duration::from_millis(20))?;
        stage.show_step("all streams start");
    }
    let outage = match options.outage {
        0 => None,
        seconds => Some(interrupt_store(stage, &mut plant, Duration::from_secs(seconds))?),
    };
    let deck = (!options.no_faults).then(|| FaultDeck::new(options.seed.seed));
    let faults = deck.map(|deck| (deck, &world, &ladder));
    let mut course = RolloutSequence { traffic: Some(&traffic), faults, marks: Vec::new() };
    let (rollouts, running) = roll_out_all(stage, options.rollouts, &mut course, &mut plant)?;
    let marks = course.marks;
    stage.show_step("waiting for frames");
    let received = traffic.finish()?;
    let seconds = (now_ns() - start_ns) as f64 / SECOND as f64;
    let agents = idle(stage, &plant)?;
    let etcd_octets = plant.etcd.resident()?;
    plant.stop_agents();
    stage.show_step("control: the same change in one step");
    let control = in_one_step(&world, &ladder, &plans[1 - running], options.rate)?;
    let unchanged = network::unchanged(&plans);
    let traffic = Some(TrafficReport {
        marks,
        received,
        seconds,
        control,
        unchanged,
        has_faults: !options.no_faults,
    });
    FleetReport { rollouts, agents, etcd_octets, traffic, outage }.write(stage);
    Ok(())
}

/// Stops all servers of etcd for a time, while the streams flow.
fn interrupt_store(
    stage: &mut Stage<'_>,
    plant: &mut Plant,
    time: Duration,
) -> Result<OutageReport> {
    stage.show_step("requests of etcd are counted");
    let first = plant.etcd.requests(&plant.launcher);
    pause(OBSERVED)?;
    let second = plant.etcd.requests(&plant.launcher);
    let of_both = |(method, count): (&String, &u64)| {
        (method.clone(), count - first.get(method).copied().unwrap_or(0))
    };
    let before = second.iter().map(of_both).collect();
    stage.show_step(&format!("etcd is stopped for {} s", time.as_secs()));
    plant.etcd.kill_all();
    pause(time)?;
    plant.etcd.restart_all(&plant.launcher)?;
    let start_ns = now_ns();
    plant.etcd.leader(&plant.launcher)?;
    let election_ns = now_ns() - start_ns;
    stage.show_step("etcd is back");
    pause(OBSERVED)?;
    let after = plant.etcd.requests(&plant.launcher);
    Ok(OutageReport { seconds: time.as_secs(), election_ns, before, after })
}

/// Roll-outs to control sockets that accept each file.
fn without_nodes(
    stage: &mut Stage<'_>,
    options: &Options,
    ladder: &Ladder,
    plans: &[PlanOutput; 2],
) -> Result<()> {
    let _mounts = Mounts::enter()?;
    let _stubs = NodeStubs::start(ladder.nodes(), &plans[0])?;
    let mut plant = start(stage, ladder, plans)?;
    let mut course = RolloutSequence { traffic: None, faults: None, marks: Vec::new() };
    let (rollouts, _) = roll_out_all(stage, options.rollouts, &mut course, &mut plant)?;
    let agents = idle(stage, &plant)?;
    let etcd_octets = plant.etcd.resident()?;
    FleetReport { rollouts, agents, etcd_octets, traffic: None, outage: None }.write(stage);
    Ok(())
}

/// Rolls the plans out in turns; also returns the number of the one that runs.
fn roll_out_all(
    stage: &mut Stage<'_>,
    rollouts: u32,
    course: &mut RolloutSequence<'_>,
    plant: &mut Plant,
) -> Result<(Vec<RolloutRecord>, usize)> {
    let (mut records, mut running) = (Vec::new(), 0);
    for number in 1..=rollouts {
        let traffic = course.traffic;
        let show = |phase| {
            let sent = traffic.map_or(0, Traffic::sent);
            let received = traffic.map_or(0, Traffic::received);
            stage.show_step(&format!(
                "roll-out {number} of {rollouts}, {phase}; sent {sent}, delivered {received}"
            ));
        };
        let record = course.roll_out(plant, (number, PLANS[1 - running]), show)?;
        if record.end == RolloutEnd::Done {
            running = 1 - running;
        }
        records.push(record);
    }
    Ok((records, running))
}

/// Directories of the plans.
const PLANS: [&str; 2] = ["plan-1", "plan-2"];

fn build(
    stage: &mut Stage<'_>,
    ladder: &Ladder,
    plan: &PlanOutput,
    options: &Options,
) -> Result<World> {
    let topology = ladder.topology(Some(plan));
    if ladder.nodes() <= DRAWN {
        stage.draw(&topology);
    }
    stage.show_step("building the network");
    let mut world = World::build(&topology)?;
    world.set_backend(options.plane.backend);
    for node in 0..ladder.nodes() {
        stage.show_step(&format!("starting {}", count(node.into(), "node")));
        world.start(&network::name(node), stage.onbeat_bin())?;
    }
    let names = topology.nodes.iter().map(|node| node.name.as_str());
    stage.record_ports(&world, names)?;
    Ok(world)
}

/// Starts etcd and the agents, and rolls the first plan out: nodes start without streams.
fn start(stage: &mut Stage<'_>, ladder: &Ladder, plans: &[PlanOutput; 2]) -> Result<Plant> {
    stage.show_step("starting etcd");
    let launcher = Launcher::new(stage.onbeat_bin(), Path::new(DIRECTORY))?;
    let etcd = Etcd::start(&launcher)?;
    let mut plant = Plant::new(launcher, etcd);
    for node in 0..ladder.nodes() {
        stage.show_step(&format!("starting {}", count(node.into(), "agent")));
        plant.add_agent(node)?;
    }
    for (directory, plan) in PLANS.into_iter().zip(plans) {
        plant.write(directory, plan)?;
    }
    let mut course = RolloutSequence { traffic: None, faults: None, marks: Vec::new() };
    let show = |phase| stage.show_step(&format!("first roll-out, {phase}"));
    match course.roll_out(&mut plant, (0, PLANS[0]), show)?.end {
        RolloutEnd::Done => Ok(plant),
        RolloutEnd::Returned => {
            let log =
                std::fs::read_to_string(plant.launcher.at("controller.log")).unwrap_or_default();
            Err(Error::Invalid(format!("the first plan was refused: {log}")))
        }
    }
}

/// Memory and CPU time of agents while nothing changes.
fn idle(stage: &mut Stage<'_>, plant: &Plant) -> Result<AgentFigures> {
    stage.show_step("agents are idle");
    let cpu = || plant.agents().map(Process::cpu_ns).collect::<Result<Vec<u64>>>();
    let (before, from_ns) = (cpu()?, now_ns());
    pause(IDLE)?;
    let (after, time_ns) = (cpu()?, now_ns() - from_ns);
    let percent = |(before, after): (&u64, &u64)| (after - before) as f64 * 100.0 / time_ns as f64;
    let resident = plant.agents().map(|agent| agent.resident().map(|octets| octets as f64));
    Ok(AgentFigures {
        cpu_percent: before.iter().zip(&after).map(percent).collect(),
        octets: resident.collect::<Result<_>>()?,
    })
}

/// The control: all nodes read the files of the other plan at once.
fn in_one_step(
    world: &World,
    ladder: &Ladder,
    plan: &PlanOutput,
    rate: u64,
) -> Result<DeliveryCounts> {
    let traffic = Traffic::start(world, ladder, rate)?;
    pause(CONTROL)?;
    let replace = |name: &str, text: &str| -> Result<()> {
        let failed = |source| Error::Control { node: name.into(), source };
        let mut client = Client::to_managed(name).map_err(failed)?;
        client.order(&Request::ReplaceFile { text: text.to_owned() }).map_err(failed).map(drop)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            plan.files.iter().map(|(name, text)| scope.spawn(|| replace(name, text))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    pause(CONTROL)?;
    traffic.finish()
}

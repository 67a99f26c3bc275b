//! Twelve nodes run the files of `onbeat plan` for `examples/plan/rings.toml`; each link and each node fails once.
//!
//! ```text
//!   a1 --- a2 === b1 --- b2 === c1 --- c2
//!   |       |     |       |     |       |
//!   a4 --- a3 === b4 --- b3 === c4 --- c3
//! ```
//!
//! The failures that lose frames of a stream are exactly those of `--what-if`. A failed node loses all its links at once: a
//! data plane in the kernel outlives its daemon.

use onbeat_plan::failure::{self, FailureEffect};
use onbeat_plan::plan::PreviousRoutes;
use onbeat_plan::route::Element;
use onbeat_plan::{Network, Plan, node_file};
use onbeat_report::topology::Color;
use onbeat_report::{Check, Counters, PhaseState};

use super::figures;
use super::flow::{self, Flow, FlowSpec, caught_up};
use super::options::{DataPlaneOptions, PhaseOptions};
use super::outage::check_clean;
use super::phase::PhaseLog;
use super::stage::Stage;
use crate::world::CutEnds;
use crate::{Error, Result, Topology, World};

const NETWORK: &str = include_str!("../../../../examples/plan/rings.toml");

/// Name, hosts of talker and listener, color. The rest is in the file.
const STREAMS: [(&str, &str, &str, Color); 4] = [
    ("drive", "at-a1", "at-c3", Color::Red),
    ("camera", "at-c2", "at-a4", Color::Green),
    ("sensor", "at-b1", "at-c2", Color::Blue),
    ("log", "at-a4", "at-c3", Color::Red),
];

/// Octets of the FCS, which the laboratory does not count.
const FCS: u32 = 4;

/// Options of the scenario.
#[derive(Debug, clap::Args)]
pub(super) struct PlanOptions {
    #[command(flatten)]
    plane: DataPlaneOptions,
    #[command(flatten)]
    phases: PhaseOptions,
}

/// The network and its plan.
fn planned() -> Result<(Network, Plan)> {
    let network =
        Network::parse(NETWORK, "rings.toml").map_err(|error| Error::Invalid(error.to_string()))?;
    let plan = Plan::new(&network, &PreviousRoutes::default());
    if plan.is_complete() {
        return Ok((network, plan));
    }
    Err(Error::Invalid(
        "rings.toml: a stream is not protected; run `onbeat plan rings.toml`".into(),
    ))
}

/// Builds the nodes from the plan's files, and the links from the network.
fn build(network: &Network, plan: &Plan) -> Topology {
    let mut topology = Topology::default();
    for (name, .., color) in STREAMS {
        topology.stream(name, color);
    }
    for (file, index) in node_file::all(network, plan).into_iter().zip(0u16..) {
        let node = &network.nodes[file.node as usize];
        let (ring, place) = (index / 4, index % 4);
        let (column, row) = (2 * ring + u16::from(place == 1 || place == 2), 2 * (place / 2));
        topology.node(&node.name, column + 1, row + 1, file.text);
        if let Some(host) = &node.host {
            let station = format!("at-{}", node.name);
            let row = if row == 0 { 0 } else { 4 };
            topology.host(&station, column + 1, row);
            let end = format!("{}:{}", node.name, host.interface);
            topology.link(&format!("host-{}", node.name), &format!("{station}:eth0"), &end);
        }
    }
    for (index, link) in network.links.iter().enumerate() {
        let [a, b] = link.ends.map(|end| network.end_name(end));
        topology.link(&link.name, &a, &b);
        let uses = |name: &&str| {
            let route = network.stream(name).and_then(|stream| plan.routes[stream].as_ref());
            route.is_some_and(|route| route.arcs().iter().any(|arc| arc.link() == index))
        };
        let names: Vec<&str> = STREAMS.iter().map(|(name, ..)| *name).filter(uses).collect();
        topology.carries(&names);
    }
    topology
}

/// The network for drawings and shells.
pub(super) fn network() -> Topology {
    planned().map(|(network, plan)| build(&network, &plan)).unwrap_or_default()
}

fn start(world: &World, network: &Network) -> Result<Vec<Flow>> {
    let flow = |(name, from, to, _): (&'static str, &'static str, &'static str, Color)| {
        let index = network.stream(name);
        let index =
            index.ok_or_else(|| Error::Invalid(format!("rings.toml: no stream {name:?}")))?;
        let stream = &network.streams[index];
        let (destination, vlan) = (stream.address, stream.vlan.unwrap_or_default());
        let rate = 1_000_000_000 / stream.interval_ns;
        let size = (stream.size - FCS) as usize;
        Flow::start(world, &FlowSpec { name, from, to, destination, vlan, rate, size })
    };
    STREAMS.into_iter().map(flow).collect()
}

/// The links whose cut is the failure of an element.
fn links(network: &Network, element: Element) -> Vec<&str> {
    let interrupted =
        |index: &u32| element.interrupts(network, onbeat_plan::network::Arc(2 * index));
    let links = (0..network.links.len() as u32).filter(interrupted);
    links.map(|link| network.links[link as usize].name.as_str()).collect()
}

pub(super) fn play(stage: &mut Stage<'_>, options: &PlanOptions) -> Result<()> {
    let phase_ns = options.phases.ns()?;
    let (network, plan) = planned()?;
    let effects = failure::effects(&network, &plan, Element::all(&network));
    let world = stage.open(&build(&network, &plan), &options.plane)?;
    let flows = start(&world, &network)?;
    let mut course = PhaseLog::default();
    course.begin("all up", PhaseState::Up, &flows, || Ok(()))?;
    stage.pass("all up", &flows, phase_ns)?;
    for effect in &effects {
        let what = format!("{} down", effect.element.describe(&network));
        let cut = links(&network, effect.element);
        let change = || cut.iter().try_for_each(|link| world.cut(link, CutEnds::Both));
        course.begin(&what, PhaseState::Degraded, &flows, change)?;
        stage.pass(&what, &flows, phase_ns)?;
        cut.iter().try_for_each(|link| world.restore(link))?;
        // Frames of a stream without a path are lost until here; the next failure requires all others.
        for (flow, (name, ..)) in flows.iter().zip(STREAMS) {
            if interrupted(&network, effect, name) {
                flow.expect_from(flow.begun());
            }
        }
        if !caught_up(&flows)? {
            stage.note(format!("frames were missing after {what}"));
        }
    }
    course.begin("all up again", PhaseState::Up, &flows, || Ok(()))?;
    stage.pass("all up again", &flows, phase_ns)?;
    course.end();
    let flowed = flow::finish_all(flows)?;
    let statuses = stage.statuses(&world)?;
    compare(stage, &network, &effects, &course, &flowed);
    check_clean(stage, &flowed);
    figures::all(stage, &flowed, &course, &statuses);
    Ok(())
}

/// Whether a failure interrupts a stream: its paths, or the node of its talker or listener.
fn interrupted(network: &Network, effect: &FailureEffect, name: &str) -> bool {
    let mut streams = effect.cut.iter().chain(&effect.ended);
    streams.any(|index| network.streams[*index].name == name)
}

/// Compares the lost frames of each failure with its effect.
fn compare(
    stage: &mut Stage<'_>,
    network: &Network,
    effects: &[FailureEffect],
    course: &PhaseLog,
    flowed: &[flow::FlowResult],
) {
    let mut table = Counters::new([
        "failure",
        "what-if: interrupted",
        "streams with lost frames",
        "lost frames",
    ]);
    let (mut lost_protected, mut differing, mut promised) = (0, 0, 0);
    let names = |wanted: &dyn Fn(usize, &str) -> bool| {
        let chosen = STREAMS.iter().enumerate().filter(|(index, (name, ..))| wanted(*index, name));
        chosen.map(|(_, (name, ..))| *name).collect::<Vec<_>>().join(", ")
    };
    // The first phase and the last are those without a failure.
    for (effect, phase) in effects.iter().zip(1..) {
        let lost = |flow: usize| course.lost(phase, flow, &flowed[flow].delivery);
        let is_interrupted = |name: &str| interrupted(network, effect, name);
        let expected = names(&|_, name| is_interrupted(name));
        let found = names(&|flow, _| lost(flow) > 0);
        for (flow, (name, ..)) in STREAMS.iter().enumerate() {
            if !is_interrupted(name) {
                lost_protected += lost(flow);
                promised += 1;
            }
        }
        differing += u64::from(expected != found);
        let all: u64 = (0..STREAMS.len()).map(lost).sum();
        table.row([effect.element.describe(network), expected, found, all.to_string()]);
    }
    let up = [0, effects.len() + 1];
    let flows = 0..STREAMS.len();
    let without: u64 = flows
        .flat_map(|flow| up.map(|phase| course.lost(phase, flow, &flowed[flow].delivery)))
        .sum();
    let name = "failures whose interrupted streams differ from what-if";
    stage.check(Check::eq(name, differing, 0_u64, "failures"));
    stage.check(Check::eq("lost where a path was promised", lost_protected, 0_u64, "frames"));
    stage.check(Check::eq("lost without a failure", without, 0_u64, "frames"));
    stage.check(Check::min(
        "pairs of stream and failure with a promised path",
        promised,
        1_u64,
        "",
    ));
    stage.figure("failures", table);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_complete_and_its_network_consistent() {
        let (network, plan) = planned().expect("a plan");
        let topology = build(&network, &plan).checked().expect("a valid topology");
        assert_eq!((topology.nodes.len(), topology.links.len()), (12, 16 + 5));
        assert_eq!(network.streams.len(), STREAMS.len());
        for (name, from, to, _) in STREAMS {
            let stream =
                network.streams.iter().find(|stream| stream.name == name).expect("a stream");
            let node = |index: u32| format!("at-{}", network.nodes[index as usize].name);
            assert_eq!((node(stream.talker), node(stream.listeners[0])), (from.into(), to.into()));
        }
        // Each link belongs to a failure, a node to those of its links.
        assert_eq!(links(&network, Element::Link(0)), ["link-a1-a2"]);
        assert_eq!(links(&network, Element::Node(0)).len(), 2);
    }
}

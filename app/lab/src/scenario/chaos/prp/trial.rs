//! Trial of one network: build, disturb, capture, judge.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use onbeat_netdev::Ethtool;
use onbeat_node::config::Backend;
use onbeat_realtime::clock::{SECOND, now_ns, realtime_offset_ns};
use onbeat_realtime::interrupt::{pause_until, wait_until};
use onbeat_report::format::count;
use onbeat_wire::MacAddress;

use super::super::super::options::DataPlaneOptions;
use super::super::super::stage::Stage;
use super::super::actions::overrun;
use super::super::capture::{CapturedFrames, Point, PortCaptures};
use super::super::spec::Span;
use super::Defect;
use super::decode::{Content, decode};
use super::judge::{
    Attachment, CapturePlace, Case, Lan, NodeCase, NodePort, Outage, Sighting, StreamCase, Verdict,
    judge,
};
use super::plan::Plan;
use super::schedule::{Action, Step};
use super::talk::Talkers;
use super::topology::{lan_interface, link, segment, topology};
use crate::world::CutEnds;
use crate::{Error, Result, World};

/// Time until a started node sends, and answers.
const PATIENCE: Duration = Duration::from_secs(20);
/// Silence of a node after a start, and a margin.
const SILENCE_NS: u64 = 750_000_000;
/// Time after which no frame of a station is in flight. A wire holds frames for half a second at most.
const FLIGHT_NS: u64 = 900_000_000;
/// Time for effects of the kernel after the return of the causing call.
const SETTLE_NS: u64 = 10_000_000;

/// Offset of stations in the node numbers of capture points.
const STATIONS: usize = 1000;

/// Result of the trial of a network.
pub(super) struct Trial {
    pub(super) plan: Plan,
    pub(super) steps: Vec<Step>,
    /// Executed steps, by number, with their times.
    pub(super) done: Vec<(usize, Span)>,
    pub(super) captured: CapturedFrames,
    /// Reasons why the captures are incomplete; empty: they are complete.
    pub(super) inconclusive: Vec<String>,
    pub(super) verdict: Verdict,
}

/// Runs a network for its planned time, or until CLOCK_MONOTONIC reaches `end_ns`.
pub(super) fn run(
    stage: &mut Stage<'_>,
    plane: &DataPlaneOptions,
    plan: Plan,
    steps: Vec<Step>,
    end_ns: u64,
) -> Result<Trial> {
    let program = stage.onbeat_bin();
    let network = topology(&plan);
    let mut world = stage.open(&network, plane)?;
    for bridge in network.nodes.iter().filter(|node| !node.bridge.is_empty()) {
        // Else a bridge moves a VLAN tag beside the frame, where XDP of the peer does not see it.
        let ethtool = Ethtool::in_namespace(world.namespace(&bridge.name)?)?;
        for interface in &bridge.bridge {
            ethtool.set_features(interface, &[("txvlan", false)])?;
        }
    }
    for node in &plan.nodes {
        wait_sending(&world, &node.name)?;
    }
    let captures = PortCaptures::start()?;
    capture(&world, &plan, &captures)?;
    let (macs, nodes) = addresses(&world, &plan)?;
    let talkers = Talkers::start(&world, &plan, &macs)?;
    let start_ns = now_ns();
    let life_ns = (start_ns + plan.life_ms * 1_000_000).min(end_ns.max(start_ns + SECOND));
    let in_kernel = nodes.iter().map(|node| node.in_kernel).collect();
    let mut actor =
        Actor { plan: &plan, world: &mut world, program, in_kernel, outages: Vec::new() };
    let (mut done, mut open) = (Vec::new(), BTreeSet::new());
    let mut show = |what: &str| {
        let frames = count(captures.frames(), "frame");
        stage
            .progress
            .update(|| format!("chaos-prp: network {:#x}: {what}; {frames} captured", plan.seed));
    };
    for (number, step) in steps.iter().enumerate() {
        let due = start_ns + step.at_ms * 1_000_000;
        // With less time, started faults are reverted, and no other one starts.
        let object = step.action.object();
        let acts = if step.action.ends() {
            open.remove(&object)
        } else {
            due <= life_ns && open.insert(object)
        };
        if !acts {
            continue;
        }
        let what = step.action.to_string();
        pause_until(due.min(life_ns), || show(&what))?;
        let from = realtime_ns();
        actor.perform(&step.action)?;
        let span = Span { from, to: realtime_ns() + SETTLE_NS };
        actor.note(&step.action, span);
        done.push((number, span));
    }
    pause_until(life_ns, || show("no more faults"))?;
    let refused = talkers.stop();
    let outages = actor.outages;
    pause_until(now_ns() + FLIGHT_NS, || show("no more frames"))?;
    let mut inconclusive = Vec::new();
    let overrun = world.wires().map(|(_, wire)| overrun(wire)).sum::<u64>();
    for (what, number) in [("interfaces refused", refused), ("wires had no room for", overrun)] {
        if number > 0 {
            inconclusive.push(format!("{what} {}", count(number, "frame")));
        }
    }
    drop(world);
    let mut captured = captures.stop();
    if captured.missed > 0 {
        inconclusive.push(format!("the captures missed {}", count(captured.missed, "frame")));
    }
    if plan.defect == Some(Defect::LostDelivery) {
        lose_delivery(&mut captured);
    }
    let verdict = evaluate(&plan, nodes, outages, &captured);
    Ok(Trial { plan, steps, done, captured, inconclusive, verdict })
}

fn evaluate(
    plan: &Plan,
    nodes: Vec<NodeCase>,
    outages: Vec<Outage>,
    captured: &CapturedFrames,
) -> Verdict {
    let sighting = |(index, frame): (usize, &super::super::capture::CapturedFrame)| Sighting {
        at: frame.at,
        place: place(frame.point),
        entering: frame.entering,
        octets: captured.kept(frame),
        index,
    };
    judge(&Case {
        nodes,
        stations: plan.stations.iter().map(|station| Some(station.at)).collect(),
        streams: plan
            .streams
            .iter()
            .map(|stream| StreamCase { from: stream.from, to: stream.to })
            .collect(),
        outages,
        sightings: captured.frames.iter().enumerate().map(sighting).collect(),
    })
}

/// Removes the last delivery of a frame with a trailer at a host port.
fn lose_delivery(captured: &mut CapturedFrames) {
    let is_delivery = |frame: &super::super::capture::CapturedFrame| {
        let is_host = matches!(place(frame.point), CapturePlace::Port(_, NodePort::Host));
        let decoded = decode(captured.kept(frame));
        let is_group = captured.kept(frame).first().is_some_and(|octet| octet & 1 == 1);
        let is_of_station =
            decoded.is_some_and(|decoded| matches!(decoded.content, Content::Station { .. }));
        is_host && !frame.entering && is_group && is_of_station
    };
    if let Some(last) = captured.frames.iter().rposition(is_delivery) {
        captured.frames.remove(last);
    }
}

fn place(point: Point) -> CapturePlace {
    match (point.node.checked_sub(STATIONS), point.port) {
        (Some(station), _) => CapturePlace::Station(station),
        (None, 0) => CapturePlace::Port(point.node, NodePort::Host),
        (None, port) => CapturePlace::Port(point.node, NodePort::Lan(Lan::BOTH[port - 1])),
    }
}

/// The name of a capture point.
pub(super) fn point_name(plan: &Plan, point: Point) -> String {
    match place(point) {
        CapturePlace::Station(station) => plan.stations[station].name.clone(),
        CapturePlace::Port(node, NodePort::Host) => format!("{}:host", plan.nodes[node].name),
        CapturePlace::Port(node, NodePort::Lan(lan)) => {
            format!("{}:{}", plan.nodes[node].name, lan_interface(lan))
        }
    }
}

/// Captures at every port of every node, and at other stations.
fn capture(world: &World, plan: &Plan, captures: &PortCaptures) -> Result<()> {
    for (number, node) in plan.nodes.iter().enumerate() {
        for lan in Lan::BOTH {
            let (namespace, interface) = world.wire_end(&link(node, lan), 0)?;
            let point = Point { node: number, port: 1 + lan as usize };
            captures.add(point, namespace, interface)?;
        }
        let host = Point { node: number, port: 0 };
        match segment(plan, number) {
            Some(segment) => captures.add(host, world.namespace(&segment)?, "up")?,
            None => {
                for (_, station) in plan.behind(number) {
                    captures.add(host, world.namespace(&station.name)?, station.interface)?;
                }
            }
        }
    }
    for (number, station) in plan.stations.iter().enumerate() {
        let is_apart = match station.at {
            Attachment::Lan(_) => true,
            Attachment::Node(node) => segment(plan, node).is_some(),
        };
        if is_apart {
            let point = Point { node: STATIONS + number, port: 0 };
            captures.add(point, world.namespace(&station.name)?, station.interface)?;
        }
    }
    Ok(())
}

/// The addresses of stations, and the nodes with theirs.
fn addresses(world: &World, plan: &Plan) -> Result<(Vec<MacAddress>, Vec<NodeCase>)> {
    let mut macs = Vec::new();
    for station in &plan.stations {
        let link = world.handle(&station.name)?.link(station.interface)?;
        macs.push(link.mac.unwrap_or_default());
    }
    let mut nodes = Vec::new();
    for node in &plan.nodes {
        let mac = world.nodes(&node.name)?.mac.parse().unwrap_or_default();
        let in_kernel = world.status(&node.name)?.data_plane == Backend::Xdp.to_string();
        nodes.push(NodeCase { name: node.name.clone(), mac, in_kernel });
    }
    Ok((macs, nodes))
}

/// Waits until a node sends: after a start it is silent.
fn wait_sending(world: &World, node: &str) -> Result<()> {
    let sends = || world.nodes(node).is_ok_and(|status| status.supervision_sent > 0);
    if wait_until(PATIENCE, sends)? {
        return Ok(());
    }
    let what = format!("the first supervision frame of {node}");
    Err(Error::Timeout { what, seconds: PATIENCE.as_secs_f64() })
}

struct Actor<'a> {
    plan: &'a Plan,
    world: &'a mut World,
    program: &'a Path,
    /// The nodes whose programs are in the kernel.
    in_kernel: Vec<bool>,
    outages: Vec<Outage>,
}

impl Actor<'_> {
    fn perform(&mut self, action: &Action) -> Result<()> {
        let link = |node: usize, lan: Lan| link(&self.plan.nodes[node], lan);
        match action {
            Action::Impair { node, lan, direction, impairment } => {
                self.world.wire(&link(*node, *lan))?.set_direction(*direction, *impairment);
                Ok(())
            }
            Action::Carrier { node, lan, on: false } => {
                self.world.drop_carrier(&link(*node, *lan), 0)
            }
            Action::Carrier { node, lan, on: true } => {
                self.world.raise_carrier(&link(*node, *lan), 0)
            }
            Action::Turn { node, lan, on: false } => {
                self.world.cut(&link(*node, *lan), CutEnds::First)
            }
            Action::Turn { node, lan, on: true } => self.world.restore(&link(*node, *lan)),
            Action::End { node, kill } => {
                let daemon = self.world.daemon(&self.plan.nodes[*node].name)?;
                if *kill { daemon.kill() } else { daemon.terminate() }
            }
            Action::Start { node } => self.world.start(&self.plan.nodes[*node].name, self.program),
        }
    }

    fn note(&mut self, action: &Action, span: Span) {
        let (node, port) = match *action {
            Action::Impair { .. } => return,
            Action::Carrier { node, lan, .. } | Action::Turn { node, lan, .. } => {
                (node, Some(NodePort::Lan(lan)))
            }
            // Programs continue without their daemon, and a start of it changes nothing.
            Action::End { node, .. } | Action::Start { node } if self.in_kernel[node] => {
                return;
            }
            Action::End { node, .. } | Action::Start { node } => (node, None),
        };
        if !action.ends() {
            let span = Span { from: span.from, to: u64::MAX };
            self.outages.push(Outage { node, port, span, only_sending: false });
            return;
        }
        let is_open = |outage: &&mut Outage| {
            (outage.node, outage.port) == (node, port) && outage.span.to == u64::MAX
        };
        if let Some(outage) = self.outages.iter_mut().rev().find(is_open) {
            outage.span.to = span.to;
        }
        if port.is_none() {
            let span = Span { from: span.from, to: span.to + SILENCE_NS };
            // A RedBox may be the standby of another one: it forwards nothing yet.
            let only_sending = !self.plan.nodes[node].is_redbox;
            self.outages.push(Outage { node, port, span, only_sending });
        }
    }
}

/// CLOCK_REALTIME in ns: the clock of the kernel's time stamps.
fn realtime_ns() -> u64 {
    (now_ns() as i64 + realtime_offset_ns()) as u64
}

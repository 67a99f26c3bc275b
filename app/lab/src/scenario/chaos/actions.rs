//! Executes the steps of the schedule, and records the times.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use onbeat_node::config::Backend;
use onbeat_node::control::{LinkState, PortMode};
use onbeat_realtime::clock::{now_ns, realtime_offset_ns};
use onbeat_realtime::interrupt::wait_until;

use super::capture::{Point, PortCaptures};
use super::config;
use super::plan::{HOST, Plan, PortPeer};
use super::schedule::{Action, Step, port};
use super::spec::{Disturbance, Era, Function, Span};
use super::talkers::Rates;
use crate::fault::{Direction, Impairment, Wire};
use crate::{Error, Result, World};

/// Time that a node may take to use an interface that is available again.
const REATTACH: Duration = Duration::from_secs(10);
/// Time for effects of the kernel after the return of the causing call.
const SETTLE_NS: u64 = 10_000_000;

pub(super) struct Actor<'a> {
    pub(super) plan: &'a Plan,
    pub(super) world: &'a mut World,
    pub(super) captures: &'a PortCaptures,
    pub(super) rates: &'a Rates,
    pub(super) program: &'a Path,
    pub(super) log: ActionLog,
}

/// Times of executed steps.
#[derive(Debug, Clone)]
pub(super) struct ActionLog {
    /// Eras by node and stream.
    pub(super) eras: Vec<Vec<Vec<Era>>>,
    pub(super) disturbances: Vec<Disturbance>,
    /// Executed steps, by number.
    pub(super) done: Vec<(usize, Span)>,
    /// Frames that dropped wires had no room for.
    pub(super) overrun: u64,
}

impl ActionLog {
    pub(super) fn new(plan: &Plan) -> Self {
        let begin = |function: &Option<Function>| {
            vec![Era { begins: Span::default(), function: function.clone(), step: None }]
        };
        let eras = (0..plan.nodes.len())
            .map(|node| plan.streams.iter().map(|stream| begin(&stream.functions[node])).collect())
            .collect();
        Self { eras, disturbances: Vec::new(), done: Vec::new(), overrun: 0 }
    }

    /// The current functions of a node, by stream.
    fn current(&self, node: usize) -> Vec<Option<Function>> {
        let last = |eras: &Vec<Era>| eras.last().and_then(|era| era.function.clone());
        self.eras[node].iter().map(last).collect()
    }
}

impl Actor<'_> {
    /// Starts the capture of every port.
    pub(super) fn capture_all(&self) -> Result<()> {
        for (node, planned) in self.plan.nodes.iter().enumerate() {
            for (number, port) in planned.ports.iter().enumerate() {
                let point = Point { node, port: number };
                match port.at {
                    PortPeer::Host => {
                        let host = host(node == self.plan.edge(true));
                        self.captures.add(point, self.world.namespace(host)?, "eth0")?;
                    }
                    PortPeer::Link(link) => {
                        let end = usize::from(self.plan.links[link].nodes[0] != node);
                        self.capture(link, end)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn capture(&self, link: usize, end: usize) -> Result<()> {
        let (node, port) = self.plan.port_of(link, end);
        let (namespace, interface) = self.world.wire_end(&self.plan.links[link].name, end)?;
        self.captures.add(Point { node, port }, namespace, interface)
    }

    /// Executes a step; returns when it is in effect.
    pub(super) fn act(&mut self, number: usize, step: &Step) -> Result<()> {
        let from = realtime_ns();
        self.perform(&step.action)?;
        let done = Span { from, to: realtime_ns() + SETTLE_NS };
        self.note(number, &step.action, done);
        self.log.done.push((number, done));
        Ok(())
    }

    fn perform(&mut self, action: &Action) -> Result<()> {
        let name = |link: usize| self.plan.links[link].name.as_str();
        match action {
            Action::Impair { link, direction, impairment } => {
                self.world.wire(name(*link))?.set_direction(*direction, *impairment);
            }
            Action::Carrier { link, end, on: false } => {
                self.world.drop_carrier(name(*link), *end)?;
            }
            Action::Carrier { link, end, on: true } => {
                self.world.raise_carrier(name(*link), *end)?;
            }
            Action::Turn { link, end, on: false } => {
                self.world.cut(name(*link), crate::world::CutEnds::one(*end))?;
            }
            Action::Turn { link, on: true, .. } => self.world.restore(name(*link))?,
            Action::Remove { link, end } => {
                // Removing the wire removes its counters.
                self.log.overrun += overrun(self.world.wire(name(*link))?);
                self.world.unplug(name(*link), *end)?;
            }
            Action::Return { link, end } => {
                self.world.plug(name(*link), *end)?;
                self.capture(*link, *end)?;
                self.world.connect(name(*link), Impairment::default())?;
                self.wait_attached(action)?;
            }
            Action::End { node, kill } => {
                let daemon = self.world.daemon(&self.plan.nodes[*node].name)?;
                if *kill { daemon.kill()? } else { daemon.terminate()? }
            }
            Action::Start { node } => {
                self.world.start(&self.plan.nodes[*node].name, self.program)?;
            }
            Action::Change { node, stream, function, .. } => {
                let mut functions = self.log.current(*node);
                functions[*stream].clone_from(function);
                let text = config::text(self.plan, *node, &functions);
                self.world.daemon(&self.plan.nodes[*node].name)?.reload(&text)?;
                self.world.set_config(&self.plan.nodes[*node].name, text)?;
            }
            Action::Rate { stream, rate, .. } => {
                self.rates[*stream].store(*rate, Ordering::Release)
            }
        }
        Ok(())
    }

    /// Waits until the node uses an interface that is available again.
    fn wait_attached(&self, action: &Action) -> Result<()> {
        let Some((node, number)) = port(self.plan, action) else { return Ok(()) };
        let (name, wanted) =
            (&self.plan.nodes[node].name, &self.plan.nodes[node].ports[number].name);
        let mut failure = None;
        let attached = wait_until(REATTACH, || match self.world.status(name) {
            Ok(status) => status.ports.iter().any(|port| {
                port.name == *wanted
                    && port.link == LinkState::Up
                    && port.mode != PortMode::Detached
            }),
            Err(error) => {
                failure = Some(error);
                true
            }
        })?;
        match failure {
            Some(error) => Err(error),
            None if attached => Ok(()),
            None => Err(Error::Timeout {
                what: format!("attachment of node {name} to {wanted}"),
                seconds: REATTACH.as_secs_f64(),
            }),
        }
    }

    fn note(&mut self, step: usize, action: &Action, done: Span) {
        let befallen = port(self.plan, action).map(|(node, port)| (node, Some(port)));
        match action {
            Action::Carrier { on: false, .. }
            | Action::Turn { on: false, .. }
            | Action::Remove { .. } => self.disturb(step, befallen, done.from),
            Action::Carrier { on: true, .. }
            | Action::Turn { on: true, .. }
            | Action::Return { .. } => self.calm(befallen, done.to),
            // Programs in the kernel continue without their daemon: no loss is excused.
            Action::End { .. } | Action::Start { .. } if !self.ends_with_daemon() => {}
            Action::End { node, .. } => self.disturb(step, Some((*node, None)), done.from),
            Action::Start { node } => self.calm(Some((*node, None)), done.to),
            Action::Change { node, stream, function, .. } => {
                let era = Era { begins: done, function: function.clone(), step: Some(step) };
                self.log.eras[*node][*stream].push(era);
            }
            Action::Impair { .. } | Action::Rate { .. } => {}
        }
    }

    fn ends_with_daemon(&self) -> bool {
        self.world.backend().unwrap_or_default() != Backend::Xdp
    }

    fn disturb(&mut self, step: usize, befallen: Option<(usize, Option<usize>)>, from: u64) {
        let Some((node, port)) = befallen else { return };
        let span = Span { from, to: u64::MAX };
        self.log.disturbances.push(Disturbance { node, port, span, step });
    }

    /// Ends a disturbance.
    fn calm(&mut self, befallen: Option<(usize, Option<usize>)>, to: u64) {
        let open =
            |d: &&mut Disturbance| Some((d.node, d.port)) == befallen && d.span.to == u64::MAX;
        if let Some(disturbance) = self.log.disturbances.iter_mut().rev().find(open) {
            disturbance.span.to = to;
        }
    }
}

/// Frames that a wire had no room for.
pub(super) fn overrun(wire: &Wire) -> u64 {
    let of = |direction| wire.counters(direction).overrun;
    of(Direction::Forward) + of(Direction::Backward)
}

/// The name of the host in the west or the east.
pub(super) fn host(east: bool) -> &'static str {
    if east { "east" } else { "west" }
}

/// The topology of a plan; each node starts with `functions`.
pub(super) fn topology(plan: &Plan, functions: &[Vec<Option<Function>>]) -> crate::Topology {
    let mut network = crate::Topology::default();
    let colors = [
        onbeat_report::topology::Color::Blue,
        onbeat_report::topology::Color::Orange,
        onbeat_report::topology::Color::Green,
        onbeat_report::topology::Color::Red,
    ];
    for (stream, color) in plan.streams.iter().zip(colors.iter().cycle()) {
        network.stream(&stream.name, *color);
    }
    let last = plan.nodes.len() as u16;
    network.host(host(false), 0, 0);
    for (number, node) in plan.nodes.iter().enumerate() {
        // Relays are drawn in two rows, so that links that bypass a node do not cross it.
        let edge = number == 0 || number + 1 == plan.nodes.len();
        let row = if edge { 0 } else { (number % 2) as u16 };
        let text = config::text(plan, number, &functions[number]);
        network.node(&node.name, 1 + number as u16, row, text);
    }
    network.host(host(true), last + 1, 0);
    for east in [false, true] {
        let edge = &plan.nodes[plan.edge(east)].name;
        network.link(host(east), &format!("{}:eth0", host(east)), &format!("{edge}:{HOST}"));
    }
    for link in &plan.links {
        let end = |end: usize| format!("{}:{}", plan.nodes[link.nodes[end]].name, link.name);
        network.link(&link.name, &end(0), &end(1)).tapped();
    }
    for (at, link) in plan.links.iter().enumerate() {
        let on = plan.streams.iter().filter(|stream| stream.check_headers.contains_key(&at));
        let names: Vec<&str> = on.map(|stream| stream.name.as_str()).collect();
        if let Some(known) = network.links.iter_mut().find(|known| known.name == link.name) {
            known.streams = names.into_iter().map(Into::into).collect();
        }
    }
    network
}

/// CLOCK_REALTIME in ns: the clock of the kernel's time stamps.
fn realtime_ns() -> u64 {
    (now_ns() as i64 + realtime_offset_ns()) as u64
}

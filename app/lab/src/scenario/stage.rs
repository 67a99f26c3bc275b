//! Environment of a scenario: progress, and its result.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::Path;

use onbeat_netdev::Ethtool;
use onbeat_node::control::{NodeStatus, PortMode};
use onbeat_realtime::clock::now_ns;
use onbeat_realtime::interrupt::pause_until;
use onbeat_report::format::count;
use onbeat_report::{Check, Figure, Outcome, Progress, Run};

use super::flow::Flow;
use super::options::{DataPlaneOptions, RunSettings};
use crate::fault::Direction;
use crate::{Error, Result, Topology, World};

pub(super) struct Stage<'a> {
    common: &'a RunSettings,
    name: &'static str,
    pub(super) progress: Progress,
    run: Run,
    checks: Vec<Check>,
    figures: Vec<(String, Figure)>,
    notes: Vec<String>,
    driver: Option<String>,
    mode: Option<String>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(name: &'static str, common: &'a RunSettings) -> Self {
        Self {
            common,
            name,
            progress: Progress::new(common.quiet),
            run: Run::begin(name),
            checks: Vec::new(),
            figures: Vec::new(),
            notes: Vec::new(),
            driver: None,
            mode: None,
        }
    }

    /// Prints the description of the scenario.
    pub(super) fn print_description(&self, text: &str) {
        if !self.common.quiet {
            self.show(text);
        }
    }

    /// Prints a text before the result; to standard error if standard output is for JSON.
    fn show(&self, text: &str) {
        let text = text.as_bytes();
        // Errors of the terminal are ignored; a full disk is reported with the result.
        let _ = if self.common.json { stderr().write_all(text) } else { stdout().write_all(text) };
    }

    /// Draws the network, unless one is drawn already.
    pub(super) fn draw(&mut self, topology: &Topology) {
        let drawing = topology.drawing();
        if !self.figures.iter().any(|(name, _)| name == "topology") {
            if !self.common.quiet {
                let colors = self.common.colors && (!self.common.json || stderr().is_terminal());
                self.show(&format!("{}\n", drawing.text(colors)));
            }
            self.figure("topology", drawing);
        }
    }

    /// Draws the network, builds it, and starts its nodes.
    pub(super) fn open(&mut self, topology: &Topology, plane: &DataPlaneOptions) -> Result<World> {
        self.draw(topology);
        self.show_step("building the network");
        let mut world = World::build(topology)?;
        world.set_backend(plane.backend);
        world.start_all(self.onbeat_bin())?;
        let nodes = topology.nodes.iter().filter(|node| !node.is_hub());
        let nodes = nodes.map(|node| node.name.as_str());
        self.record_ports(&world, nodes)?;
        Ok(world)
    }

    /// Records driver and mode of these nodes in the conditions.
    pub(super) fn record_ports<'n>(
        &mut self,
        world: &World,
        nodes: impl Iterator<Item = &'n str>,
    ) -> Result<()> {
        let mut modes: Vec<&str> = Vec::new();
        for node in nodes {
            for port in world.status(node)?.ports {
                let mode = match port.mode {
                    PortMode::Native => "xdp-native",
                    PortMode::Generic => "xdp-generic",
                    PortMode::Packet => "packet",
                    PortMode::XskZeroCopy => "xsk-zero-copy",
                    PortMode::XskCopy => "xsk-copy",
                    PortMode::XskGeneric => "xsk-generic",
                    PortMode::Detached => "detached",
                };
                if !modes.contains(&mode) {
                    modes.push(mode);
                }
                if self.driver.is_none() {
                    let ethtool = Ethtool::in_namespace(world.namespace(node)?)?;
                    self.driver = Some(ethtool.driver(&port.interface)?.name);
                }
            }
        }
        self.mode = Some(modes.join(", "));
        Ok(())
    }

    pub(super) fn check(&mut self, check: Check) {
        self.checks.push(check);
    }

    pub(super) fn figure(&mut self, name: impl Into<String>, figure: impl Into<Figure>) {
        self.figures.push((name.into(), figure.into()));
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// The program of the nodes.
    pub(super) fn onbeat_bin(&self) -> &'a Path {
        &self.common.onbeat_bin
    }

    /// Sets a name of the result that differs from the scenario's.
    pub(super) fn rename(&mut self, name: &'static str) {
        self.name = name;
        self.run = Run::begin(name);
    }

    /// Sets the driver of the ports in the conditions.
    pub(super) fn set_driver(&mut self, driver: &str) {
        self.driver = Some(driver.to_owned());
    }

    /// Updates the progress line while no flow is active.
    pub(super) fn show_step(&mut self, what: &str) {
        let name = self.name;
        self.progress.update(|| format!("{name}: {what}"));
    }

    /// Runs the flows for a time, with progress.
    pub(super) fn pass(&mut self, what: &str, flows: &[Flow], for_ns: u64) -> Result<()> {
        let from = now_ns();
        Ok(pause_until(from + for_ns, || self.show_flows(what, flows))?)
    }

    /// Updates the progress line.
    pub(super) fn show_flows(&mut self, what: &str, flows: &[Flow]) {
        let name = self.name;
        self.progress.update(|| {
            let (sent, delivered) = flows.iter().fold((0, 0), |(sent, delivered), flow| {
                (sent + flow.sent(), delivered + flow.delivered())
            });
            format!("{name}: {what}; sent {sent}, delivered {delivered}")
        });
    }

    /// Fails if a wire lost frames unintentionally: the result would be meaningless.
    pub(super) fn require_intact_wires(&self, world: &World) -> Result<()> {
        for (link, wire) in world.wires() {
            for direction in [Direction::Forward, Direction::Backward] {
                let lost = wire.counters(direction).overrun;
                if lost > 0 {
                    return Err(Error::Invalid(format!(
                        "the queue of link {link:?} overflowed: {} lost; use a lower rate",
                        count(lost, "frame")
                    )));
                }
            }
        }
        Ok(())
    }

    /// The nodes' own counters, in the order of the topology.
    pub(super) fn statuses(&self, world: &World) -> Result<Vec<NodeStatus>> {
        world.topology().nodes.iter().map(|node| world.status(&node.name)).collect()
    }

    pub(super) fn finish(self) -> Outcome {
        let mut outcome = self.run.finish();
        outcome.checks = self.checks;
        for (name, figure) in self.figures {
            outcome.figure(name, figure);
        }
        outcome.notes = self.notes;
        outcome.conditions.driver = self.driver;
        outcome.conditions.mode = self.mode;
        outcome
    }
}

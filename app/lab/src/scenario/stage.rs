//! What every scenario has at hand: options, progress, and the result as it grows.

use std::cell::RefCell;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use onbeat_frer::dataplane::Backend;
use onbeat_netdev::Ethtool;
use onbeat_node::control::{NodeStatus, PortMode};
use onbeat_realtime::clock::{SECOND, now_ns};
use onbeat_realtime::interrupt::pause_until;
use onbeat_report::format::count;
use onbeat_report::{Check, Figure, Outcome, Progress, Run};

use super::flow::Flow;
use super::{Options, Parameter, Scenario};
use crate::fault::Direction;
use crate::{Error, Result, Topology, World};

pub(super) struct Stage<'a> {
    options: &'a Options,
    scenario: &'static Scenario,
    /// The options that the scenario read.
    read: RefCell<Vec<Parameter>>,
    pub(super) progress: Progress,
    run: Run,
    checks: Vec<Check>,
    figures: Vec<(String, Figure)>,
    notes: Vec<String>,
    driver: Option<String>,
    mode: Option<String>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(scenario: &'static Scenario, options: &'a Options) -> Self {
        Self {
            options,
            scenario,
            read: RefCell::default(),
            progress: Progress::new(options.quiet),
            run: Run::begin(scenario.name),
            checks: Vec::new(),
            figures: Vec::new(),
            notes: Vec::new(),
            driver: None,
            mode: None,
        }
    }

    /// Draws the network, unless one is drawn already.
    pub(super) fn draw(&mut self, topology: &Topology) {
        let drawing = topology.drawing();
        if !self.figures.iter().any(|(name, _)| name == "topology") {
            if !self.options.quiet {
                let on_stderr = self.options.json;
                let text =
                    drawing.text(self.options.colours && (!on_stderr || stderr().is_terminal()));
                if on_stderr { eprint!("{text}") } else { print!("{text}") }
            }
            self.figure("topology", drawing);
        }
    }

    /// Draws the network, builds it, and starts its nodes.
    pub(super) fn open(&mut self, topology: &Topology) -> Result<World> {
        self.draw(topology);
        self.tell_line("building the network");
        let mut world = World::build(topology)?;
        world.set_backend(self.backend());
        world.start_all(self.onbeat_bin())?;
        let nodes = topology.nodes.iter().map(|node| node.name.as_str());
        self.look_at_ports(&world, nodes)?;
        Ok(world)
    }

    /// Driver and mode of these nodes, for the conditions.
    pub(super) fn look_at_ports<'n>(
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

    /// The options, to read one that the scenario declares: the caller cannot set another.
    fn options(&self, parameter: Parameter) -> &'a Options {
        let name = self.scenario.name;
        debug_assert!(
            self.scenario.parameters.contains(&parameter),
            "scenario {name:?} reads {parameter:?} and does not declare it"
        );
        let mut read = self.read.borrow_mut();
        if !read.contains(&parameter) {
            read.push(parameter);
        }
        self.options
    }

    /// A scenario that declares an option and does not read it would ignore what the caller chose.
    pub(super) fn assert_all_read(&self) {
        let Scenario { name, parameters, .. } = self.scenario;
        let read = self.read.borrow();
        for parameter in parameters.iter() {
            debug_assert!(
                read.contains(parameter),
                "scenario {name:?} declares {parameter:?} and does not read it"
            );
        }
    }

    /// The program that nodes run.
    pub(super) fn onbeat_bin(&self) -> &'a Path {
        &self.options.onbeat_bin
    }

    /// The data plane of the nodes; `None` as their configurations have it.
    pub(super) fn backend(&self) -> Option<Backend> {
        self.options(Parameter::Backend).backend
    }

    /// Start value of the random choices.
    pub(super) fn seed(&self) -> u64 {
        self.options(Parameter::Seed).seed.unwrap_or(1)
    }

    /// Frames per second of each stream.
    pub(super) fn rate(&self, default: u64) -> u64 {
        self.options(Parameter::Rate).rate.unwrap_or(default)
    }

    /// Octets of a frame.
    pub(super) fn size(&self) -> usize {
        self.chosen_size().unwrap_or(1000)
    }

    /// Octets of a frame, where the caller chose them.
    pub(super) fn chosen_size(&self) -> Option<usize> {
        self.options(Parameter::Size).size
    }

    /// Number of cuts.
    pub(super) fn cuts(&self, default: u32) -> u32 {
        self.options(Parameter::Cuts).cuts.unwrap_or(default)
    }

    /// Round trips measured of each row.
    pub(super) fn probes(&self, default: u64) -> u64 {
        self.options(Parameter::Probes).probes.unwrap_or(default)
    }

    /// Controlled nodes.
    pub(super) fn nodes(&self, default: u8) -> u8 {
        self.options(Parameter::Nodes).nodes.unwrap_or(default)
    }

    /// Cycle of a POWERLINK network, where the caller chose one.
    pub(super) fn cycle(&self) -> Option<Duration> {
        self.options(Parameter::Cycle).cycle
    }

    /// Streams of a node.
    pub(super) fn streams(&self, default: u32) -> u32 {
        self.options(Parameter::Streams).streams.unwrap_or(default)
    }

    /// Length of the run, in minutes.
    pub(super) fn minutes(&self, default: f64) -> f64 {
        self.options(Parameter::Minutes).minutes.unwrap_or(default)
    }

    /// Length of the run, as a share of the paper's experiment.
    pub(super) fn scale(&self, default: f64) -> f64 {
        self.options(Parameter::Scale).scale.unwrap_or(default)
    }

    /// Directory for captures.
    pub(super) fn captures(&self) -> PathBuf {
        let chosen = &self.options(Parameter::Captures).captures;
        chosen.clone().unwrap_or_else(|| "onbeat-chaos".into())
    }

    /// How long a phase lasts, in ns.
    pub(super) fn phase_ns(&self, default_s: f64) -> Result<u64> {
        const LONGEST_S: f64 = 3600.0;
        let seconds = self.options(Parameter::Seconds).seconds.unwrap_or(default_s);
        if !(0.05..=LONGEST_S).contains(&seconds) {
            return Err(Error::Option {
                option: "seconds",
                value: seconds.to_string(),
                reason: format!("a phase lasts 0.05 to {LONGEST_S} s"),
            });
        }
        Ok((seconds * SECOND as f64) as u64)
    }

    /// The live line, where nothing flows yet.
    pub(super) fn tell_line(&mut self, what: &str) {
        let name = self.scenario.name;
        self.progress.update(|| format!("{name}: {what}"));
    }

    /// Lets frames flow for a while, and tells how they do.
    pub(super) fn pass(&mut self, what: &str, flows: &[Flow], for_ns: u64) -> Result<()> {
        let from = now_ns();
        Ok(pause_until(from + for_ns, || self.tell(what, flows))?)
    }

    /// The live line.
    pub(super) fn tell(&mut self, what: &str, flows: &[Flow]) {
        let name = self.scenario.name;
        self.progress.update(|| {
            let (sent, delivered) = flows.iter().fold((0, 0), |(sent, delivered), flow| {
                (sent + flow.sent(), delivered + flow.delivered())
            });
            format!("{name}: {what}; sent {sent}, delivered {delivered}")
        });
    }

    /// Fails where a wire lost what it was not told to lose: the result would tell nothing.
    pub(super) fn require_honest_wires(&self, world: &World) -> Result<()> {
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

    /// The nodes' own counters, in the order of the description.
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

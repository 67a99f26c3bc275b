//! A bus with two paths to its managing node: its frames are one FRER stream per direction, and each
//! path may be cut.
//!
//! ```text
//!                              path1                       hub
//!   managing node --- a ================== b ============== | ------- node 1
//!                              path2             observer  | ------- ...
//!   to-nodes:     numbered and replicated at a, recovered at b
//!   to-managing:  numbered and replicated at b, recovered at a
//! ```

use onbeat_realtime::clock::now_ns;
use onbeat_realtime::interrupt::pause_until;
use onbeat_report::topology::Color;
use onbeat_report::{Cell, Check, Counters};

use super::actor::{ControlledActor, ManagingActor};
use super::observer::BusObserver;
use super::ports::Bus;
use super::{CYCLE_US, MANAGING, REAL, cable, figures, file, name};
use crate::scenario::options::{DataPlaneOptions, PhaseOptions, PowerlinkOptions};
use crate::scenario::stage::Stage;
use crate::world::CutEnds;
use crate::{Error, Result, Topology, World};

/// The checked recovery functions: node and stream.
const STREAMS: [(&str, &str); 2] = [("b", "to-nodes"), ("a", "to-managing")];

/// Time after transmission within which a frame has passed through the observer's port.
const DRAIN_NS: u64 = 100_000_000;

pub(in crate::scenario) fn network() -> Topology {
    topology(4)
}

/// The network with this many nodes.
fn topology(nodes: u8) -> Topology {
    let both = &["to-nodes", "to-managing"];
    let middle = u16::from(nodes.saturating_sub(1)) / 2;
    let mut network = Topology::default();
    network.stream("to-nodes", Color::Blue).stream("to-managing", Color::Orange);
    network.host("mn", 0, middle);
    network.node("a", 1, middle, config("to-nodes", "to-managing"));
    network.node("b", 2, middle, config("to-managing", "to-nodes"));
    let ports: Vec<String> = (0..=nodes).map(|port| format!("p{port}")).collect();
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    network.hub("hub", 3, middle, &ports);
    network.link(MANAGING, "mn:eth0", "a:host").carries(both);
    for path in ["path1", "path2"] {
        network.link(path, &format!("a:{path}"), &format!("b:{path}")).carries(both);
    }
    network.link("exit", "b:host", "hub:p0").carries(both);
    for node in 1..=nodes {
        network.host(&name(node), 4, u16::from(node) - 1);
        network.link(&cable(node), &format!("hub:p{node}"), &format!("{}:eth0", name(node)));
    }
    network
}

/// The configuration of the node that replicates stream `out` and recovers stream `home`: all POWERLINK
/// frames, by EtherType, with an R-TAG before it between the nodes.
fn config(out: &str, home: &str) -> String {
    let tagged = "type = \"mask\", msdu-mask = \"ff ff 00 00 00 00 ff ff\", \
                  msdu-match = \"f1 c1 00 00 00 00 88 ab\"";
    format!(
        r#"
[[port]]
name = "host"
interface = "host"
mtu = 1500
[[port]]
name = "path1"
interface = "path1"
mtu = 1506
[[port]]
name = "path2"
interface = "path2"
mtu = 1506

[[stream]]
name = "{out}"
generate = true
member = [{{ port = "host", identify = {{ type = "mask", msdu-mask = "ff ff", msdu-match = "88 ab" }} }}]
egress = [{{ port = "path1", tag = "r-tag" }}, {{ port = "path2", tag = "r-tag" }}]

[[stream]]
name = "{home}"
member = [
  {{ port = "path1", identify = {{ {tagged} }} }},
  {{ port = "path2", identify = {{ {tagged} }} }},
]
recover = {{ algorithm = "vector", history-length = 64, reset-timeout-ms = 1000 }}
egress = [{{ port = "host", tag = "none" }}]
"#
    )
}

/// Options of the scenario.
#[derive(Debug, clap::Args)]
#[command(mut_arg("nodes", |nodes| nodes.help("Number of controlled nodes, 1 to 16")))]
pub(in crate::scenario) struct Options {
    #[command(flatten)]
    plane: DataPlaneOptions,
    #[command(flatten)]
    bus: PowerlinkOptions,
    #[command(flatten)]
    phases: PhaseOptions,
}

pub(in crate::scenario) fn play(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    let nodes = options.bus.nodes;
    if !(1..=REAL).contains(&nodes) {
        let reason = format!("use 1 to {REAL}");
        return Err(Error::Option { option: "nodes", value: nodes.to_string(), reason });
    }
    let cycle_us = options.bus.cycle_us(CYCLE_US, 1000, "use 1 ms to 1 s")?;
    let phase_ns = options.phases.ns()?;
    let network = topology(nodes);
    stage.draw(&network);
    stage.show_step("building the network");
    let mut world = World::build(&network)?;
    world.set_backend(options.plane.backend);
    world.start_all(stage.onbeat_bin())?;
    stage.record_ports(&world, ["a", "b"].into_iter())?;
    let observer = BusObserver::start(world.namespace("hub")?, "p0")?;
    let mut file = file(nodes, cycle_us);
    // Frames are counted: the response times of this machine must not cause a reset.
    file.network.threshold = 0;
    file.network.node_threshold = 0;
    let all = u64::from(nodes);

    stage.show_step("the network boots");
    let mut times = figures::times();
    let mut bus = Bus::start(&world, &file)?;
    let (up, took_ns) = bus.settle()?;
    stage.check(Check::eq("in OPERATIONAL after the boot", up, all, "nodes"));
    times.row(figures::time("boot", took_ns));
    pause_until(now_ns() + phase_ns, || stage.show_step("both paths are up"))?;
    for path in ["path1", "path2"] {
        world.cut(path, CutEnds::Both)?;
        pause_until(now_ns() + phase_ns, || stage.show_step(&format!("{path} is cut")))?;
        let up = bus.operational();
        stage.check(Check::eq(format!("in OPERATIONAL while {path} is cut"), up, all, "nodes"));
        world.restore(path)?;
        pause_until(now_ns() + phase_ns, || stage.show_step(&format!("{path} is restored")))?;
    }
    let (up, _) = bus.settle()?;
    stage.check(Check::eq("in OPERATIONAL at the end", up, all, "nodes"));

    let managing = bus.managing.take().map(ManagingActor::stop).transpose()?;
    for node in bus.nodes.iter_mut() {
        node.take().map(ControlledActor::stop).transpose()?;
    }
    // The last frames are in flight.
    pause_until(now_ns() + DRAIN_NS, || ())?;
    let seen = observer.stop();
    let statuses = ["a", "b"].map(|node| world.status(node));
    if let Some(ended) = managing {
        lost(stage, ended.runner.bus().frames(), seen.bus.frames());
        figures::exchanged(stage, &ended, all);
        stage.figure("times", times);
        figures::events(stage, "events of the managing node", &ended);
    }
    let mut table = Counters::new(["stream", "node", "passed", "eliminated", "lost on all paths"]);
    for ((node, stream), status) in STREAMS.into_iter().rev().zip(statuses) {
        let status = status?;
        let found = status.streams.iter().find(|found| found.name == stream);
        let recovery = found.and_then(|found| found.recovery.clone()).unwrap_or_default();
        let name = format!("{stream}: copies eliminated at {node}, of two paths");
        stage.check(Check::min(name, recovery.counters.discarded, 1_u64, "frames"));
        let counts =
            [recovery.counters.passed, recovery.counters.discarded, recovery.really_lost()];
        let names = [Cell::from(stream), node.into()];
        table.row(names.into_iter().chain(counts.map(Cell::from)));
    }
    stage.figure("streams", table);
    figures::bus(stage, &seen);
    Ok(())
}

/// Frames from the managing node must be behind the paths, each once, and responses must have arrived
/// at it.
fn lost(
    stage: &mut Stage<'_>,
    at_managing: &onbeat_powerlink::observe::Frames,
    behind: &onbeat_powerlink::observe::Frames,
) {
    for (name, sent, found) in [
        ("SoC after the paths, of those sent", at_managing.soc, behind.soc),
        ("PReq after the paths, of those sent", at_managing.preq, behind.preq),
        ("SoA after the paths, of those sent", at_managing.soa, behind.soa),
    ] {
        stage.check(Check::eq(name, found, sent, "frames"));
    }
    // The last one may arrive after the managing node has stopped.
    let missing = behind.pres.saturating_sub(at_managing.pres);
    let name = "PRes lost before the managing node, without the last";
    stage.check(Check::eq(name, missing.saturating_sub(1), 0_u64, "frames"));
    let twice = at_managing.pres.saturating_sub(behind.pres);
    stage.check(Check::eq("duplicate PRes", twice, 0_u64, "frames"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_node::config::Config;

    #[test]
    fn the_network_and_its_configurations_are_valid() {
        for nodes in [1, 8] {
            let topology = topology(nodes).checked().unwrap();
            for node in topology.nodes.iter().filter(|node| !node.is_hub()) {
                let text = node.config_text.as_deref().unwrap();
                Config::parse(text, &node.name).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
}

//! Six nodes and three streams, as in `examples/ladder` (figure 1 of the paper).
//!
//! ```text
//!   west --- a ----------- b ----------- d
//!            |             |             |
//!            c ----------- e ----------- f --- east
//!
//!   red   west to east, numbered at a, replicated at b, recovered at f
//!   green west to east, numbered and replicated at a, replicated at b, recovered at f
//!   blue  east to west, numbered at f, replicated at e, recovered at a
//! ```
//!
//! Each link that is no stream's only path fails once; no frame may be lost.

use onbeat_report::topology::Color;
use onbeat_report::{Check, PhaseState};
use onbeat_wire::MacAddress;

use super::figures;
use super::flow::{self, Flow, FlowSpec, caught_up};
use super::options::StreamOptions;
use super::outage::check_clean;
use super::phase::PhaseLog;
use super::stage::Stage;
use crate::world::CutEnds;
use crate::{Result, Topology, World};

/// Name, column and row, configuration.
const NODES: [(&str, u16, u16, &str); 6] = [
    ("a", 1, 0, include_str!("../../../../examples/ladder/a.toml")),
    ("b", 2, 0, include_str!("../../../../examples/ladder/b.toml")),
    ("c", 1, 1, include_str!("../../../../examples/ladder/c.toml")),
    ("d", 3, 0, include_str!("../../../../examples/ladder/d.toml")),
    ("e", 2, 1, include_str!("../../../../examples/ladder/e.toml")),
    ("f", 3, 1, include_str!("../../../../examples/ladder/f.toml")),
];

/// Both ends, and the streams on the link.
const LINKS: [(&str, &str, &[&str]); 7] = [
    ("a", "b", &["red", "green", "blue"]),
    ("a", "c", &["green", "blue"]),
    ("b", "d", &["red", "green"]),
    ("b", "e", &["red", "green", "blue"]),
    ("c", "e", &["green", "blue"]),
    ("d", "f", &["red", "green"]),
    ("e", "f", &["red", "green", "blue"]),
];

/// Links that may fail. Red depends on A-B, and blue on E-F.
const PROTECTED: [&str; 5] = ["a-c", "c-e", "d-f", "b-d", "b-e"];

/// The network.
pub(super) fn network() -> Topology {
    let mut network = Topology::default();
    network.host("west", 0, 0).host("east", 4, 1);
    for (name, column, row, config) in NODES {
        network.node(name, column, row, config);
    }
    for (name, color) in [("red", Color::Red), ("green", Color::Green), ("blue", Color::Blue)] {
        network.stream(name, color);
    }
    let all = &["red", "green", "blue"];
    network.link("west", "west:eth0", "a:a-host").carries(all);
    network.link("east", "f:f-host", "east:eth0").carries(all);
    for (a, b, streams) in LINKS {
        let (near, far) = (format!("{a}:{a}-{b}"), format!("{b}:{b}-{a}"));
        network.link(&format!("{a}-{b}"), &near, &far).carries(streams);
    }
    network
}

fn start(world: &World, rate: u64, size: usize) -> Result<Vec<Flow>> {
    [
        ("red", "west", "east", 0x10, 10),
        ("green", "west", "east", 0x20, 20),
        ("blue", "east", "west", 0x30, 30),
    ]
    .into_iter()
    .map(|(name, from, to, group, vlan)| {
        let destination = MacAddress([0x01, 0x00, 0x5e, 0x00, 0x00, group]);
        Flow::start(world, &FlowSpec { name, from, to, destination, vlan, rate, size })
    })
    .collect()
}

pub(super) fn play(stage: &mut Stage<'_>, options: &StreamOptions) -> Result<()> {
    let phase_ns = options.phases.ns()?;
    let world = stage.open(&network(), &options.plane)?;
    let flows = start(&world, options.frames.rate, options.frames.size)?;
    let mut course = PhaseLog::default();
    course.begin("all up", PhaseState::Up, &flows, || Ok(()))?;
    stage.pass("all up", &flows, phase_ns)?;
    for link in PROTECTED {
        let what = format!("{link} down");
        course.begin(&what, PhaseState::Degraded, &flows, || world.cut(link, CutEnds::Both))?;
        stage.pass(&what, &flows, phase_ns)?;
        world.restore(link)?;
        // The next link fails only when all frames have arrived, as those in flight are carried by this
        // path alone.
        if !caught_up(&flows)? {
            stage.note(format!("frames were missing after {link} was down"));
        }
    }
    course.begin("all up again", PhaseState::Up, &flows, || Ok(()))?;
    stage.pass("all up again", &flows, phase_ns)?;
    course.end();

    let flowed = flow::finish_all(flows)?;
    let statuses = stage.statuses(&world)?;
    // The first phase is that without a failed link.
    for (link, phase) in PROTECTED.into_iter().zip(1..) {
        let deliveries = flowed.iter().map(|flow| &flow.delivery).enumerate();
        let lost: u64 = deliveries.map(|(flow, delivery)| course.lost(phase, flow, delivery)).sum();
        stage.check(Check::eq(format!("lost while {link} was down"), lost, 0_u64, "frames"));
    }
    let lost: u64 = flowed.iter().map(|flow| flow.delivery.lost()).sum();
    stage.check(Check::eq("lost", lost, 0_u64, "frames"));
    check_clean(stage, &flowed);
    figures::all(stage, &flowed, &course, &statuses);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_node::config::Config;

    #[test]
    fn the_network_has_every_interface_of_the_examples() {
        let network = network().checked().unwrap();
        for node in &network.nodes {
            let config = Config::parse(node.config_text.as_deref().unwrap(), "x.toml").unwrap();
            for port in &config.ports {
                let made = network
                    .links
                    .iter()
                    .flat_map(|link| &link.ends)
                    .any(|end| end.station == node.name && end.interface == port.interface);
                assert!(made, "{} {}", node.name, port.interface);
            }
        }
        assert!(PROTECTED.iter().all(|name| network.links.iter().any(|link| link.name == *name)));
    }
}

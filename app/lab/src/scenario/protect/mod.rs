//! PRP (IEC 62439-3) instead of streams: each kind of impaired LAN next to a clean one, and hosts with a redundant
//! interface ([`hosts`]).
//!
//! ```text
//!                path1: LAN A (clean, cut, lossy, ...)
//!   talker --- a ====================================== b --- listener
//!                path2: LAN B (clean)
//! ```
//!
//! Nodes a and b are RedBoxes: they number all frames of talker and listener, and deliver the first copy of each.

mod hosts;
mod sockets;

use std::time::Duration;

use onbeat_frer::prp::NodeKind;
use onbeat_node::control::NodesStatus;
use onbeat_realtime::interrupt::wait_until;
use onbeat_report::{Cell, Check, Counters};

use super::matrix::{self, Options};
use super::stage::Stage;
use crate::fault::Impairment;
use crate::{Error, Result, Topology, World};

const NODES: [&str; 2] = ["a", "b"];

/// Maximum time until the nodes hear each other.
const PATIENCE: Duration = Duration::from_secs(20);

/// The port of the stations of a RedBox.
const STATIONS: &str = r#"
name = "stations"
interface = "host"
"#;

/// The node with this port beside those of its LANs, which have room for the trailer.
fn node(host: &str) -> String {
    format!("[node]\nprotocol = \"prp\"\n\n[[port]]{host}{LANS}")
}

const LANS: &str = r#"
[[port]]
name = "a"
interface = "path1"
lan = "a"
mtu = 1506

[[port]]
name = "b"
interface = "path2"
lan = "b"
mtu = 1506
"#;

/// The network.
pub(super) fn network() -> Topology {
    let redbox = node(STATIONS);
    let mut network = Topology::default();
    network.host("talker", 0, 0).node("a", 1, 0, &redbox).node("b", 2, 0, &redbox);
    network.host("listener", 3, 0);
    network.link("access", "talker:eth0", "a:host");
    for path in ["path1", "path2"] {
        network.link(path, &format!("a:{path}"), &format!("b:{path}"));
        network.impaired(Impairment::default());
    }
    network.link("exit", "b:host", "listener:eth0");
    network
}

pub(super) fn play(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    redboxes(stage, options)?;
    hosts::play(stage, options)
}

/// Plays the matrix of impairments between RedBoxes.
fn redboxes(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    let world = stage.open(&network(), &options.streams.plane)?;
    wait_for_nodes(&world, NODES)?;
    let before = read(&world, NODES)?;
    let mut table = matrix::table();
    let (sent, delivered) = matrix::cells(stage, &world, options, "prp", &mut table)?;
    let after = read(&world, NODES)?;
    // Frames of other programs, such as neighbor discovery, pass as well.
    let more = |count: fn(&NodesStatus) -> u64| {
        let sum = |nodes: &[NodesStatus]| nodes.iter().map(count).sum::<u64>();
        sum(&after) - sum(&before)
    };
    let numbered = more(|node| node.host.counters.numbered);
    let accepted = more(|node| node.lans.iter().map(|lan| lan.counters.accepted).sum());
    stage.check(Check::min("numbered, of sent", numbered, sent, "frames"));
    stage.check(Check::min("accepted, of delivered", accepted, delivered, "frames"));
    stage.figure("cells", table);
    stage.figure("nodes", nodes(&after));
    Ok(())
}

/// Waits until the nodes have heard each other on both LANs: after a start they are silent.
fn wait_for_nodes(world: &World, nodes: [&str; 2]) -> Result<()> {
    let hears = |node: &str| {
        let Ok(status) = world.nodes(node) else { return false };
        status.nodes.iter().any(|node| {
            node.kind != NodeKind::San && node.a.age_ns.is_some() && node.b.age_ns.is_some()
        })
    };
    for node in nodes {
        if !wait_until(PATIENCE, || hears(node))? {
            let reason = "it hears no other node on both LANs".to_owned();
            return Err(Error::Node { node: node.to_owned(), reason, log: String::new() });
        }
    }
    Ok(())
}

fn read(world: &World, nodes: [&str; 2]) -> Result<Vec<NodesStatus>> {
    nodes.into_iter().map(|node| world.nodes(node)).collect()
}

/// The frames of both LANs by node.
fn nodes(nodes: &[NodesStatus]) -> Counters {
    let mut table = Counters::new([
        "node",
        "LAN",
        "received",
        "accepted",
        "duplicates",
        "untagged",
        "supervision",
        "own",
    ]);
    for node in nodes {
        for lan in &node.lans {
            let counters = &lan.counters;
            table.row([
                Cell::from(node.node.as_str()),
                lan.port.as_str().into(),
                counters.received.into(),
                counters.accepted.into(),
                counters.duplicates.into(),
                counters.untagged.into(),
                counters.supervision.into(),
                counters.own.into(),
            ]);
        }
    }
    table
}

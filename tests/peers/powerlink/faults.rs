//! Nodes that fail and return. Only the node with the fault is reset, and the others stay in OPERATIONAL.

use std::time::Duration;

use onbeat_wire::powerlink::NodeId;

use super::boot::nodes;
use super::bus::Bus;
use super::configuration::NodeSpec;
use super::{Maker, Programs};

const MN: u8 = NodeId::MN.0;
/// Starts of a managing node.
const STARTS: u32 = 3;
const CUT: Duration = Duration::from_secs(2);

/// A network under each managing node, with nodes of both implementations.
fn for_each_network(programs: &Programs, case: &str, check: impl Fn(&mut Bus, &[NodeSpec])) {
    for managing in [Maker::Onbeat, Maker::Reference] {
        let nodes = nodes(&[Maker::Onbeat, Maker::Reference, Maker::Onbeat]);
        let name = format!("{case}-{}", managing.name());
        let mut bus = Bus::boot(programs, &name, managing, &nodes, false);
        check(&mut bus, &nodes);
        bus.end("all in OPERATIONAL again");
    }
}

/// Waits until all are in OPERATIONAL after a fault of `node`, which alone was reset.
fn recovered(bus: &mut Bus, node: &NodeSpec) {
    bus.wait_operational();
    let record = &bus.record;
    let others = record.resets.iter().filter(|reset| reset.node != node.id);
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&_>::new(), "resets of other nodes");
    let left = record.left.keys().filter(|left| **left != node.id);
    assert_eq!(left.collect::<Vec<_>>(), Vec::<&u8>::new(), "others left OPERATIONAL");
    let (id, resets) = (node.id, record.resets_of(node.id));
    println!("node {id} of {}: {resets} NMTResetNode to it, none to others", node.maker.name());
}

/// Waits until the managing node resets a node that is absent.
fn wait_reset(bus: &mut Bus, node: &NodeSpec) {
    bus.wait(&format!("NMTResetNode to node {}", node.id), |bus| bus.record.resets_of(node.id) > 0);
}

/// A controlled node is terminated, and started again once the managing node has detected its absence.
pub(super) fn kill(programs: &Programs) {
    for_each_network(programs, "kill", |bus, nodes| {
        for node in nodes {
            bus.record.mark();
            bus.kill(node.id);
            wait_reset(bus, node);
            bus.start(node.id);
            recovered(bus, node);
        }
    });
}

/// The cable of a controlled node is out for two seconds.
pub(super) fn cable(programs: &Programs) {
    for_each_network(programs, "cable", |bus, nodes| {
        for node in nodes {
            bus.record.mark();
            bus.cut(node.id);
            bus.run_for(CUT);
            wait_reset(bus, node);
            bus.restore(node.id);
            recovered(bus, node);
        }
    });
}

/// The managing node is terminated and started again. The reference's may never request anything again from a node
/// that was not there before its first SoC: it is then started once more.
pub(super) fn managing_node(programs: &Programs) {
    for_each_network(programs, "managing-node", |bus, nodes| {
        for left in (0..STARTS).rev() {
            bus.kill(MN);
            bus.record.mark();
            bus.start(MN);
            let ids = || nodes.iter().map(|node| node.id);
            bus.wait("all nodes are in OPERATIONAL, or one is omitted", |bus| {
                let record = &bus.record;
                let retry = left > 0 && bus.managing == Maker::Reference;
                record.all_operational(ids()) || retry && record.is_omitted(ids())
            });
            if bus.record.all_operational(ids()) {
                break;
            }
            println!("the managing node requests nothing from a node; it is started again");
        }
        for node in nodes {
            let (id, resets) = (node.id, bus.record.resets_of(node.id));
            println!("node {id} of {}: {resets} NMTResetNode to it alone", node.maker.name());
        }
    });
}

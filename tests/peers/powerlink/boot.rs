//! Networks that boot to OPERATIONAL and stay there.

use std::time::Duration;

use onbeat_wire::powerlink::NodeId;

use super::bus::Bus;
use super::configuration::{NODES, NodeSpec};
use super::{MAKERS, Maker, Programs};

const MN: u8 = NodeId::MN.0;
/// Time between the starts of a controlled and the managing node, in ms.
const OFFSETS_MS: [u64; 5] = [200, 500, 1000, 1500, 3500];
/// Minutes of a steady network.
const MINUTES: &str = "MINUTES";
const STEADY: Duration = Duration::from_secs(30);
/// Most starts of `order` with a reset of the node: one per missing StatusResponse.
const RESET_STARTS: usize = 2;

pub(super) fn nodes(makers: &[Maker]) -> Vec<NodeSpec> {
    NODES.iter().zip(makers).map(|(id, maker)| NodeSpec::new(*id, *maker)).collect()
}

/// Ends a booted network. Onbeat's nodes report success. Returns the number of resets of single nodes.
fn end(mut bus: Bus, managing: Maker, nodes: &[NodeSpec]) -> usize {
    let resets = bus.record.resets.iter().filter(|reset| reset.node != NodeId::BROADCAST.0).count();
    if managing == Maker::Onbeat {
        bus.finish(MN);
    }
    for node in nodes.iter().filter(|_| managing == Maker::Reference) {
        if node.maker == Maker::Onbeat {
            bus.finish(node.id);
        }
    }
    bus.end(&format!("all in OPERATIONAL, {resets} resets of single nodes"));
    resets
}

fn boot(programs: &Programs, name: &str, managing: Maker, makers: &[Maker], mandatory: bool) {
    let nodes = nodes(makers);
    let bus = Bus::boot(programs, name, managing, &nodes, mandatory);
    end(bus, managing, &nodes);
}

/// Controlled nodes of onbeat, which must be there, under the reference's managing node.
pub(super) fn our_nodes(programs: &Programs) {
    for count in 1..=NODES.len() {
        let makers = vec![Maker::Onbeat; count];
        boot(programs, &format!("our-nodes-{count}"), Maker::Reference, &makers, true);
    }
}

/// The reverse.
pub(super) fn reference_nodes(programs: &Programs) {
    for count in 1..=NODES.len() {
        let makers = vec![Maker::Reference; count];
        boot(programs, &format!("reference-nodes-{count}"), Maker::Onbeat, &makers, true);
    }
}

/// One node of either implementation beside two of the other one.
pub(super) fn mixed(programs: &Programs) {
    for managing in MAKERS {
        for (one, two) in [MAKERS, [Maker::Reference, Maker::Onbeat]].map(|[a, b]| (a, b)) {
            let name = format!("mixed-{}-{}", managing.name(), two.name());
            boot(programs, &name, managing, &[one, two, two], false);
        }
    }
}

/// A node of onbeat that is started before or after the reference's managing node.
pub(super) fn order(programs: &Programs) {
    let nodes = nodes(&[Maker::Onbeat]);
    let id = nodes[0].id;
    let mut reset_starts = 0;
    for (name, starts) in [("before", [id, MN]), ("after", [MN, id])] {
        for offset_ms in OFFSETS_MS {
            let name = format!("order-{offset_ms}-ms-{name}");
            let mut bus = Bus::build(programs, &name, Maker::Reference, &nodes, true);
            bus.start(starts[0]);
            bus.run_for(Duration::from_millis(offset_ms));
            bus.start(starts[1]);
            bus.wait_operational();
            reset_starts += usize::from(end(bus, Maker::Reference, &nodes) > 0);
        }
    }
    assert!(reset_starts <= RESET_STARTS, "the node was reset in {reset_starts} starts");
}

pub(super) fn steady_onbeat(programs: &Programs) {
    steady(programs, Maker::Onbeat);
}

pub(super) fn steady_reference(programs: &Programs) {
    steady(programs, Maker::Reference);
}

/// All nodes stay in OPERATIONAL, and none is reset.
fn steady(programs: &Programs, managing: Maker) {
    let minutes = std::env::var(MINUTES).ok().filter(|text| !text.is_empty());
    let time = minutes.map_or(STEADY, |text| {
        let minutes: f64 = text.parse().unwrap_or_else(|_| panic!("{MINUTES}={text}: no number"));
        Duration::from_secs_f64(60.0 * minutes)
    });
    let nodes = nodes(&[Maker::Onbeat, Maker::Reference, Maker::Onbeat]);
    let name = format!("steady-{}", managing.name());
    let mut bus = Bus::boot(programs, &name, managing, &nodes, false);
    bus.record.mark();
    bus.run_for(time);
    let record = &bus.record;
    assert_eq!(record.resets, [], "{name}: lost polls {:?}", record.lost);
    assert!(record.left.is_empty(), "{name}: left OPERATIONAL: {:?}", record.left);
    let cycles = record.exchanges[&nodes[0].id].len();
    println!("{name}: {cycles} cycles without a reset, lost polls {:?}", record.lost);
    end(bus, managing, &nodes);
}

//! A POWERLINK network: it boots, exchanges values, and recovers from faults.
//!
//! ```text
//!                        hub
//!   managing node ======= | ------- node 1
//!         observer: all   | ------- ...
//!                         | ------- node N
//! ```
//!
//! Up to [`REAL`] nodes run on ports of this machine, each in a namespace and thread of its own
//! (`real`, with `actor` and `observer`); more nodes run in virtual time (`virtual_time`). `paths` is
//! the same network with two paths to the managing node.

mod actor;
mod figures;
mod observer;
pub(super) mod paths;
mod ports;
mod virtual_time;

use onbeat_powerlink::network::{Network, Signal, Station};
use onbeat_powerlink::od::profile::{CONTROLLED_NODE_FEATURES, Identity};
use onbeat_powerlink::od::{DataType, id};
use onbeat_powerlink_node::{File, Host, NodeHost, Pattern};
use onbeat_realtime::Profile;
use onbeat_realtime::clock::SECOND;
use onbeat_report::format::count;
use onbeat_wire::powerlink::NodeId;

use super::options::{PhaseOptions, PowerlinkOptions, SeedOptions};
use super::stage::Stage;
use crate::fault::Impairment;
use crate::{Result, Topology};

/// Maximum number of nodes on ports of this machine.
const REAL: u8 = 16;

/// Threshold of error counters: five consecutive losses. With the default of the profile, two in three
/// cycles, no network is stable that loses 1 % of the frames.
const THRESHOLD: u32 = 40;

/// Cycle of a network on ports: two CPUs run all nodes.
const CYCLE_US: u32 = 20_000;

/// Probability that a frame is lost, in each direction of the managing node's cable.
const LOSS: f64 = 0.01;

/// The network with this many nodes.
fn topology(nodes: u8, impairment: Option<Impairment>) -> Topology {
    let mut network = Topology::default();
    network.host("mn", 0, u16::from(nodes.saturating_sub(1)) / 2);
    for node in 1..=nodes {
        network.host(&name(node), 2, u16::from(node) - 1);
    }
    let ports: Vec<String> = (0..=nodes).map(|port| format!("p{port}")).collect();
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    network.hub("hub", 1, u16::from(nodes.saturating_sub(1)) / 2, &ports);
    network.link(MANAGING, "mn:eth0", "hub:p0");
    if let Some(impairment) = impairment {
        network.impaired(impairment);
    }
    for node in 1..=nodes {
        network.link(&cable(node), &format!("hub:p{node}"), &format!("{}:eth0", name(node)));
    }
    network
}

/// The managing node's cable.
const MANAGING: &str = "managing";

fn name(node: u8) -> String {
    format!("cn{node}")
}

fn cable(node: u8) -> String {
    format!("to-cn{node}")
}

/// The network in the list of scenarios.
pub(super) fn network() -> Topology {
    topology(8, None)
}

/// Options of the scenario.
#[derive(Debug, clap::Args)]
#[command(mut_arg("nodes", |nodes| nodes.help(
    "Number of controlled nodes: up to 16 run in real time on virtual interfaces, more in simulated time"
)))]
#[command(mut_arg("cycle", |cycle| cycle.help(
    "Cycle time of the network [default: 20ms; above 16 nodes 34 us per node, rounded up to ms]"
)))]
pub(super) struct Options {
    #[command(flatten)]
    bus: PowerlinkOptions,
    #[command(flatten)]
    phases: PhaseOptions,
    #[command(flatten)]
    seed: SeedOptions,
}

pub(super) fn play(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    let nodes = options.bus.nodes;
    let least_us = if nodes > REAL { 34 * u32::from(nodes) } else { 1000 };
    let usual_us = if nodes > REAL { least_us.next_multiple_of(1000) } else { CYCLE_US };
    let reason = format!("with {} use {least_us} us to 1 s", count(nodes.into(), "node"));
    let cycle_us = options.bus.cycle_us(usual_us, least_us, &reason)?;
    if nodes > REAL {
        virtual_time::play(stage, options, nodes, cycle_us)
    } else {
        ports::play(stage, options, &file(nodes, cycle_us))
    }
}

/// Maximum time for a network to bring all nodes to OPERATIONAL, in nanoseconds of its own time.
const BOUND_NS: u64 = 120 * SECOND;

/// The configuration of the network: each node copies its output to its input, and inverts another one.
fn file(nodes: u8, cycle_us: u32) -> File {
    let signal = |name: &str, object, data_type| Signal { name: name.into(), object, data_type };
    let station = |node: u8| Station {
        node: NodeId(node),
        mandatory: false,
        identity: Identity {
            device_type: 0x000f_0191,
            vendor_id: 0,
            product_code: 0,
            revision_number: 0,
            serial_number: node.into(),
            features: CONTROLLED_NODE_FEATURES,
            device_name: b"lab".to_vec(),
            host_name: name(node).into_bytes(),
        },
        // All slots together are shorter than the cycle.
        pres_timeout_ns: cycle_us * 1000 / 4 * 3 / u32::from(nodes),
        soc_to_poll_ns: 0,
        multiplexed: 0,
        inputs: vec![
            signal("back", id(0x6000, 1), DataType::Unsigned(2)),
            signal("flip", id(0x6000, 2), DataType::Unsigned(1)),
        ],
        outputs: vec![signal("there", id(0x6200, 1), DataType::Unsigned(2))],
        received: Vec::new(),
        described: None,
        parameters: Vec::new(),
    };
    let network = Network {
        cycle_us,
        async_slot_ns: 1_000_000,
        // Time in which all nodes are configured.
        pre_operational_1_us: 1_500_000,
        soc_tolerance_ns: cycle_us * 500,
        soc_jitter_ns: 0,
        threshold: THRESHOLD,
        node_threshold: THRESHOLD,
        multiplexed_cycles: 0,
        prescaler: 2,
        start_all: false,
        basic_ethernet: false,
        nodes: (1..=nodes).map(station).collect(),
    };
    let host = NodeHost {
        store: None,
        host: Host::default(),
        response: None,
        inputs: vec![Pattern::Copy, Pattern::Toggle],
        outputs: vec![Pattern::Counter],
    };
    File {
        network,
        managing: Host::default(),
        soc: None,
        nodes: vec![host; nodes.into()],
        project: None,
        realtime: Profile::default(),
        untrusted: None,
        inputs: Vec::new(),
    }
}

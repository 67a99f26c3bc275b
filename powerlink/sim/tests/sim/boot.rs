//! Networks of the stack's own nodes: they boot, exchange process data, and recover after faults.
//!
//! ```text
//!   managing node ──┬── hub ──┬── node 1
//!                             ├── ...
//!                             └── node N
//! ```

use onbeat_powerlink::cn;
use onbeat_powerlink::mn::{Event, Step};
use onbeat_powerlink::nmt::{self, State};
use onbeat_powerlink::od::{id, profile};
use onbeat_sim::{Conditions, MachineEvent, Network, NetworkConfig};
use onbeat_wire::powerlink::NodeId;

use crate::{CONFIG, CYCLE_NS, ONE, SECOND_NS};

fn network(nodes: u8, cycle_us: u32, mandatory: bool, loss_per_million: u32) -> Network {
    let conditions = Conditions { loss_per_million, ..Conditions::CLEAN };
    Network::new(NetworkConfig {
        nodes,
        cycle_us,
        mandatory,
        conditions,
        seed: nodes.into(),
        ..CONFIG
    })
}

/// Runs until all nodes are in OPERATIONAL.
fn boot(network: &mut Network, limit_s: u64) {
    let up = network.run_until(limit_s * SECOND_NS, Network::is_operational);
    if !up {
        let failures = network.bus.stations[0].node.records.iter();
        for record in failures
            .filter(|record| matches!(record.what, MachineEvent::Managing(Event::Failed(..))))
            .take(20)
        {
            eprintln!("{:9} us {:?}", record.time_ns / 1000, record.what);
        }
        panic!("not operational within {limit_s} s; {:?}", network.checker.violations());
    }
    no_violations(network);
}

fn no_violations(network: &Network) {
    assert!(network.checker.frames() > 0);
    assert_eq!(network.checker.violations(), []);
}

/// Every node's input reaches the managing node, every output its node.
fn exchange(network: &mut Network, nodes: u8, cycle_us: u32) {
    for node in 1..=nodes {
        network.set_input(NodeId(node), node ^ 0xff);
        network.set_output(NodeId(node), node.wrapping_mul(3));
    }
    network.run_for(3 * u64::from(cycle_us) * 1000);
    for node in 1..=nodes {
        assert_eq!(network.input(NodeId(node)), node ^ 0xff, "input of {node}");
        assert_eq!(network.output(NodeId(node)), node.wrapping_mul(3), "output of {node}");
    }
}

#[test]
fn one_node_boots() {
    for mandatory in [true, false] {
        let mut network = network(1, 1000, mandatory, 0);
        boot(&mut network, 10);
        exchange(&mut network, 1, 1000);
    }
}

#[test]
fn eight_nodes_boot() {
    for mandatory in [true, false] {
        let mut network = network(8, 1000, mandatory, 0);
        boot(&mut network, 20);
        exchange(&mut network, 8, 1000);
    }
}

#[test]
fn thirty_two_nodes_boot() {
    let mut network = network(32, 1000, true, 0);
    boot(&mut network, 60);
    exchange(&mut network, 32, 1000);
}

/// The maximum number of nodes. The timeouts of each node's steps start with its own requests, however long it
/// queues.
#[test]
fn a_full_network_boots() {
    let mut network = network(239, 8000, true, 0);
    boot(&mut network, 60);
    exchange(&mut network, 239, 8000);
}

#[test]
fn a_node_fails_and_recovers() {
    for mandatory in [true, false] {
        let mut network = network(4, 1000, mandatory, 0);
        boot(&mut network, 20);
        network.power(NodeId(2), false);
        network.run_for(SECOND_NS / 2);
        assert_eq!(
            network.state(1) == State::Operational,
            !mandatory,
            "the others continue, or not"
        );
        network.power(NodeId(2), true);
        boot(&mut network, 20);
        exchange(&mut network, 4, 1000);
    }
}

#[test]
fn a_cable_is_disconnected_and_connected() {
    let mut network = network(4, 1000, false, 0);
    boot(&mut network, 20);
    network.connect(NodeId(3), false);
    network.run_for(SECOND_NS);
    assert_eq!(network.state(1), State::Operational);
    assert_ne!(network.state(3), State::Operational, "the node detects the loss itself");
    network.connect(NodeId(3), true);
    boot(&mut network, 20);
}

#[test]
fn the_managing_nodes_cable_is_disconnected_and_connected() {
    let mut network = network(4, 1000, false, 0);
    boot(&mut network, 20);
    network.bus.stations[0].connected = false;
    network.run_for(SECOND_NS);
    network.bus.stations[0].connected = true;
    boot(&mut network, 60);
    exchange(&mut network, 4, 1000);
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = || {
        let mut network = network(3, 1000, false, 20_000);
        network.run_for(5 * SECOND_NS);
        (network.bus.frames(), network.bus.stations[0].node.records.clone())
    };
    let (first, second) = (run(), run());
    assert!(!first.1.is_empty());
    assert_eq!(first, second);
}

#[test]
fn one_in_a_hundred_receptions_is_lost() {
    let mut network = network(8, 1000, false, 10_000);
    boot(&mut network, 120);
    network.run_for(10 * SECOND_NS);
    network.bus.conditions.loss_per_million = 0;
    boot(&mut network, 60);
    exchange(&mut network, 8, 1000);
}

/// PRes after the timeout in one cycle of each step: counted (0x1C04, 0x1C07), without a reset.
#[test]
fn one_late_response_in_any_step_of_a_boot_is_only_counted() {
    for step in [Step::Enable, Step::Ready, Step::Start, Step::Operational] {
        for mandatory in [true, false] {
            let mut network = network(3, 1000, mandatory, 0);
            let there = |network: &mut Network| network.managing().step(ONE) == Some(step);
            while !there(&mut network) {
                assert!(network.bus.now_ns() < 20 * SECOND_NS, "{step}");
                network.run_for(CYCLE_NS / 10);
            }
            // After its poll, up to the next one.
            network.bus.conditions.response_ns = 60_000;
            network.run_for(CYCLE_NS);
            network.bus.conditions.response_ns = Conditions::CLEAN.response_ns;
            assert!(network.run_until(20 * SECOND_NS, Network::is_operational), "{step}");
            network.run_for(100 * CYCLE_NS);
            let records = network.bus.stations[0].node.records.iter();
            let failed = records
                .filter(|record| matches!(record.what, MachineEvent::Managing(Event::Failed(..))));
            assert_eq!(failed.count(), 0, "{step}, mandatory: {mandatory}");
            let count =
                |network: &mut Network, index| network.managing().objects().number(id(index, 1));
            let lost = count(&mut network, profile::LOSS_OF_PRES[0]);
            assert_eq!((lost, count(&mut network, profile::LATE_PRES[0])), (1, 1), "{step}");
        }
    }
}

/// PReq and PRes of one node are lost in five successive cycles: the threshold of the managing node (40) is reached,
/// that of the node (80) is not.
#[test]
fn the_managing_node_detects_losses_before_the_node() {
    let mut network = network(2, 1000, false, 0);
    boot(&mut network, 20);
    network.bus.stations[1].node.records.clear();
    let thresholds = |network: &mut Network| {
        let of_mn = network.managing().objects().number(id(profile::LOSS_OF_PRES[2], 1));
        let od = network.controlled(ONE).objects();
        [profile::LOSS_OF_SOC, profile::LOSS_OF_SOA, profile::LOSS_OF_PREQ]
            .map(|index| (of_mn, od.number(id(index, 3))))
    };
    assert_eq!(thresholds(&mut network), [(40, 80); 3]);
    network.bus.conditions.response_ns = 60_000;
    network.run_for(4 * CYCLE_NS);
    network.bus.conditions.response_ns = Conditions::CLEAN.response_ns;
    network.run_for(100 * CYCLE_NS);
    assert!(network.is_operational(), "four losses");
    network.bus.conditions.response_ns = 60_000;
    network.run_for(6 * CYCLE_NS);
    network.bus.conditions.response_ns = Conditions::CLEAN.response_ns;
    let records = network.bus.stations[0].node.records.iter();
    let failed = records
        .filter(|record| matches!(record.what, MachineEvent::Managing(Event::Failed(ONE, _))));
    assert_eq!(failed.count(), 1, "five losses");
    let left = network.bus.stations[1].node.records.iter().any(|record| {
        matches!(record.what, MachineEvent::Controlled(cn::Event::State { by, .. })
            if by == nmt::Event::ErrorCondition)
    });
    assert!(!left, "the node left the cycle by itself");
}

/// The node is turned on up to six seconds before its managing node, or after it: in the meantime it is off, in
/// NOT_ACTIVE, or in BASIC_ETHERNET.
#[test]
fn nodes_and_managing_node_start_in_any_order() {
    for mandatory in [true, false] {
        for lead_ms in (0..=6_000).step_by(250) {
            let mut network = network(1, 1000, mandatory, 0);
            network.bus.stations[0].connected = false;
            network.run_for(lead_ms * 1_000_000);
            network.bus.stations[0].connected = true;
            network.restart_managing();
            boot(&mut network, 5);
        }
        for delay_ms in (0..=3_000).step_by(250) {
            let mut network = network(1, 1000, mandatory, 0);
            network.power(ONE, false);
            network.run_for(delay_ms * 1_000_000);
            network.power(ONE, true);
            boot(&mut network, 5);
        }
    }
}

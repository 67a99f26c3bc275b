//! Unanswered StatusRequests: counted for each node (0x1C15 to 0x1C17), and their consequences.

use onbeat_powerlink::code;
use onbeat_powerlink::mn::{Event, Failure, Step};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::{id, profile};
use onbeat_sim::{MachineEvent, Network, NetworkConfig};
use onbeat_wire::powerlink::{Body, Message, NmtCommandId, NodeId, Service};

use crate::{CONFIG, CYCLE_NS, ONE, SECOND_NS};

/// Two nodes in OPERATIONAL, of which one is stopped, so that it is no longer polled.
fn stopped() -> Network {
    let mut network = Network::new(NetworkConfig { seed: 5, ..CONFIG });
    assert!(network.run_until(60 * SECOND_NS, Network::is_operational));
    network.managing().command(ONE, NmtCommandId::STOP_NODE);
    network.run_for(20 * CYCLE_NS);
    assert_eq!(
        (network.state(1), network.managing().step(ONE)),
        (State::Stopped, Some(Step::Stopped))
    );
    network
}

/// The counters of node 1: all losses, and the one with a threshold.
fn counted(network: &mut Network) -> (u64, u64) {
    let [all, count, _] = profile::LOSS_OF_STATUS;
    let od = network.managing().objects();
    (od.number(id(all, 1)), od.number(id(count, 1)))
}

/// StatusRequests to node 1 until it answers, on request of node 2.
fn ask(network: &mut Network) {
    assert!(network.controlled(NodeId(2)).request(ONE, NmtCommandId::STATUS_REQUEST));
}

#[test]
fn answered_requests_are_not_counted() {
    let mut network = stopped();
    for _ in 0..10 {
        ask(&mut network);
        network.run_for(10 * CYCLE_NS);
    }
    assert_eq!(counted(&mut network), (0, 0));
}

#[test]
fn losses_increase_and_answers_decrease_the_counter() {
    let mut network = stopped();
    network.connect(ONE, false);
    ask(&mut network);
    while counted(&mut network).0 < 3 {
        assert!(network.bus.now_ns() < 60 * SECOND_NS, "a status is requested");
        network.run_for(CYCLE_NS);
    }
    assert_eq!(counted(&mut network), (3, 24));
    network.connect(ONE, true);
    network.run_for(10 * CYCLE_NS);
    let (all, count) = counted(&mut network);
    assert!(all - 3 <= 1 && count == 8 * all - 1, "{all} losses, {count}: one answer was enough");
}

#[test]
fn a_node_without_a_status_restarts() {
    let mut network = stopped();
    network.connect(ONE, false);
    ask(&mut network);
    let mut resets = Vec::new();
    let end_ns = network.bus.now_ns() + 100 * CYCLE_NS;
    network.bus.run_until(end_ns, |_, frame| {
        let message = Message::parse(&frame[14..]).unwrap();
        if let Body::Asnd(Service::NmtCommand(command)) = message.body {
            resets.push((message.destination, command.command, command.data[..2].to_vec()));
        }
    });
    let reset = (ONE, NmtCommandId::RESET_NODE, code::NO_STATUS.to_le_bytes().to_vec());
    assert_eq!(resets, [reset], "once, with its reason");
    assert_eq!(counted(&mut network), (5, 0), "the threshold of a simulated network is 40");
    let records = network.bus.stations[0].node.records.drain(..);
    let failed = records.filter(|record| {
        record.what == MachineEvent::Managing(Event::Failed(ONE, Failure::LossOfStatus))
    });
    assert_eq!(failed.count(), 1);
    network.connect(ONE, true);
    assert!(network.run_until(60 * SECOND_NS, Network::is_operational));
}

#[test]
fn without_a_threshold_status_requests_continue() {
    let mut network = stopped();
    network.managing().set_object(id(profile::LOSS_OF_STATUS[2], 1), &[0; 4]).unwrap();
    network.connect(ONE, false);
    ask(&mut network);
    network.run_for(SECOND_NS);
    let (all, _) = counted(&mut network);
    assert!(all > 100, "{all}");
    assert_eq!(network.managing().step(ONE), Some(Step::Stopped));
}

/// A node that is not scheduled for a moment during its configuration does not fail: in a reduced cycle, here a
/// tenth of a cycle, it receives one request per cycle.
#[test]
fn a_short_silence_in_the_reduced_cycle_causes_few_losses() {
    let mut network = Network::new(NetworkConfig { nodes: 1, mandatory: true, seed: 5, ..CONFIG });
    while network.managing().step(ONE) != Some(Step::Configure) {
        assert!(network.bus.now_ns() < 10 * SECOND_NS);
        network.run_for(CYCLE_NS / 10);
    }
    assert_eq!(network.state(0), State::PreOperational1);
    network.connect(ONE, false);
    network.run_for(3 * CYCLE_NS);
    network.connect(ONE, true);
    let (lost, _) = counted(&mut network);
    assert!((2..=4).contains(&lost), "{lost}");
    assert!(network.run_until(20 * SECOND_NS, Network::is_operational));
    let records = network.bus.stations[0].node.records.drain(..);
    let failed =
        records.filter(|record| matches!(record.what, MachineEvent::Managing(Event::Failed(..))));
    assert_eq!(failed.count(), 0);
}

//! Networks in which some nodes share slots: each is polled in one cycle of a multiplexed cycle.
//!
//! ```text
//!   cycle    0          1          2          0
//!         SoC 1 3 5 2 | 1 3 5 4 | 1 3 5 6 | 1 3 5 2   MC changes here
//! ```

use onbeat_powerlink::od::{ObjectId, id};
use onbeat_sim::{Conditions, Network, NetworkConfig};
use onbeat_wire::powerlink::{Body, Message, NodeId};

use crate::{CONFIG, CYCLE_NS, SECOND_NS};

/// Losses of PReq that a controlled node counted.
const LOSSES_OF_PREQ: ObjectId = id(0x1c0d, 1);

fn network(nodes: u8, multiplexed_cycles: u8, loss_per_million: u32) -> Network {
    let conditions = Conditions { loss_per_million, ..Conditions::CLEAN };
    let mut network = Network::new(NetworkConfig {
        nodes,
        mandatory: true,
        multiplexed_cycles,
        conditions,
        seed: 7,
        ..CONFIG
    });
    operational(&mut network);
    network
}

fn operational(network: &mut Network) {
    let up = network.run_until(60 * SECOND_NS, Network::is_operational);
    assert!(up, "{:?}", network.checker.violations());
    assert_eq!(network.checker.violations(), []);
}

/// A node that was polled, MS of the poll, and whether it was answered.
type Poll = (u8, bool, bool);

/// For each cycle: MC of its SoC, and the polls.
fn cycles(network: &mut Network, count: u64) -> Vec<(bool, Vec<Poll>)> {
    let mut cycles = Vec::new();
    let end_ns = network.bus.now_ns() + count * CYCLE_NS;
    network.bus.run_until(end_ns, |_, frame| {
        let message = Message::parse(&frame[14..]).unwrap();
        match (message.body, cycles.last_mut()) {
            (Body::Soc(soc), _) => cycles.push((soc.multiplexed_cycle_completed, Vec::new())),
            (Body::Preq(preq), Some((_, polls))) => {
                polls.push((message.destination.0, preq.multiplexed_slot, false));
            }
            (Body::Pres(pres), Some((_, polls))) => {
                let poll = polls.last_mut().expect("it was polled");
                assert_eq!((message.source.0, pres.multiplexed_slot), (poll.0, poll.1));
                poll.2 = true;
            }
            _ => {}
        }
    });
    cycles
}

#[test]
fn nodes_take_turns_in_a_multiplexed_cycle() {
    let mut network = network(6, 3, 0);
    let seen = cycles(&mut network, 60);
    // Cycles from the first start of a multiplexed cycle according to MC.
    let first = seen.windows(2).position(|pair| pair[0].0 != pair[1].0).unwrap() + 1;
    let mut completed = seen[first].0;
    for (n, (mc, polls)) in seen[first..].iter().enumerate() {
        completed ^= n > 0 && n % 3 == 0;
        let slot = [2, 4, 6][n % 3];
        let expected = [1, 3, 5].map(|node| (node, false, true)).into_iter();
        let expected: Vec<_> = expected.chain([(slot, true, true)]).collect();
        assert_eq!((*mc, polls), (completed, &expected), "cycle {n}");
    }
    for node in 1..=6 {
        assert_eq!(network.controlled(NodeId(node)).objects().number(LOSSES_OF_PREQ), 0);
    }
}

#[test]
fn process_data_takes_a_multiplexed_cycle() {
    let mut network = network(6, 3, 0);
    for node in 1..=6 {
        network.set_input(NodeId(node), node ^ 0xff);
        network.set_output(NodeId(node), node * 3);
    }
    network.run_for(5 * CYCLE_NS);
    for node in 1..=6 {
        assert_eq!(network.input(NodeId(node)), node ^ 0xff, "input of {node}");
        assert_eq!(network.output(NodeId(node)), node * 3, "output of {node}");
    }
}

/// Losses are counted, and the network continues.
#[test]
fn losses_are_those_of_the_nodes_own_cycle() {
    let mut network = network(6, 5, 0);
    network.bus.conditions.loss_per_million = 2_000;
    network.run_for(30 * SECOND_NS);
    network.bus.conditions.loss_per_million = 0;
    operational(&mut network);
    let count = |network: &mut Network, node| {
        network.controlled(NodeId(node)).objects().number(LOSSES_OF_PREQ)
    };
    let (every, slot) = (count(&mut network, 1), count(&mut network, 2));
    // A node with a fifth of the polls loses about a fifth of the frames.
    assert!(slot > 0 && every > 2 * slot, "{every} and {slot}");
}

#[test]
fn more_slots_than_nodes_and_a_full_network() {
    network(3, 250, 0);
    network(60, 4, 0);
}

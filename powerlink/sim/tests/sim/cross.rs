//! Cross traffic: controlled nodes receive the PRes of others, octet for octet.

use onbeat_powerlink::network::{self, ReceivedSignal, Signal};
use onbeat_powerlink::od::{DataType, ObjectId, id};
use onbeat_powerlink::pdo::MappingEntry;
use onbeat_sim::{Conditions, Network, NetworkConfig};
use onbeat_wire::powerlink::{Body, Message, NodeId};
use onbeat_wire::random::Random;

use crate::{CONFIG, CYCLE_NS, SECOND_NS};

/// The inputs of every node, beside the usual octet: types, and octets in a PRes.
const INPUTS: [(DataType, usize); 4] = [
    (DataType::Boolean, 1),
    (DataType::Integer(4), 4),
    (DataType::Unsigned(2), 2),
    (DataType::Unsigned(8), 8),
];
/// Receiver, sub-index of its object, sender, and input of the sender.
const RECEIVED: [(u8, u8, u8, usize); 8] = [
    (1, 1, 2, 2),
    (1, 2, 3, 4),
    (1, 3, 4, 1),
    (2, 1, 1, 1),
    (2, 2, 1, 2),
    (2, 3, 4, 3),
    (3, 1, 2, 0),
    (4, 1, 2, 4),
];

fn input(n: usize) -> ObjectId {
    id(0x6000, 1 + n as u8)
}

fn data_type(input: usize) -> DataType {
    // The first input is the usual octet.
    input.checked_sub(1).map_or(DataType::Unsigned(1), |n| INPUTS[n].0)
}

fn describe(network: &mut network::Network) {
    for station in &mut network.nodes {
        let further = (1..).zip(INPUTS).map(|(n, (data_type, _))| Signal {
            name: format!("input {n}"),
            object: input(n),
            data_type,
        });
        station.inputs.extend(further);
        let of_it = RECEIVED.iter().filter(|(receiver, ..)| NodeId(*receiver) == station.node);
        station.received = of_it
            .map(|(_, sub, source, input)| ReceivedSignal {
                name: format!("input {input} of {source}"),
                object: id(0x6400, *sub),
                data_type: data_type(*input),
                source: NodeId(*source),
                input: *input,
            })
            .collect();
    }
}

/// The octets of an input in the PRes of its node.
fn place(input: usize) -> std::ops::Range<usize> {
    let lens = [1].into_iter().chain(INPUTS.map(|(_, len)| len));
    let start: usize = lens.clone().take(input).sum();
    start..start + lens.clone().nth(input).unwrap()
}

/// Runs cycles with random inputs; each received object has the octets of the last PRes. Returns the number of
/// different values.
fn exchange(network: &mut Network, cycles: u32) -> usize {
    let mut random = Random::new(9);
    let mut values = std::collections::BTreeSet::new();
    for _ in 0..cycles {
        for node in 1..=4 {
            let node = network.controlled(NodeId(node));
            for n in 0..=INPUTS.len() {
                let len = place(n).len();
                let octets = random.below(u64::MAX).to_le_bytes();
                let octets = if data_type(n) == DataType::Boolean {
                    vec![octets[0] & 1]
                } else {
                    octets[..len].to_vec()
                };
                node.set_object(input(n), &octets).unwrap();
            }
        }
        let mut sent = [const { Vec::new() }; 5];
        network.run_watched(CYCLE_NS, |_, frame| {
            let message = Message::parse(&frame[14..]).unwrap();
            if let Body::Pres(pres) = message.body {
                if pres.ready {
                    sent[usize::from(message.source.0)] = pres.payload.to_vec();
                }
            }
        });
        for (receiver, sub, source, input) in RECEIVED {
            let payload = &sent[usize::from(source)];
            if payload.is_empty() {
                continue;
            }
            let od = network.controlled(NodeId(receiver)).objects();
            let received = od.get(id(0x6400, sub)).unwrap();
            assert_eq!(received, &payload[place(input)], "{input} of {source} in {receiver}");
            values.insert((receiver, sub, received.to_vec()));
        }
    }
    values.len()
}

#[test]
fn nodes_receive_the_values_of_others() {
    let config = NetworkConfig { nodes: 4, seed: 21, ..CONFIG };
    let mut network = Network::changed(config, describe);
    assert!(network.run_until(60 * SECOND_NS, Network::is_operational));
    let od = network.controlled(NodeId(1)).objects();
    let channels = [0x1400, 0x1401, 0x1402, 0x1403].map(|index| od.number(id(index, 1)));
    assert_eq!(channels, [0, 2, 3, 4], "more than the usual three");
    let mapped = MappingEntry::from_number(od.number(id(0x1601, 1)));
    assert_eq!((mapped.object, mapped.offset, mapped.len), (id(0x6400, 1), 16, 32));
    assert!(exchange(&mut network, 500) > 8 * 100);
    // Process data of the managing node are as without.
    network.set_output(NodeId(3), 77);
    network.run_for(10 * CYCLE_NS);
    assert_eq!(network.output(NodeId(3)), 77);
    // A node that is absent for a while.
    network.power(NodeId(2), false);
    network.run_for(SECOND_NS);
    network.power(NodeId(2), true);
    assert!(network.run_until(60 * SECOND_NS, Network::is_operational));
    assert!(exchange(&mut network, 100) > 8 * 20);
    assert_eq!(network.checker.violations(), []);
}

/// A multiplexed node is heard in its own cycles.
#[test]
fn nodes_receive_the_values_of_multiplexed_ones() {
    let config = NetworkConfig { nodes: 4, multiplexed_cycles: 3, seed: 22, ..CONFIG };
    let mut network = Network::changed(config, describe);
    assert!(network.run_until(60 * SECOND_NS, Network::is_operational));
    assert!(exchange(&mut network, 300) > 8 * 30);
    assert_eq!(network.checker.violations(), []);
}

/// Lost frames: a receiver keeps the last values, and no others.
#[test]
fn a_lossy_medium_delivers_no_wrong_values() {
    let conditions = Conditions { loss_per_million: 10_000, ..Conditions::CLEAN };
    let config = NetworkConfig { nodes: 4, conditions, seed: 23, ..CONFIG };
    let mut network = Network::changed(config, describe);
    assert!(network.run_until(120 * SECOND_NS, Network::is_operational));
    let mut seen = 0;
    for value in 1..=200_u8 {
        for node in 1..=4 {
            network.set_input(NodeId(node), value);
        }
        network.run_for(3 * CYCLE_NS);
        // Input 0 of node 2 in node 3.
        let received = network.controlled(NodeId(3)).objects().number(id(0x6400, 1)) as u8;
        assert!((value.saturating_sub(20)..=value).contains(&received), "{received} {value}");
        seen += u32::from(received == value);
    }
    assert!(seen > 150, "{seen}");
}

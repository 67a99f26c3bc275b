//! Process data in both directions, octet for octet: what an application sends and receives, and the payloads of polls
//! and responses in the capture.
//!
//! ```text
//!   onbeat, controlled      sends its output back (copy)            each response is the poll two cycles before
//!   onbeat, managing        sends a node's input back (copy)        each poll is a response before
//!   demo, controlled        input by keys i and d; p prints output  its printed lines are the payloads
//!   demo, managing          moves a light to each node, every 20 * input cycles, or every cycle if the input is 0
//! ```

use onbeat_wire::powerlink::NodeId;
use serde_json::Value;

use super::bus::Bus;
use super::configuration::{NODES, NodeSpec};
use super::record::Exchange;
use super::{Maker, Programs};
use crate::common::powerlink::row;

const MN: u8 = NodeId::MN.0;
/// Cycles of process data to compare.
const CYCLES: usize = 600;
/// Cycles from a poll to its value in a response: the application reads it, and the next SoC latches what it wrote.
const ECHO: usize = 2;
const INPUTS: &str = "Digital inputs: ";
const OUTPUTS: &str = "Digital outputs: ";
/// A light that has moved to the last position.
const LAST: u8 = 0x80;

pub(super) fn process_data(programs: &Programs) {
    under_onbeat(programs);
    under_reference(programs);
}

fn exchanges(bus: &Bus, node: u8) -> &[Exchange] {
    bus.record.exchanges.get(&node).map_or(&[], Vec::as_slice)
}

fn poll(exchange: &Exchange) -> u8 {
    exchange.poll[0]
}

/// Values without repetitions.
fn changes(values: impl IntoIterator<Item = u8>) -> Vec<u8> {
    let mut values: Vec<u8> = values.into_iter().collect();
    values.dedup();
    values
}

fn responses(exchanges: &[Exchange], octet: usize) -> impl Iterator<Item = u8> + '_ {
    exchanges.iter().filter_map(move |exchange| Some(exchange.response.as_ref()?[octet]))
}

/// Checks that a node of onbeat sent back each value that it received, [`ECHO`] cycles later.
fn check_echo(bus: &Bus, node: u8) {
    let exchanges = exchanges(bus, node);
    let mut compared = 0;
    for pair in exchanges.windows(1 + ECHO) {
        let last = &pair[ECHO];
        if let Some(response) = &last.response {
            assert_eq!(response[0], poll(&pair[0]), "node {node}, frame {}", last.frame);
            compared += 1;
        }
    }
    assert!(compared >= CYCLES, "node {node}: {compared} responses");
    let values = changes(exchanges.iter().map(poll)).len();
    println!(
        "node {node}: {compared} responses of its application are the polls, {values} changes"
    );
}

/// The last value and the number of changes of a value that a node of onbeat received from or as `node`.
fn received(result: &Value, node: u8, name: &str) -> (u64, u64) {
    let rows = result["figures"]["values"]["rows"].as_array().expect("values");
    let node = node.to_string();
    let found = |row: &&Value| row[0] == node && row[1] == name && row[3] == "received";
    let row = rows.iter().find(found).unwrap_or_else(|| panic!("{name} of {node}: {rows:?}"));
    (row[4].as_u64().expect("a value"), row[5].as_u64().expect("a number of changes"))
}

/// Presses a key at a node of the reference; waits until it has printed a further line; returns that.
fn press(bus: &mut Bus, node: u8, key: u8, text: &str) -> u8 {
    let before = bus.printed(node, text).len();
    bus.press(node, key);
    bus.wait(&format!("node {node} prints after key {:?}", char::from(key)), |bus| {
        bus.printed(node, text).len() > before
    });
    bus.printed(node, text)[before]
}

/// Waits until a node's responses have a value.
fn wait_input(bus: &mut Bus, node: u8, value: u8) {
    bus.wait(&format!("response {value:#04x} of node {node}"), |bus| {
        responses(exchanges(bus, node), 0).last() == Some(value)
    });
}

/// Waits until a node's polls have a value.
fn wait_output(bus: &mut Bus, node: u8, value: u8) {
    bus.wait(&format!("poll {value:#04x} to node {node}"), |bus| {
        exchanges(bus, node).last().map(poll) == Some(value)
    });
}

fn wait_cycles(bus: &mut Bus, node: u8) {
    bus.wait(&format!("{CYCLES} cycles"), |bus| exchanges(bus, node).len() > CYCLES);
}

fn under_onbeat(programs: &Programs) {
    let [ours, reference, last] = NODES;
    let nodes = [
        NodeSpec::new(ours, Maker::Onbeat),
        NodeSpec { output: "copy", ..NodeSpec::new(reference, Maker::Reference) },
        NodeSpec::new(last, Maker::Reference),
    ];
    let mut bus = Bus::boot(programs, "process-data-onbeat", Maker::Onbeat, &nodes, false);

    // The demo's application sets an input, the managing node receives it and sends it back, the demo prints it.
    let mut inputs = vec![1];
    for key in *b"iiiiiiiiidd" {
        let input = press(&mut bus, reference, key, INPUTS);
        inputs.push(input);
        wait_input(&mut bus, reference, input);
        wait_output(&mut bus, reference, input);
        // Its application has the output in a later cycle than the interface.
        let mut output = press(&mut bus, reference, b'p', OUTPUTS);
        bus.wait("the output is printed", |bus| {
            if output != input {
                bus.press(reference, b'p');
                output = bus.printed(reference, OUTPUTS).last().copied().unwrap_or_default();
            }
            output == input
        });
    }
    wait_cycles(&mut bus, ours);
    let exchanges_of = |bus: &Bus, node| exchanges(bus, node).to_vec();
    let seen = exchanges_of(&bus, reference);
    assert_eq!(changes(responses(&seen, 0)), inputs, "what the demo's application sent");
    let outputs = changes(seen.iter().map(poll));
    let first = usize::from(outputs[0] == 0);
    assert_eq!(outputs[first..], inputs, "what the managing node received and sent back");

    // A value that changes in each cycle: what the demo prints was in a poll meanwhile.
    let before = exchanges(&bus, last).len();
    let printed = press(&mut bus, last, b'p', OUTPUTS);
    bus.drain();
    let meanwhile = &exchanges(&bus, last)[before.saturating_sub(2)..];
    assert!(meanwhile.iter().any(|exchange| poll(exchange) == printed), "{printed:#04x}");

    let found = bus.finish(MN);
    let (value, changed) = received(&found, reference, "echo");
    assert_eq!((value, changed), (inputs[inputs.len() - 1].into(), inputs.len() as u64));
    let (value, changed) = received(&found, last, "echo");
    assert_eq!((value, changed), (1, 1), "an input without a key");
    assert_eq!(row(&found, "nodes", &ours.to_string())[2], "OPERATIONAL");
    check_echo(&bus, ours);
    let count = inputs.len();
    bus.end(&format!("{count} inputs of the demo returned, {printed:#04x} received meanwhile"));
}

/// The frames in which a light has moved.
fn moves(exchanges: &[Exchange]) -> Vec<usize> {
    let moved = |place: &usize| poll(&exchanges[*place]) != poll(&exchanges[place - 1]);
    (1..exchanges.len()).filter(moved).collect()
}

fn under_reference(programs: &Programs) {
    let [constant, counter, reference] = NODES;
    let nodes = [
        NodeSpec::new(constant, Maker::Onbeat),
        NodeSpec { input: "counter", ..NodeSpec::new(counter, Maker::Onbeat) },
        NodeSpec::new(reference, Maker::Reference),
    ];
    let mut bus = Bus::boot(programs, "process-data-reference", Maker::Reference, &nodes, false);
    // A light that follows the greatest input moves after 2,560 cycles.
    let input = press(&mut bus, reference, b'd', INPUTS);
    assert_eq!(input, LAST);
    wait_input(&mut bus, reference, input);
    wait_cycles(&mut bus, constant);
    let cycles = exchanges(&bus, constant).len();
    bus.wait("cycles of the light with the greatest input", |bus| {
        exchanges(bus, constant).len() > cycles + CYCLES
    });
    let printed = press(&mut bus, reference, b'p', OUTPUTS);
    let outputs = &exchanges(&bus, reference)[cycles..];
    assert!(outputs.iter().any(|exchange| poll(exchange) == printed), "{printed:#04x}");
    assert!(moves(outputs).len() <= 1, "the light of input {input:#04x} moves each 2,560 cycles");

    // The managing node's application received 0, or a counter that is 0 once in 256 cycles.
    for node in [constant, counter] {
        check_echo(&bus, node);
        let all = exchanges(&bus, node);
        assert!(all.iter().all(|exchange| poll(exchange).count_ones() <= 1), "lights of {node}");
    }
    let share = moves(exchanges(&bus, constant)).len() as f64 / cycles as f64;
    assert!(share > 0.9, "the light of input 0 moves in each cycle: {share}");
    let all = exchanges(&bus, counter);
    let moved = moves(all);
    let zero = |place: &usize| all[*place].response.as_ref().is_some_and(|octets| octets[1] == 0);
    let zeros: Vec<usize> = (0..all.len().saturating_sub(4)).filter(zero).collect();
    assert!(zeros.len() >= 2, "{zeros:?}");
    for zero in &zeros {
        assert!(
            moved.iter().any(|place| (zero + 1..=zero + 3).contains(place)),
            "{zero}: {moved:?}"
        );
    }
    assert!(moved.len() <= all.len() / 64, "{} moves in {} cycles", moved.len(), all.len());

    // An application reads the output of a poll at the next SoC: the last one has none.
    bus.kill(MN);
    for node in [constant, counter] {
        let (value, changed) = received(&bus.stop(node).1, node, "lights");
        let polls: Vec<u8> = exchanges(&bus, node).iter().map(poll).collect();
        let last = &polls[polls.len() - 2..];
        assert!(last.iter().any(|poll| u64::from(*poll) == value), "{value}: {last:?} to {node}");
        let captured = changes(polls).len() as u64;
        assert!(changed.abs_diff(captured) <= 1, "node {node}: {changed} changes of {captured}");
    }
    bus.end(&format!("{} passes of the counter moved its light", zeros.len()));
}

//! A managing node that must leave the network unmanaged (0x1F80, bit 13): it listens as any other, and then is
//! a host of plain Ethernet.

use onbeat_powerlink::Node;
use onbeat_powerlink::ethernet::SendError;
use onbeat_powerlink::mn::Event;
use onbeat_powerlink::nmt::{MnEvent, State};
use onbeat_powerlink::od::profile::{self, startup};
use onbeat_sim::{MachineEvent, Network, NetworkConfig};

use crate::{CONFIG, ONE, SECOND_NS};

const MN: [u8; 6] = [2, 0x45, 0x50, 0x4c, 0, 0];

/// A network just turned on, of a managing node with these bits of 0x1F80.
fn network(bits: u32) -> Network {
    let mut network = Network::new(NetworkConfig { mandatory: true, seed: 9, ..CONFIG });
    set(&mut network, bits);
    network
}

fn set(network: &mut Network, bits: u32) {
    let bits = (bits | startup::CHECK_CONFIGURATION).to_le_bytes();
    network.managing().set_object(profile::STARTUP, &bits).unwrap();
}

/// Frames on the bus within a time: times, and whether they are POWERLINK's.
fn frames(network: &mut Network, ns: u64) -> Vec<(u64, bool)> {
    let mut frames = Vec::new();
    network.run_watched(ns, |time_ns, frame| frames.push((time_ns, frame[12..14] == [0x88, 0xab])));
    assert_eq!(network.checker.violations(), []);
    frames
}

/// An IP broadcast of the managing node's host.
fn packet() -> Vec<u8> {
    [&[0xff; 6][..], &MN, &[8, 0], &[0x45; 40]].concat()
}

#[test]
fn the_network_stays_unmanaged() {
    let mut network = network(startup::BASIC_ETHERNET);
    assert_eq!(network.managing().send_other(&packet()), Err(SendError::State(State::NotActive)));
    assert_eq!(frames(&mut network, 10 * SECOND_NS), []);
    let states = [0, 1, 2].map(|place| network.state(place));
    assert_eq!(
        states,
        [State::BasicEthernet; 3],
        "the nodes hear no managing node, either (0x1F99)"
    );
    assert_eq!(network.managing().objects().number(profile::NMT_STATE), 0x1e);
    assert_eq!(network.managing().next_deadline_ns(), None);
    let records = network.bus.stations[0].node.records.drain(..);
    let entered = |record: &onbeat_sim::Record| {
        record.time_ns == SECOND_NS
            && record.what
                == MachineEvent::Managing(Event::State {
                    from: State::NotActive,
                    to: State::BasicEthernet,
                    by: MnEvent::AloneInBasicEthernet,
                })
    };
    assert!(records.into_iter().any(|record| entered(&record)), "after 0x1F89/1, one second");
}

/// Frames of the host are sent at once, from either end.
#[test]
fn the_host_uses_plain_ethernet() {
    let mut network = network(startup::BASIC_ETHERNET);
    network.run_for(10 * SECOND_NS);
    for _ in 0..3 {
        assert!(network.managing().has_room());
        network.managing().send_other(&packet()).unwrap();
        network.controlled(ONE).send_other(&packet()).unwrap();
    }
    let now_ns = network.bus.now_ns();
    // A driver fetches a node's frames after each of its calls.
    let mut soa = vec![1, 0x11, 0x1e, 0, 0, 4, 2, 9, 9, 9, 9, 9, 0x88, 0xab, 6, 240, 9, 1];
    soa.resize(60, 0);
    network.managing().handle_frame(now_ns, &soa);
    let sent: Vec<Vec<u8>> = std::iter::from_fn(|| network.managing().poll_transmit()).collect();
    assert_eq!(sent.len(), 3, "and nothing in response to other frames");
    assert!(sent.iter().all(|frame| frame.len() == 60 && frame.starts_with(&packet())));
    assert_eq!(network.state(0), State::BasicEthernet);
}

/// Another managing node is heard: this one waits as long as the other is present.
#[test]
fn another_managing_node_has_precedence() {
    let mut network = network(startup::BASIC_ETHERNET);
    let mut soa = vec![1, 0x11, 0x1e, 0, 0, 3, 2, 9, 9, 9, 9, 9, 0x88, 0xab, 5, 255, 240, 0x1d];
    soa.resize(60, 0);
    for n in 1..=10 {
        network.run_for(SECOND_NS / 2);
        network.managing().handle_frame(n * SECOND_NS / 2, &soa);
        assert_eq!(network.state(0), State::NotActive, "{n}");
    }
    network.run_for(SECOND_NS + 1);
    assert_eq!(network.state(0), State::BasicEthernet);
}

#[test]
fn a_reset_leaves_and_enters_basic_ethernet() {
    let mut network = network(startup::BASIC_ETHERNET);
    network.run_for(10 * SECOND_NS);
    set(&mut network, 0);
    let now_ns = network.bus.now_ns();
    network.managing().reset(now_ns);
    assert_eq!(network.state(0), State::NotActive);
    assert!(network.run_until(60 * SECOND_NS, Network::is_operational));

    set(&mut network, startup::BASIC_ETHERNET);
    let now_ns = network.bus.now_ns();
    network.managing().reset(now_ns);
    network.run_for(20 * SECOND_NS);
    assert_eq!(network.state(0), State::BasicEthernet);
    assert_eq!(frames(&mut network, SECOND_NS), []);
    set(&mut network, 0);
    let now_ns = network.bus.now_ns();
    network.managing().reset(now_ns);
    assert!(network.run_until(60 * SECOND_NS, Network::is_operational));
    assert_eq!(network.checker.violations(), []);
}

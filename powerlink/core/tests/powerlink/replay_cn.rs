//! A controlled node that hears the managing node of a capture sends what the node in it sent,
//! octet for octet.

use crate::common::{CN_MAC, Captured, INPUT, MN_MAC, capture, controlled_node, message, unpadded};
use onbeat_powerlink::MIN_LEN;
use onbeat_powerlink::Node;
use onbeat_powerlink::cn::Event;
use onbeat_powerlink::dll::Losses;
use onbeat_powerlink::nmt::State;
use onbeat_wire::powerlink::{Body, NmtCommandId, Service};

/// A capture, and for how long its node hears nothing after a reset: 500 ms, and what its host took
/// on top.
const CAPTURES: [(&str, u64); 2] =
    [("boot-1cn-mandatory", 501_000_000), ("boot-1cn-stock", 510_000_000)];

/// How late the timers of the recorded node are.
const TIMER_NS: u64 = 2_000_000;

fn is_reset(frame: &[u8]) -> bool {
    match message(frame).body {
        Body::Asnd(Service::NmtCommand(command)) => {
            matches!(command.command, NmtCommandId::RESET_NODE | NmtCommandId::RESET_CONFIGURATION)
        }
        _ => false,
    }
}

/// Feeds a node with what the managing node sent; compares what it sends with what was recorded.
/// Returns the states it was in, as far as it was part of the network in them, and the losses of SoC
/// that it counted.
fn replay((name, deaf_ns): (&str, u64)) -> (Vec<State>, usize) {
    let frames = capture(name);
    let from_mn = |captured: &Captured| captured.frame[6..12] == MN_MAC.0;
    let mut recorded = frames.iter().filter(|captured| captured.frame[6..12] == CN_MAC.0);
    let mut node = controlled_node(1, CN_MAC);
    node.start(0);
    let mut hears_from = 0;
    for heard in frames.iter().filter(|captured| from_mn(captured)) {
        let late = |at: &u64| *at + TIMER_NS <= heard.time_ns;
        while let Some(deadline) = node.next_deadline_ns().filter(late) {
            node.handle_deadline(deadline);
        }
        // The application's input, which the recorded one had too.
        node.set_object(INPUT, &[1]).unwrap();
        if heard.time_ns >= hears_from {
            node.handle_frame(heard.time_ns, &heard.frame);
        }
        if is_reset(&heard.frame) {
            hears_from = heard.time_ns + deaf_ns;
        }
        while let Some(ours) = node.poll_transmit() {
            check(heard, &ours, recorded.next());
        }
    }
    assert_eq!(recorded.count(), 0, "every frame of the recorded node was compared");
    let (mut states, mut lost) = (Vec::new(), 0);
    while let Some(event) = node.poll_event() {
        match event {
            Event::State { to, .. } if to.communicates() => states.push(to),
            Event::Lost(Losses { soc: true, preq: false, soa: false }) => lost += 1,
            Event::Lost(losses) => panic!("only SoC came late in the captures: {losses:?}"),
            _ => {}
        }
    }
    (states, lost)
}

/// What was sent when `heard` came, against what was sent then in the capture.
fn check(heard: &Captured, ours: &[u8], recorded: Option<&Captured>) {
    let at = format!("after frame {} at {} us", heard.number, heard.time_ns / 1000);
    let Some(recorded) = recorded else { panic!("{at}: nothing recorded, {}", message(ours)) };
    let messages = (message(ours), message(&recorded.frame));
    assert_eq!(unpadded(ours), unpadded(&recorded.frame), "{at}: {} {}", messages.0, messages.1);
    assert_eq!(ours.len(), recorded.frame.len().max(MIN_LEN), "{at}");
    // The recorded one took a while, once so long that the managing node went on.
    let delay_ns = recorded.time_ns.checked_sub(heard.time_ns);
    assert!(delay_ns.is_some_and(|delay| delay < 1_000_000), "{at}: {delay_ns:?} {}", messages.0);
}

#[test]
fn configured_before_the_isochronous_cycle() {
    use State::*;
    let (states, lost) = replay(CAPTURES[0]);
    // 137, 172 and 105 ms without a SoC, where a cycle and its tolerance are 100 ms.
    assert_eq!(lost, 3);
    assert_eq!(
        states,
        [
            NotActive,
            PreOperational1,
            NotActive,
            PreOperational1,
            NotActive,
            PreOperational1,
            PreOperational2,
            ReadyToOperate,
            Operational,
        ]
    );
}

#[test]
fn configured_within_the_isochronous_cycle() {
    use State::*;
    let (states, lost) = replay(CAPTURES[1]);
    // 131, 263 and 116 ms; and before the node was told of a tolerance, 90 and 72 ms.
    assert_eq!(lost, 1 + 2 + 1 + 1 + 1);
    assert_eq!(
        states,
        [
            NotActive,
            PreOperational1,
            NotActive,
            PreOperational1,
            PreOperational2,
            NotActive,
            PreOperational1,
            PreOperational2,
            ReadyToOperate,
            Operational,
        ]
    );
}

/// Each frame of the captures is what its fields make, whoever sent it.
#[test]
fn every_frame_is_written_as_it_was_read() {
    for (name, _) in CAPTURES {
        for captured in capture(name) {
            let message = message(&captured.frame);
            let mut again = vec![0; captured.frame.len() - 14];
            assert_eq!(message.emit(&mut again), Ok(message.buffer_len()));
            assert_eq!(again, captured.frame[14..], "frame {}: {message}", captured.number);
        }
    }
}

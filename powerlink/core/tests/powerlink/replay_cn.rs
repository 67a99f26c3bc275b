//! A controlled node that receives the managing node's frames of a capture sends the recorded node's frames,
//! octet for octet.

use crate::common::{
    CN_MAC, CapturedFrame, INPUT, MN_MAC, capture, controlled_node, message, unpadded,
};
use onbeat_powerlink::MIN_LEN;
use onbeat_powerlink::Node;
use onbeat_powerlink::cn::Event;
use onbeat_powerlink::dll::Losses;
use onbeat_powerlink::nmt::State;
use onbeat_wire::powerlink::{Body, NmtCommandId, Service};

/// A capture, and how long its node is deaf after a reset: 500 ms, and the additional time of its host.
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

/// Passes the managing node's frames to a node; compares its frames with the recorded ones. Returns its states
/// while it was part of the network, and the losses of SoC that it counted.
fn replay((name, deaf_ns): (&str, u64)) -> (Vec<State>, usize) {
    let frames = capture(name);
    let from_mn = |captured: &CapturedFrame| captured.frame[6..12] == MN_MAC.0;
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

/// Compares the frames sent when `heard` arrived with those of the capture.
fn check(heard: &CapturedFrame, ours: &[u8], recorded: Option<&CapturedFrame>) {
    let at = format!("after frame {} at {} us", heard.number, heard.time_ns / 1000);
    let Some(recorded) = recorded else { panic!("{at}: nothing recorded, {}", message(ours)) };
    let messages = (message(ours), message(&recorded.frame));
    assert_eq!(unpadded(ours), unpadded(&recorded.frame), "{at}: {} {}", messages.0, messages.1);
    assert_eq!(ours.len(), recorded.frame.len().max(MIN_LEN), "{at}");
    // The recorded node took a while, once until after the managing node's next request.
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
    // 131, 263 and 116 ms; and before the node had a tolerance, 90 and 72 ms.
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

/// Each frame of the captures is reproduced from its fields, whatever its sender.
#[test]
fn every_frame_is_reproduced() {
    for (name, _) in CAPTURES {
        for captured in capture(name) {
            let message = message(&captured.frame);
            let mut again = vec![0; captured.frame.len() - 14];
            assert_eq!(message.emit(&mut again), Ok(message.buffer_len()));
            assert_eq!(again, captured.frame[14..], "frame {}: {message}", captured.number);
        }
    }
}

//! A managing node whose SoC another component sends, with a controlled node, on a cable in virtual time.

use crate::common::cable::{CYCLE_NS, Cable, LaunchOutcome, NEWS_NS, NODE};
use crate::common::message;
use onbeat_powerlink::Node;
use onbeat_powerlink::mn::{Event, Step};
use onbeat_powerlink::nmt::State;
use onbeat_wire::powerlink::Body;

fn not_launched(cable: &Cable) -> usize {
    cable.events.iter().filter(|event| **event == Event::NotLaunched).count()
}

fn body(frame: &[u8]) -> Body<'_> {
    message(frame).body
}

/// From the first SoC on.
fn cycles(cable: &Cable) -> &[(u64, Vec<u8>)] {
    let first = cable.sent.iter().position(|(_, frame)| matches!(body(frame), Body::Soc(_)));
    &cable.sent[first.expect("there are cycles")..]
}

#[test]
fn launched_cycles_are_identical_and_start_on_time() {
    let (mut usual, mut launching) = (Cable::new(false), Cable::new(true));
    for cable in [&mut usual, &mut launching] {
        cable.run_until_operational();
        let end_ns = cable.now_ns + 50 * CYCLE_NS;
        cable.run(end_ns, |_| false);
    }
    let (expected, found) = (cycles(&usual), cycles(&launching));
    let (first_ns, _) = found[0];
    for ((usual_ns, usual), (at_ns, frame)) in expected.iter().zip(found) {
        assert_eq!(usual, frame, "at {at_ns} ns");
        // Everything else waits for the confirmation.
        let late_ns = if matches!(body(frame), Body::Soc(_)) { 0 } else { NEWS_NS };
        assert_eq!(*at_ns, usual_ns + late_ns);
    }
    let socs = found.iter().filter(|(_, frame)| matches!(body(frame), Body::Soc(_)));
    for (number, (at_ns, frame)) in (0..).zip(socs) {
        assert_eq!(*at_ns, first_ns + number * CYCLE_NS);
        let Body::Soc(soc) = body(frame) else { unreachable!() };
        assert_eq!(soc.relative_time_us, number * CYCLE_NS / 1000);
        let time_ns =
            u64::from(soc.net_time.seconds) * 1_000_000_000 + u64::from(soc.net_time.nanoseconds);
        assert_eq!(time_ns, *at_ns, "SoC has its launch time");
    }
    assert!(found.len() > 150 && not_launched(&launching) == 0, "{:?}", launching.events);
}

#[test]
fn the_node_sends_a_soc_that_could_not_be_launched() {
    let mut cable = Cable::new(true);
    cable.run_until_operational();
    let before = cable.sent.len();
    cable.fate = LaunchOutcome::Dropped;
    let end_ns = cable.now_ns + 10 * CYCLE_NS;
    cable.run(end_ns, |_| false);
    let socs = cable.sent[before..].iter().filter(|(_, frame)| matches!(body(frame), Body::Soc(_)));
    assert_eq!(socs.count(), 10);
    assert_eq!(not_launched(&cable), 10);
    assert_eq!(cable.mn.step(NODE), Some(Step::Operational), "{:?}", cable.events);
}

#[test]
fn without_confirmation_the_cycle_continues_after_half_of_it() {
    let mut cable = Cable::new(true);
    cable.run_until_operational();
    let before = cable.sent.len();
    cable.fate = LaunchOutcome::Unconfirmed;
    let end_ns = cable.now_ns + 10 * CYCLE_NS;
    cable.run(end_ns, |_| false);
    let count = |kind: fn(&Body<'_>) -> bool| {
        cable.sent[before..].iter().filter(|(_, frame)| kind(&body(frame))).count()
    };
    assert_eq!(count(|body| matches!(body, Body::Soc(_))), 10, "none is sent twice");
    assert!(count(|body| matches!(body, Body::Preq(_))) >= 9);
    assert!(not_launched(&cable) >= 9);
    assert_eq!(cable.mn.step(NODE), Some(Step::Operational), "{:?}", cable.events);
}

/// Reports of a canceled launch, or of another instant, are ignored.
#[test]
fn a_restart_cancels_the_launch() {
    let mut cable = Cable::new(true);
    cable.run_until_operational();
    cable.cn = None;
    let end_ns = cable.now_ns + 100 * CYCLE_NS;
    cable.run(end_ns, |cable| cable.mn.state() == State::PreOperational1);
    assert_eq!(cable.mn.state(), State::PreOperational1, "{:?}", cable.events);
    assert!(cable.planned.is_none(), "a SoC would start a cycle during the boot");
    let now_ns = cable.now_ns;
    cable.mn.handle_launched(now_ns, now_ns, true);
    cable.mn.handle_launched(now_ns, now_ns, false);
    assert_eq!(cable.mn.poll_transmit(), None);
}

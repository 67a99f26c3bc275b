//! A managing node whose SoC something else sends, with a controlled node, on a cable in virtual time.

use crate::common::cable::{CYCLE_NS, Cable, Fate, NEWS_NS, NODE};
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
fn the_bus_carries_the_same_and_each_cycle_begins_when_it_is_due() {
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
        // Everything else waits for the news.
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
        assert_eq!(time_ns, *at_ns, "it carries the time at which it leaves");
    }
    assert!(found.len() > 150 && not_launched(&launching) == 0, "{:?}", launching.events);
}

#[test]
fn what_could_not_be_launched_the_node_sends() {
    let mut cable = Cable::new(true);
    cable.run_until_operational();
    let before = cable.sent.len();
    cable.fate = Fate::Dropped;
    let end_ns = cable.now_ns + 10 * CYCLE_NS;
    cable.run(end_ns, |_| false);
    let socs = cable.sent[before..].iter().filter(|(_, frame)| matches!(body(frame), Body::Soc(_)));
    assert_eq!(socs.count(), 10);
    assert_eq!(not_launched(&cable), 10);
    assert_eq!(cable.mn.step(NODE), Some(Step::Operational), "{:?}", cable.events);
}

#[test]
fn without_news_the_cycle_goes_on_after_half_of_it() {
    let mut cable = Cable::new(true);
    cable.run_until_operational();
    let before = cable.sent.len();
    cable.fate = Fate::Untold;
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

/// News of a launch that is none any more, or of another instant, is of no account.
#[test]
fn a_network_that_begins_anew_takes_its_launch_back() {
    let mut cable = Cable::new(true);
    cable.run_until_operational();
    cable.cn = None;
    let end_ns = cable.now_ns + 100 * CYCLE_NS;
    cable.run(end_ns, |cable| cable.mn.state() == State::PreOperational1);
    assert_eq!(cable.mn.state(), State::PreOperational1, "{:?}", cable.events);
    assert!(cable.planned.is_none(), "a SoC would begin a cycle in the middle of the boot");
    let now_ns = cable.now_ns;
    cable.mn.handle_launched(now_ns, now_ns, true);
    cable.mn.handle_launched(now_ns, now_ns, false);
    assert_eq!(cable.mn.poll_transmit(), None);
}

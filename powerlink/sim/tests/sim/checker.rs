//! The checker detects errors: a correct run, and the same with one frame changed.

use onbeat_sim::{Checker, Network, NetworkConfig};
use onbeat_wire::powerlink::{Message, NodeId};

use crate::CONFIG;

type Trace = Vec<(u64, Vec<u8>)>;

/// Frames of a network of two nodes from its start until it has been in OPERATIONAL for a while.
fn trace() -> Trace {
    trace_of(0)
}

/// The same with node 2 in the first cycle of each multiplexed cycle.
fn trace_of(multiplexed_cycles: u8) -> Trace {
    let config = NetworkConfig { mandatory: true, multiplexed_cycles, seed: 1, ..CONFIG };
    let mut network = Network::new(config);
    let mut trace = Trace::new();
    while !network.is_operational() {
        let end = network.bus.now_ns() + 1_000_000;
        assert!(end < 60_000_000_000, "it boots");
        network.bus.run_until(end, |time, frame| trace.push((time, frame.to_vec())));
    }
    let end = network.bus.now_ns() + 20_000_000;
    network.bus.run_until(end, |time, frame| trace.push((time, frame.to_vec())));
    trace
}

fn check(trace: &Trace) -> Vec<String> {
    let mut checker = Checker::new(CONFIG.cycle_us.into());
    trace.iter().for_each(|(time, frame)| checker.observe(*time, frame));
    checker.violations().iter().map(|violation| violation.what.clone()).collect()
}

/// The index of the last frame whose text starts like this, with some cycles after it.
fn last(trace: &Trace, text: &str) -> usize {
    let shown = |frame: &[u8]| Message::parse(&frame[14..]).unwrap().to_string();
    let place =
        trace[..trace.len() - 40].iter().rposition(|(_, frame)| shown(frame).starts_with(text));
    place.unwrap_or_else(|| panic!("no frame {text}"))
}

/// Checks a changed trace: the first violation is the expected one.
fn finds(change: impl Fn(&mut Trace), expected: &str) {
    finds_in(trace(), change, expected);
}

fn finds_in(mut changed: Trace, change: impl Fn(&mut Trace), expected: &str) {
    assert_eq!(check(&changed), Vec::<String>::new());
    change(&mut changed);
    let found = check(&changed);
    assert!(found.first().is_some_and(|found| found.contains(expected)), "{expected}: {found:?}");
}

/// Changes an octet of a message.
fn set(trace: &mut Trace, text: &str, octet: usize, value: u8) {
    let place = last(trace, text);
    trace[place].1[14 + octet] = value;
}

#[test]
fn frames_of_the_wrong_sender() {
    finds(|trace| set(trace, "1 -> 255 PRes", 2, 2), "PRes of 2, which was not polled");
    finds(|trace| set(trace, "240 -> 255 SoA", 2, 241), "another managing node");
    finds(
        |trace| {
            let place = last(trace, "240 -> 255 SoC");
            trace[place].1[11] = 9;
        },
        "another managing node",
    );
    finds(
        |trace| {
            let place = last(trace, "1 -> 255 PRes");
            trace[place].1[11] = 9;
        },
        "two nodes with the id 1",
    );
    finds(
        |trace| {
            let place = last(trace, "240 -> 1 PReq");
            trace[place].1[5] = 9;
        },
        "poll to the address of another",
    );
}

#[test]
fn frames_at_the_wrong_time() {
    finds(
        |trace| {
            let place = last(trace, "1 -> 255 PRes");
            let again = trace[place].clone();
            trace.insert(place + 1, again);
        },
        "PRes of 1, which was not polled",
    );
    finds(
        |trace| {
            let place = last(trace, "240 -> 255 SoA");
            trace.remove(place);
        },
        "SoC without a SoA since",
    );
    finds(
        |trace| {
            let place = last(trace, "240 -> 255 SoC");
            trace.remove(place);
        },
        "polled outside of the isochronous phase",
    );
    finds(
        |trace| {
            let place = last(trace, "240 -> 255 SoC");
            trace[place].0 += 200_000;
        },
        "us between SoC",
    );
    finds(|trace| set(trace, "240 -> 255 SoC", 14, 1), "RelativeTime steps by");
}

#[test]
fn unsolicited_frames() {
    finds(|trace| set(trace, "240 -> 1 NMTCommand StartNode", 2, 1), "was granted");
    finds(|trace| set(trace, "1 -> 255 StatusResponse", 2, 2), "of 1 was granted");
    finds(|trace| set(trace, "240 -> 1 NMTCommand StartNode", 3, 5), "of 240 was granted");
}

#[test]
fn invalid_state_transitions() {
    finds(|trace| set(trace, "1 -> 255 PRes", 4, 0), "has RD false");
    finds(
        |trace| set(trace, "240 -> 1 NMTCommand StartNode", 4, 0x99),
        "went from READY_TO_OPERATE to OPERATIONAL",
    );
    finds(
        |trace| {
            let place = last(trace, "240 -> 2 NMTCommand EnableReadyToOperate");
            trace[place].1[15] = NodeId(9).0;
        },
        "went from PRE_OPERATIONAL_2 to READY_TO_OPERATE",
    );
}

#[test]
fn invalid_frames() {
    finds(
        |trace| {
            let place = last(trace, "1 -> 255 PRes");
            trace[place].1.truncate(59);
        },
        "not an Ethernet frame: length 59",
    );
    finds(|trace| set(trace, "1 -> 255 PRes", 0, 0x0d), "message type 13");
    finds(|trace| set(trace, "1 -> 255 PRes", 9, 9), "is truncated");
}

#[test]
fn polls_in_the_wrong_cycle() {
    let of_four = |change: &dyn Fn(&mut Trace), expected| finds_in(trace_of(4), change, expected);
    finds(
        |trace| {
            // After its response.
            let poll = last(trace, "240 -> 1 PReq");
            let again = trace[poll].clone();
            trace.insert(poll + 2, again);
        },
        "node 1 is polled twice in a cycle",
    );
    of_four(&|trace| set(trace, "240 -> 2 PReq", 4, 1), "which has a slot, is polled without MS");
    of_four(&|trace| set(trace, "2 -> 255 PRes", 4, 1), "PRes of 2 has MS false, its poll true");
    of_four(
        &|trace| {
            // No node has its slot in the next cycle.
            let poll = last(trace, "240 -> 2 PReq");
            let next = trace[poll..].iter().position(|(_, frame)| frame[14] == 1).unwrap() + poll;
            let again = trace[poll].clone();
            trace.insert(next + 1, again);
        },
        "node 2 is polled in cycle 1 of a multiplexed cycle, and was in 0",
    );
    of_four(
        &|trace| {
            let soc = last(trace, "240 -> 255 SoC");
            trace[soc].1[14 + 4] ^= 0x80;
        },
        "a multiplexed cycle of 4",
    );
}

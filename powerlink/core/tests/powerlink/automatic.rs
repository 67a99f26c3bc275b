//! A node whose polls a driver answers, compared with the same node that answers itself: both send the same
//! frames.

use crate::common::{CN_MAC, CapturedFrame, INPUT, capture, controlled_node, message};
use onbeat_powerlink::Node;
use onbeat_powerlink::cn::{ControlledNode, Event, PollKey, Response};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::Dictionary;
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{Body, NodeId};

/// A driver: a pattern of polls, and a response.
#[derive(Default)]
struct Driver {
    response: Option<(PollKey, Vec<u8>)>,
}

impl Driver {
    fn follow(&mut self, node: &mut ControlledNode) {
        match node.poll_response() {
            Some(Response::Frame { polls, frame }) => {
                self.response = Some((polls, frame.to_vec()));
            }
            Some(Response::Silence) => self.response = None,
            None => {}
        }
        assert_eq!(node.poll_response(), None, "it was just returned");
    }

    /// The response to a frame, if it is a poll.
    fn answer(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let (PollKey { value, mask }, response) = self.response.as_ref()?;
        let matches = frame.len() >= value.len()
            && frame
                .iter()
                .zip(mask)
                .zip(value)
                .all(|((octet, mask), value)| octet & mask == *value);
        matches.then(|| response.clone())
    }
}

/// A node, the data that it sends in addition, and the number of turns of its process.
struct Bench {
    node: ControlledNode,
    driver: Option<Driver>,
    turns: u8,
    /// Increment of the process in a turn.
    step: u8,
    states: Vec<State>,
    polls: usize,
}

impl Bench {
    fn new(automatic: bool, step: u8) -> Self {
        let mut node = controlled_node(1, CN_MAC);
        let driver = automatic.then(Driver::default);
        if automatic {
            node.answer_automatically();
        }
        node.start(0);
        Bench { node, driver, turns: 0, step, states: Vec::new(), polls: 0 }
    }

    /// Returns the frames on the bus that a frame causes.
    fn take(&mut self, now_ns: u64, frame: &[u8]) -> Vec<Vec<u8>> {
        while let Some(deadline) = self.node.next_deadline_ns().filter(|at| *at <= now_ns) {
            self.node.handle_deadline(deadline);
            self.turn();
        }
        let mut sent = Vec::new();
        match self.driver.as_ref().and_then(|driver| driver.answer(frame)) {
            Some(response) => {
                sent.push(response);
                self.polls += 1;
                self.node.handle_answered_frame(now_ns, frame);
            }
            None => self.node.handle_frame(now_ns, frame),
        }
        sent.extend(std::iter::from_fn(|| self.node.poll_transmit()));
        self.turn();
        sent
    }

    fn turn(&mut self) {
        if let Some(driver) = &mut self.driver {
            driver.follow(&mut self.node);
        }
        while let Some(event) = self.node.poll_event() {
            match event {
                Event::Cycle => {
                    self.turns = self.turns.wrapping_add(self.step);
                    self.node.set_object(INPUT, &[self.turns]).unwrap();
                }
                Event::State { to, .. } => self.states.push(to),
                _ => {}
            }
        }
    }
}

/// Passes frames to both; returns the number of polls that the driver answered.
fn compare(frames: impl Iterator<Item = (u64, Vec<u8>)>, step: u8) -> usize {
    let (mut usual, mut automatic) = (Bench::new(false, step), Bench::new(true, step));
    for (number, (time_ns, frame)) in frames.enumerate() {
        let (expected, found) = (usual.take(time_ns, &frame), automatic.take(time_ns, &frame));
        assert_eq!(expected, found, "in response to frame {number}");
    }
    assert_eq!(usual.states, automatic.states);
    let values = |od: &Dictionary| -> Vec<_> {
        // Counters of losses, the state, outputs: everything that a peer can read.
        [0x1c0b, 0x1c0c, 0x1c0d].map(|index| od.number(onbeat_powerlink::od::id(index, 1))).to_vec()
    };
    assert_eq!(values(usual.node.objects()), values(automatic.node.objects()));
    assert_eq!(
        usual.node.objects().get(crate::common::OUTPUT),
        automatic.node.objects().get(crate::common::OUTPUT)
    );
    automatic.polls
}

fn from_others(frames: Vec<CapturedFrame>) -> impl Iterator<Item = (u64, Vec<u8>)> {
    let frames = frames.into_iter().filter(|frame| message(&frame.frame).source != NodeId(1));
    frames.map(|CapturedFrame { time_ns, frame, .. }| (time_ns, frame))
}

#[test]
fn automatic_responses_are_identical_on_the_bus() {
    for name in ["boot-1cn-mandatory", "boot-1cn-stock"] {
        let frames = capture(name);
        let polls =
            |captured: &&CapturedFrame| matches!(message(&captured.frame).body, Body::Preq(_));
        let asked = frames.iter().filter(polls).count();
        let answered = compare(from_others(frames), 1);
        assert!(answered > 50 && answered <= asked, "{name}: {answered} of {asked}");
    }
}

/// Every 7th frame of the managing node is lost, among them SoC, SoA and polls. (After a lost SoC, changing
/// values are a cycle newer than those sampled at the SoC.)
#[test]
fn automatic_responses_are_identical_with_losses() {
    let frames = from_others(capture("boot-1cn-mandatory")).enumerate();
    let kept = frames.filter(|(number, _)| *number < 2300 || number % 7 != 0);
    assert!(compare(kept.map(|(_, frame)| frame), 0) > 50);
}

#[test]
fn a_response_exists_exactly_while_the_node_is_polled() {
    let mut bench = Bench::new(true, 1);
    let (mut armed, mut silent) = (0, 0);
    for (time_ns, frame) in from_others(capture("boot-1cn-mandatory")) {
        bench.take(time_ns, &frame);
        let has = bench.driver.as_ref().unwrap().response.is_some();
        assert_eq!(has, bench.node.state().is_polled());
        if has { armed += 1 } else { silent += 1 }
    }
    assert!(armed > 0 && silent > 0);
    // The node is lost: no SoC arrives any more.
    while bench.node.state().is_polled() {
        let deadline = bench.node.next_deadline_ns().expect("a deadline for SoC");
        bench.node.handle_deadline(deadline);
        bench.turn();
    }
    assert!(bench.driver.unwrap().response.is_none(), "{}", bench.node.state());
}

#[test]
fn a_poll_that_the_driver_missed_is_answered_by_the_node() {
    let mut bench = Bench::new(true, 1);
    let mut answered = 0;
    for (time_ns, frame) in from_others(capture("boot-1cn-mandatory")) {
        // An overloaded driver.
        bench.driver.as_mut().unwrap().response = None;
        let sent = bench.take(time_ns, &frame);
        let pres = |frame: &Vec<u8>| matches!(message(frame).body, Body::Pres(_));
        answered += sent.iter().filter(|frame| pres(frame)).count();
    }
    assert!(answered > 50, "{answered}");
}

#[test]
fn polls_are_matched_by_address_and_nodes() {
    let mut bench = Bench::new(true, 1);
    for (time_ns, frame) in from_others(capture("boot-1cn-mandatory")) {
        bench.take(time_ns, &frame);
    }
    let driver = bench.driver.unwrap();
    let matches = |frame: &[u8]| driver.answer(frame).is_some();
    let poll = |destination: MacAddress, octets: [u8; 3]| -> Vec<u8> {
        [&destination.0[..], &crate::common::MN_MAC.0, &[0x88, 0xab], &octets, &[0; 43]].concat()
    };
    assert!(matches(&poll(CN_MAC, [3, 1, 240])));
    assert!(matches(&poll(CN_MAC, [0x83, 1, 240])), "a bit that is reserved");
    for octets in [[4, 1, 240], [3, 2, 240], [3, 255, 240], [3, 1, 241]] {
        assert!(!matches(&poll(CN_MAC, octets)), "{octets:?}");
    }
    assert!(!matches(&poll(crate::common::MN_MAC, [3, 1, 240])));
    let mut forged = poll(CN_MAC, [3, 1, 240]);
    forged[11] ^= 1;
    assert!(!matches(&forged), "from another address than the managing node's");
    let mut other = poll(CN_MAC, [3, 1, 240]);
    other[13] = 0xac;
    assert!(!matches(&other));
}

//! A managing node whose SoC something else sends, with a controlled node, on a cable in virtual time.

use onbeat_powerlink::cn::ControlledNode;
use onbeat_powerlink::mn::{Event, Launch, ManagingNode, Step};
use onbeat_powerlink::network::{Network, Signal, Station};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::profile::{CONTROLLED_NODE_FEATURES, Identity};
use onbeat_powerlink::od::{DataType, id};
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{Body, Message, NetTime, NodeId};

const CYCLE_NS: u64 = 1_000_000;
/// From a launch to the news of it.
const NEWS_NS: u64 = 20_000;
const NODE: NodeId = NodeId(1);

fn network() -> Network {
    let signal = |object| Signal { name: "value".into(), object, data_type: DataType::Unsigned(1) };
    Network {
        cycle_us: (CYCLE_NS / 1000) as u32,
        async_slot_ns: 100_000,
        pre_operational_1_us: 100_000,
        soc_tolerance_ns: 500_000,
        threshold: 15,
        multiplexed_cycles: 0,
        prescaler: 2,
        start_all: false,
        nodes: vec![Station {
            node: NODE,
            mandatory: true,
            identity: Identity {
                device_type: 0x000f_0191,
                vendor_id: 1,
                product_code: 2,
                revision_number: 3,
                serial_number: 4,
                features: CONTROLLED_NODE_FEATURES,
                device_name: b"test".to_vec(),
                host_name: b"test".to_vec(),
            },
            pres_timeout_ns: 200_000,
            multiplexed: 0,
            inputs: vec![signal(id(0x6000, 1))],
            outputs: vec![signal(id(0x6200, 1))],
            described: None,
            parameters: Vec::new(),
        }],
    }
}

/// What becomes of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It leaves, and the node is told.
    Sent,
    /// It does not leave, and the node is told.
    Dropped,
    /// It leaves, and nobody tells.
    Untold,
}

struct Cable {
    now_ns: u64,
    mn: ManagingNode,
    /// `None`: it is dead.
    cn: Option<ControlledNode>,
    planned: Option<(u64, Vec<u8>)>,
    /// When the node is told of which launch, and what.
    news: Option<(u64, u64, bool)>,
    fate: Fate,
    /// Frames of the managing node but for those that only say that nothing is to be said.
    sent: Vec<(u64, Vec<u8>)>,
    events: Vec<Event>,
    cancelled: usize,
}

impl Cable {
    fn new(launching: bool) -> Self {
        let mac = |last| MacAddress([2, 0, 0, 0, 0, last]);
        let mut mn = network().managing(mac(240)).unwrap();
        let mut cn = network().controlled(NODE, mac(1)).unwrap();
        if launching {
            mn.launch_cycles();
        }
        cn.start(0);
        mn.start(0, NetTime::default());
        Cable {
            now_ns: 0,
            mn,
            cn: Some(cn),
            planned: None,
            news: None,
            fate: Fate::Sent,
            sent: Vec::new(),
            events: Vec::new(),
            cancelled: 0,
        }
    }

    /// Passes on what is to be sent, until nobody has anything to say.
    fn settle(&mut self) {
        loop {
            match self.mn.poll_launch() {
                Some(Launch::At { at_ns, frame }) => self.planned = Some((at_ns, frame.to_vec())),
                Some(Launch::Cancel) => {
                    self.planned = None;
                    self.cancelled += 1;
                }
                None => {}
            }
            self.events.extend(std::iter::from_fn(|| self.mn.poll_event()));
            if let Some(frame) = self.mn.poll_transmit() {
                self.deliver(frame);
            } else if let Some(frame) = self.cn.as_mut().and_then(ControlledNode::poll_transmit) {
                self.mn.handle_frame(self.now_ns, &frame);
            } else {
                return;
            }
        }
    }

    fn deliver(&mut self, frame: Vec<u8>) {
        if let Some(cn) = &mut self.cn {
            cn.handle_frame(self.now_ns, &frame);
        }
        self.sent.push((self.now_ns, frame));
    }

    /// Goes on until the end, or until a condition holds.
    fn run(&mut self, end_ns: u64, mut until: impl FnMut(&Self) -> bool) {
        self.settle();
        while self.now_ns < end_ns && !until(self) {
            let due = [
                self.mn.next_deadline_ns(),
                self.cn.as_ref().and_then(ControlledNode::next_deadline_ns),
                self.planned.as_ref().map(|(at_ns, _)| *at_ns),
                self.news.map(|(at_ns, ..)| at_ns),
                Some(end_ns),
            ];
            self.now_ns = due.into_iter().flatten().min().unwrap().max(self.now_ns);
            let now_ns = self.now_ns;
            if let Some((at_ns, frame)) = self.planned.take_if(|(at_ns, _)| *at_ns <= now_ns) {
                if self.fate != Fate::Dropped {
                    self.deliver(frame);
                }
                if self.fate != Fate::Untold {
                    self.news = Some((now_ns + NEWS_NS, at_ns, self.fate == Fate::Sent));
                }
            }
            if let Some((_, at_ns, sent)) = self.news.take_if(|(at_ns, ..)| *at_ns <= now_ns) {
                self.mn.handle_launched(now_ns, at_ns, sent);
            }
            self.mn.handle_deadline(now_ns);
            if let Some(cn) = &mut self.cn {
                cn.handle_deadline(now_ns);
            }
            self.settle();
        }
    }

    fn run_until_operational(&mut self) {
        self.run(20_000_000_000, |cable| {
            cable.mn.state() == State::Operational && cable.mn.step(NODE) == Some(Step::Operational)
        });
        assert_eq!(self.mn.step(NODE), Some(Step::Operational), "{:?}", self.events);
    }

    fn not_launched(&self) -> usize {
        self.events.iter().filter(|event| **event == Event::NotLaunched).count()
    }
}

fn body(frame: &[u8]) -> Body<'_> {
    Message::parse(&frame[14..]).unwrap().body
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
    assert!(found.len() > 150 && launching.not_launched() == 0, "{:?}", launching.events);
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
    assert_eq!(cable.not_launched(), 10);
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
    assert!(cable.not_launched() >= 9);
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

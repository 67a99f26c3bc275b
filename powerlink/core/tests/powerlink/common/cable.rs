//! A managing and a controlled node, on a cable in virtual time.

use onbeat_powerlink::Node;
use onbeat_powerlink::cn::ControlledNode;
use onbeat_powerlink::mn::{Event, Launch, ManagingNode, Step};
use onbeat_powerlink::network::{Network, Signal, Station};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::profile::{CONTROLLED_NODE_FEATURES, Identity};
use onbeat_powerlink::od::{DataType, id};
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{NetTime, NodeId};

/// Length of a cycle.
pub(crate) const CYCLE_NS: u64 = 1_000_000;
/// From a launch to its confirmation.
pub(crate) const NEWS_NS: u64 = 20_000;
/// The controlled node.
pub(crate) const NODE: NodeId = NodeId(1);

pub(crate) fn network() -> Network {
    let signal = |object| Signal { name: "value".into(), object, data_type: DataType::Unsigned(1) };
    Network {
        cycle_us: (CYCLE_NS / 1000) as u32,
        async_slot_ns: 100_000,
        pre_operational_1_us: 100_000,
        soc_tolerance_ns: 500_000,
        soc_jitter_ns: 0,
        threshold: 15,
        node_threshold: 15,
        multiplexed_cycles: 0,
        prescaler: 2,
        start_all: false,
        basic_ethernet: false,
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
            soc_to_poll_ns: 0,
            multiplexed: 0,
            inputs: vec![signal(id(0x6000, 1))],
            outputs: vec![signal(id(0x6200, 1))],
            received: Vec::new(),
            described: None,
            parameters: Vec::new(),
        }],
    }
}

/// The result of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaunchOutcome {
    /// Sent, and confirmed.
    Sent,
    /// Not sent, and reported so.
    Dropped,
    /// Sent, and not confirmed.
    Unconfirmed,
}

/// A change of a frame.
pub(crate) type Alteration = Box<dyn FnMut(&mut [u8])>;

pub(crate) struct Cable {
    pub(crate) now_ns: u64,
    pub(crate) mn: ManagingNode,
    /// `None`: it is off.
    pub(crate) cn: Option<ControlledNode>,
    /// Changes frames of the controlled node.
    pub(crate) alter: Alteration,
    pub(crate) planned: Option<(u64, Vec<u8>)>,
    /// Time of the report, its launch time, and whether it was sent.
    pub(crate) news: Option<(u64, u64, bool)>,
    pub(crate) fate: LaunchOutcome,
    /// Frames of the managing node.
    pub(crate) sent: Vec<(u64, Vec<u8>)>,
    /// Frames of the controlled node.
    pub(crate) answers: Vec<(u64, Vec<u8>)>,
    pub(crate) events: Vec<Event>,
    pub(crate) canceled: usize,
}

impl Cable {
    pub(crate) fn new(launching: bool) -> Self {
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
            alter: Box::new(|_| ()),
            planned: None,
            news: None,
            fate: LaunchOutcome::Sent,
            sent: Vec::new(),
            answers: Vec::new(),
            events: Vec::new(),
            canceled: 0,
        }
    }

    /// Passes frames until no node has any to send.
    fn settle(&mut self) {
        loop {
            match self.mn.poll_launch() {
                Some(Launch::At { at_ns, frame }) => self.planned = Some((at_ns, frame.to_vec())),
                Some(Launch::Cancel) => {
                    self.planned = None;
                    self.canceled += 1;
                }
                None => {}
            }
            self.events.extend(std::iter::from_fn(|| self.mn.poll_event()));
            if let Some(frame) = self.mn.poll_transmit() {
                self.deliver(frame);
            } else if let Some(mut frame) = self.cn.as_mut().and_then(Node::poll_transmit) {
                (self.alter)(&mut frame);
                self.mn.handle_frame(self.now_ns, &frame);
                self.answers.push((self.now_ns, frame));
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

    /// Runs until the end, or until a condition holds.
    pub(crate) fn run(&mut self, end_ns: u64, mut until: impl FnMut(&Self) -> bool) {
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
                if self.fate != LaunchOutcome::Dropped {
                    self.deliver(frame);
                }
                if self.fate != LaunchOutcome::Unconfirmed {
                    self.news = Some((now_ns + NEWS_NS, at_ns, self.fate == LaunchOutcome::Sent));
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

    pub(crate) fn run_until_operational(&mut self) {
        self.run(20_000_000_000, |cable| {
            cable.mn.state() == State::Operational && cable.mn.step(NODE) == Some(Step::Operational)
        });
        assert_eq!(self.mn.step(NODE), Some(Step::Operational), "{:?}", self.events);
    }
}

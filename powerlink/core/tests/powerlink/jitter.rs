//! SoC with jitter, as a controlled node counts them.

use crate::common::{CN_MAC, MN_MAC, controlled_node};
use onbeat_powerlink::Node;
use onbeat_powerlink::cn::ControlledNode;
use onbeat_powerlink::code;
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::{id, profile};
use onbeat_wire::powerlink::{
    Body, EplVersion, Message, NetTime, NmtState, NodeId, RequestedService, Soa, Soc,
};

const CYCLE_NS: u64 = 1_000_000;
const RANGE_NS: u64 = 5_000;

/// A node, and the time of its next SoC.
struct Bus {
    node: ControlledNode,
    soc_ns: u64,
}

impl Bus {
    /// A node in the cycle, configured with a jitter range.
    fn new(threshold: u32) -> Self {
        let mut node = controlled_node(1, CN_MAC);
        node.start(0);
        for (object, value) in [
            (profile::CYCLE_LENGTH_US, CYCLE_NS as u32 / 1000),
            (profile::SOC_TOLERANCE_NS, CYCLE_NS as u32 / 2),
            (profile::SOC_JITTER_RANGE_NS, RANGE_NS as u32),
            (id(profile::SOC_JITTER, 3), threshold),
        ] {
            node.set_object(object, &value.to_le_bytes()).unwrap();
        }
        let mut bus = Bus { node, soc_ns: CYCLE_NS };
        bus.soa(0, NmtState::PRE_OPERATIONAL_1);
        assert_eq!(bus.node.state(), State::PreOperational1);
        bus
    }

    fn heard(&mut self, now_ns: u64, body: Body<'_>) {
        let message = Message { destination: NodeId::BROADCAST, source: NodeId::MN, body };
        let mut frame = vec![0; 60];
        frame[6..12].copy_from_slice(&MN_MAC.0);
        frame[12..14].copy_from_slice(&[0x88, 0xab]);
        message.emit(&mut frame[14..]).unwrap();
        while let Some(deadline) = self.node.next_deadline_ns().filter(|due| *due <= now_ns) {
            self.node.handle_deadline(deadline);
        }
        self.node.handle_frame(now_ns, &frame);
    }

    fn soa(&mut self, now_ns: u64, state: NmtState) {
        let soa = Soa {
            state,
            exception_acknowledge: false,
            exception_reset: false,
            service: RequestedService::NO_SERVICE,
            target: NodeId::NONE,
            version: EplVersion::V2,
            redundancy: 0,
        };
        self.heard(now_ns, Body::Soa(soa));
    }

    /// A cycle whose SoC is late by this time.
    fn cycle(&mut self, late_ns: u64) {
        let soc = Soc {
            multiplexed_cycle_completed: false,
            prescaled_slot: false,
            net_time: NetTime::default(),
            relative_time_us: 0,
        };
        self.heard(self.soc_ns + late_ns, Body::Soc(soc));
        self.soa(self.soc_ns + CYCLE_NS / 4, NmtState::PRE_OPERATIONAL_2);
        self.soc_ns += CYCLE_NS;
    }

    /// 0x1C0E: the total, and the counter with a threshold.
    fn counted(&self) -> (u64, u64) {
        let number = |sub| self.node.objects().number(id(profile::SOC_JITTER, sub));
        (number(1), number(2))
    }
}

#[test]
fn jitter_within_the_range_is_not_counted() {
    let mut bus = Bus::new(15);
    for n in 0..1000 {
        bus.cycle(n % 2 * RANGE_NS);
    }
    assert_eq!((bus.counted(), bus.node.state()), ((0, 0), State::PreOperational2));
}

#[test]
fn a_late_soc_is_counted_for_both_of_its_intervals() {
    let mut bus = Bus::new(0);
    (0..10).for_each(|_| bus.cycle(0));
    // It is late, and the interval to the next one is too short.
    bus.cycle(RANGE_NS + 1);
    assert_eq!(bus.counted(), (1, 8));
    bus.cycle(0);
    assert_eq!(bus.counted(), (2, 16));
    (0..5).for_each(|_| bus.cycle(0));
    assert_eq!(bus.counted(), (2, 11));
    (0..100).for_each(|n| bus.cycle(n % 2 * 2 * RANGE_NS));
    assert_eq!(bus.counted().0, 101, "the first of them was in time");
    assert_eq!(bus.node.state(), State::PreOperational2, "without a threshold it only counts");
}

#[test]
fn the_threshold_ends_the_cycle() {
    let mut bus = Bus::new(15);
    (0..10).for_each(|_| bus.cycle(0));
    bus.cycle(2 * RANGE_NS);
    assert_eq!(bus.node.state(), State::PreOperational2);
    let soc_ns = bus.soc_ns;
    bus.cycle(0);
    assert_eq!(bus.counted(), (2, 0));
    let states = std::iter::from_fn(|| bus.node.poll_event()).filter(|event| {
        let state = onbeat_powerlink::cn::Event::State {
            from: State::PreOperational2,
            to: State::PreOperational1,
            by: onbeat_powerlink::nmt::Event::ErrorCondition,
        };
        *event == state
    });
    assert_eq!(states.count(), 1, "at {soc_ns} ns");
    let entry = bus.node.objects().get(id(profile::ERROR_HISTORY, 1)).unwrap();
    assert_eq!(entry[2..4], code::JITTER.to_le_bytes());
    // It returns with the next SoC, and continues to count.
    bus.cycle(0);
    assert_eq!((bus.counted(), bus.node.state()), ((2, 0), State::PreOperational2));
}

/// After a lost SoC, the interval to the next one is not checked.
#[test]
fn a_lost_soc_is_not_jitter() {
    let mut bus = Bus::new(15);
    (0..10).for_each(|_| bus.cycle(0));
    bus.soc_ns += CYCLE_NS;
    (0..10).for_each(|_| bus.cycle(0));
    assert_eq!(bus.counted(), (0, 0));
    assert_eq!(bus.node.objects().number(id(profile::LOSS_OF_SOC, 1)), 1);
}

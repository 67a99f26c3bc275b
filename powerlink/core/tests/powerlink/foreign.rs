//! Frames of a foreign address under the id of another node, and redundant managing nodes.

use onbeat_powerlink::Node;
use onbeat_powerlink::cn::{Event, Response};
use onbeat_powerlink::mn::{self, Step};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::id;
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{Body, NmtCommandId, NodeId, RequestedService, multicast};

use crate::common::cable::{CYCLE_NS, Cable, NODE};
use crate::common::message;

const MN_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 240]);
const CN_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const OTHER: MacAddress = MacAddress([2, 0x66, 0, 0, 0, 0x66]);
const SECOND_NS: u64 = 1_000_000_000;

/// A frame with these octets after its EtherType, padded.
fn frame(source: MacAddress, destination: MacAddress, octets: &[u8]) -> Vec<u8> {
    let mut frame = [&destination.0[..], &source.0, &[0x88, 0xab], octets].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

fn soc(mac: MacAddress) -> Vec<u8> {
    frame(mac, multicast::SOC, &[1, 255, 240])
}

fn soa(mac: MacAddress, service: RequestedService, target: NodeId) -> Vec<u8> {
    let octets = [5, 255, 240, 0xfd, 0, 0, service.0, target.0, 0x20];
    frame(mac, multicast::SOA, &octets)
}

/// RD is set, with an octet of process data.
fn preq(mac: MacAddress, value: u8) -> Vec<u8> {
    frame(mac, CN_MAC, &[3, NODE.0, 240, 0, 1, 0, 0, 0, 1, 0, value])
}

fn nmt(mac: MacAddress, source: u8, command: NmtCommandId) -> Vec<u8> {
    frame(mac, multicast::ASND, &[6, NODE.0, source, 4, command.0])
}

fn amni(mac: MacAddress, source: u8) -> Vec<u8> {
    frame(mac, multicast::AMNI, &[7, 255, source])
}

/// SDO under the id of a node: opens a connection.
fn sdo(mac: MacAddress, source: u8) -> Vec<u8> {
    frame(mac, multicast::ASND, &[6, NODE.0, source, 5, 0, 1])
}

const RESETS: [NmtCommandId; 4] = [
    NmtCommandId::RESET_NODE,
    NmtCommandId::RESET_COMMUNICATION,
    NmtCommandId::RESET_CONFIGURATION,
    NmtCommandId::SW_RESET,
];

fn operational() -> Cable {
    let mut cable = Cable::new(false);
    cable.run_until_operational();
    let node = cable.cn.as_mut().unwrap();
    while node.poll_event().is_some() {}
    cable
}

/// Frames that claim to be of the managing node: SoC, PReq, SoA with requests, NMT commands, SDO, AMNI.
fn forged() -> Vec<Vec<u8>> {
    let mut forged = vec![soc(OTHER), preq(OTHER, 99), sdo(OTHER, 240)];
    for service in [RequestedService::IDENT_REQUEST, RequestedService::STATUS_REQUEST] {
        forged.push(soa(OTHER, service, NODE));
    }
    // With its own id, and with that of a redundant managing node.
    for source in [240, 241, 250] {
        forged.extend(RESETS.map(|command| nmt(OTHER, source, command)));
        forged.push(nmt(OTHER, source, NmtCommandId::STOP_NODE));
        forged.push(nmt(OTHER, source, NmtCommandId::ENTER_PRE_OPERATIONAL_2));
    }
    forged.push(amni(OTHER, 241));
    forged.push(amni(OTHER, 240));
    // A poll with an invalid format.
    forged.push(frame(OTHER, CN_MAC, &[3, NODE.0, 240, 0, 1, 0, 0, 0, 200, 0]));
    forged
}

/// Events of the controlled node.
fn events(cable: &mut Cable) -> Vec<Event> {
    let node = cable.cn.as_mut().unwrap();
    std::iter::from_fn(|| node.poll_event()).collect()
}

fn foreign(events: &[Event]) -> usize {
    events.iter().filter(|event| **event == Event::ForeignManager(OTHER)).count()
}

/// SoC, PReq, SoA with requests, NMT commands and SDO with the id of the managing node.
#[test]
fn frames_of_another_managing_node_have_no_effect() {
    let mut cable = operational();
    let node = cable.cn.as_mut().unwrap();
    assert_eq!(node.manager(), Some(MN_MAC));
    let output = node.objects().number(id(0x6200, 1));
    let forged = forged();
    let (rounds, answers) = (100, cable.answers.len());
    for _ in 0..rounds {
        let now_ns = cable.now_ns;
        for frame in &forged {
            let node = cable.cn.as_mut().unwrap();
            node.handle_frame(now_ns, frame);
            assert_eq!(node.poll_transmit(), None, "{}", message(frame));
        }
        // Between any two frames of the managing node.
        cable.run(now_ns + CYCLE_NS * 3 / 10, |_| false);
    }
    let now_ns = cable.now_ns;
    cable.run(now_ns + 10 * CYCLE_NS, |_| false);
    let node = cable.cn.as_ref().unwrap();
    assert_eq!(node.state(), State::Operational);
    assert_eq!(node.foreign_frames(), rounds * forged.len() as u64);
    assert_eq!(node.objects().number(id(0x6200, 1)), output);
    assert_eq!(cable.mn.step(NODE), Some(Step::Operational));
    let only_polls = cable.answers[answers..]
        .iter()
        .all(|(_, frame)| matches!(message(frame).body, Body::Pres(_)));
    assert!(only_polls, "nothing was queued for a foreign request");
    let reported = events(&mut cable);
    assert_eq!(foreign(&reported), 1, "in 40 ms");
    assert!(!reported.iter().any(|event| matches!(event, Event::State { .. } | Event::Lost(_))));
}

/// The same frames one by one, at every phase of the cycle.
#[test]
fn frames_of_another_managing_node_have_no_effect_at_any_time() {
    for spacing_ns in [CYCLE_NS * 7 / 100, CYCLE_NS * 53 / 100, CYCLE_NS * 99 / 100] {
        let mut cable = operational();
        for round in 0..100 {
            for frame in &forged() {
                let now_ns = cable.now_ns;
                cable.cn.as_mut().unwrap().handle_frame(now_ns, frame);
                let node = cable.cn.as_ref().unwrap();
                assert_eq!(node.manager(), Some(MN_MAC), "{round} {spacing_ns}");
                cable.run(now_ns + spacing_ns, |_| false);
            }
        }
        assert_eq!(cable.cn.unwrap().state(), State::Operational);
        assert_eq!(cable.mn.step(NODE), Some(Step::Operational));
    }
}

#[test]
fn another_managing_node_is_reported_once_per_second() {
    let mut cable = operational();
    for _ in 0..2_500 {
        let now_ns = cable.now_ns;
        cable.cn.as_mut().unwrap().handle_frame(now_ns, &soc(OTHER));
        cable.run(now_ns + CYCLE_NS, |_| false);
    }
    assert_eq!(foreign(&events(&mut cable)), 3);
    assert_eq!(cable.cn.unwrap().state(), State::Operational);
}

/// Another node may access objects under its own id.
#[test]
fn the_id_of_a_redundant_managing_node_may_access_objects() {
    let mut cable = operational();
    let now_ns = cable.now_ns;
    let node = cable.cn.as_mut().unwrap();
    node.handle_frame(now_ns, &sdo(OTHER, 241));
    assert_eq!(node.foreign_frames(), 0);
    node.handle_frame(now_ns, &soa(MN_MAC, RequestedService::UNSPECIFIED_INVITE, NODE));
    let answer = node.poll_transmit().expect("an answer to the request for a connection");
    assert_eq!(message(&answer).destination, NodeId(241));
}

/// The switch-over of a redundant managing node: AMNI 1.2 cycles after the last SoC, its SoC a cycle later, with the
/// id 240 in SoC, PReq and SoA, and its own one in NMT commands.
#[test]
fn a_redundant_managing_node_takes_over() {
    let mut cable = operational();
    cable.cn.as_mut().unwrap().answer_automatically();
    cable.run(cable.now_ns + 5 * CYCLE_NS, |_| false);
    let is_soc = |frame: &[u8]| matches!(message(frame).body, Body::Soc(_));
    let soc_ns = cable.sent.iter().rfind(|(_, frame)| is_soc(frame)).unwrap().0;
    let node = cable.cn.as_mut().unwrap();
    let polls = |response: Option<Response<'_>>| match response {
        Some(Response::Frame { polls, .. }) => polls,
        other => panic!("{other:?}"),
    };
    let former = polls(node.poll_response());
    assert_eq!(former.value[6..12], MN_MAC.0);
    let amni_ns = soc_ns + CYCLE_NS * 12 / 10;
    // Deadlines before the announcement and the next SoC.
    let mut handle = |now_ns: u64, frame: Vec<u8>| {
        while node.next_deadline_ns().is_some_and(|deadline| deadline <= now_ns) {
            node.handle_deadline(node.next_deadline_ns().unwrap());
        }
        node.handle_frame(now_ns, &frame);
    };
    handle(amni_ns, amni(OTHER, 241));
    let mut now_ns = amni_ns + CYCLE_NS;
    for cycle in 0..100 {
        handle(now_ns, soc(OTHER));
        handle(now_ns + 1000, preq(OTHER, cycle));
        handle(now_ns + 2000, soa(OTHER, RequestedService::NO_SERVICE, NodeId::NONE));
        now_ns += CYCLE_NS;
    }
    assert_eq!((node.state(), node.manager()), (State::Operational, Some(OTHER)));
    assert_eq!(node.objects().number(id(0x6200, 1)), 99, "process data of its polls");
    assert_eq!(node.foreign_frames(), 0);
    let now = polls(node.poll_response());
    assert_eq!((&now.value[6..12], now.mask), (&OTHER.0[..], former.mask));
    // The former one is foreign now.
    node.handle_frame(now_ns, &nmt(MN_MAC, 240, NmtCommandId::RESET_NODE));
    assert_eq!((node.state(), node.foreign_frames()), (State::Operational, 1));
    // Commands of the active one, with its own id.
    node.handle_frame(now_ns, &nmt(OTHER, 241, NmtCommandId::STOP_NODE));
    assert_eq!(node.state(), State::Stopped);
    let reported = events(&mut cable);
    let replaced = Event::ManagerReplaced { before: MN_MAC, mac: OTHER };
    assert_eq!(reported.iter().filter(|event| **event == replaced).count(), 1);
}

/// An announcement beside a managing node that is alive.
#[test]
fn an_announcement_without_silence_is_ignored() {
    let mut cable = operational();
    for _ in 0..50 {
        let now_ns = cable.now_ns;
        let node = cable.cn.as_mut().unwrap();
        node.handle_frame(now_ns, &amni(OTHER, 241));
        node.handle_frame(now_ns, &soc(OTHER));
        cable.run(now_ns + CYCLE_NS * 7 / 10, |_| false);
    }
    let node = cable.cn.as_ref().unwrap();
    assert_eq!((node.state(), node.manager()), (State::Operational, Some(MN_MAC)));
    assert_eq!(node.foreign_frames(), 100);
}

/// A node that is not scheduled for ten cycles receives the frames of that time at once, then its deadlines.
#[test]
fn a_delay_of_the_node_is_no_silence_of_its_managing_node() {
    let mut cable = operational();
    for _ in 0..5 {
        let mut node = cable.cn.take().unwrap();
        let sent = cable.sent.len();
        cable.run(cable.now_ns + 10 * CYCLE_NS, |_| false);
        let now_ns = cable.now_ns;
        for (n, (_, frame)) in cable.sent[sent..].iter().enumerate() {
            for forged in [amni(OTHER, 241), soc(OTHER)] {
                node.handle_frame(now_ns, &forged);
            }
            // Its own SoC is in the middle of the others.
            if n > 0 {
                node.handle_frame(now_ns, frame);
            }
        }
        while node.poll_transmit().is_some() {}
        assert_eq!(node.manager(), Some(MN_MAC));
        cable.cn = Some(node);
        cable.run_until_operational();
    }
}

/// A managing node that was replaced without an announcement: after a second, the next SoC or SoA counts.
#[test]
fn a_lost_managing_node_is_replaced() {
    let mut cable = operational();
    let last_ns = cable.now_ns;
    let idle = soa(OTHER, RequestedService::NO_SERVICE, NodeId::NONE);
    let node = cable.cn.as_mut().unwrap();
    while let Some(deadline) = node.next_deadline_ns().filter(|at| *at <= last_ns + SECOND_NS) {
        if deadline > last_ns {
            node.handle_frame(deadline - 1, &idle);
            assert_eq!(node.manager(), Some(MN_MAC), "not before");
        }
        node.handle_deadline(deadline);
    }
    assert_eq!((node.state(), node.manager()), (State::PreOperational1, None));
    node.handle_frame(last_ns + SECOND_NS, &idle);
    assert_eq!(node.manager(), Some(OTHER));
}

/// In PRE_OPERATIONAL_1 no timeout ends the state: a silence of a second releases the address.
#[test]
fn a_silent_managing_node_is_replaced_in_the_reduced_cycle() {
    let mut cable = Cable::new(false);
    cable.run(20 * SECOND_NS, |cable| {
        cable.cn.as_ref().is_some_and(|node| node.state() == State::PreOperational1)
    });
    let last_ns = cable.sent.last().unwrap().0;
    let node = cable.cn.as_mut().unwrap();
    let idle = |mac| soa(mac, RequestedService::NO_SERVICE, NodeId::NONE);
    // Without its deadlines, time is that of a node that was not scheduled.
    node.handle_frame(last_ns + 2 * SECOND_NS, &idle(OTHER));
    assert_eq!((node.manager(), node.foreign_frames()), (Some(MN_MAC), 1));
    while let Some(deadline) = node.next_deadline_ns().filter(|at| *at <= last_ns + SECOND_NS) {
        node.handle_deadline(deadline);
    }
    assert_eq!(node.manager(), None);
    node.handle_frame(last_ns + SECOND_NS, &idle(OTHER));
    assert_eq!((node.manager(), node.foreign_frames()), (Some(OTHER), 1));
    node.handle_frame(last_ns + SECOND_NS, &nmt(MN_MAC, 240, NmtCommandId::RESET_NODE));
    assert_eq!(node.foreign_frames(), 2);
}

/// PRes, StatusResponse, IdentResponse, NMTRequest and SDO under the id of a controlled node.
#[test]
fn a_managing_node_ignores_foreign_frames_of_a_node() {
    let mut cable = operational();
    cable.events.clear();
    let pres = frame(OTHER, multicast::PRES, &[4, 255, NODE.0, 0x1d, 1, 0, 0, 0, 1, 0, 77]);
    let asnd = |service: u8, rest: &[u8]| {
        let header = [6, NodeId::MN.0, NODE.0, service];
        frame(OTHER, multicast::ASND, &[&header[..], rest, &[0; 160]].concat())
    };
    let forged = [
        pres,
        asnd(1, &[0, 0, 0x1d]),
        asnd(2, &[0, 0, 0x1d]),
        // A request to stop the node.
        asnd(3, &[NmtCommandId::STOP_NODE.0, NODE.0]),
        asnd(5, &[0, 1]),
    ];
    let rounds = 500;
    for _ in 0..rounds {
        let now_ns = cable.now_ns;
        for frame in &forged {
            cable.mn.handle_frame(now_ns, frame);
            assert_eq!(cable.mn.poll_transmit(), None, "{}", message(frame));
        }
        cable.run(now_ns + CYCLE_NS * 3 / 10, |_| false);
    }
    let [boot] = cable.mn.boots().collect::<Vec<_>>()[..] else { panic!("one node") };
    assert_eq!((boot.step, boot.failures), (Step::Operational, 0));
    assert_eq!(boot.foreign, rounds * forged.len() as u64);
    let reported = mn::Event::ForeignAddress(NODE, OTHER);
    assert_eq!(cable.events.iter().filter(|event| **event == reported).count(), 1);
    let lost = |event: &&mn::Event| matches!(event, mn::Event::LostPres(_) | mn::Event::Failed(..));
    assert_eq!(cable.events.iter().filter(lost).count(), 0);
}

/// A foreign PRes in the slot of a node that does not answer.
#[test]
fn a_foreign_response_is_none() {
    let mut cable = operational();
    cable.cn = None;
    cable.events.clear();
    let pres = frame(OTHER, multicast::PRES, &[4, 255, NODE.0, 0xfd, 1, 0, 0, 0, 1, 0, 77]);
    let polls = |cable: &Cable| {
        let is_poll = |frame: &[u8]| matches!(message(frame).body, Body::Preq(_));
        cable.sent.iter().filter(|(_, frame)| is_poll(frame)).count()
    };
    let before = polls(&cable);
    let now_ns = cable.now_ns;
    cable.run(now_ns + 10 * CYCLE_NS, |cable| polls(cable) > before);
    let now_ns = cable.now_ns;
    cable.mn.handle_frame(now_ns, &pres);
    cable.run(now_ns + CYCLE_NS / 2, |_| false);
    assert!(cable.events.contains(&mn::Event::LostPres(NODE)), "{:?}", cable.events);
}

use alloc::vec;
use alloc::vec::Vec;

use onbeat_wire::powerlink::{NetTime, Preq, Pres, Soa, multicast};

use super::*;
use crate::frame;
use onbeat_wire::powerlink::{EplVersion, Links, PdoVersion, SendRequest};

const MN_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 240]);
const CN_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const CN: NodeId = NodeId(1);

fn from(mac: MacAddress, source: NodeId, destination: NodeId, body: Body<'_>) -> Vec<u8> {
    frame::build(multicast::SOC, mac, &Message { destination, source, body }, 0)
}

fn soc(relative_time_us: u64) -> Vec<u8> {
    let soc = Soc {
        multiplexed_cycle_completed: false,
        prescaled_slot: false,
        net_time: NetTime::default(),
        relative_time_us,
    };
    from(MN_MAC, NodeId::MN, NodeId::BROADCAST, Body::Soc(soc))
}

fn preq(node: NodeId) -> Vec<u8> {
    let preq = Preq {
        multiplexed_slot: false,
        exception_acknowledge: false,
        ready: true,
        links: Links::default(),
        pdo_version: PdoVersion::default(),
        payload: &[],
    };
    from(MN_MAC, NodeId::MN, node, Body::Preq(preq))
}

fn pres(mac: MacAddress, state: NmtState) -> Vec<u8> {
    let pres = Pres {
        state,
        multiplexed_slot: false,
        exception_new: false,
        ready: true,
        links: Links::default(),
        request: SendRequest::NONE,
        pdo_version: PdoVersion::default(),
        payload: &[],
    };
    from(mac, CN, NodeId::BROADCAST, Body::Pres(pres))
}

fn soa(service: RequestedService, target: NodeId) -> Vec<u8> {
    let soa = Soa {
        state: NmtState::OPERATIONAL,
        exception_acknowledge: false,
        exception_reset: false,
        service,
        target,
        version: EplVersion::V2,
        redundancy: 0,
    };
    from(MN_MAC, NodeId::MN, NodeId::BROADCAST, Body::Soa(soa))
}

fn multiplexed(mut frame: Vec<u8>, completed: bool) -> Vec<u8> {
    frame[14 + 4] |= match frame[14] {
        1 => u8::from(completed) << 7,
        _ => 1 << 5,
    };
    frame
}

#[test]
fn multiplexed_nodes_are_reported_with_their_slot() {
    let mut observer = Observer::new();
    // From the middle of a multiplexed cycle of three on; node 1 has the second slot.
    for cycle in 4..20 {
        let frames =
            [(0, multiplexed(soc(cycle * 1_000), cycle / 3 % 2 == 1)), (1, preq(NodeId(2)))];
        seen(&mut observer, &frames);
        if cycle % 3 == 1 {
            seen(&mut observer, &[(2, multiplexed(preq(CN), false))]);
        }
    }
    assert_eq!(observer.multiplexed_cycles(), Some(3));
    assert_eq!(observer.nodes()[&CN].slot, Some(2));
    assert_eq!(observer.nodes()[&NodeId(2)].slot, None);
}

fn seen(observer: &mut Observer, frames: &[(u64, Vec<u8>)]) -> Vec<Observation> {
    let mut seen = Vec::new();
    for (time_ns, frame) in frames {
        observer.observe(*time_ns, frame, |observation| seen.push(observation));
    }
    seen
}

#[test]
fn cycles_responses_and_losses() {
    let mut observer = Observer::new();
    let reported = seen(
        &mut observer,
        &[
            (0, soc(0)),
            (10, preq(CN)),
            (17, pres(CN_MAC, NmtState::OPERATIONAL)),
            (20, soa(RequestedService::NO_SERVICE, NodeId::NONE)),
            (1_005, soc(1)),
            (1_010, preq(CN)),
            (1_020, soa(RequestedService::IDENT_REQUEST, NodeId(9))),
            (3_000, soc(3)),
        ],
    );
    let state = |node| Observation::State { node, from: None, to: NmtState::OPERATIONAL };
    let expected = vec![
        Observation::Response { node: CN, request: Request::Poll, delay_ns: 7 },
        state(CN),
        state(NodeId::MN),
        Observation::Cycle { interval_ns: 1_005, step_ns: 1_000 },
        Observation::Unanswered { node: CN, request: Request::Poll },
        Observation::Unanswered { node: NodeId(9), request: Request::Ident },
        Observation::Cycle { interval_ns: 1_995, step_ns: 2_000 },
    ];
    assert_eq!(reported, expected);
    let polls = observer.nodes()[&CN].requests(Request::Poll);
    assert_eq!(polls, Requests { sent: 2, unanswered: 1 });
    assert_eq!(observer.frames().messages(), 8);
}

/// A node uses its asynchronous phase for a frame of any protocol.
#[test]
fn an_invitation_is_answered_by_any_frame_of_the_node() {
    let ip = |mac: MacAddress| [&[0xff; 6][..], &mac.0, &[8, 0], &[0; 46]].concat();
    let mut observer = Observer::new();
    let frames = [
        (0, preq(CN)),
        (5, pres(CN_MAC, NmtState::OPERATIONAL)),
        (10, soa(RequestedService::UNSPECIFIED_INVITE, CN)),
        (17, ip(CN_MAC)),
        (1_000, soc(0)),
        (1_010, soa(RequestedService::UNSPECIFIED_INVITE, CN)),
        // Of another node.
        (1_017, ip(MacAddress([2, 0, 0, 0, 0, 9]))),
        (2_000, soc(1)),
    ];
    let reported = seen(&mut observer, &frames);
    let response = Observation::Response { node: CN, request: Request::Invite, delay_ns: 7 };
    assert!(reported.contains(&response), "{reported:?}");
    let invites = observer.nodes()[&CN].requests(Request::Invite);
    assert_eq!(invites, Requests { sent: 2, unanswered: 1 });
}

/// On a switch a node observes its own polls and the responses of all.
#[test]
fn responses_to_polls_that_are_not_visible_are_not_unsolicited() {
    let other = |octets: Vec<u8>| {
        let mut octets = octets;
        octets[11] = 9;
        octets[16] = 9;
        octets
    };
    let mut observer = Observer::new();
    let response = || pres(CN_MAC, NmtState::OPERATIONAL);
    seen(&mut observer, &[(0, preq(CN)), (5, response()), (9, other(response()))]);
    assert!(observer.sees_polls_of(CN) && !observer.sees_polls_of(NodeId(9)));
    // A hub: the polls of two nodes are visible, and those of all.
    seen(&mut observer, &[(20, preq(NodeId(2)))]);
    assert!(observer.sees_polls_of(NodeId(9)));
}

#[test]
fn a_late_response_is_unsolicited() {
    let mut observer = Observer::new();
    let frames = [
        (0, preq(CN)),
        (50, preq(NodeId(2))),
        (60, pres(CN_MAC, NmtState::OPERATIONAL)),
        (61, pres(CN_MAC, NmtState::OPERATIONAL)),
    ];
    seen(&mut observer, &frames);
    assert_eq!(observer.nodes()[&CN].unsolicited, 2);
    assert_eq!(observer.nodes()[&CN].requests(Request::Poll).unanswered, 1);
    assert_eq!(observer.nodes()[&NodeId(2)].requests(Request::Poll).unanswered, 0, "not yet");
}

#[test]
fn two_devices_with_one_id_are_reported() {
    let mut observer = Observer::new();
    let other = MacAddress([2, 0, 0, 0, 0, 99]);
    let frames = [
        (0, preq(CN)),
        (1, pres(CN_MAC, NmtState::OPERATIONAL)),
        (2, preq(CN)),
        (3, pres(other, NmtState::OPERATIONAL)),
    ];
    let reported = seen(&mut observer, &frames);
    let named = Observation::ForeignAddress { node: CN, of_node: CN_MAC, mac: other };
    assert!(reported.contains(&named), "{reported:?}");
    let node = observer.nodes()[&CN];
    assert_eq!((node.addresses, node.foreign, node.responses), (0, 1, 1));
    assert_eq!(node.mac, Some(CN_MAC));
    let foreign = observer.foreign()[&(CN, other)];
    assert_eq!((foreign.frames.pres, foreign.first_ns, foreign.last_ns), (1, 3, 3));
}

#[test]
fn a_replaced_device_has_another_address() {
    let mut observer = Observer::new();
    let other = MacAddress([2, 0, 0, 0, 0, 99]);
    let frames = [
        (0, pres(CN_MAC, NmtState::OPERATIONAL)),
        (1_000_000_000, pres(other, NmtState::OPERATIONAL)),
    ];
    let reported = seen(&mut observer, &frames);
    let named = Observation::OtherAddress { node: CN, before: CN_MAC, mac: other };
    assert!(reported.contains(&named), "{reported:?}");
    let node = observer.nodes()[&CN];
    assert_eq!((node.addresses, node.foreign, node.mac), (1, 0, Some(other)));
}

/// Frames of a second managing node: forged ones, and those of a redundant one that has announced itself.
#[test]
fn a_redundant_managing_node_announces_itself() {
    let other = MacAddress([2, 0, 0, 0, 0, 241]);
    let of = |mac: MacAddress, mut frame: Vec<u8>| {
        frame[6..12].copy_from_slice(&mac.0);
        frame
    };
    let amni = from(other, NodeId(241), NodeId::BROADCAST, Body::Amni);
    let mut observer = Observer::new();
    let forged = seen(
        &mut observer,
        &[
            (0, soc(0)),
            (1_000, soc(1)),
            (1_100, of(other, preq(CN))),
            // The known one continues: the announcement is void.
            (1_200, amni.clone()),
            (2_000, soc(2)),
            (2_100, of(other, soc(900))),
        ],
    );
    let foreign = Observation::ForeignAddress { node: NodeId::MN, of_node: MN_MAC, mac: other };
    assert_eq!(forged.iter().filter(|observation| **observation == foreign).count(), 2);
    assert_eq!(observer.nodes()[&NodeId::MN].foreign, 2);
    assert!(!observer.nodes().contains_key(&CN), "a forged poll is not counted as unanswered");

    let taken = seen(&mut observer, &[(3_100, amni), (4_100, of(other, soc(4)))]);
    let takeover = Observation::TakenOver { before: MN_MAC, mac: other };
    assert!(taken.contains(&takeover), "{taken:?}");
    let node = observer.nodes()[&NodeId::MN];
    assert_eq!((node.takeovers, node.addresses, node.foreign), (1, 0, 2));
}

#[test]
fn a_restart_of_the_managing_node_is_not_a_cycle() {
    let reported = seen(&mut Observer::new(), &[(0, soc(5_000)), (9_000_000, soc(0))]);
    assert_eq!(reported, []);
}

#[test]
fn a_jump_of_relative_time_is_not_a_cycle() {
    let cycle = Observation::Cycle { interval_ns: 1_000_000, step_ns: 1_000_000 };
    let far = u64::MAX - 1;
    let frames = [0, 1_000, 2_000, far, 4_000, 5_000].map(soc);
    let frames: Vec<_> = (0..).map(|cycle| cycle * 1_000_000).zip(frames).collect();
    // Neither the step to it nor the one back.
    assert_eq!(seen(&mut Observer::new(), &frames), [cycle; 3]);
}

/// The start of cycles, polls and SoA are frames of the managing node only.
#[test]
fn frames_of_the_managing_node_with_another_id_have_no_effect() {
    let with_id = |id: u8, mut frame: Vec<u8>| {
        (frame[11], frame[16]) = (id, id);
        frame
    };
    let mut observer = Observer::new();
    let cycle = Observation::Cycle { interval_ns: 1_000_000, step_ns: 1_000_000 };
    let frames = [
        (0, soc(1_000)),
        (10, preq(CN)),
        (300_000, with_id(5, soc(1_001))),
        (300_010, with_id(5, preq(NodeId(7)))),
        (300_020, with_id(5, soa(RequestedService::IDENT_REQUEST, NodeId(8)))),
        (300_030, pres(CN_MAC, NmtState::OPERATIONAL)),
        (1_000_000, soc(2_000)),
    ];
    let reported = seen(&mut observer, &frames);
    let response = Observation::Response { node: CN, request: Request::Poll, delay_ns: 300_020 };
    assert!(reported.contains(&response) && reported.contains(&cycle), "{reported:?}");
    assert_eq!(observer.nodes().keys().collect::<Vec<_>>(), [&CN, &NodeId::MN]);
    let Frames { soc, preq, soa, malformed, .. } = *observer.frames();
    assert_eq!((soc, preq, soa, malformed), (2, 1, 0, 3));
}

#[test]
fn malformed_frames_are_counted() {
    let mut observer = Observer::new();
    let mut unknown = soc(0);
    unknown[14] = 0x0d;
    let mut foreign = soc(0);
    foreign[12..14].copy_from_slice(&[8, 0]);
    let frames = [(0, vec![0; 5]), (1, unknown), (2, soc(0)[..20].to_vec()), (3, foreign)];
    assert_eq!(seen(&mut observer, &frames), []);
    assert_eq!(*observer.frames(), Frames { malformed: 3, foreign: 1, ..Frames::default() });
}

type TimedFrame = (u64, Vec<u8>);

fn hidden(frames: &[TimedFrame]) -> Vec<NodeId> {
    let mut observer = Observer::new();
    seen(&mut observer, frames);
    observer.hidden().collect()
}

/// Cycles with one node, of which a point of the bus may show one direction only.
fn exchange(cycles: u64) -> (Vec<TimedFrame>, Vec<TimedFrame>) {
    let (mut manager, mut controlled) = (Vec::new(), Vec::new());
    for cycle in 0..cycles {
        let at = cycle * 1_000_000;
        manager.push((at, soc(cycle * 1000)));
        manager.push((at + 1, preq(CN)));
        controlled.push((at + 2, pres(CN_MAC, NmtState::OPERATIONAL)));
        manager.push((at + 3, soa(RequestedService::NO_SERVICE, NodeId(0))));
    }
    (manager, controlled)
}

#[test]
fn a_node_that_is_polled_and_never_observed_is_hidden() {
    let (manager, controlled) = exchange(16);
    assert_eq!(hidden(&manager), [CN]);
    // It is silent, and counted as such, if it was observed once.
    let once = [&controlled[..1], &manager].concat();
    assert_eq!(hidden(&once), []);
}

/// A managing node drops a silent node after a few polls.
#[test]
fn a_node_that_is_polled_a_few_times_is_silent_and_not_hidden() {
    let (manager, _) = exchange(15);
    assert_eq!(hidden(&manager), []);
}

#[test]
fn a_managing_node_whose_polls_are_not_observed_is_hidden() {
    let (manager, controlled) = exchange(1);
    assert_eq!(hidden(&controlled), [NodeId::MN]);
    // A port of a switch shows multicasts of the managing node, and no polls.
    let multicasts: Vec<_> = manager.iter().filter(|(at, _)| *at != 1).cloned().collect();
    assert_eq!(hidden(&[multicasts, controlled].concat()), [NodeId::MN]);
}

#[test]
fn both_directions_hide_no_node() {
    let (manager, controlled) = exchange(100);
    let mut all = [manager, controlled].concat();
    all.sort();
    assert_eq!(hidden(&all), []);
    assert_eq!(hidden(&[]), []);
}

//! Frames of other protocols: unchanged on the bus, and only when their node is invited.

use crate::common::cable::{CYCLE_NS, Cable, NODE, network};
use crate::common::message;
use onbeat_powerlink::Node;
use onbeat_powerlink::ethernet::{self, SendError};
use onbeat_powerlink::mn::Step;
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::profile;
use onbeat_wire::EtherType;
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{Body, NodeId, RequestedService};

/// An IPv4 frame, by its EtherType, with a number in it.
fn other(from: u8, to: u8, number: u16, octets: usize) -> Vec<u8> {
    let mut frame = vec![0x5a; octets];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from]);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..16].copy_from_slice(&number.to_be_bytes());
    frame
}

fn is_other(frame: &[u8]) -> bool {
    frame[12..14] != EtherType::POWERLINK.0.to_be_bytes()
}

/// All frames of the bus, in order; at equal times the managing node's come first.
fn bus(cable: &Cable) -> Vec<(u64, Vec<u8>)> {
    let mut all: Vec<_> = cable.sent.iter().chain(&cable.answers).cloned().collect();
    all.sort_by_key(|(at_ns, _)| *at_ns);
    all
}

/// The last invited node before each frame of another protocol, and the sender of the frame.
fn invitations(bus: &[(u64, Vec<u8>)]) -> Vec<(NodeId, u8)> {
    let (mut invited, mut found) = (NodeId::NONE, Vec::new());
    for (_, frame) in bus {
        if is_other(frame) {
            found.push((core::mem::replace(&mut invited, NodeId::NONE), frame[11]));
        } else if let Body::Soa(soa) = message(frame).body {
            let unspecified = soa.service == RequestedService::UNSPECIFIED_INVITE;
            invited = if unspecified { soa.target } else { NodeId::NONE };
        }
    }
    found
}

#[test]
fn both_nodes_send_one_frame_for_each_invitation() {
    let mut cable = Cable::new(false);
    cable.run_until_operational();
    let (sent, answers) = (cable.sent.len(), cable.answers.len());
    for number in 0..10 {
        cable.mn.send_other(&other(240, 1, number, 1514)).unwrap();
        cable.cn.as_mut().unwrap().send_other(&other(1, 240, number, 42)).unwrap();
    }
    let end_ns = cable.now_ns + 50 * CYCLE_NS;
    cable.run(end_ns, |_| false);
    cable.sent.drain(..sent);
    cable.answers.drain(..answers);
    let others = |frames: &[(u64, Vec<u8>)]| -> Vec<Vec<u8>> {
        frames.iter().map(|(_, frame)| frame).filter(|frame| is_other(frame)).cloned().collect()
    };
    let expected: Vec<_> = (0..10).map(|number| other(240, 1, number, 1514)).collect();
    assert_eq!(others(&cable.sent), expected, "each once, in order, unchanged");
    let found = others(&cable.answers);
    assert_eq!(found.len(), 10);
    for (number, frame) in (0..).zip(&found) {
        assert_eq!((&frame[..42], frame.len()), (&other(1, 240, number, 42)[..], 60), "padded");
    }
    let invitations = invitations(&bus(&cable));
    assert_eq!(invitations.len(), 20);
    for (invited, from) in invitations {
        assert_eq!(invited, NodeId(from), "it sends only when invited");
    }
    assert_eq!(cable.mn.step(NODE), Some(Step::Operational), "{:?}", cable.events);
}

/// Process data has priority: with the bus full of other frames, each cycle still has its poll.
#[test]
fn a_flood_uses_only_asynchronous_phases() {
    let mut cable = Cable::new(false);
    cable.run_until_operational();
    let (before, end_ns) = (cable.sent.len(), cable.now_ns + 100 * CYCLE_NS);
    while cable.now_ns < end_ns {
        while cable.mn.has_room() {
            cable.mn.send_other(&other(240, 1, 0, 60)).unwrap();
        }
        assert_eq!(cable.mn.send_other(&other(240, 1, 0, 60)), Err(SendError::Full));
        let cn = cable.cn.as_mut().unwrap();
        while cn.has_room() {
            cn.send_other(&other(1, 240, 0, 60)).unwrap();
        }
        assert_eq!(cn.send_other(&other(1, 240, 0, 60)), Err(SendError::Full));
        let next_ns = cable.now_ns + CYCLE_NS;
        cable.run(next_ns, |_| false);
    }
    let count = |kind: fn(&Body<'_>) -> bool| {
        let own = cable.sent[before..].iter().filter(|(_, frame)| !is_other(frame));
        own.filter(|(_, frame)| kind(&message(frame).body)).count()
    };
    assert_eq!(count(|body| matches!(body, Body::Soc(_))), 100);
    assert_eq!(count(|body| matches!(body, Body::Preq(_))), 100);
    assert_eq!(cable.mn.step(NODE), Some(Step::Operational), "{:?}", cable.events);
    let shares = [&cable.sent, &cable.answers]
        .map(|frames| frames.iter().filter(|(_, frame)| is_other(frame)).count());
    assert!(shares.iter().all(|share| *share >= 20), "both have their share: {shares:?}");
}

#[test]
fn a_frame_that_cannot_be_sent_is_refused() {
    let mut cable = Cable::new(false);
    assert!(matches!(cable.mn.send_other(&other(240, 1, 0, 60)), Err(SendError::State(_))));
    cable.run_until_operational();
    let cn = cable.cn.as_mut().unwrap();
    let most = 1514;
    for octets in [0, 13, 1515, 9000] {
        let frame = vec![0; octets];
        assert_eq!(cn.send_other(&frame), Err(SendError::Length { octets, most }));
        assert_eq!(cable.mn.send_other(&frame), Err(SendError::Length { octets, most }));
    }
    let mut own = other(1, 240, 0, 60);
    own[12..14].copy_from_slice(&EtherType::POWERLINK.0.to_be_bytes());
    assert_eq!(cn.send_other(&own), Err(SendError::Powerlink));
    assert_eq!(cable.mn.send_other(&own), Err(SendError::Powerlink));
    cn.set_object(profile::ASYNC_MTU, &300_u16.to_le_bytes()).unwrap();
    assert!(cn.send_other(&other(1, 240, 0, 314)).is_ok());
    let refused = cn.send_other(&other(1, 240, 0, 315)).unwrap_err();
    assert!(refused.to_string().contains("14 to 314 octets"), "{refused}");
}

#[test]
fn without_a_cycle_a_node_sends_at_once() {
    let mut node = network().controlled(NODE, MacAddress([2, 0, 0, 0, 0, 1])).unwrap();
    node.start(0);
    node.send_other(&other(1, 240, 0, 60)).unwrap();
    assert_eq!(node.poll_transmit(), None, "a managing node may be about to start");
    node.handle_deadline(node.next_deadline_ns().unwrap());
    assert_eq!(node.state(), State::BasicEthernet);
    node.send_other(&other(1, 240, 1, 60)).unwrap();
    let sent: Vec<_> = core::iter::from_fn(|| node.poll_transmit()).collect();
    assert!(sent.contains(&other(1, 240, 1, 60)));
}

#[test]
fn a_node_reports_its_address() {
    let node = network().controlled(NODE, MacAddress([2, 0, 0, 0, 0, 1])).unwrap();
    let number = |object| node.objects().number(object) as u32;
    assert_eq!(ethernet::address(NODE), "192.168.100.1".parse::<core::net::Ipv4Addr>().unwrap());
    assert_eq!(number(profile::ADDRESS), ethernet::address(NODE).to_bits());
    assert_eq!(number(profile::GATEWAY), ethernet::GATEWAY.to_bits());
    assert_eq!(number(profile::MASK), ethernet::MASK.to_bits());
}

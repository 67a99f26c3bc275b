//! SDO over UDP, at both kinds of nodes.

use std::collections::VecDeque;
use std::net::SocketAddrV4;

use onbeat_powerlink::Node;
use onbeat_powerlink::cn::{ControlledNode, StoreCommand};
use onbeat_powerlink::mn::{ManagingNode, Step, concise_dcf};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::{Abort, id, profile};
use onbeat_powerlink::sdo::{
    Client, CompletedRequest, OutgoingFrame, Request, datagram, parse_datagram,
};
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{
    Body, Command, CommandId, Connection, NetTime, NmtState, Segmentation, SequenceCount,
};
use proptest::prelude::*;

use crate::common::cable::{CYCLE_NS, Cable, NODE, network};
use crate::common::message;

const TIMEOUT_NS: u64 = 5_000_000_000;
/// How long an open connection is protected from new peers.
const IDLE_NS: u64 = 1_000_000_000;
/// Connections of a server.
const CONNECTIONS: u16 = 8;

/// A node that handles datagrams.
trait DatagramNode: Node {
    fn receive(&mut self, now_ns: u64, from: SocketAddrV4, datagram: &[u8]);
    fn poll(&mut self) -> Option<(SocketAddrV4, Vec<u8>)>;
}

impl DatagramNode for ControlledNode {
    fn receive(&mut self, now_ns: u64, from: SocketAddrV4, datagram: &[u8]) {
        self.handle_datagram(now_ns, from, datagram);
    }
    fn poll(&mut self) -> Option<(SocketAddrV4, Vec<u8>)> {
        self.poll_datagram()
    }
}

impl DatagramNode for ManagingNode {
    fn receive(&mut self, now_ns: u64, from: SocketAddrV4, datagram: &[u8]) {
        self.handle_datagram(now_ns, from, datagram);
    }
    fn poll(&mut self) -> Option<(SocketAddrV4, Vec<u8>)> {
        self.poll_datagram()
    }
}

/// A client at a port of a host.
struct Peer {
    address: SocketAddrV4,
    client: Client,
    out: VecDeque<OutgoingFrame>,
}

impl Peer {
    fn new(port: u16) -> Self {
        Peer::at(50, port)
    }

    /// At a port of another host.
    fn at(host: u8, port: u16) -> Self {
        let address = SocketAddrV4::new([192, 168, 100, host].into(), port);
        Peer { address, client: Client::new(TIMEOUT_NS), out: VecDeque::new() }
    }

    /// Exchanges datagrams until both ends have none; returns the completed requests.
    fn exchange(&mut self, now_ns: u64, node: &mut impl DatagramNode) -> Vec<CompletedRequest> {
        let mut done = Vec::new();
        loop {
            if let Some(frame) = self.out.pop_front() {
                node.receive(now_ns, self.address, &datagram(&frame));
            } else if let Some((to, octets)) = node.poll() {
                if to == self.address {
                    let sdo = parse_datagram(&octets).expect("a node sends SDO frames");
                    done.extend(self.client.receive(now_ns, &sdo, &mut self.out));
                }
            } else {
                return done;
            }
        }
    }

    /// Executes a request; `None` without an answer.
    fn execute(
        &mut self,
        now_ns: u64,
        node: &mut impl DatagramNode,
        request: Request,
    ) -> Option<Result<Vec<u8>, Abort>> {
        self.client.request(now_ns, request, &mut self.out);
        self.exchange(now_ns, node).pop().map(|done| done.result)
    }

    fn read(
        &mut self,
        now_ns: u64,
        node: &mut impl DatagramNode,
    ) -> Option<Result<Vec<u8>, Abort>> {
        self.execute(now_ns, node, Request::Read(profile::NMT_STATE))
    }
}

fn operational() -> Cable {
    let mut cable = Cable::new(false);
    cable.mn.serve_datagrams();
    cable.cn.as_mut().unwrap().serve_datagrams();
    cable.run_until_operational();
    cable
}

#[test]
fn both_nodes_are_read_and_written_in_operation() {
    let mut cable = operational();
    let (now_ns, mut peer, mut other) = (cable.now_ns, Peer::new(4000), Peer::new(4001));
    let cn = cable.cn.as_mut().unwrap();
    let operational = Some(Ok(vec![NmtState::OPERATIONAL.0]));
    assert_eq!(peer.read(now_ns, cn), operational);
    assert_eq!(other.read(now_ns, &mut cable.mn), operational);
    // Transfers of any number of segments.
    let list = id(profile::CONCISE_DCF, 1);
    for len in [12, 248, 249, 252, 253, 256, 257, 700, 65_536] {
        // One entry, of 7 octets and a value, behind the count of entries.
        let entry: Vec<u8> = (11..len).map(|n| (n * 7 + n / 256) as u8).collect();
        let value = concise_dcf([(id(0x2000, 0), &entry[..])]);
        let write = Request::Write(list, value.clone().into());
        assert_eq!(other.execute(now_ns, &mut cable.mn, write), Some(Ok(vec![])), "{len}");
        let read = other.execute(now_ns, &mut cable.mn, Request::Read(list));
        assert_eq!(read, Some(Ok(value)), "{len}");
    }
    let write = Request::Write(profile::HOST_NAME, (*b"drive").into());
    assert_eq!(peer.execute(now_ns, cn, write), Some(Ok(vec![])));
    assert_eq!(cn.objects().get(profile::HOST_NAME), Ok(&b"drive"[..]));
    let write = Request::Write(profile::NMT_STATE, [0].into());
    assert_eq!(peer.execute(now_ns, cn, write), Some(Err(Abort::READ_ONLY)));
}

/// Bit 1 of 0x1F82, also after a reset, and in IdentResponse, from which the managing node has it.
#[test]
fn only_a_node_that_serves_has_the_feature() {
    let feature = |node: &ControlledNode| node.objects().number(profile::FEATURES) & 2 != 0;
    let cable = operational();
    assert!(feature(cable.cn.as_ref().unwrap()));
    assert_eq!(cable.mn.objects().number(profile::FEATURES) & 2, 2);
    let mut cable = Cable::new(false);
    cable.run_until_operational();
    assert!(!feature(cable.cn.as_ref().unwrap()));
    assert_eq!(cable.mn.objects().number(profile::FEATURES) & 2, 0);
    let now_ns = cable.now_ns;
    assert_eq!(Peer::new(4000).read(now_ns, cable.cn.as_mut().unwrap()), None);
    assert_eq!(Peer::new(4000).read(now_ns, &mut cable.mn), None);
}

#[test]
fn a_node_without_a_network_serves_in_basic_ethernet_only() {
    let mut node = network().controlled(NODE, MacAddress([2, 0, 0, 0, 0, 1])).unwrap();
    node.serve_datagrams();
    assert_eq!(Peer::new(1).read(0, &mut node), None, "it is off");
    node.start(0);
    assert_eq!(Peer::new(2).read(0, &mut node), None, "a managing node may be about to start");
    let now_ns = node.next_deadline_ns().unwrap();
    node.handle_deadline(now_ns);
    assert_eq!(node.state(), State::BasicEthernet);
    let state = Peer::new(3).read(now_ns, &mut node);
    assert_eq!(state, Some(Ok(vec![State::BasicEthernet.code().0])));
}

/// 0x1F9E leads out of BASIC_ETHERNET, after its answer.
#[test]
fn a_managing_node_is_reset_after_its_answer() {
    let mut network = network();
    network.basic_ethernet = true;
    let mut mn = network.managing(MacAddress([2, 0, 0, 0, 0, 240])).unwrap();
    mn.serve_datagrams();
    mn.start(0, NetTime::default());
    let now_ns = mn.next_deadline_ns().unwrap();
    mn.handle_deadline(now_ns);
    assert_eq!(mn.state(), State::BasicEthernet);
    assert_eq!(mn.next_deadline_ns(), None);
    let mut peer = Peer::new(1);
    assert!(peer.read(now_ns, &mut mn).is_some());
    let reset = Request::Write(profile::RESET_COMMAND, [0x2a].into());
    peer.client.request(now_ns, reset, &mut peer.out);
    for frame in peer.out.drain(..) {
        mn.handle_datagram(now_ns, peer.address, &datagram(&frame));
    }
    assert!(mn.next_deadline_ns().is_some_and(|deadline| deadline <= now_ns));
    mn.handle_deadline(now_ns);
    assert_eq!(mn.state(), State::BasicEthernet, "its answer is queued");
    let done = peer.exchange(now_ns, &mut mn).pop().map(|done| done.result);
    assert_eq!(done, Some(Ok(vec![])));
    mn.handle_deadline(now_ns);
    assert_eq!(mn.state(), State::NotActive);
    assert!(mn.next_deadline_ns().is_some_and(|deadline| deadline > now_ns));
}

/// Frames for other peers do not delay it.
#[test]
fn a_reset_waits_for_its_own_answer_only() {
    let mut cable = operational();
    let (now_ns, mn) = (cable.now_ns, &mut cable.mn);
    // A diagnostic device opens a connection; the answer is queued for an asynchronous phase.
    let open = [6, 240, 253, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut frame = vec![1, 0x11, 0x1e, 0, 0, 4, 2, 0, 0, 0, 0, 253, 0x88, 0xab];
    frame.extend(open);
    frame.resize(60, 0);
    mn.handle_frame(now_ns, &frame);
    let reset = Request::Write(profile::RESET_COMMAND, [0x2a].into());
    assert_eq!(Peer::new(1).execute(now_ns, mn, reset), Some(Ok(vec![])));
    assert_eq!(mn.state(), State::Operational);
    mn.handle_deadline(mn.next_deadline_ns().unwrap());
    assert_eq!(mn.state(), State::NotActive);
}

/// By frames of the bus as over UDP: the managing node receives the answer, and then loses the node.
#[test]
fn a_controlled_node_is_reset_after_its_answer() {
    let mut cable = operational();
    let reset = Request::Write(profile::RESET_COMMAND, [0x2a].into());
    cable.mn.request(cable.now_ns, NODE, reset.clone()).unwrap();
    cable.run(cable.now_ns + 100 * CYCLE_NS, |cable| {
        cable.cn.as_ref().unwrap().state() != State::Operational
    });
    let state = |cable: &Cable| cable.cn.as_ref().unwrap().state();
    assert_ne!(state(&cable), State::Operational);
    let done = cable.mn.poll_completed().expect("an answer before the reset");
    assert_eq!(done.1.result, Ok(vec![]));

    let mut cable = operational();
    let (now_ns, cn) = (cable.now_ns, cable.cn.as_mut().unwrap());
    assert_eq!(Peer::new(1).execute(now_ns, cn, reset), Some(Ok(vec![])));
    assert_ne!(state(&cable), State::Operational);
}

/// Datagrams have a call of the node of their own, behind the frames of its cycle.
#[test]
fn a_cycle_precedes_datagrams_that_are_due_with_it() {
    let mut cable = operational();
    let (now_ns, mn) = (cable.now_ns, &mut cable.mn);
    let mut peer = Peer::new(1);
    assert!(peer.read(now_ns, mn).is_some());
    // Its answer is not acknowledged, and repeated.
    peer.client.request(now_ns, Request::Read(profile::NMT_STATE), &mut peer.out);
    for frame in peer.out.drain(..) {
        mn.handle_datagram(now_ns, peer.address, &datagram(&frame));
    }
    while mn.poll_datagram().is_some() {}
    let late_ns = now_ns + 15_000_000_000;
    let mut frames = 0;
    let repeated = (0..10).find_map(|_| {
        assert!(mn.next_deadline_ns().is_some_and(|deadline| deadline <= late_ns));
        mn.handle_deadline(late_ns);
        let sent = std::iter::from_fn(|| mn.poll_transmit()).count();
        frames += sent;
        let datagram = mn.poll_datagram();
        assert!(sent == 0 || datagram.is_none());
        datagram
    });
    assert!(repeated.is_some() && frames > 0, "{frames} frames");
}

#[test]
fn a_node_without_a_record_of_its_features_serves() {
    let objects = onbeat_powerlink::od::Dictionary::new();
    let config = onbeat_powerlink::mn::Config { mac: MacAddress::default(), objects };
    let mut mn = ManagingNode::new(config).unwrap();
    mn.serve_datagrams();
    assert_eq!(mn.state(), State::Off);
}

#[test]
fn parameters_are_stored_before_the_answer() {
    let mut node = network().controlled(NODE, MacAddress([2, 0, 0, 0, 0, 1])).unwrap();
    node.set_store(None).unwrap();
    node.serve_datagrams();
    node.start(0);
    let now_ns = node.next_deadline_ns().unwrap();
    node.handle_deadline(now_ns);
    let mut peer = Peer::new(1);
    let save = Request::Write(id(profile::STORE, 1), (*b"save").into());
    assert_eq!(peer.execute(now_ns, &mut node, save), None);
    assert!(matches!(node.poll_store(), Some(StoreCommand::Write(_))));
    node.handle_stored(now_ns, true);
    let done = peer.exchange(now_ns, &mut node).pop().map(|done| done.result);
    assert_eq!(done, Some(Ok(vec![])));
}

/// Requests to open from thousands of ports, of which none is continued: the bus keeps its cycle, and both other
/// peers over UDP and the managing node are served.
#[test]
fn a_flood_of_peers_leaves_the_cycle_and_other_peers() {
    let mut cable = operational();
    let before = cable.sent.len();
    let end_ns = cable.now_ns + 100 * CYCLE_NS;
    let mut port = 1024_u16;
    let mut flood = |now_ns: u64, cn: &mut ControlledNode| {
        for _ in 0..20 {
            port += 1;
            let mut peer = Peer::at(66, port);
            peer.client.request(now_ns, Request::Read(profile::NMT_STATE), &mut peer.out);
            cn.handle_datagram(now_ns, peer.address, &datagram(&peer.out[0]));
        }
    };
    let mut served = 0;
    cable.mn.request(cable.now_ns, NODE, Request::Read(profile::HOST_NAME)).unwrap();
    while cable.now_ns < end_ns {
        let now_ns = cable.now_ns;
        let cn = cable.cn.as_mut().unwrap();
        // More requests to open than connections are between any two frames of another peer.
        let mut peer = Peer::new(1000);
        peer.client.request(now_ns, Request::Read(profile::NMT_STATE), &mut peer.out);
        while let Some(frame) = peer.out.pop_front() {
            flood(now_ns, cn);
            cn.handle_datagram(now_ns, peer.address, &datagram(&frame));
            flood(now_ns, cn);
            while let Some((to, answer)) = cn.poll_datagram() {
                if to == peer.address {
                    let sdo = parse_datagram(&answer).expect("a node sends SDO frames");
                    let done = peer.client.receive(now_ns, &sdo, &mut peer.out);
                    served += u32::from(done.is_some_and(|done| done.result.is_ok()));
                } else {
                    assert!(answer.len() <= 16, "no answer is longer than its request");
                }
            }
        }
        let next_ns = now_ns + CYCLE_NS;
        cable.run(next_ns, |_| false);
    }
    assert_eq!(served, 100);
    let count = |kind: fn(&Body<'_>) -> bool| {
        cable.sent[before..].iter().filter(|(_, frame)| kind(&message(frame).body)).count()
    };
    assert_eq!(count(|body| matches!(body, Body::Preq(_))), 100);
    assert_eq!(cable.mn.step(NODE), Some(Step::Operational), "{:?}", cable.events);
    let done = cable.mn.poll_completed().expect("the node answers its managing node");
    assert_eq!(done.1.result, Ok(b"test".to_vec()));
}

#[test]
fn a_new_peer_replaces_the_one_silent_the_longest() {
    let mut cable = operational();
    let (mut now_ns, cn) = (cable.now_ns, cable.cn.as_mut().unwrap());
    let mut peers: Vec<Peer> = (0..CONNECTIONS).map(|n| Peer::new(4000 + n)).collect();
    for peer in &mut peers {
        assert!(peer.read(now_ns, cn).is_some());
    }
    assert_eq!(Peer::new(5000).read(now_ns, cn), None, "open ones are protected for a second");
    now_ns += IDLE_NS - 1;
    for (n, peer) in peers.iter_mut().enumerate() {
        if n != 3 {
            assert!(peer.read(now_ns, cn).is_some());
        }
    }
    assert_eq!(Peer::new(5000).read(now_ns, cn), None);
    now_ns += 1;
    // The replaced one is notified: its next request opens another connection.
    let mut new = Peer::new(5001);
    new.client.request(now_ns, Request::Read(profile::NMT_STATE), &mut new.out);
    cn.handle_datagram(now_ns, new.address, &datagram(&new.out.pop_front().unwrap()));
    let (to, octets) = cn.poll_datagram().unwrap();
    assert_eq!(to, peers[3].address);
    let sdo = parse_datagram(&octets).unwrap();
    let none = |count: SequenceCount| count.connection == Connection::None;
    assert!(none(sdo.sequence.receive) && none(sdo.sequence.send));
    assert_eq!(new.exchange(now_ns, cn).len(), 1);
    // A peer in a transfer keeps its connection, however long it is silent.
    for peer in peers.iter_mut().filter(|peer| peer.address.port() != 4003) {
        peer.client.request(now_ns, Request::Read(profile::NMT_STATE), &mut peer.out);
        for frame in peer.out.drain(..) {
            cn.handle_datagram(now_ns, peer.address, &datagram(&frame));
        }
    }
    while cn.poll_datagram().is_some() {}
    now_ns += IDLE_NS;
    let mut last = Peer::new(5002);
    assert!(last.read(now_ns, cn).is_some(), "the only idle one is replaced");
    assert_eq!(Peer::new(5003).read(now_ns, cn), None, "all others are in a transfer");
    // Silent peers are closed at the end of their timeout.
    now_ns += 4 * 15_000_000_000;
    for _ in 0..4 {
        cn.handle_deadline(now_ns);
        now_ns += 15_000_000_000;
    }
    assert!(Peer::new(5004).read(now_ns, cn).is_some());
}

#[test]
fn other_and_truncated_datagrams_have_no_effect() {
    let mut cable = operational();
    let (now_ns, cn) = (cable.now_ns, cable.cn.as_mut().unwrap());
    let mut peer = Peer::new(4000);
    assert!(peer.read(now_ns, cn).is_some());
    peer.client.request(now_ns, Request::Write(profile::HOST_NAME, [7; 9].into()), &mut peer.out);
    let octets = datagram(&peer.out[0]);
    // The command ends within its value, or behind a part of its header.
    for len in 4 + 4 + 6..octets.len() {
        cn.handle_datagram(now_ns, peer.address, &octets[..len]);
        assert_eq!(cn.poll_datagram(), None, "{len}");
    }
    for at in [0, 3] {
        let mut other = octets.clone();
        other[at] ^= 1;
        cn.handle_datagram(now_ns, peer.address, &other);
        assert_eq!(cn.poll_datagram(), None, "{at}");
    }
    assert_eq!(cn.objects().get(profile::HOST_NAME), Ok(&b"test"[..]));
    // The node ids are reserved.
    let mut other = octets.clone();
    other[1..3].copy_from_slice(&[9, 8]);
    cn.handle_datagram(now_ns, peer.address, &other);
    assert_eq!(cn.objects().get(profile::HOST_NAME), Ok(&[7; 9][..]));
}

/// The datagram of the standard: message type, reserved node ids, service, sequence layer, command layer.
#[test]
fn a_datagram_is_the_message_without_its_ethernet_header() {
    let mut peer = Peer::new(1);
    peer.client.request(0, Request::Read(id(0x1006, 0)), &mut peer.out);
    assert_eq!(datagram(&peer.out[0]), [6, 0, 0, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let request = [6, 0, 0, 5, 0x02, 0x06, 0, 0, 0, 1, 0, 2, 4, 0, 0, 0, 0x06, 0x10, 0, 0];
    let command = parse_datagram(&request).unwrap().command.unwrap();
    let expected = Command {
        transaction: 1,
        response: false,
        abort: false,
        segmentation: Segmentation::Expedited,
        command: CommandId::READ_BY_INDEX,
        payload: &[6, 0x10, 0, 0],
    };
    assert_eq!(command, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Arbitrary datagrams, also behind a valid start: nothing panics, and memory is bounded by the connections.
    #[test]
    fn arbitrary_datagrams(
        datagrams in prop::collection::vec((0..20u16, prop::collection::vec(any::<u8>(), 0..60)), 0..200),
    ) {
        let mut node = network().controlled(NODE, MacAddress([2, 0, 0, 0, 0, 1])).unwrap();
        node.serve_datagrams();
        node.start(0);
        let mut now_ns = node.next_deadline_ns().unwrap();
        node.handle_deadline(now_ns);
        for (port, octets) in datagrams {
            now_ns += 10_000_000;
            let from = Peer::new(port).address;
            node.handle_datagram(now_ns, from, &[&[6, 0, 0, 5], &octets[..]].concat());
            node.handle_datagram(now_ns, from, &octets);
            node.handle_deadline(now_ns);
            while let Some((_, answer)) = node.poll_datagram() {
                prop_assert!(parse_datagram(&answer).is_some());
            }
        }
    }
}

/// The objects of one command are read or written in one turn of the node.
#[test]
fn a_command_has_a_bounded_number_of_objects() {
    let mut cable = operational();
    let (now_ns, mut peer) = (cable.now_ns, Peer::new(4000));
    let cn = cable.cn.as_mut().unwrap();
    for (count, expected) in [(1024, Ok(vec![])), (1025, Err(Abort::OUT_OF_MEMORY))] {
        let read = Request::ReadMultiple(vec![profile::CYCLE_LENGTH_US; count]);
        assert_eq!(peer.execute(now_ns, cn, read), Some(expected.clone()), "{count}");
        let value = (profile::HOST_NAME, (*b"drive").into());
        let write = Request::WriteMultiple(vec![value; count]);
        assert_eq!(peer.execute(now_ns, cn, write), Some(expected), "{count}");
    }
}

/// Peers that keep a transfer unfinished, and send frames, do not hold connections for longer than five seconds.
#[test]
fn stalled_transfers_give_way() {
    let mut cable = operational();
    let now_ns = cable.now_ns;
    let cn = cable.cn.as_mut().unwrap();
    let long = || Request::Write(profile::HOST_NAME, vec![b'x'; 2_000].into());
    let mut peers: Vec<Peer> = (0..CONNECTIONS).map(|n| Peer::at(60 + n as u8, 4000)).collect();
    for peer in &mut peers {
        assert_eq!(peer.read(now_ns, cn), Some(Ok(vec![NmtState::OPERATIONAL.0])));
        peer.client.request(now_ns, long(), &mut peer.out);
        // The first segment of several.
        let first = peer.out.pop_front().expect("a segment");
        cn.receive(now_ns, peer.address, &datagram(&first));
        while cn.poll().is_some() {}
    }
    let mut late = Peer::new(5000);
    assert_eq!(late.read(now_ns + 2 * IDLE_NS, cn), None, "a transfer may pause");
    let mut late = Peer::new(5001);
    let read = late.read(now_ns + 6 * IDLE_NS, cn);
    assert_eq!(read, Some(Ok(vec![NmtState::OPERATIONAL.0])));
}

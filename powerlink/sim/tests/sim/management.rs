//! Functions of a managing node beside booting its nodes: commands and requests, errors, access to objects, and
//! states that require the application's permission.

use onbeat_powerlink::Node;
use onbeat_powerlink::cn;
use onbeat_powerlink::code;
use onbeat_powerlink::mn::{Event, Failure, Step};
use onbeat_powerlink::nmt::{MnEvent, State};
use onbeat_powerlink::od::profile::{self, startup};
use onbeat_powerlink::od::{Abort, ObjectId, id};
use onbeat_powerlink::sdo::Request;
use onbeat_sim::{Conditions, MachineEvent, Network, NetworkConfig};
use onbeat_wire::powerlink::{
    Body, ErrorEntry, Message, NmtCommandId, NmtState, NodeId, NodeSet, RequestedService, Service,
};

use crate::{CONFIG, CYCLE_NS, ONE, SECOND_NS};

/// A network just turned on.
fn new(nodes: u8, mandatory: bool) -> Network {
    Network::new(NetworkConfig { nodes, mandatory, seed: 3, ..CONFIG })
}

fn network(nodes: u8) -> Network {
    let mut network = new(nodes, false);
    operational(&mut network);
    network
}

fn operational(network: &mut Network) {
    let up = network.run_until(60 * SECOND_NS, Network::is_operational);
    assert!(up, "{:?}", network.checker.violations());
    assert_eq!(network.checker.violations(), []);
}

/// Runs; returns the results of `look` for the messages on the bus.
fn found<T>(
    network: &mut Network,
    ns: u64,
    mut look: impl FnMut(&Message<'_>) -> Option<T>,
) -> Vec<T> {
    let mut found = Vec::new();
    let end_ns = network.bus.now_ns() + ns;
    let Network { bus, checker, .. } = network;
    bus.run_until(end_ns, |time_ns, frame| {
        checker.observe(time_ns, frame);
        found.extend(look(&Message::parse(&frame[14..]).unwrap()));
    });
    assert_eq!(network.checker.violations(), []);
    found
}

/// The commands within a time: destination, command, and the first octets of the data.
fn commands(network: &mut Network, ns: u64) -> Vec<(NodeId, NmtCommandId, [u8; 4])> {
    found(network, ns, |message| match message.body {
        Body::Asnd(Service::NmtCommand(command)) => {
            Some((message.destination, command.command, *command.data.first_chunk().unwrap()))
        }
        _ => None,
    })
}

/// Events of the managing node since the last call.
fn events(network: &mut Network) -> Vec<Event> {
    let records = network.bus.stations[0].node.records.drain(..);
    records
        .filter_map(|record| match record.what {
            MachineEvent::Managing(event) => Some(event),
            MachineEvent::Controlled(_) => None,
        })
        .collect()
}

/// Executes an SDO request of the application.
fn access(network: &mut Network, node: NodeId, request: Request) -> Result<Vec<u8>, Abort> {
    let now_ns = network.bus.now_ns();
    network.managing().request(now_ns, node, request.clone()).unwrap();
    for _ in 0..100 {
        network.run_for(CYCLE_NS);
        if let Some((from, done)) = network.managing().poll_completed() {
            assert_eq!((from, &done.request), (node, &request));
            return done.result;
        }
    }
    panic!("{request:?} is not done in 100 cycles");
}

fn number(network: &mut Network, node: NodeId, object: ObjectId) -> u64 {
    network.controlled(node).objects().number(object)
}

#[test]
fn a_list_of_nodes_is_commanded_at_once() {
    let mut network = network(4);
    let nodes: NodeSet = [1, 3].map(NodeId).into_iter().collect();
    assert!(network.managing().command_nodes(&nodes, NmtCommandId::STOP_NODE));
    let sent = commands(&mut network, 20 * CYCLE_NS);
    assert_eq!(sent, [(NodeId::BROADCAST, NmtCommandId::STOP_NODE_EX, [0b1010, 0, 0, 0])]);
    let states = [1, 2, 3, 4].map(|node| network.state(node));
    assert_eq!(states, [State::Stopped, State::Operational, State::Stopped, State::Operational]);
    assert_eq!(network.managing().step(ONE), Some(Step::Stopped));
    network.managing().command_nodes(&nodes, NmtCommandId::ENTER_PRE_OPERATIONAL_2);
    operational(&mut network);
    assert!(!network.managing().command_nodes(&nodes, NmtCommandId::PUBLISH_TIME));
}

#[test]
fn services_for_all_and_for_one() {
    let mut network = network(3);
    let managing = network.managing();
    managing.set_host_name(NodeId(2), b"press-2");
    managing.flush_arp(ONE);
    assert!(managing.publish(NmtCommandId::PUBLISH_OPERATIONAL));
    assert!(managing.publish(NmtCommandId::PUBLISH_CONFIGURED_NODES));
    assert!(managing.publish(NmtCommandId::PUBLISH_STOPPED));
    assert!(!managing.publish(NmtCommandId::START_NODE));
    let all = NodeId::BROADCAST;
    let expected = [
        (NodeId(2), NmtCommandId::NET_HOST_NAME_SET, *b"pres"),
        (all, NmtCommandId::FLUSH_ARP_ENTRY, [1, 0, 0, 0]),
        (all, NmtCommandId::PUBLISH_OPERATIONAL, [0b1110, 0, 0, 0]),
        (all, NmtCommandId::PUBLISH_CONFIGURED_NODES, [0b1110, 0, 0, 0]),
        (all, NmtCommandId::PUBLISH_STOPPED, [0; 4]),
    ];
    assert_eq!(commands(&mut network, 20 * CYCLE_NS), expected);
    let mut name =
        |node| network.controlled(NodeId(node)).objects().get(profile::HOST_NAME).unwrap().to_vec();
    assert_eq!((name(2), name(1)), (b"press-2".to_vec(), b"simulated".to_vec()));
}

#[test]
fn nodes_request_commands() {
    let mut network = network(3);
    assert!(network.controlled(ONE).request(NodeId(2), NmtCommandId::STOP_NODE));
    network.run_for(20 * CYCLE_NS);
    assert_eq!(network.state(2), State::Stopped);
    network.controlled(ONE).request(NodeId(2), NmtCommandId::IDENT_REQUEST);
    network.controlled(ONE).request(NodeId(3), NmtCommandId::STATUS_REQUEST);
    let asked = found(&mut network, 20 * CYCLE_NS, |message| match message.body {
        Body::Soa(soa) if soa.target != NodeId::DIAGNOSTIC => Some((soa.service, soa.target)),
        _ => None,
    });
    assert!(asked.contains(&(RequestedService::NMT_REQUEST_INVITE, ONE)), "by its priority");
    assert!(asked.contains(&(RequestedService::IDENT_REQUEST, NodeId(2))), "{asked:?}");
    assert!(asked.contains(&(RequestedService::STATUS_REQUEST, NodeId(3))), "{asked:?}");
    let node = network.controlled(ONE);
    node.request_with(NodeId(3), NmtCommandId::NET_HOST_NAME_SET, b"press-3");
    node.request_with(NodeId::BROADCAST, NmtCommandId::FLUSH_ARP_ENTRY, &[2]);
    let list: NodeSet = [NodeId(2), NodeId(3)].into_iter().collect();
    node.request_with(NodeId::BROADCAST, NmtCommandId::ENTER_PRE_OPERATIONAL_2_EX, &list.0);
    let sent = commands(&mut network, 20 * CYCLE_NS);
    let all = NodeId::BROADCAST;
    let expected = [
        (NodeId(3), NmtCommandId::NET_HOST_NAME_SET, *b"pres"),
        (all, NmtCommandId::FLUSH_ARP_ENTRY, [2, 0, 0, 0]),
        (all, NmtCommandId::ENTER_PRE_OPERATIONAL_2_EX, [0b1100, 0, 0, 0]),
    ];
    assert_eq!(sent[..3], expected);
    operational(&mut network);
    // A truncated list is invalid.
    for (target, command) in [
        (NodeId(77), NmtCommandId::STOP_NODE),
        (NodeId(77), NmtCommandId::NET_HOST_NAME_SET),
        (ONE, NmtCommandId(0x99)),
    ] {
        network.controlled(ONE).request(target, command);
        let sent = commands(&mut network, 20 * CYCLE_NS);
        assert_eq!(sent, [(ONE, NmtCommandId::INVALID_SERVICE, [0; 4])], "{target} {command}");
    }
}

/// Information published because a node requested it.
#[test]
fn a_node_requests_publication() {
    let mut network = network(3);
    network.controlled(NodeId(2)).report(0x3001, 7, 0);
    network.managing().command(NodeId(3), NmtCommandId::STOP_NODE);
    network.run_for(50 * CYCLE_NS);
    let services = [
        NmtCommandId::PUBLISH_ACTIVE_NODES,
        NmtCommandId::PUBLISH_EMERGENCY_NEW,
        NmtCommandId::PUBLISH_EMERGENCY_NEW,
        NmtCommandId::PUBLISH_NODE_STATES,
        NmtCommandId::PUBLISH_TIME,
    ];
    for service in services {
        assert!(network.controlled(ONE).request(NodeId::BROADCAST, service));
    }
    let sent_s = 1_800_000_000 + network.bus.now_ns() / SECOND_NS;
    let sent = found(&mut network, 50 * CYCLE_NS, |message| match message.body {
        Body::Asnd(Service::NmtCommand(command)) => {
            Some((message.destination, command.command, command.data.to_vec()))
        }
        _ => None,
    });
    let published = |place: usize| (sent[place].0, sent[place].1, &sent[place].2[..]);
    let list = |nodes: u8| [&[nodes][..], &[0; 39]].concat();
    let all = NodeId::BROADCAST;
    assert_eq!(published(0), (all, services[0], &list(0b1110)[..]));
    assert_eq!(published(1), (all, services[1], &list(0b0100)[..]));
    assert_eq!(published(2), (all, services[2], &list(0)[..]), "published once");
    let (stopped, running) = (NmtState::STOPPED.0, NmtState::OPERATIONAL.0);
    let mut states = vec![0; 240];
    states[..3].copy_from_slice(&[running, running, stopped]);
    states[239] = running;
    assert_eq!(published(3), (all, services[3], &states[..]));
    assert_eq!(sent.len(), 5);

    let records = network.bus.stations[2].node.records.drain(..);
    let reported: Vec<cn::Event> = records
        .filter_map(|record| match record.what {
            MachineEvent::Controlled(cn::Event::State { .. }) | MachineEvent::Managing(_) => None,
            MachineEvent::Controlled(event) => Some(event),
        })
        .collect();
    let nodes = |nodes: &[u8]| nodes.iter().copied().map(NodeId).collect::<NodeSet>();
    let [active, new, none, cn::Event::NodeStates, cn::Event::Time(time)] = reported[..] else {
        panic!("{reported:?}")
    };
    assert_eq!(active, cn::Event::Nodes(services[0], nodes(&[1, 2, 3])));
    assert_eq!(new, cn::Event::Nodes(services[1], nodes(&[2])));
    assert_eq!(none, cn::Event::Nodes(services[2], nodes(&[])));
    let node = network.controlled(NodeId(2));
    assert_eq!(node.node_states().get(NodeId(3)), Some(NmtState::STOPPED));
    assert_eq!(node.node_states().get(NodeId::MN), Some(NmtState::OPERATIONAL));
    let time_s = u64::from(time.net_time().unwrap().seconds);
    assert!((sent_s..=sent_s + 1).contains(&time_s), "{time}, requested at {sent_s} s");
}

#[test]
fn errors_reach_the_managing_node_and_stay_in_the_history() {
    let mut network = network(2);
    events(&mut network);
    for code in 1..=10 {
        network.controlled(ONE).report(0x3001, code, 7);
    }
    network.run_for(200 * CYCLE_NS);
    let reported = events(&mut network).into_iter().filter_map(|event| match event {
        Event::Reported(ONE, entry) => Some(entry),
        _ => None,
    });
    let reported: Vec<ErrorEntry> = reported.collect();
    assert!(
        reported.iter().map(|entry| entry.code).eq(1..=10),
        "each once, in order: {reported:?}"
    );
    assert!(reported.iter().all(|entry| (entry.kind, entry.additional) == (0x3001, 7)));
    assert!(reported[0].time.seconds >= 1_800_000_000, "by the network's time: {reported:?}");

    let history = |sub| id(profile::ERROR_HISTORY, sub);
    assert_eq!(access(&mut network, ONE, Request::Read(history(0))), Ok(vec![8]));
    let newest = access(&mut network, ONE, Request::Read(history(1)));
    assert_eq!(newest, Ok(reported[9].to_octets().to_vec()));
    let clear = |value| Request::Write(history(0), [value].into());
    assert_eq!(access(&mut network, ONE, clear(1)), Err(Abort::TOO_GREAT));
    assert_eq!(access(&mut network, ONE, clear(0)), Ok(vec![]));
    assert_eq!(access(&mut network, ONE, Request::Read(history(1))), Ok(vec![]));
}

#[test]
fn errors_that_last_are_bits_of_the_status() {
    let mut network = network(2);
    let status = |network: &mut Network| {
        found(network, 50 * CYCLE_NS, |message| match message.body {
            Body::Asnd(Service::StatusResponse(status)) if message.source == ONE => {
                Some((status.exception_new, status.static_errors))
            }
            _ => None,
        })
    };
    assert_eq!(status(&mut network), [], "a node without news receives no request");
    network.controlled(ONE).set_device_errors([0, 0, 4, 0, 0, 0]);
    assert_eq!(status(&mut network), [(true, [1, 0, 0, 0, 4, 0, 0, 0])]);
    network.controlled(ONE).set_device_errors([0, 0, 4, 0, 0, 0]);
    assert_eq!(status(&mut network), [], "the same");
    network.controlled(ONE).set_device_errors([0; 6]);
    assert_eq!(status(&mut network), [(false, [0; 8])]);
}

/// Lost polls lead the node out of its cycle; the error is still reported afterwards.
#[test]
fn the_error_that_ended_the_cycle_is_in_the_history() {
    let mut network = network(2);
    network.connect(ONE, false);
    network.run_for(SECOND_NS / 10);
    assert_eq!(number(&mut network, ONE, profile::ERROR_REGISTER), 0x11, "generic, communication");
    network.connect(ONE, true);
    operational(&mut network);
    assert_eq!(number(&mut network, ONE, profile::ERROR_REGISTER), 0);
    let entry = access(&mut network, ONE, Request::Read(id(profile::ERROR_HISTORY, 1))).unwrap();
    assert_eq!(entry[2..4], code::LOSS_OF_SOC.to_le_bytes());
}

#[test]
fn objects_of_nodes_are_read_and_written() {
    let mut network = network(3);
    let tolerance = profile::SOC_TOLERANCE_NS;
    let (now_ns, write) = (network.bus.now_ns(), |value: u32| value.to_le_bytes().to_vec());
    // To several nodes in parallel.
    for node in [1, 2, 3] {
        let request = Request::Write(tolerance, write(1_000_000 + node).into());
        network.managing().request(now_ns, NodeId(node as u8), request).unwrap();
    }
    network.run_for(100 * CYCLE_NS);
    let done = std::iter::from_fn(|| network.managing().poll_completed());
    let done: Vec<_> = done.map(|(node, done)| (node.0, done.result)).collect();
    assert_eq!(done.len(), 3);
    assert!(done.iter().all(|(_, result)| *result == Ok(vec![])), "{done:?}");
    for node in [1, 2, 3] {
        let value = access(&mut network, NodeId(node as u8), Request::Read(tolerance));
        assert_eq!(value, Ok(write(1_000_000 + node)));
    }
    let missing = Request::Read(id(0x7000, 0));
    assert_eq!(access(&mut network, ONE, missing.clone()), Err(Abort::NO_OBJECT));

    // To a node that is off, and to an unknown one.
    network.power(ONE, false);
    let now_ns = network.bus.now_ns();
    network.managing().request(now_ns, ONE, missing.clone()).unwrap();
    network.run_for(SECOND_NS);
    let (node, done) = network.managing().poll_completed().expect("it ends");
    assert_eq!((node, done.result), (ONE, Err(Abort::TIME_OUT)));
    let refused = network.managing().request(now_ns, ONE, missing.clone()).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("node 1 is not reachable: not in the network, or not identified")
    );
    assert!(network.managing().request(now_ns, NodeId(99), missing).is_err());
}

#[test]
fn a_node_resets_itself_on_a_write() {
    let mut network = network(2);
    let reset = |value| Request::Write(profile::RESET_COMMAND, [value].into());
    assert_eq!(access(&mut network, ONE, reset(0x21)), Err(Abort::VALUE), "a start is no reset");
    let now_ns = network.bus.now_ns();
    network.managing().request(now_ns, ONE, reset(NmtCommandId::RESET_NODE.0)).unwrap();
    let left = network.run_until(SECOND_NS, |network| network.state(1) != State::Operational);
    assert!(left);
    operational(&mut network);
    assert_eq!(number(&mut network, ONE, profile::RESET_COMMAND), u64::from(profile::NO_COMMAND));
}

/// Sets 0x1F80 of a network just turned on.
fn with_startup(nodes: u8, bits: u32) -> Network {
    let mut network = new(nodes, true);
    let bits = (bits | startup::CHECK_CONFIGURATION).to_le_bytes();
    network.managing().set_object(profile::STARTUP, &bits).unwrap();
    network
}

#[test]
fn all_nodes_are_started_at_once() {
    let mut network = with_startup(5, startup::START_ALL);
    let starts: Vec<NodeId> = commands(&mut network, 5 * SECOND_NS)
        .into_iter()
        .filter(|(_, command, _)| *command == NmtCommandId::START_NODE)
        .map(|(node, ..)| node)
        .collect();
    assert_eq!(starts, [NodeId::BROADCAST]);
    assert!(network.is_operational());
}

#[test]
fn the_application_starts_the_nodes() {
    let mut network = with_startup(3, startup::NO_START_NODE);
    network.run_for(5 * SECOND_NS);
    let states = [0, 1, 2, 3].map(|place| network.state(place));
    let ready = State::ReadyToOperate;
    assert_eq!(states, [State::Operational, ready, ready, ready]);
    network.managing().command(NodeId(2), NmtCommandId::START_NODE);
    network.run_for(SECOND_NS);
    assert_eq!([1, 2, 3].map(|place| network.state(place)), [ready, State::Operational, ready]);
    network.managing().command(NodeId::BROADCAST, NmtCommandId::START_NODE);
    operational(&mut network);
}

#[test]
fn the_application_permits_each_state() {
    let bits = startup::NO_AUTO_PRE_OPERATIONAL_2
        | startup::NO_AUTO_READY_TO_OPERATE
        | startup::NO_AUTOSTART;
    let mut network = with_startup(2, bits);
    for state in [State::PreOperational1, State::PreOperational2, State::ReadyToOperate] {
        network.run_for(5 * SECOND_NS);
        assert_eq!(network.state(0), state);
        network.managing().allow();
    }
    operational(&mut network);
}

#[test]
fn the_network_continues_without_a_mandatory_node_if_permitted() {
    for (bits, state) in [(0, State::PreOperational1), (startup::NO_RETURN, State::Operational)] {
        let mut network = with_startup(2, bits);
        operational(&mut network);
        network.power(ONE, false);
        network.run_for(SECOND_NS);
        assert_eq!(network.state(0), state);
        network.power(ONE, true);
        operational(&mut network);
    }
}

#[test]
fn a_missing_mandatory_node_is_reported() {
    let mut network = new(3, true);
    network.power(NodeId(2), false);
    network.run_for(5 * SECOND_NS);
    let missing =
        events(&mut network).into_iter().filter(|event| matches!(event, Event::Missing(_)));
    assert_eq!(missing.collect::<Vec<_>>(), [Event::Missing(NodeId(2))], "once");
    assert_eq!(network.state(0), State::PreOperational1);
}

#[test]
fn late_responses_are_counted() {
    let late =
        |network: &mut Network| network.managing().objects().number(id(profile::LATE_PRES[0], 1));
    let mut network = network(1);
    network.bus.conditions.response_ns = 60_000;
    network.run_for(2 * CYCLE_NS);
    network.bus.conditions.response_ns = Conditions::CLEAN.response_ns;
    network.run_for(100 * CYCLE_NS);
    assert_eq!((late(&mut network), network.state(1)), (2, State::Operational));
    let reported = events(&mut network);
    assert_eq!(reported.iter().filter(|event| **event == Event::LatePres(ONE)).count(), 2);
    network.bus.conditions.response_ns = 60_000;
    network.run_for(10 * CYCLE_NS);
    network.bus.conditions.response_ns = Conditions::CLEAN.response_ns;
    let reported = events(&mut network);
    let failed = reported
        .iter()
        .any(|event| matches!(event, Event::Failed(ONE, Failure::LossOfPres | Failure::LatePres)));
    assert!(failed, "{reported:?}");
    assert!(network.run_until(60 * SECOND_NS, Network::is_operational));
}

/// A message whose size exceeds the frame.
fn cut(kind: u8, to: NodeId, from: NodeId, source: [u8; 6], destination: [u8; 6]) -> Vec<u8> {
    let mut message = vec![kind, to.0, from.0, 0xfd, 1, 0, 0, 0, 200, 0];
    message.resize(46, 0);
    [&destination[..], &source, &[0x88, 0xab], &message].concat()
}

#[test]
fn invalid_frames_have_their_effect_at_both_ends() {
    let mut network = network(2);
    let (mn, cn) = ([2, 0x45, 0x50, 0x4c, 0, 0], [2, 0x45, 0x50, 0x4c, 0, 1]);
    let now_ns = network.bus.now_ns();
    // From another node, from another address, or for another node: ignored.
    let all = [1, 0x11, 0x1e, 0, 0, 2];
    for frame in [
        cut(4, NodeId::BROADCAST, NodeId(9), cn, all),
        cut(4, NodeId::BROADCAST, ONE, [2, 9, 9, 9, 9, 9], all),
        cut(3, NodeId(9), NodeId::MN, mn, cn),
        cut(3, ONE, NodeId(9), mn, cn),
    ] {
        network.managing().handle_frame(now_ns, &frame);
        network.controlled(ONE).handle_frame(now_ns, &frame);
    }
    network.run_for(CYCLE_NS);
    assert!(network.is_operational());

    network.controlled(ONE).handle_frame(now_ns, &cut(3, ONE, NodeId::MN, mn, cn));
    assert_eq!(network.state(1), State::PreOperational1);
    let history = network.controlled(ONE).objects().get(id(profile::ERROR_HISTORY, 1)).unwrap();
    assert_eq!(history[2..4], code::INVALID_FORMAT.to_le_bytes());
    operational(&mut network);

    // An SDO segment shorter than its DataSize is lost, and no error of the data link layer.
    events(&mut network);
    let mut sdo = cut(6, NodeId::MN, ONE, cn, [1, 0x11, 0x1e, 0, 0, 4]);
    sdo[14..][3..13].copy_from_slice(&[5, 2, 6, 0, 0, 0, 0, 0x10, 2, 3]);
    assert!(Message::parse(&sdo[14..]).is_err());
    network.managing().handle_frame(now_ns, &sdo);
    assert_eq!(commands(&mut network, 10 * CYCLE_NS), []);
    assert_eq!(events(&mut network).iter().find(|event| matches!(event, Event::Failed(..))), None);

    let frame = cut(4, NodeId::BROADCAST, ONE, cn, all);
    network.managing().handle_frame(now_ns, &frame);
    let sent = commands(&mut network, 10 * CYCLE_NS);
    let [low, high] = code::INVALID_FORMAT.to_le_bytes();
    assert_eq!(sent, [(ONE, NmtCommandId::RESET_NODE, [low, high, 0, 0])], "with its reason");
    assert!(events(&mut network).contains(&Event::Failed(ONE, Failure::InvalidFormat)));
    operational(&mut network);
}

#[test]
fn another_managing_node_is_reported_once_per_second() {
    let mut network = network(1);
    events(&mut network);
    let now_ns = network.bus.now_ns();
    let mut soa =
        cut(5, NodeId::BROADCAST, NodeId::MN, [2, 9, 9, 9, 9, 9], [1, 0x11, 0x1e, 0, 0, 3]);
    soa[14 + 8] = 0x20;
    for n in 0..2_500 {
        network.managing().handle_frame(now_ns + n * CYCLE_NS, &soa);
    }
    network.run_for(CYCLE_NS);
    let other = |event: &&Event| matches!(event, Event::OtherManagingNode(_));
    assert_eq!(events(&mut network).iter().filter(other).count(), 3);
}

/// Thousands of requests and SDO frames with a node's source: their effect is bounded, and the network
/// continues.
#[test]
fn a_flood_of_requests_causes_a_few_answers() {
    let mut network = network(2);
    let (cn, mn) = ([2, 0x45, 0x50, 0x4c, 0, 1], [1, 0x11, 0x1e, 0, 0, 4]);
    let asnd = |service: u8, rest: [u8; 4]| {
        let mut message = vec![6, NodeId::MN.0, 1, service];
        message.extend(rest);
        message.resize(46, 0);
        [&mn[..], &cn, &[0x88, 0xab], &message].concat()
    };
    let now_ns = network.bus.now_ns();
    // A request for a connection, and an unknown command.
    for frame in [asnd(5, [0, 1, 0, 0]), asnd(3, [0x99, 1, 0, 0])] {
        for _ in 0..10_000 {
            network.managing().handle_frame(now_ns, &frame);
        }
    }
    let caused = found(&mut network, SECOND_NS, |message| match message.body {
        Body::Asnd(_) if message.source == NodeId::MN => Some(message.to_string()),
        _ => None,
    });
    assert!((2..=2 * 64).contains(&caused.len()), "{:#?}", &caused[..200.min(caused.len())]);
    assert!(network.is_operational());
}

/// The machine was stopped for some cycles, repeatedly.
#[test]
fn exceeded_cycles_restart_the_network() {
    let mut network = new(1, false);
    let threshold = id(profile::CYCLE_EXCEEDED, 3);
    for (limit, state) in [(0, State::Operational), (10, State::PreOperational1)] {
        operational(&mut network);
        // Good cycles decrease the counter to 0.
        network.run_for(20 * CYCLE_NS);
        network.managing().set_object(threshold, &[limit, 0, 0, 0]).unwrap();
        events(&mut network);
        for _ in 0..2 {
            let late_ns = network.bus.now_ns() + 3 * CYCLE_NS;
            network.connect(ONE, false);
            let managing = network.managing();
            let (next_ns, skipped) = (managing.next_soc_ns(), managing.skipped_cycles());
            managing.handle_deadline(late_ns);
            while managing.poll_transmit().is_some() {}
            // The polled node does not answer in time.
            managing.handle_deadline(late_ns + CYCLE_NS / 2);
            while managing.poll_transmit().is_some() {}
            let skipped = managing.skipped_cycles() - skipped;
            assert!(skipped >= 3, "{skipped}");
            // One was sent.
            assert_eq!(managing.next_soc_ns(), next_ns + (1 + skipped) * CYCLE_NS);
            network.connect(ONE, true);
            network.run_for(6 * CYCLE_NS);
        }
        let reported = events(&mut network);
        let by = Event::State {
            from: State::Operational,
            to: State::PreOperational1,
            by: MnEvent::CycleExceeded,
        };
        assert!(
            reported.iter().filter(|event| **event == Event::CycleExceeded).count() >= 2,
            "{reported:?}"
        );
        assert_eq!(reported.contains(&by), state == State::PreOperational1, "{reported:?}");
    }
}

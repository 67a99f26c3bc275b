//! Handling of published information in a controlled node.

use crate::common::{CN_MAC, MN_MAC, controlled_node};
use onbeat_powerlink::Node;
use onbeat_powerlink::cn::{Config, ControlledNode, Event};
use onbeat_powerlink::od::profile::{self, Identity};
use onbeat_powerlink::od::{Access, Object, id};
use onbeat_wire::powerlink::{NetTime, NmtCommandId, NmtState, NodeId, NodeSet};

/// A node that listens, without a cycle.
fn started(mut node: ControlledNode) -> ControlledNode {
    node.start(0);
    while node.poll_event().is_some() {}
    node
}

/// The managing node's command to all, in its full length.
fn heard(node: &mut ControlledNode, command: NmtCommandId, data: &[u8]) -> Vec<Event> {
    let header = [&[1, 0x11, 0x1e, 0, 0, 4][..], &MN_MAC.0, &[0x88, 0xab]].concat();
    let message = [&[6, 255, 240, 4, command.0, 0][..], data].concat();
    node.handle_frame(0, &[header, message].concat());
    std::iter::from_fn(|| node.poll_event()).collect()
}

#[test]
fn the_time_is_that_of_the_network() {
    let mut node = started(controlled_node(1, CN_MAC));
    let time = NmtCommandId::PUBLISH_TIME;
    // 2026-11-22 08:00:00.250.
    let events = heard(&mut node, time, &[0xfa, 0x74, 0xb7, 0x01, 0x32, 0x3d]);
    let [Event::Time(day)] = events[..] else { panic!("{events:?}") };
    assert_eq!((day.days, day.milliseconds), (15_666, 28_800_250));
    let reported = NetTime { seconds: 1_795_334_400, nanoseconds: 250_000_000 };
    assert_eq!(node.net_time(), reported);
    // A time after the end of NetTime is reported, and cannot be stored; truncated data is ignored.
    assert_eq!(heard(&mut node, time, &[0, 0, 0, 0, 0xff, 0xff]).len(), 1);
    assert_eq!(heard(&mut node, time, &[1, 2, 3, 4, 5]), []);
    assert_eq!(node.net_time(), reported);
}

#[test]
fn published_lists_are_events() {
    let mut node = started(controlled_node(1, CN_MAC));
    let nodes: NodeSet = [1, 32, 110].map(NodeId).into_iter().collect();
    for service in [0x80, 0x90, 0x91, 0x92, 0x93, 0x94, 0x95, 0xa0].map(NmtCommandId) {
        let events = heard(&mut node, service, &nodes.0);
        assert_eq!(events, [Event::Nodes(service, nodes)], "{service}");
        assert_eq!(heard(&mut node, service, &nodes.0[..31]), [], "{service}");
    }
}

/// A node configured to know others has objects for their states; the states of others are available as well.
#[test]
fn published_states_are_events_and_objects() {
    let mut objects = profile::controlled_node(&Identity::default(), 1).unwrap();
    for node in [2, 3] {
        let object = Object::unsigned(1, Access::ReadOnly, 0x1c);
        objects.add(id(profile::NODE_STATE, node), object).unwrap();
    }
    let node = ControlledNode::new(Config { node: NodeId(1), mac: CN_MAC, objects });
    let mut node = started(node.unwrap());
    let mut states = [0x1d; 240];
    states[1] = NmtState::OPERATIONAL.0;
    let service = NmtCommandId::PUBLISH_NODE_STATES;
    assert_eq!(heard(&mut node, service, &[0xff; 239]), []);
    assert_eq!(node.node_states().get(NodeId(2)), Some(NmtState::OFF));
    assert_eq!(heard(&mut node, service, &states), [Event::NodeStates]);
    assert_eq!(node.node_states().get(NodeId(2)), Some(NmtState::OPERATIONAL));
    let object = |node: &ControlledNode, of| node.objects().number(id(profile::NODE_STATE, of));
    assert_eq!((object(&node, 2), object(&node, 3)), (0xfd, 0x1d));
    // A node without such objects only reports an event.
    let mut other = started(controlled_node(1, CN_MAC));
    assert_eq!(heard(&mut other, service, &states), [Event::NodeStates]);
}

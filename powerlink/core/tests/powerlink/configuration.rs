//! Configuration of nodes that lack objects: optional ones are skipped, and a node that cannot be configured is not
//! reset without a pause.

use onbeat_powerlink::cn::{Config, ControlledNode};
use onbeat_powerlink::mn::{Event, Failure, Step};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::profile;
use onbeat_powerlink::od::{Abort, Dictionary, ObjectId, id};
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{Body, NmtCommandId, Service};

use crate::common::cable::{Cable, NODE, network};
use crate::common::message;

const SECOND_NS: u64 = 1_000_000_000;

/// The network's node, but for some objects.
fn node_without(lacks: impl Fn(ObjectId) -> bool) -> ControlledNode {
    let mac = MacAddress([2, 0, 0, 0, 0, 1]);
    let whole = network().controlled(NODE, mac).unwrap();
    let mut objects = Dictionary::new();
    for (object, description) in whole.objects().objects().filter(|(object, _)| !lacks(*object)) {
        objects.add(object, description.clone()).unwrap();
    }
    let mut node = ControlledNode::new(Config { node: NODE, mac, objects }).unwrap();
    node.start(0);
    node
}

/// The commands to reset a node, by the times of their ASnd.
fn resets(cable: &Cable) -> Vec<u64> {
    let is_reset = |frame: &[u8]| {
        matches!(message(frame).body, Body::Asnd(Service::NmtCommand(command))
            if command.command == NmtCommandId::RESET_NODE)
    };
    cable.sent.iter().filter(|(_, frame)| is_reset(frame)).map(|(at_ns, _)| *at_ns).collect()
}

/// SDO writes of 0x1C0C/3 and 0x1F98/9 are answered by 0x06020000 and 0x06090011, as by a node of the reference
/// stack.
#[test]
fn optional_objects_that_a_node_lacks_are_skipped() {
    let missing = [id(profile::LOSS_OF_SOA, 3), profile::PRESCALER];
    let mut cable = Cable::new(false);
    cable.cn =
        Some(node_without(|object| object.index == missing[0].index || object == missing[1]));
    cable.run_until_operational();
    let skipped = |cable: &Cable| -> Vec<Event> {
        let skipped = cable.events.iter().filter(|event| matches!(event, Event::Skipped(..)));
        skipped.copied().collect()
    };
    assert_eq!(skipped(&cable), missing.map(|object| Event::Skipped(NODE, object)));
    let [boot] = cable.mn.boots().collect::<Vec<_>>()[..] else { panic!("one node") };
    assert_eq!((boot.operational, boot.failures, boot.skipped), (1, 0, 2));
    assert_eq!(resets(&cable).len(), 1, "all nodes, at the start");

    // The node is configured again: they are not reported again.
    cable.mn.command(NODE, NmtCommandId::RESET_NODE);
    let now_ns = cable.now_ns;
    cable.run(now_ns + 10 * SECOND_NS, |cable| {
        cable.mn.boots().all(|boot| boot.operational == 2 && boot.step == Step::Operational)
    });
    let [boot] = cable.mn.boots().collect::<Vec<_>>()[..] else { panic!("one node") };
    assert_eq!((boot.operational, boot.failures, boot.skipped), (2, 0, 2));
    assert_eq!(skipped(&cable).len(), 2);
}

/// An SDO abort 0x06020000 of 0x1C14/0.
#[test]
fn a_node_without_a_mandatory_object_fails_with_growing_pauses() {
    let tolerance = profile::SOC_TOLERANCE_NS;
    let mut cable = Cable::new(false);
    cable.cn = Some(node_without(|object| object == tolerance));
    cable.run(60 * SECOND_NS, |_| false);
    let failure = Failure::Configuration(tolerance, Abort::NO_OBJECT);
    let [boot] = cable.mn.boots().collect::<Vec<_>>()[..] else { panic!("one node") };
    assert_eq!((boot.operational, boot.last_failure), (0, Some(failure)));
    assert_ne!(cable.mn.state(), State::Operational);
    // 0, 0.5, 1, 2, 4 and then 8 s.
    assert!((8..=13).contains(&boot.failures), "{} failures in 60 s", boot.failures);
    assert_eq!(resets(&cable).len() as u64, 1 + boot.failures, "one for each failure");
    let delays: Vec<u64> = cable
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Delayed { wait_ns, .. } => Some(wait_ns / 1_000_000),
            _ => None,
        })
        .collect();
    assert_eq!(delays[..6], [500, 1000, 2000, 4000, 8000, 8000]);
    let times = resets(&cable);
    let pause_ns = times[times.len() - 1] - times[times.len() - 2];
    assert!(pause_ns >= 8 * SECOND_NS, "{pause_ns} ns between the last resets");
    assert!(!cable.events.iter().any(|event| matches!(event, Event::Skipped(..))));
}

/// A node that reports another date of its configuration (0x1020) after NMTResetConfiguration than the one written.
#[test]
fn a_node_that_loses_its_configuration_fails_with_growing_pauses() {
    let mut cable = Cable::new(false);
    let mut end_ns = 0;
    while end_ns < 30 * SECOND_NS {
        end_ns += 1_000_000;
        cable.run(end_ns, |_| false);
        let node = cable.cn.as_mut().unwrap();
        node.set_object(profile::CONFIGURATION_DATE, &[9, 9, 0, 0]).unwrap();
    }
    let [boot] = cable.mn.boots().collect::<Vec<_>>()[..] else { panic!("one node") };
    assert_eq!((boot.operational, boot.last_failure), (0, Some(Failure::NotConfigured)));
    assert!((5..=10).contains(&boot.failures), "{} failures in 30 s", boot.failures);
}

/// IdentResponse with another vendor.
#[test]
fn another_device_is_requested_with_growing_pauses() {
    let mut other = network();
    other.nodes[0].identity.vendor_id += 1;
    let mut node = other.controlled(NODE, MacAddress([2, 0, 0, 0, 0, 1])).unwrap();
    node.start(0);
    let mut cable = Cable::new(false);
    cable.cn = Some(node);
    cable.run(60 * SECOND_NS, |_| false);
    let [boot] = cable.mn.boots().collect::<Vec<_>>()[..] else { panic!("one node") };
    assert!(matches!(boot.last_failure, Some(Failure::Identity(_))), "{boot:?}");
    assert!((8..=13).contains(&boot.failures), "{} failures in 60 s", boot.failures);
}

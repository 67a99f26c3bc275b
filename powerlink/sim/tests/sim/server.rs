//! The SDO server of a managing node, read and written by a diagnostic device.

use onbeat_powerlink::cn;
use onbeat_powerlink::mn::{Event, Step, concise_dcf};
use onbeat_powerlink::nmt::{self, State};
use onbeat_powerlink::od::profile;
use onbeat_powerlink::od::{Abort, ObjectId, id};
use onbeat_powerlink::sdo::Request;
use onbeat_sim::{MachineEvent, Network, NetworkConfig};
use onbeat_wire::powerlink::{NmtCommandId, NmtState, NodeId};

use crate::{CONFIG, CYCLE_NS, ONE, SECOND_NS};

const TWO: NodeId = NodeId(2);

/// A network in operation, and a diagnostic device.
fn network() -> Network {
    let mut network = Network::new(NetworkConfig { seed: 5, ..CONFIG });
    network.add_diagnostic();
    assert!(network.run_until(60 * SECOND_NS, Network::is_operational));
    assert_eq!(network.checker.violations(), []);
    network
}

fn access(network: &mut Network, request: Request) -> Result<Vec<u8>, Abort> {
    let now_ns = network.bus.now_ns();
    network.diagnostic().request(now_ns, request.clone());
    for _ in 0..2000 {
        network.run_for(CYCLE_NS / 4);
        if let Some(done) = network.diagnostic().poll_completed() {
            assert_eq!(done.request, request);
            return done.result;
        }
    }
    panic!("{request:?} is not done in 500 cycles");
}

fn read(network: &mut Network, object: ObjectId) -> Result<Vec<u8>, Abort> {
    access(network, Request::Read(object))
}

fn write(network: &mut Network, object: ObjectId, value: &[u8]) -> Result<(), Abort> {
    access(network, Request::Write(object, value.into())).map(drop)
}

/// Resets the managing node, which answers before.
fn reset(network: &mut Network, command: NmtCommandId) {
    assert_eq!(write(network, profile::RESET_COMMAND, &[command.0]), Ok(()), "the answer");
    assert!(network.run_until(SECOND_NS, |network| network.state(0) == State::NotActive));
    network.diagnostic().disconnect();
}

fn events(network: &mut Network) -> Vec<Event> {
    let records = network.bus.stations[0].node.records.drain(..);
    let events = records.filter_map(|record| match record.what {
        MachineEvent::Managing(event) => Some(event),
        MachineEvent::Controlled(_) => None,
    });
    events.collect()
}

/// Every object, but of arrays by node the elements of a few nodes.
#[test]
fn every_object_is_read() {
    let mut network = network();
    let objects: Vec<ObjectId> = network.managing().objects().objects().map(|(id, _)| id).collect();
    assert!(objects.len() > 24 * 254);
    let some = |object: &&ObjectId| matches!(object.sub, 0..=14 | 239..=240 | 254);
    // Counters of the cycle, and states, change meanwhile.
    let changes = |object: ObjectId| {
        matches!(object.index, 0x1c00..=0x1c17 | profile::NODE_STATE | profile::EXPECTED_STATE)
    };
    for object in objects.iter().filter(some) {
        let expected = network.managing().objects().get(*object).unwrap().to_vec();
        let value = read(&mut network, *object).unwrap_or_else(|abort| panic!("{object}: {abort}"));
        assert!(value == expected || changes(*object), "{object}: {value:?} {expected:?}");
    }
    for (object, abort) in
        [(id(0x1234, 0), Abort::NO_OBJECT), (id(0x1f81, 255), Abort::NO_SUB_INDEX)]
    {
        assert_eq!(read(&mut network, object), Err(abort), "{object}");
    }
    assert!(network.is_operational());
    assert_eq!(network.checker.violations(), []);
}

#[test]
fn states_are_the_present_ones() {
    let mut network = network();
    let states = |network: &mut Network, index| {
        [1, 2, 3, 240].map(|node| read(network, id(index, node)).map(|value| NmtState(value[0])))
    };
    let (up, none) = (Ok(NmtState::OPERATIONAL), Ok(NmtState::NOT_ACTIVE));
    assert_eq!(read(&mut network, profile::NMT_STATE), Ok(vec![NmtState::OPERATIONAL.0]));
    for index in [profile::NODE_STATE, profile::EXPECTED_STATE] {
        assert_eq!(states(&mut network, index), [up, up, none, up]);
    }
    network.power(TWO, false);
    network.run_for(SECOND_NS);
    assert_eq!(states(&mut network, profile::NODE_STATE), [up, none, none, up]);
    let expected = Ok(NmtState::PRE_OPERATIONAL_1);
    assert_eq!(states(&mut network, profile::EXPECTED_STATE), [up, expected, none, up]);
    let losses = read(&mut network, id(profile::LOSS_OF_PRES[0], 2)).unwrap();
    assert!(losses[0] > 0, "{losses:?}");
}

#[test]
fn writes_have_access_rules() {
    let mut network = network();
    for (object, value, abort) in [
        (profile::NMT_STATE, &[0][..], Abort::READ_ONLY),
        (profile::VENDOR_ID, &[0; 4], Abort::READ_ONLY),
        (id(profile::LOSS_OF_PRES[1], 1), &[0; 4], Abort::READ_ONLY),
        (profile::CYCLE_LENGTH_US, &[199, 0, 0, 0], Abort::TOO_SMALL),
        (profile::CYCLE_LENGTH_US, &[1], Abort::TOO_SHORT),
        (id(profile::PREQ_LIMIT_OF, 1), &[0xd3, 5], Abort::TOO_GREAT),
        (id(profile::RPDO_MAPPING, 1), &[0; 8], Abort::STATE),
        (profile::RESET_COMMAND, &[0x21], Abort::VALUE),
        (id(profile::REQUEST_COMMAND, 1), &[1], Abort::VALUE),
        (id(0x1f8a, 3), &[2], Abort::TOO_GREAT),
    ] {
        assert_eq!(write(&mut network, object, value), Err(abort), "{object}");
    }
    assert_eq!(
        events(&mut network).iter().filter(|event| matches!(event, Event::Written(_))).count(),
        0
    );
    // A value of many segments.
    let value: Vec<u8> = (0..3000).map(|octet| octet as u8).collect();
    let dcf = concise_dcf([(id(0x2000, 0), &value[..])]);
    let object = id(profile::CONCISE_DCF, 239);
    assert_eq!(write(&mut network, object, &dcf), Ok(()));
    assert_eq!(read(&mut network, object), Ok(dcf));
    assert!(events(&mut network).contains(&Event::Written(object)));
    assert!(network.is_operational());
}

/// Parameters apply after a reset; a reset of the communication restores those of the start.
#[test]
fn parameters_apply_from_the_next_reset_on() {
    let mut network = network();
    let two = id(profile::NODE_ASSIGNMENT, 2);
    let valid = read(&mut network, two).unwrap();
    write(&mut network, two, &[0; 4]).unwrap();
    let cycle = id(profile::CYCLE_LENGTH_US.index, 0);
    write(&mut network, cycle, &4000_u32.to_le_bytes()).unwrap();
    network.run_for(SECOND_NS);
    assert_eq!(network.managing().step(TWO), Some(Step::Operational), "not before");
    let reset = |network: &mut Network, command| {
        reset(network, command);
        let up = |network: &Network| network.state(0) == State::Operational;
        assert!(network.run_until(60 * SECOND_NS, up));
    };
    reset(&mut network, NmtCommandId::RESET_CONFIGURATION);
    assert_eq!(network.managing().step(TWO), None);
    assert_eq!(read(&mut network, two), Ok(vec![0; 4]));
    network.run_for(10 * SECOND_NS);
    assert_eq!(network.managing().step(ONE), Some(Step::Operational));
    assert_eq!(read(&mut network, profile::RESET_COMMAND), Ok(vec![0xff]));
    reset(&mut network, NmtCommandId::RESET_COMMUNICATION);
    assert_eq!(read(&mut network, two), Ok(valid));
    assert!(network.run_until(60 * SECOND_NS, Network::is_operational));
}

#[test]
fn a_mapping_that_cannot_be_used_is_replaced_by_that_of_the_start() {
    let mut network = network();
    // The mapping of node 1 was activated; now its limit is too small for a longer one.
    let mapping = |sub| id(profile::TPDO_MAPPING, sub);
    write(&mut network, mapping(0), &[0]).unwrap();
    let entry = 0x0008_0320_0001_a040_u64.to_le_bytes();
    write(&mut network, mapping(1), &entry).unwrap();
    write(&mut network, mapping(0), &[1]).unwrap();
    events(&mut network);
    reset(&mut network, NmtCommandId::RESET_CONFIGURATION);
    let unmapped = Event::Unmapped { mapping: 0x1a00, why: Abort::PDO_TOO_LONG };
    assert!(events(&mut network).contains(&unmapped));
    assert!(network.run_until(60 * SECOND_NS, Network::is_operational));
    assert_ne!(read(&mut network, mapping(1)), Ok(entry.to_vec()));
}

/// 0x1F9F: a command by a tool, as if a node had requested it.
#[test]
fn a_command_is_released() {
    let mut network = network();
    let request = |sub| id(profile::REQUEST_COMMAND, sub);
    write(&mut network, request(2), &[NmtCommandId::STOP_NODE.0]).unwrap();
    write(&mut network, request(3), &[2]).unwrap();
    write(&mut network, request(1), &[1]).unwrap();
    assert!(network.run_until(SECOND_NS, |network| network.state(2) == State::Stopped));
    assert_eq!(network.state(1), State::Operational);
    assert_eq!(read(&mut network, request(1)), Ok(vec![0]), "released once");
    // All nodes.
    network.bus.stations[1].node.records.clear();
    write(&mut network, request(2), &[NmtCommandId::ENTER_PRE_OPERATIONAL_2.0]).unwrap();
    write(&mut network, request(3), &[255]).unwrap();
    write(&mut network, request(1), &[1]).unwrap();
    assert!(network.run_until(60 * SECOND_NS, Network::is_operational), "also node 2");
    let by = cn::Event::State {
        from: State::Operational,
        to: State::PreOperational2,
        by: nmt::Event::EnterPreOperational2,
    };
    let records = &network.bus.stations[1].node.records;
    assert!(records.iter().any(|record| record.what == MachineEvent::Controlled(by)));
}

/// The node's own requests have precedence over those of the server.
#[test]
fn a_network_boots_while_a_tool_reads() {
    let mut network = Network::new(NetworkConfig { seed: 6, ..CONFIG });
    network.add_diagnostic();
    assert!(
        network.run_until(60 * SECOND_NS, |network| network.state(0) == State::PreOperational1)
    );
    let mut read = 0;
    while !network.is_operational() {
        assert!(network.bus.now_ns() < 60 * SECOND_NS, "{read}");
        let now_ns = network.bus.now_ns();
        let device = network.diagnostic();
        let done = std::iter::from_fn(|| device.poll_completed());
        read += done.filter(|done| done.result.is_ok()).count();
        device.request(now_ns, Request::Read(profile::NMT_STATE));
        network.run_for(CYCLE_NS);
    }
    assert!(read > 10, "{read}");
    assert_eq!(network.checker.violations(), []);
}

/// Written parameters of the cycle apply from the next reset: an absurd one does not stop the running network.
#[test]
fn a_written_parameter_does_not_change_the_running_cycle() {
    let mut network = network();
    for object in [
        profile::WAIT_SOC_PREQ_NS,
        profile::ASYNC_SLOT_NS,
        profile::CYCLE_SUSPEND,
        profile::CYCLE_LENGTH_US,
    ] {
        let written = write(&mut network, object, &u32::MAX.to_le_bytes());
        let refused = written.is_err_and(|abort| abort.0 >> 16 == 0x0609);
        assert!(refused || written.is_ok(), "{object}: {written:?}");
    }
    network.run_for(100 * CYCLE_NS);
    assert!(network.is_operational());
    assert_eq!(network.checker.violations(), []);
}

/// A damaged configuration is refused when it is written, not when its node boots.
#[test]
fn a_configuration_that_is_no_concise_dcf_is_refused() {
    let mut network = network();
    let object = id(profile::CONCISE_DCF, 1);
    let before = read(&mut network, object).unwrap();
    for damaged in [
        vec![0xa5; 70],
        vec![0xff, 0xff, 0xff, 0xff, 0],
        vec![0],
        before[..before.len() - 1].to_vec(),
        [&before[..], &[0]].concat(),
    ] {
        assert_eq!(write(&mut network, object, &damaged), Err(Abort::VALUE), "{damaged:?}");
    }
    assert_eq!(read(&mut network, object), Ok(before.clone()));
    assert_eq!(write(&mut network, object, &before), Ok(()));
}

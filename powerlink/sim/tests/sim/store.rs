//! Nodes that store their parameters (0x1010, 0x1011), and the use of it by a managing node.

use onbeat_powerlink::cn::{self, StoredParametersError};
use onbeat_powerlink::mn::{Event, Failure, concise_dcf, dcf_entries};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::{Abort, ObjectId, id, profile};
use onbeat_powerlink::sdo::Request;
use onbeat_sim::{MachineEvent, Memory, Network, NetworkConfig};
use onbeat_wire::powerlink::{Body, Message, NmtCommandId, NodeId, Service};

use crate::{CONFIG, CYCLE_NS, ONE, SECOND_NS};

const SAVE: ObjectId = id(profile::STORE, 1);
const LOAD: ObjectId = id(profile::RESTORE, 1);
const TOLERANCE: ObjectId = profile::SOC_TOLERANCE_NS;

/// Two nodes just turned on, of which the first has storage.
fn new(memory: Memory) -> Network {
    let mut network = Network::new(NetworkConfig { seed: 11, ..CONFIG });
    network.set_memory(ONE, memory);
    network
}

/// Runs until all are in OPERATIONAL; returns the commands to node 1 meanwhile, and the number of SDO commands.
fn boot(network: &mut Network) -> (Vec<NmtCommandId>, usize) {
    let (mut commands, mut writes) = (Vec::new(), 0);
    let end_ns = network.bus.now_ns() + 60 * SECOND_NS;
    while !network.is_operational() {
        assert!(network.bus.now_ns() < end_ns, "{commands:?}, {writes} commands of SDO");
        network.run_watched(CYCLE_NS, |_, frame| {
            let message = Message::parse(&frame[14..]).unwrap();
            match message.body {
                Body::Asnd(_) if message.destination != ONE => {}
                Body::Asnd(Service::NmtCommand(command)) => commands.push(command.command),
                Body::Asnd(Service::Sdo(sdo)) => writes += usize::from(sdo.command.is_some()),
                _ => {}
            }
        });
    }
    assert_eq!(network.checker.violations(), []);
    (commands, writes)
}

/// Executes an SDO request of the application to node 1.
fn access(network: &mut Network, request: Request) -> Result<Vec<u8>, Abort> {
    let now_ns = network.bus.now_ns();
    network.managing().request(now_ns, ONE, request).unwrap();
    for _ in 0..100 {
        network.run_for(CYCLE_NS);
        if let Some((_, done)) = network.managing().poll_completed() {
            return done.result;
        }
    }
    panic!("not done in 100 cycles");
}

fn write(network: &mut Network, object: ObjectId, value: &[u8]) -> Result<Vec<u8>, Abort> {
    access(network, Request::Write(object, value.into()))
}

fn tolerance(network: &mut Network) -> u64 {
    network.controlled(ONE).objects().number(TOLERANCE)
}

/// The stored value of an object.
fn kept(network: &mut Network, object: ObjectId) -> Option<Vec<u8>> {
    let octets = network.memory(ONE)?.kept.clone()?;
    let found = dcf_entries(&octets).find(|(of, _)| *of == object)?.1.to_vec();
    Some(found)
}

const BOOT: [NmtCommandId; 4] = [
    NmtCommandId::RESET_NODE,
    NmtCommandId::RESET_CONFIGURATION,
    NmtCommandId::ENABLE_READY_TO_OPERATE,
    NmtCommandId::START_NODE,
];

#[test]
fn defaults_are_restored_by_a_reset_and_the_download_is_stored() {
    let mut network = new(Memory::default());
    let (commands, writes) = boot(&mut network);
    assert_eq!(commands, BOOT, "once reset for its defaults, once for its configuration");
    let without = {
        let mut network = new(Memory::default());
        network.bus.stations[1].node.memory = None;
        network.power(ONE, true);
        let (commands, writes) = boot(&mut network);
        assert_eq!(commands, BOOT[1..]);
        writes
    };
    assert_eq!(writes, without, "each object was written once");
    // Clearing is a no-op, then the configuration is stored.
    assert_eq!(network.memory(ONE).unwrap().writes, 2);
    let date = id(profile::EXPECTED_DATE, 1);
    let date = network.managing().objects().get(date).unwrap().to_vec();
    assert_eq!(kept(&mut network, profile::CONFIGURATION_DATE), Some(date));
    // It stays so.
    network.run_for(20 * SECOND_NS);
    assert!(network.is_operational());
    assert_eq!(network.memory(ONE).unwrap().writes, 2);
}

#[test]
fn a_stored_configuration_is_not_written_again() {
    let mut network = new(Memory::default());
    boot(&mut network);
    for again in 0..3 {
        if again == 2 {
            network.restart_managing();
        }
        network.power(ONE, false);
        network.run_for(SECOND_NS);
        network.power(ONE, true);
        assert_eq!(boot(&mut network), (BOOT[2..].to_vec(), 0), "{again}");
    }
    assert_eq!(network.memory(ONE).unwrap().writes, 2);
    network.set_input(ONE, 77);
    network.run_for(10 * CYCLE_NS);
    assert_eq!(network.input(ONE), 77, "by the stored mapping");
}

/// A managing node with another configuration: the stored one is cleared before the new one is written.
#[test]
fn another_configuration_replaces_the_stored_one() {
    let mut network = new(Memory::default());
    boot(&mut network);
    write(&mut network, id(0x1020, 2), &[1, 0, 0, 0]).unwrap();
    write(&mut network, TOLERANCE, &[1, 2, 3, 4]).unwrap();
    write(&mut network, SAVE, b"save").unwrap();
    network.power(ONE, false);
    network.run_for(SECOND_NS);
    network.power(ONE, true);
    assert_eq!(boot(&mut network).0, BOOT);
    assert_eq!(tolerance(&mut network), 500_000, "from the network");
    assert_eq!(network.memory(ONE).unwrap().writes, 2 + 1 + 2);
    network.power(ONE, false);
    network.run_for(SECOND_NS);
    network.power(ONE, true);
    assert_eq!(boot(&mut network), (BOOT[2..].to_vec(), 0));
}

#[test]
fn stored_values_persist_over_a_reset_and_restored_ones_are_defaults() {
    let mut network = new(Memory::default());
    boot(&mut network);
    let default =
        network.controlled(NodeId(2)).objects().object(TOLERANCE).unwrap().default.clone();
    let reset = |network: &mut Network| {
        network.managing().command(ONE, NmtCommandId::RESET_COMMUNICATION);
        let left = network.run_until(SECOND_NS, |network| network.state(1) != State::Operational);
        assert!(left);
    };
    write(&mut network, TOLERANCE, &[1, 0, 8, 0]).unwrap();
    assert_eq!(write(&mut network, SAVE, b"save"), Ok(vec![]));
    write(&mut network, TOLERANCE, &[2, 0, 8, 0]).unwrap();
    reset(&mut network);
    assert_eq!(tolerance(&mut network), 0x8_0001, "as it was when it was stored");
    boot(&mut network);
    assert_eq!(write(&mut network, LOAD, b"load"), Ok(vec![]));
    assert_eq!(tolerance(&mut network), 0x8_0001, "not before the reset");
    assert_eq!(network.memory(ONE).unwrap().kept, None);
    reset(&mut network);
    assert_eq!(tolerance(&mut network).to_le_bytes()[..4], default);
    let records = network.bus.stations[1].node.records.iter();
    let stores = records.filter(|record| {
        matches!(record.what, MachineEvent::Controlled(cn::Event::Stored | cn::Event::Restored))
    });
    assert!(stores.count() >= 4);
}

#[test]
fn only_the_signature_stores() {
    let mut network = new(Memory::default());
    boot(&mut network);
    let before = network.memory(ONE).unwrap().clone();
    for (object, value, abort) in [
        (SAVE, &b"load"[..], Abort::NOT_STORED),
        (LOAD, b"save", Abort::NOT_STORED),
        (SAVE, b"evas", Abort::NOT_STORED),
        (SAVE, b"sav", Abort::TOO_SHORT),
        (LOAD, b"load!", Abort::TOO_LONG),
        (id(profile::STORE, 2), b"load", Abort::NOT_STORED),
        (id(profile::STORE, 5), b"save", Abort::NO_SUB_INDEX),
        (id(profile::RESTORE, 5), b"load", Abort::NO_SUB_INDEX),
        (id(profile::STORE, 0), b"\x01", Abort::READ_ONLY),
    ] {
        assert_eq!(write(&mut network, object, value), Err(abort), "{object} {value:?}");
    }
    assert_eq!(*network.memory(ONE).unwrap(), before);
    for object in [SAVE, LOAD] {
        let read = access(&mut network, Request::Read(object));
        assert_eq!(read, Ok(vec![1, 0, 0, 0]), "it does so on command");
    }
}

/// C10: sub-index 2 covers the objects of communication, 3 and 4 those of the application and the manufacturer.
#[test]
fn parts_are_stored_and_restored() {
    let mut network = new(Memory::default());
    boot(&mut network);
    assert_eq!(access(&mut network, Request::Read(id(profile::STORE, 0))), Ok(vec![4]));
    let stored = |network: &mut Network| (tolerance(network), kept(network, TOLERANCE));
    let before = kept(&mut network, TOLERANCE);
    for part in [3, 4] {
        write(&mut network, TOLERANCE, &[7, 0, 8, 0]).unwrap();
        assert_eq!(write(&mut network, id(profile::STORE, part), b"save"), Ok(vec![]));
        assert_eq!(stored(&mut network), (0x8_0007, before.clone()), "not of this part");
    }
    assert_eq!(write(&mut network, id(profile::STORE, 2), b"save"), Ok(vec![]));
    assert_eq!(kept(&mut network, TOLERANCE), Some(vec![7, 0, 8, 0]));
    for part in [3, 4] {
        assert_eq!(write(&mut network, id(profile::RESTORE, part), b"load"), Ok(vec![]));
        assert_eq!(kept(&mut network, TOLERANCE), Some(vec![7, 0, 8, 0]));
    }
    assert_eq!(write(&mut network, id(profile::RESTORE, 2), b"load"), Ok(vec![]));
    let default = 100_000_u32.to_le_bytes().to_vec();
    assert_eq!(kept(&mut network, TOLERANCE), Some(default), "the others are as before");
    assert_eq!(tolerance(&mut network), 0x8_0007, "not before the reset");
    // What was stored is valid for the node.
    network.power(ONE, false);
    network.power(ONE, true);
    boot(&mut network);
}

/// C11: the id of a configuration (0x1020/3) is valid until a parameter is written.
#[test]
fn a_written_parameter_invalidates_the_id_of_the_configuration() {
    let mut network = new(Memory::default());
    boot(&mut network);
    let invalid = |network: &mut Network| {
        access(network, Request::Read(profile::CONFIGURATION_INVALID)).unwrap() == [1]
    };
    assert!(invalid(&mut network), "no id was written");
    write(&mut network, profile::CONFIGURATION_ID, &[1, 2, 3, 4]).unwrap();
    assert!(!invalid(&mut network));
    write(&mut network, profile::CONFIGURATION_DATE, &[1, 0, 0, 0]).unwrap();
    write(&mut network, id(0x6200, 1), &[1]).unwrap();
    assert!(!invalid(&mut network), "no parameter");
    write(&mut network, TOLERANCE, &[7, 0, 8, 0]).unwrap();
    assert!(invalid(&mut network));
}

/// A storage failure is reported to the requester; the network boots nevertheless.
#[test]
fn a_storage_failure_is_reported() {
    let mut network = new(Memory { fails: true, ..Memory::default() });
    assert_eq!(boot(&mut network).0, BOOT[1..]);
    assert_eq!(write(&mut network, SAVE, b"save"), Err(Abort::HARDWARE));
    assert_eq!(network.memory(ONE).unwrap().writes, 0);
    let records = network.bus.stations[1].node.records.drain(..);
    let reported =
        records.filter(|record| record.what == MachineEvent::Controlled(cn::Event::NotStored));
    assert_eq!(reported.count(), 3, "load and save at the boot, and this one");
    network.memory(ONE).unwrap().fails = false;
    assert_eq!(write(&mut network, SAVE, b"save"), Ok(vec![]));
}

/// Storing takes time, and no other command is executed meanwhile.
#[test]
fn the_answer_follows_completion() {
    let mut network = new(Memory::default());
    boot(&mut network);
    // From now on only this test serves the node's commands.
    network.bus.stations[1].node.memory = None;
    let now_ns = network.bus.now_ns();
    for value in [b"save", b"load"] {
        let object = if value == b"save" { SAVE } else { LOAD };
        network.managing().request(now_ns, ONE, Request::Write(object, (*value).into())).unwrap();
    }
    network.run_for(100 * CYCLE_NS);
    assert_eq!(network.managing().poll_completed(), None);
    let now_ns = network.bus.now_ns();
    let node = network.controlled(ONE);
    let Some(cn::StoreCommand::Write(octets)) = node.poll_store() else {
        panic!("nothing to keep")
    };
    assert!(dcf_entries(octets).count() > 100);
    assert_eq!(node.poll_store(), None, "returned once");
    node.handle_stored(now_ns, true);
    node.handle_stored(now_ns, true);
    network.run_for(50 * CYCLE_NS);
    let (_, done) = network.managing().poll_completed().expect("the answer");
    assert_eq!(done.result, Ok(vec![]));
    assert_eq!(network.controlled(ONE).poll_store(), Some(cn::StoreCommand::Clear), "the next one");
}

#[test]
fn invalid_stored_parameters_are_refused_as_a_whole() {
    let mut network = new(Memory::default());
    boot(&mut network);
    let octets = network.memory(ONE).unwrap().kept.clone().unwrap();
    let entries: Vec<_> = dcf_entries(&octets).collect();
    let refused = |octets: &[u8]| {
        let mut network = new(Memory::default());
        network.bus.stations[1].node.memory = None;
        network.power(ONE, false);
        let before = network.controlled(ONE).objects().clone();
        let refused = network.controlled(ONE).set_store(Some(octets));
        assert_eq!(*network.controlled(ONE).objects(), before);
        refused.unwrap_err()
    };
    assert_eq!(refused(&octets[..octets.len() - 1]), StoredParametersError::Octets);
    assert_eq!(refused(&[&octets[..], &[0]].concat()), StoredParametersError::Octets);
    assert_eq!(refused(&[]), StoredParametersError::Octets);
    let with = |object, value: &[u8]| concise_dcf(entries.iter().copied().chain([(object, value)]));
    for object in [id(0x7777, 0), id(profile::LOSS_OF_SOC, 1), profile::NMT_STATE, id(0x6000, 1)] {
        assert_eq!(refused(&with(object, &[0; 4])), StoredParametersError::Object(object));
    }
    let short = refused(&with(TOLERANCE, &[1]));
    assert_eq!(
        short.to_string(),
        "value of object 1C14/00 is invalid: 0x06070013: the value is too short for the object"
    );
}

/// A node that never reports the expected date is restored once, and afterwards only configured again.
#[test]
fn defaults_are_restored_once() {
    let mut network = new(Memory::default());
    let (mut loads, mut saves) = (0, 0);
    for _ in 0..20_000 {
        network.run_watched(CYCLE_NS / 2, |_, frame| {
            let message = Message::parse(&frame[14..]).unwrap();
            if let Body::Asnd(Service::Sdo(sdo)) = message.body {
                let to_it = message.destination == ONE;
                let command = sdo.command.filter(|command| to_it && !command.response);
                let ends = |with| command.is_some_and(|command| command.payload.ends_with(with));
                loads += u32::from(ends(b"load"));
                saves += u32::from(ends(b"save"));
            }
        });
        network.controlled(ONE).set_object(profile::CONFIGURATION_DATE, &[9, 9, 0, 0]).unwrap();
    }
    assert_eq!(loads, 1);
    assert!(saves >= 2, "{saves}");
    let records = network.bus.stations[0].node.records.drain(..);
    let not_configured = MachineEvent::Managing(Event::Failed(ONE, Failure::NotConfigured));
    let failed = records.filter(|record| record.what == not_configured).count();
    assert!(failed >= 2, "it is reported each time: {failed}");
    assert_eq!(network.state(2), State::Operational, "the other one has its configuration");
}

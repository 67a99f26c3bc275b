use std::string::ToString;

use onbeat_wire::MacAddress;

use super::*;
use crate::mn::dcf_entries;
use crate::od::{Abort, Access, Object, PdoMapping, profile};

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

fn signal(name: &str, object: ObjectId, data_type: DataType) -> Signal {
    Signal { name: name.into(), object, data_type }
}

pub(super) fn network() -> Network {
    let identity = Identity {
        device_type: 0x000f_0191,
        vendor_id: 7,
        product_code: 0,
        revision_number: 0,
        serial_number: 0,
        features: profile::CONTROLLED_NODE_FEATURES,
        device_name: b"drive".to_vec(),
        host_name: b"drive-1".to_vec(),
    };
    let station = Station {
        node: NodeId(5),
        mandatory: true,
        identity,
        pres_timeout_ns: 30_000,
        soc_to_poll_ns: 0,
        multiplexed: 0,
        inputs: Vec::from([
            signal("ready", id(0x6000, 1), DataType::Boolean),
            signal("position", id(0x6001, 0), DataType::Integer(4)),
        ]),
        received: Vec::new(),
        described: None,
        outputs: Vec::from([signal("speed", id(0x6200, 1), DataType::Unsigned(2))]),
        parameters: Vec::new(),
    };
    Network {
        cycle_us: 1000,
        async_slot_ns: 100_000,
        pre_operational_1_us: 500_000,
        soc_tolerance_ns: 500_000,
        soc_jitter_ns: 0,
        threshold: 15,
        node_threshold: 15,
        multiplexed_cycles: 0,
        prescaler: 2,
        start_all: false,
        basic_ethernet: false,
        nodes: Vec::from([station]),
    }
}

#[test]
fn both_ends_are_built_from_one_description() {
    let network = network();
    let managing = network.managing(MAC).unwrap();
    let od = managing.objects();
    assert_eq!(od.number(id(profile::NODE_ASSIGNMENT, 5)), 0x8000_000f);
    assert_eq!(od.number(id(profile::PRES_TIMEOUT_NS, 5)), 30_000);
    assert_eq!((od.number(profile::PRESCALER), od.number(profile::STARTUP)), (2, 0x800));
    assert_eq!(od.number(id(profile::CYCLE_EXCEEDED, 3)), 15);
    assert_eq!(od.number(id(0x1f85, 5)), 7, "the vendor is checked");
    // The boolean takes an octet by itself.
    let entry = od.number(id(profile::RPDO_MAPPING, 2));
    assert_eq!(entry, 0x0020_0008_0005_a4c1);
    assert_eq!(managing_input(NodeId(5), 1), id(0xa4c1, 5));
    let dcf = od.get(id(profile::CONCISE_DCF, 5)).unwrap();
    let mut controlled = network.controlled(NodeId(5), MAC).unwrap();
    let entries = [0x6000, 0x6200].map(|index| controlled.objects().number(id(index, 0)));
    assert_eq!((entries, od.number(id(0xa4c1, 0))), ([1, 1], 5));
    for (object, value) in dcf_entries(dcf) {
        controlled.set_object(object, value).unwrap();
    }
    let configured = [profile::CONFIGURATION_DATE, profile::CONFIGURATION_TIME];
    let expected = [profile::EXPECTED_DATE, profile::EXPECTED_TIME].map(|index| id(index, 5));
    for (written, expected) in configured.into_iter().zip(expected) {
        assert_eq!(controlled.objects().number(written), od.number(expected));
    }
}

#[test]
fn another_configuration_has_another_stamp() {
    let (one, mut other) = (network(), network());
    other.cycle_us = 2000;
    let stamp = |network: &Network| {
        let managing = network.managing(MAC).unwrap();
        managing.objects().number(id(profile::EXPECTED_TIME, 5))
    };
    assert_eq!(stamp(&one), stamp(&network()));
    assert_ne!(stamp(&one), stamp(&other));
}

#[test]
fn a_multiplexed_node_receives_its_slot() {
    let mut network = network();
    network.multiplexed_cycles = 4;
    network.nodes[0].multiplexed = 3;
    let managing = network.managing(MAC).unwrap();
    let od = managing.objects();
    let slot = id(profile::MULTIPLEXED_ASSIGNMENT, 5);
    assert_eq!((od.number(profile::MULTIPLEXED_CYCLES), od.number(slot)), (4, 3));
    let mut controlled = network.controlled(NodeId(5), MAC).unwrap();
    for (object, value) in dcf_entries(od.get(id(profile::CONCISE_DCF, 5)).unwrap()) {
        controlled.set_object(object, value).unwrap();
    }
    let written = controlled.objects();
    assert_eq!((written.number(profile::MULTIPLEXED_CYCLES), written.number(slot)), (4, 3));
    network.nodes[0].multiplexed = 5;
    assert_eq!(network.managing(MAC).unwrap_err(), NetworkError::Slot(NodeId(5), 5, 4));
}

/// A drive with its own filter, and a position of one octet less than usual.
fn described() -> Dictionary {
    let mut od = Dictionary::new();
    let object = |len, mappable| Object::unsigned(len, Access::ReadWrite, 0).mapped(mappable);
    od.add(id(0x2000, 0), object(2, PdoMapping::No).within(0..=100)).unwrap();
    od.add(id(0x6001, 0), object(4, PdoMapping::Transmit)).unwrap();
    od.add(id(0x6200, 1), object(2, PdoMapping::Both)).unwrap();
    // Objects that this stack writes are unchanged.
    od.add(id(0x1f8c, 0), Object::unsigned(1, Access::ReadOnly, 0).within(0..=0)).unwrap();
    od.add(profile::SDO_TIMEOUT_MS, Object::unsigned(4, Access::ReadWrite, 5_000)).unwrap();
    od
}

#[test]
fn a_description_adds_the_objects_of_a_node() {
    let mut network = network();
    network.nodes[0].described = Some(described());
    network.nodes[0].inputs[1].data_type = DataType::Unsigned(4);
    network.nodes[0].parameters = Vec::from([(id(0x2000, 0), Vec::from([100, 0]))]);
    network.managing(MAC).unwrap();
    let mut node = network.controlled(NodeId(5), MAC).unwrap();
    assert_eq!(node.objects().number(profile::SDO_TIMEOUT_MS), 5_000);
    node.start(0);
    assert_eq!(node.objects().number(profile::NMT_STATE), 0x1c);
    assert_eq!(node.set_object(id(0x2000, 0), &[101, 0]), Err(Abort::TOO_GREAT));

    // Its description lacks optional objects: they are not written, and it has their values from the start.
    network.node_threshold = 77;
    let managing = network.managing(MAC).unwrap();
    let dcf = managing.objects().get(id(profile::CONCISE_DCF, 5)).unwrap();
    let writes = |object| dcf_entries(dcf).any(|(written, _)| written == object);
    let loss = |index| id(index, 3);
    assert!(writes(loss(profile::LOSS_OF_SOC)) && writes(profile::SOC_TOLERANCE_NS));
    assert!(writes(profile::PRES_LIMIT) && writes(id(profile::TPDO_MAPPING, 1)));
    for object in [loss(profile::LOSS_OF_SOA), loss(profile::LOSS_OF_PREQ), profile::PRESCALER] {
        assert!(!writes(object), "{object}");
    }
    let node = network.controlled(NodeId(5), MAC).unwrap();
    assert_eq!(node.objects().number(loss(profile::LOSS_OF_SOA)), 77);
    assert_eq!(
        node.objects().number(loss(profile::LOSS_OF_SOC)),
        15,
        "written by its managing node"
    );

    let refused = |change: &dyn Fn(&mut Station)| {
        let mut network = network.clone();
        change(&mut network.nodes[0]);
        network.managing(MAC).unwrap_err()
    };
    let five = NodeId(5);
    let error = refused(&|node| node.parameters[0].1 = Vec::from([101, 0]));
    assert_eq!(error, NetworkError::Value(five, id(0x2000, 0), Abort::TOO_GREAT));
    let error = refused(&|node| node.inputs[1].data_type = DataType::Unsigned(2));
    assert_eq!(error, NetworkError::Signal(five, id(0x6001, 0), Abort::INCOMPATIBLE));
    let error = refused(&|node| node.inputs[1].object = id(0x2000, 0));
    assert_eq!(error, NetworkError::Signal(five, id(0x2000, 0), Abort::NOT_MAPPABLE));
    let error = refused(&|node| node.inputs[0] = node.inputs[1].clone());
    assert_eq!(error.to_string(), "node 5: object 6001/00 already exists");
    let error = refused(&|node| {
        let mut od = described();
        od.add(profile::CYCLE_LENGTH_US, Object::unsigned(2, Access::ReadWrite, 0)).unwrap();
        node.described = Some(od);
    });
    assert_eq!(error, NetworkError::Described(five, profile::CYCLE_LENGTH_US, Abort::TYPE));
}

/// Node 7 receives the position of node 5, and node 5 both of node 7.
fn cross_traffic() -> Network {
    let mut network = network();
    let mut other = network.nodes[0].clone();
    other.node = NodeId(7);
    let received = |name: &str, sub, data_type, source, input| ReceivedSignal {
        name: name.into(),
        object: id(0x6400, sub),
        data_type,
        source: NodeId(source),
        input,
    };
    let (ready, position) = (DataType::Boolean, DataType::Integer(4));
    other.received = Vec::from([received("position of 5", 1, position, 5, 1)]);
    let node = &mut network.nodes[0];
    let of = [("position of 7", 2, position, 7, 1), ("ready of 7", 1, ready, 7, 0)];
    node.received = of.map(|(name, sub, of, node, n)| received(name, sub, of, node, n)).into();
    network.nodes.push(other);
    network
}

#[test]
fn a_node_receives_the_pres_of_others() {
    let network = cross_traffic();
    let managing = network.managing(MAC).unwrap();
    for (node, source, mapped) in [
        (5, 7, &[0x0020_0008_0002_6400_u64, 0x0001_0000_0001_6400][..]),
        (7, 5, &[0x0020_0008_0001_6400]),
    ] {
        let mut controlled = network.controlled(NodeId(node), MAC).unwrap();
        let dcf = managing.objects().get(id(profile::CONCISE_DCF, node)).unwrap();
        for (object, value) in dcf_entries(dcf) {
            controlled.set_object(object, value).unwrap();
        }
        let od = controlled.objects();
        assert_eq!(od.number(id(0x1400, 1)), 0, "the poll");
        assert_eq!(od.number(id(0x1401, 1)), source);
        let number = |sub| od.number(id(0x1601, sub));
        assert_eq!(number(0) as usize, mapped.len());
        for (sub, entry) in (1..).zip(mapped) {
            assert_eq!(number(sub), *entry, "{node}: {sub}");
        }
        assert_eq!(od.number(id(profile::NODE_ASSIGNMENT, source as u8)), 0x8000_0003);
        assert_eq!(od.number(id(profile::PRES_LIMIT_OF, source as u8)), 36);
        // The managing node does not send it.
        let outputs = managing
            .objects()
            .objects()
            .filter(|(object, _)| (0xa040..0xa4c0).contains(&object.index) && object.sub == node);
        assert_eq!(outputs.count(), 1);
    }
    assert_eq!(network.nodes[0].rpdos(), 2);
}

#[test]
fn cross_traffic_that_no_node_sends_is_refused() {
    let refused = |change: &dyn Fn(&mut ReceivedSignal)| {
        let mut network = cross_traffic();
        change(&mut network.nodes[1].received[0]);
        let error = network.check(NodeId(7)).unwrap_err();
        assert_eq!(network.managing(MAC).unwrap_err(), error);
        assert_eq!(network.check(NodeId(5)), Ok(()), "not its error");
        error.to_string()
    };
    let error = refused(&|signal| signal.source = NodeId(6));
    assert_eq!(
        error,
        "node 7: object 6400/01 cannot be received: node 6 is not another node of the network with \
         this input"
    );
    for error in [
        refused(&|signal| signal.source = NodeId(7)),
        refused(&|signal| signal.input = 2),
        refused(&|signal| signal.data_type = DataType::Unsigned(4)),
    ] {
        assert!(error.contains("cannot be received"), "{error}");
    }
    let error = refused(&|signal| signal.object = id(0x6200, 1));
    assert_eq!(error, "node 7: object 6200/01 already exists");
    // Of 239 nodes, each of the others.
    let mut network = cross_traffic();
    let sources = (1..=238).map(|node| Station { node: NodeId(node), ..network.nodes[0].clone() });
    let mut nodes: Vec<Station> = sources.collect();
    nodes.iter_mut().for_each(|station| station.received.clear());
    let received = (1..=238).map(|source| ReceivedSignal {
        object: id(0x6400, source),
        source: NodeId(source),
        ..network.nodes[1].received[0].clone()
    });
    let received = received.collect();
    nodes.push(Station { node: NodeId(239), received, ..network.nodes[1].clone() });
    network.nodes = nodes;
    assert_eq!(network.check(NodeId(239)), Ok(()));
    let node = network.controlled(NodeId(239), MAC).unwrap();
    assert!(node.objects().object(id(0x14ee, 1)).is_ok(), "239 RPDOs");
}

/// A device whose mapping has fixed entries: only their number is written.
#[test]
fn a_fixed_mapping_is_not_written() {
    let mut network = network();
    let mut od = described();
    let number = |access, value| Object::unsigned(8, access, value);
    let entries = Object::unsigned(1, Access::ReadWrite, 1);
    od.add(id(profile::RPDO_MAPPING, 0), entries).unwrap();
    let fixed = 0x0010_0000_0001_6200_u64;
    od.add(id(profile::RPDO_MAPPING, 1), number(Access::ReadOnly, fixed)).unwrap();
    network.nodes[0].described = Some(od);
    network.nodes[0].inputs[1].data_type = DataType::Unsigned(4);
    let managing = network.managing(MAC).unwrap();
    let dcf = managing.objects().get(id(profile::CONCISE_DCF, 5)).unwrap();
    let written: Vec<u8> = dcf_entries(dcf)
        .filter(|(object, _)| object.index == profile::RPDO_MAPPING)
        .map(|(object, _)| object.sub)
        .collect();
    assert_eq!(written, [0, 0]);
    // Another one would be refused.
    network.nodes[0].outputs[0].object = id(0x6200, 2);
    let error = network.check(NodeId(5)).unwrap_err();
    let expected = NetworkError::Value(NodeId(5), id(profile::RPDO_MAPPING, 1), Abort::READ_ONLY);
    assert_eq!(error, expected);
}

#[test]
fn the_first_poll_waits_for_the_slowest_node() {
    let mut network = network();
    let wait = |network: &Network| {
        network.managing(MAC).unwrap().objects().number(profile::WAIT_SOC_PREQ_NS)
    };
    assert_eq!(wait(&network), 1000);
    network.nodes[0].soc_to_poll_ns = 30_000;
    assert_eq!(wait(&network), 30_000);
}

#[test]
fn invalid_networks_are_refused_with_the_reason() {
    let missing = network().controlled(NodeId(6), MAC).unwrap_err();
    assert_eq!(missing.to_string(), "node 6 not found in the network");
    let mut twice = network();
    twice.nodes[0].outputs.push(signal("again", id(0x6000, 1), DataType::Boolean));
    let error = twice.managing(MAC).unwrap_err().to_string();
    assert_eq!(error, "node 5: object 6000/01 already exists");
    let mut unknown = network();
    unknown.nodes[0].parameters.push((id(0x1234, 0), [1].to_vec()));
    let error = unknown.managing(MAC).unwrap_err();
    assert_eq!(error, NetworkError::Value(NodeId(5), id(0x1234, 0), Abort::NO_OBJECT));
    let mut many = network();
    many.nodes[0].inputs = (0..=MAX_SIGNALS as u8)
        .map(|sub| signal("one of many", id(0x7000, sub), DataType::Boolean))
        .collect();
    assert_eq!(many.managing(MAC).unwrap_err(), NetworkError::Signals(NodeId(5)));
}

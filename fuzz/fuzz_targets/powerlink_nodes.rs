//! A managing and a controlled node on a bus with arbitrary frames at arbitrary times, and arbitrary datagrams
//! from several peers: their frames and datagrams are valid, frames have their own source, and no deadline stays in
//! the past.
//!
//! The input is a list of events: a kind, a time step, and for a frame its octets. Further bits of the
//! kind are actions of the two applications, and whether the node's parameters can be stored.
#![no_main]

use std::net::SocketAddrV4;

use libfuzzer_sys::fuzz_target;
use onbeat_powerlink::Node;
use onbeat_powerlink::cn::StoreCommand;
use onbeat_powerlink::mn::ManagingNode;
use onbeat_powerlink::network::{Network, Signal, Station};
use onbeat_powerlink::od::profile::{self, CONTROLLED_NODE_FEATURES, Identity};
use onbeat_powerlink::od::{Abort, Access, DataType, Dictionary, Object, ObjectId, id};
use onbeat_powerlink::sdo::{Request, parse_datagram};
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{Message, NetTime, NmtCommandId, NodeId};

const MN: MacAddress = MacAddress([2, 0, 0, 0, 0, 240]);
const CN: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
/// An object of any length.
const DATA: ObjectId = id(0x2100, 0);

fn network() -> Network {
    let identity = Identity {
        device_type: 1,
        vendor_id: 2,
        product_code: 3,
        revision_number: 4,
        serial_number: 5,
        features: CONTROLLED_NODE_FEATURES,
        device_name: Vec::new(),
        host_name: Vec::new(),
    };
    let mut objects = Dictionary::new();
    let data = Object::new(DataType::Domain, Access::ReadWrite, Vec::new());
    objects.add(DATA, data).expect("the object is new");
    let signal =
        |object| vec![Signal { name: String::new(), object, data_type: DataType::Unsigned(2) }];
    Network {
        cycle_us: 1000,
        async_slot_ns: 100_000,
        pre_operational_1_us: 1000,
        soc_tolerance_ns: 500_000,
        soc_jitter_ns: 0,
        threshold: 15,
        node_threshold: 15,
        multiplexed_cycles: 2,
        prescaler: 2,
        start_all: false,
        basic_ethernet: false,
        nodes: vec![Station {
            node: NodeId(1),
            mandatory: true,
            identity,
            pres_timeout_ns: 100_000,
            soc_to_poll_ns: 0,
            multiplexed: 1,
            inputs: signal(id(0x6000, 1)),
            outputs: signal(id(0x6200, 1)),
            received: Vec::new(),
            described: Some(objects),
            parameters: Vec::new(),
        }],
    }
}

/// Calls a node until its next deadline is in the future.
fn run(node: &mut dyn Node, now_ns: u64) {
    for _ in 0..10_000 {
        match node.next_deadline_ns() {
            Some(deadline) if deadline <= now_ns => node.handle_deadline(deadline),
            _ => return,
        }
    }
    panic!("a deadline stays in the past");
}

/// Starts or aborts an SDO transfer.
fn access(node: &mut ManagingNode, now_ns: u64, choice: u8) {
    let value = |len: u8| vec![choice; 10 * usize::from(len)];
    let objects = [id(0x1006, 0), DATA, id(0x7000, choice)];
    let request = match choice % 5 {
        0 => Request::Read(DATA),
        1 => Request::Write(DATA, value(choice).into()),
        2 => Request::ReadMultiple(objects.to_vec()),
        3 => Request::WriteMultiple(
            objects.iter().map(|object| (*object, value(choice / 16).into())).collect(),
        ),
        _ => return node.abort_request(now_ns, NodeId(1), Abort::LOCAL),
    };
    // The node may not be reachable.
    let _ = node.request(now_ns, NodeId(1), request);
}

/// Takes the frames that a node sends.
fn sent(node: &mut dyn Node, name: NodeId, mac: MacAddress, to: &mut Vec<Vec<u8>>) {
    while let Some(frame) = node.poll_transmit() {
        assert!((60..=1514).contains(&frame.len()));
        assert_eq!(frame[6..12], mac.0);
        assert_eq!(Message::parse(&frame[14..]).expect("a node sends messages").source, name);
        to.push(frame);
    }
}

fuzz_target!(|octets: &[u8]| {
    let network = network();
    let mut managing = network.managing(MN).expect("the network is valid");
    let mut controlled = network.controlled(NodeId(1), CN).expect("the node id is valid");
    let mut now_ns = 0;
    controlled.set_store(None).expect("the node has no store of its own");
    managing.serve_datagrams();
    controlled.serve_datagrams();
    managing.start(now_ns, NetTime::default());
    controlled.start(now_ns);
    let (mut rest, mut wire) = (octets, Vec::new());
    while let [kind, time, behind @ ..] = rest {
        rest = behind;
        // From 4 us to 4 ms in squares.
        now_ns += 4_000 + u64::from(*time) * u64::from(*time) * 62;
        run(&mut managing, now_ns);
        run(&mut controlled, now_ns);
        if kind & 4 != 0 {
            managing.publish(NmtCommandId(*time));
        }
        if kind & 8 != 0 {
            let data = rest.get(..usize::from(*time)).unwrap_or_default();
            controlled.request_with(NodeId(*time), NmtCommandId(*kind ^ *time), data);
        }
        if kind & 16 != 0 {
            let startup = u32::from(*time) << 8 | u32::from(*kind);
            managing
                .set_object(profile::STARTUP, &startup.to_le_bytes())
                .expect("all values are valid");
            managing.allow();
        }
        if kind & 0xe0 == 0xe0 {
            managing.reset(now_ns);
        }
        if kind & 0xe0 == 0xa0 {
            access(&mut managing, now_ns, *time);
        }
        let frame = match kind % 4 {
            // Time passes.
            0 => None,
            // A frame of the other node arrives, or is lost.
            1 => wire.pop(),
            2 => {
                wire.clear();
                None
            }
            // An arbitrary frame arrives.
            _ => {
                let len = rest.first().map_or(0, |len| usize::from(*len)).min(rest.len());
                let (message, behind) = rest.split_at(len);
                rest = behind;
                let source = message.get(2).copied().unwrap_or(9);
                Some([&[255; 6][..], &[2, 0, 0, 0, 0, source], &[0x88, 0xab], message].concat())
            }
        };
        if let Some(frame) = frame {
            managing.handle_frame(now_ns, &frame);
            controlled.handle_frame(now_ns, &frame);
            let from = SocketAddrV4::new([192, 168, 100, 50].into(), u16::from(*time % 16));
            managing.handle_datagram(now_ns, from, &frame[14..]);
            controlled.handle_datagram(now_ns, from, &frame[14..]);
        }
        let keeps = match controlled.poll_store() {
            Some(StoreCommand::Write(octets)) => {
                let mut other = network.controlled(NodeId(1), CN).expect("the node id is valid");
                other.set_store(Some(octets)).expect("a node accepts the parameters that it stored");
                true
            }
            Some(StoreCommand::Clear) => true,
            None => false,
        };
        if keeps || kind & 32 != 0 {
            controlled.handle_stored(now_ns, kind & 64 == 0);
        }
        sent(&mut managing, NodeId::MN, MN, &mut wire);
        sent(&mut controlled, NodeId(1), CN, &mut wire);
        while let Some((_, datagram)) =
            managing.poll_datagram().or_else(|| controlled.poll_datagram())
        {
            assert!(parse_datagram(&datagram).is_some());
        }
        wire.truncate(64);
        while managing.poll_event().is_some() {}
        while managing.poll_completed().is_some() {}
        while controlled.poll_event().is_some() {}
    }
});

//! Common parts of the tests: the captures of a real network, and nodes like the one in them.

pub(crate) mod cable;

use onbeat_powerlink::cn::{Config, ControlledNode};
use onbeat_powerlink::od::profile::{self, Identity};
use onbeat_powerlink::od::{Access, Object, PdoMapping, id};
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{Message, NodeId};

/// A frame of a capture.
pub(crate) struct CapturedFrame {
    /// Its number, from 1, as tshark counts.
    pub(crate) number: usize,
    /// Its time since the first one.
    pub(crate) time_ns: u64,
    /// From the destination address on, without FCS.
    pub(crate) frame: Vec<u8>,
}

/// The frames of `vectors/powerlink/NAME.pcap`.
pub(crate) fn capture(name: &str) -> Vec<CapturedFrame> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/powerlink");
    let path = format!("{folder}/{name}.pcap");
    let octets = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let number = |at: usize| u32::from_le_bytes(octets[at..at + 4].try_into().unwrap());
    assert_eq!(number(0), 0xa1b2_3c4d, "{path} has time stamps in nanoseconds");
    let (mut at, mut frames, mut start_ns) = (24, Vec::new(), None);
    while at < octets.len() {
        let time_ns = u64::from(number(at)) * 1_000_000_000 + u64::from(number(at + 4));
        let start_ns = *start_ns.get_or_insert(time_ns);
        let len = number(at + 8) as usize;
        let frame = octets[at + 16..at + 16 + len].to_vec();
        frames.push(CapturedFrame { number: frames.len() + 1, time_ns: time_ns - start_ns, frame });
        at += 16 + len;
    }
    frames
}

/// The message of a frame that has one.
pub(crate) fn message(frame: &[u8]) -> Message<'_> {
    Message::parse(&frame[14..]).unwrap()
}

/// A frame without the padding that a NIC adds: the recorded stack leaves padding to the NIC.
pub(crate) fn unpadded(frame: &[u8]) -> &[u8] {
    let len = 14 + message(frame).buffer_len();
    assert!(frame[len..].iter().all(|octet| *octet == 0));
    &frame[..len]
}

/// Addresses of the network in the captures: of the managing node, and of CN 1.
pub(crate) const MN_MAC: MacAddress = MacAddress([0x02, 0x45, 0x50, 0x4c, 0, 0]);
/// CN 1.
pub(crate) const CN_MAC: MacAddress = MacAddress([0x02, 0x45, 0x50, 0x4c, 0, 1]);

/// A digital input and output, as the node in the captures has them.
pub(crate) const INPUT: onbeat_powerlink::od::ObjectId = id(0x6000, 1);
/// See [`INPUT`].
pub(crate) const OUTPUT: onbeat_powerlink::od::ObjectId = id(0x6200, 1);

/// A node with the identity of CN 1 in the captures.
pub(crate) fn controlled_node(node: u8, mac: MacAddress) -> ControlledNode {
    let identity = Identity {
        device_type: 0x000f_0191,
        vendor_id: 0,
        product_code: 0,
        revision_number: 0x0002_0007,
        serial_number: 0,
        features: 0x0001_0265,
        device_name: b"digital I/O".to_vec(),
        host_name: format!("{node:02}-ffffffff").into_bytes(),
    };
    let mut objects = profile::controlled_node(&identity, 3).unwrap();
    let addresses = [
        (profile::ADDRESS, 0xc0a8_6400 + u64::from(node)),
        (profile::MASK, 0xffff_ff00),
        (profile::GATEWAY, 0xc0a8_64fe),
    ];
    for (object, address) in addresses {
        objects.set_default(object, &(address as u32).to_le_bytes()).unwrap();
    }
    let octet = Object::unsigned(1, Access::ReadWrite, 0);
    objects.add(INPUT, octet.clone().mapped(PdoMapping::Transmit)).unwrap();
    objects.add(OUTPUT, octet.mapped(PdoMapping::Receive)).unwrap();
    ControlledNode::new(Config { node: NodeId(node), mac, objects }).unwrap()
}

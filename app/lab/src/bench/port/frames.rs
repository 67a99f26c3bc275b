//! The two frames of a cycle: POWERLINK's poll request and poll response (EPSG DS 301, 4.6.1.1.3
//! and 4.6.1.1.4), as short as Ethernet allows.

use onbeat_wire::{EtherType, MacAddress};

pub(super) const ETHER_TYPE: EtherType = EtherType(0x88ab);
/// Destination of poll responses: a multicast address for all nodes.
pub(super) const PRES_GROUP: MacAddress = MacAddress([0x01, 0x11, 0x1e, 0, 0, 0x02]);
/// Octets of a frame without FCS.
pub(super) const FRAME_LEN: usize = 60;

const PREQ: u8 = 3;
const PRES: u8 = 4;
const MANAGING_NODE: u8 = 240;
const CONTROLLED_NODE: u8 = 1;
const BROADCAST: u8 = 255;

pub(super) type Frame = [u8; FRAME_LEN];

/// The octets that identify a request: EtherType, message type, destination node, source node.
pub(super) const REQUEST_KEY: std::ops::Range<usize> = 12..17;

/// The same filter as a program of classic BPF, in the syntax of pcap-filter(7).
pub(super) const REQUEST_EXPRESSION: &str =
    "ether proto 0x88ab and ether[14] = 3 and ether[15] = 1 and ether[16] = 240";

pub(super) fn request(mn: MacAddress, cn: MacAddress) -> Frame {
    frame(cn, mn, [PREQ, CONTROLLED_NODE, MANAGING_NODE])
}

pub(super) fn response(cn: MacAddress) -> Frame {
    frame(PRES_GROUP, cn, [PRES, BROADCAST, CONTROLLED_NODE])
}

fn frame(destination: MacAddress, source: MacAddress, nodes: [u8; 3]) -> Frame {
    // A process image with non-zero octets, so that padding is noticed.
    let mut frame: Frame = std::array::from_fn(|octet| octet as u8);
    frame[..6].copy_from_slice(&destination.0);
    frame[6..12].copy_from_slice(&source.0);
    frame[12..14].copy_from_slice(&ETHER_TYPE.0.to_be_bytes());
    frame[14..17].copy_from_slice(&nodes);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_matches_requests_only() {
        let [mn, cn] = [1, 2].map(|last| MacAddress([2, 0, 0, 0, 0, last]));
        let (request, response) = (request(mn, cn), response(cn));
        assert_eq!(request[REQUEST_KEY], [0x88, 0xab, 3, 1, 240]);
        assert_ne!(request[REQUEST_KEY], response[REQUEST_KEY]);
        assert!(MacAddress(response[..6].try_into().unwrap()).is_multicast());
    }
}

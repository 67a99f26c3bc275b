//! The frames of the benches: headers of the source, stream identification, payload of probes.

use std::ops::Range;

use onbeat_frer::spec::{Identification, TagMatch, VlanMatch};
use onbeat_wire::{MacAddress, VlanTag};

use crate::traffic::{self, FrameSpec};

pub(super) const VLAN: u16 = 100;
/// VLAN on the paths, if A changes it.
pub(super) const PATH_VLAN: u16 = 101;
pub(super) const SOURCE: MacAddress = MacAddress([0x02, 0x0b, 0xff, 0, 0, 1]);
pub(super) const ETHERTYPE: u16 = traffic::ETHERTYPE;

/// Maximum number of streams: the last two octets of the address distinguish them.
pub(super) const MAX_STREAMS: u32 = 1 << 16;

/// Destination of the frames of a stream.
pub(super) fn destination(stream: u32) -> MacAddress {
    let [_, _, high, low] = stream.to_be_bytes();
    MacAddress([0x01, 0x00, 0x5e, 0, high, low])
}

/// Null stream identification of a stream in a VLAN.
pub(super) fn identification(stream: u32, vlan: u16) -> Identification {
    Identification::Null {
        destination: destination(stream),
        vlan: VlanMatch { tagged: TagMatch::Tagged, vlan },
    }
}

/// Octets of a header: addresses, VLAN tag, EtherType.
pub(super) const HEADER_LEN: usize = 18;

/// Offset of the stream number in a header, big-endian: see [`destination`].
pub(super) const STREAM: Range<usize> = 4..6;

/// Header of the frames of stream 0.
pub(super) fn header() -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..6].copy_from_slice(&destination(0).0);
    header[6..12].copy_from_slice(&SOURCE.0);
    VlanTag::new(VLAN)
        .emit(&mut header[12..16])
        .expect("the VLAN id is valid, and the buffer is large enough");
    header[16..].copy_from_slice(&ETHERTYPE.to_be_bytes());
    header
}

/// A frame of stream 0.
pub(super) fn spec(size: usize) -> FrameSpec {
    FrameSpec { destination: destination(0), source: SOURCE, vlans: vec![VlanTag::new(VLAN)], size }
}

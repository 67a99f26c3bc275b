//! The frames of the benches: what the source writes, what FRER tells them by, what probes carry.

use onbeat_frer::spec::{Identification, Tagged, VlanMatch};
use onbeat_wire::{MacAddress, VlanTag};

use crate::traffic::{self, FrameSpec};

pub(super) const VLAN: u16 = 100;
pub(super) const SOURCE: MacAddress = MacAddress([0x02, 0x0b, 0xff, 0, 0, 1]);
pub(super) const ETHERTYPE: u16 = traffic::ETHERTYPE;

/// Most streams there can be: the last two octets of the address tell them apart.
pub(super) const MAX_STREAMS: u32 = 1 << 16;

/// Destination of the frames of a stream.
pub(super) fn destination(stream: u32) -> MacAddress {
    let [_, _, high, low] = stream.to_be_bytes();
    MacAddress([0x01, 0x00, 0x5e, 0, high, low])
}

/// Null stream identification of a stream.
pub(super) fn identification(stream: u32) -> Identification {
    Identification::Null {
        destination: destination(stream),
        vlan: VlanMatch { tagged: Tagged::Tagged, vlan: VLAN },
    }
}

/// A frame of stream 0.
pub(super) fn spec(size: usize) -> FrameSpec {
    FrameSpec { destination: destination(0), source: SOURCE, vlans: vec![VlanTag::new(VLAN)], size }
}

//! The position of a frame in its ring slot, including the VLAN tag that the kernel removed.

use libc::{
    TP_STATUS_COPY, TP_STATUS_CSUMNOTREADY, TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID,
    tpacket2_hdr,
};

use onbeat_wire::checksum;

use crate::packet::RingSlots;

/// Octets of a VLAN tag: slots reserve this room before the frame.
pub(super) const TAG: usize = 4;
const ADDRESSES: usize = 12;

/// The position of a frame.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FrameExtent {
    pub(super) start: u32,
    pub(super) len: u32,
    /// All of its octets are present: it was not merged, and fits the slot.
    pub(super) complete: bool,
    /// Its time stamp, in nanoseconds of CLOCK_REALTIME, or of the NIC's clock if the socket requested it.
    pub(super) at_ns: u64,
}

impl FrameExtent {
    /// Returns the position of the frame in a filled slot. Its tag is restored to its former position.
    ///
    /// A checksum that the sender left to hardware is completed: on a virtual link, no hardware follows.
    #[inline]
    pub(super) fn of(places: &RingSlots, index: usize, header: &tpacket2_hdr) -> Self {
        let extent = Self::with_tag(places, index, header);
        if header.tp_status & TP_STATUS_CSUMNOTREADY != 0 && extent.complete {
            // SAFETY: as in `with_tag`.
            let octets = unsafe {
                let start = places.at(index).add(extent.start as usize);
                std::slice::from_raw_parts_mut(start, extent.len as usize)
            };
            checksum::complete(octets);
        }
        extent
    }

    #[inline]
    fn with_tag(places: &RingSlots, index: usize, header: &tpacket2_hdr) -> Self {
        let has = |flag| header.tp_status & flag != 0;
        let (start, len) = places.extent(header, TAG);
        let at_ns = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
        let complete = len == header.tp_len as usize && !has(TP_STATUS_COPY);
        if !has(TP_STATUS_VLAN_VALID) || len < ADDRESSES {
            return Self { start: start as u32, len: len as u32, complete, at_ns };
        }
        let tpid = match has(TP_STATUS_VLAN_TPID_VALID) {
            true => header.tp_vlan_tpid,
            false => libc::ETH_P_8021Q as u16,
        };
        // SAFETY: the octets are in the slot, after the header; the kernel does not touch them until the slot is
        // released, and nothing else refers to them before this returns.
        let octets = unsafe {
            std::slice::from_raw_parts_mut(places.at(index).add(start - TAG), TAG + ADDRESSES)
        };
        octets.copy_within(TAG.., 0);
        octets[ADDRESSES..ADDRESSES + 2].copy_from_slice(&tpid.to_be_bytes());
        octets[ADDRESSES + 2..].copy_from_slice(&header.tp_vlan_tci.to_be_bytes());
        Self { start: (start - TAG) as u32, len: (len + TAG) as u32, complete, at_ns }
    }
}

//! The receive ring of a port: the state of each frame, from inspection to release.

use std::slice;

use libc::{
    TP_STATUS_TS_RAW_HARDWARE, TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID, sockaddr_ll,
    tpacket2_hdr,
};
use onbeat_netdev::PacketSocket;
use onbeat_wire::EtherType;

use super::ring_slots::RingSlots;
use crate::{Stamp, StampSource, VlanTag};

/// Offset of the sender's address in a slot (`TPACKET2_HDRLEN` less its length).
const ADDRESS: usize = size_of::<tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// The owner of a frame's slot, beyond the status shared by the kernel and this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    /// Owned by the kernel, or filled and not inspected.
    Free,
    /// Inspected, and not received yet.
    Inspected { answered: bool },
    /// Received, and not released.
    Held,
}

/// A frame in the ring, as described by its header.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingEntry {
    pub(super) buffer: u32,
    pub(super) stamp: Stamp,
    pub(super) len: usize,
    pub(super) tag: Option<VlanTag>,
    pub(super) answered: bool,
}

/// The ring. A frame is *inspected* on arrival, so that a response does not wait for the stack, and *received* when
/// the stack requests it.
#[derive(Debug)]
pub(super) struct Ring {
    places: RingSlots,
    states: Vec<SlotState>,
    /// The next slot to inspect.
    look: usize,
    /// The next slot to receive from.
    next: usize,
    waiting: usize,
}

impl Ring {
    /// Creates a ring of at least `frames` slots for frames of up to `max_frame` octets each.
    pub(super) fn new(
        socket: &PacketSocket,
        frames: usize,
        max_frame: usize,
    ) -> std::io::Result<Self> {
        let places = RingSlots::new(socket, frames, max_frame, 0)?;
        let states = vec![SlotState::Free; places.count()];
        Ok(Self { places, states, look: 0, next: 0, waiting: 0 })
    }

    /// Returns true if a frame can be received.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Returns the slot of the next frame that is not inspected.
    pub(super) fn arrived(&self) -> Option<u32> {
        // A slot that is not free was not released yet: the ring is full.
        let new = self.states[self.look] == SlotState::Free && self.places.is_filled(self.look);
        new.then_some(self.look as u32)
    }

    /// Returns true if the kernel module answered the frame of [`Ring::arrived`].
    pub(super) fn answered_by_module(&self, buffer: u32) -> bool {
        // SAFETY: after the header, at the next 16 octets, a slot holds the address of the frame's sender; any
        // octets are valid.
        let address =
            unsafe { self.places.at(buffer as usize).add(ADDRESS).cast::<sockaddr_ll>().read() };
        address.sll_pkttype == crate::module::abi::ANSWERED
    }

    /// Moves the outer VLAN tag of the frame of [`Ring::arrived`] out of its octets, where the kernel module had to
    /// leave it, to where the kernel puts it otherwise.
    pub(super) fn extract_tag(&mut self, buffer: u32) {
        const ADDRESSES: usize = 12;
        const TAG: usize = 4;
        let octets = self.octets(buffer);
        let Some(&[a, b, c, d]) = octets.get(ADDRESSES..).and_then(<[u8]>::first_chunk) else {
            return;
        };
        let tpid = EtherType(u16::from_be_bytes([a, b]));
        if tpid != EtherType::C_VLAN && tpid != EtherType::S_VLAN {
            return;
        }
        let mut header = self.places.header(buffer as usize);
        let start = usize::from(header.tp_mac);
        header.tp_mac += TAG as u16;
        header.tp_snaplen -= TAG as u32;
        header.tp_len -= TAG as u32;
        header.tp_vlan_tpid = tpid.0;
        header.tp_vlan_tci = u16::from_be_bytes([c, d]);
        header.tp_status |= TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID;
        let place = self.places.at(buffer as usize);
        // SAFETY: the octets from `start` on, those of both addresses and the tag, were just read through `octets`;
        // the slot belongs to this process until it is released, and the ring is borrowed mutably. The header is
        // before them.
        unsafe {
            let frame = place.add(start);
            frame.copy_to(frame.add(TAG), ADDRESSES);
            place.cast::<tpacket2_hdr>().write(header);
        }
    }

    /// Marks the frame of [`Ring::arrived`] as inspected.
    pub(super) fn mark_inspected(&mut self, answered: bool) {
        self.states[self.look] = SlotState::Inspected { answered };
        self.look = (self.look + 1) % self.states.len();
        self.waiting += 1;
    }

    /// Returns the oldest frame that is inspected and not received.
    pub(super) fn receive(&mut self) -> Option<RingEntry> {
        let SlotState::Inspected { answered } = self.states[self.next] else { return None };
        let index = self.next;
        self.states[index] = SlotState::Held;
        self.next = (index + 1) % self.states.len();
        self.waiting -= 1;
        let header = self.places.header(index);
        let source = match header.tp_status & TP_STATUS_TS_RAW_HARDWARE {
            0 => StampSource::Software,
            _ => StampSource::Hardware,
        };
        let ns = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
        let has = |flag| header.tp_status & flag != 0;
        let tag = has(TP_STATUS_VLAN_VALID).then(|| VlanTag {
            tpid: match has(TP_STATUS_VLAN_TPID_VALID) {
                true => EtherType(header.tp_vlan_tpid),
                false => EtherType::C_VLAN,
            },
            tci: header.tp_vlan_tci,
        });
        let len = header.tp_len as usize;
        Some(RingEntry { buffer: index as u32, stamp: Stamp { ns, source }, len, tag, answered })
    }

    /// Returns the frame in a slot from [`Ring::arrived`] or [`Ring::receive`].
    pub(super) fn octets(&self, buffer: u32) -> &[u8] {
        let header = self.places.header(buffer as usize);
        let (start, len) = self.places.extent(&header, 0);
        // SAFETY: the octets are in the slot, which the kernel does not touch until its status permits; only
        // `release` changes it, and borrows the ring mutably.
        unsafe { slice::from_raw_parts(self.places.at(buffer as usize).add(start), len) }
    }

    /// Releases the slot to the kernel.
    pub(super) fn release(&mut self, buffer: u32) {
        let index = buffer as usize;
        assert_eq!(self.states[index], SlotState::Held, "a frame is released once");
        self.states[index] = SlotState::Free;
        self.places.release(index);
    }
}

//! The receive ring of a port: which frames were looked at, received, given back.

use std::slice;

use libc::{
    TP_STATUS_TS_RAW_HARDWARE, TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID, sockaddr_ll,
    tpacket2_hdr,
};
use onbeat_netdev::PacketSocket;
use onbeat_wire::EtherType;

use super::ring_slots::RingSlots;
use crate::{Stamp, StampSource, VlanTag};

/// Where the address of a frame's sender stands in its place (`TPACKET2_HDRLEN` less its length).
const ADDRESS: usize = size_of::<tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// Whose a frame's place is, beyond what the kernel and this process agree on in its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    /// The kernel's, or filled and not looked at.
    Free,
    /// Looked at, and waiting to be received.
    Inspected { answered: bool },
    /// Received, and not given back.
    Held,
}

/// A frame in the ring, as its header tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingEntry {
    pub(super) buffer: u32,
    pub(super) stamp: Stamp,
    pub(super) len: usize,
    pub(super) tag: Option<VlanTag>,
    pub(super) answered: bool,
}

/// The ring. Frames go two steps: they are *looked at* when they come, so that a response does
/// not wait for the stack, and *received* when the stack asks.
#[derive(Debug)]
pub(super) struct Ring {
    places: RingSlots,
    states: Vec<SlotState>,
    /// The next place to look at.
    look: usize,
    /// The next place to receive from.
    next: usize,
    waiting: usize,
}

impl Ring {
    /// A ring of at least `frames` places for frames of up to `max_frame` octets, each of them.
    pub(super) fn new(
        socket: &PacketSocket,
        frames: usize,
        max_frame: usize,
    ) -> std::io::Result<Self> {
        let places = RingSlots::new(socket, frames, max_frame, 0)?;
        let states = vec![SlotState::Free; places.count()];
        Ok(Self { places, states, look: 0, next: 0, waiting: 0 })
    }

    /// Whether a frame is waiting to be received.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// A frame that came and was not looked at: its place.
    pub(super) fn arrived(&self) -> Option<u32> {
        // A place that is not free was not given back yet: the ring is full.
        let new = self.states[self.look] == SlotState::Free && self.places.is_filled(self.look);
        new.then_some(self.look as u32)
    }

    /// As [`Ring::arrived`] told: whether the kernel module answered the frame.
    pub(super) fn answered_by_module(&self, buffer: u32) -> bool {
        // SAFETY: behind the header, at the next 16 octets, a place holds the address of the
        // frame's sender; any octets are one.
        let address =
            unsafe { self.places.at(buffer as usize).add(ADDRESS).cast::<sockaddr_ll>().read() };
        address.sll_pkttype == crate::module::abi::ANSWERED
    }

    /// As [`Ring::arrived`] told: takes the outer VLAN tag out of the frame's octets, where the
    /// kernel module had to leave it, to where the kernel puts it else.
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
        // SAFETY: the octets from `start` on, as many as both addresses and the tag, were just
        // read through `octets`; the place is this process's until it is released, and the ring
        // is held mutably. The header lies in front of them.
        unsafe {
            let frame = place.add(start);
            frame.copy_to(frame.add(TAG), ADDRESSES);
            place.cast::<tpacket2_hdr>().write(header);
        }
    }

    /// Notes that the frame that [`Ring::arrived`] told of was looked at.
    pub(super) fn mark_inspected(&mut self, answered: bool) {
        self.states[self.look] = SlotState::Inspected { answered };
        self.look = (self.look + 1) % self.states.len();
        self.waiting += 1;
    }

    /// The oldest frame that was looked at and not received.
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

    /// The frame at a place that [`Ring::arrived`] or [`Ring::receive`] told.
    pub(super) fn octets(&self, buffer: u32) -> &[u8] {
        let header = self.places.header(buffer as usize);
        let (start, len) = self.places.extent(&header, 0);
        // SAFETY: the octets lie in the place, which the kernel does not touch until its status
        // says so; `release` says so, and takes the ring mutably.
        unsafe { slice::from_raw_parts(self.places.at(buffer as usize).add(start), len) }
    }

    /// Gives the place back to the kernel.
    pub(super) fn release(&mut self, buffer: u32) {
        let index = buffer as usize;
        assert_eq!(self.states[index], SlotState::Held, "a frame is given back once");
        self.states[index] = SlotState::Free;
        self.places.release(index);
    }
}

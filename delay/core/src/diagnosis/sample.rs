//! The sample of packets of one side of a hop for a diagnosis: a bounded number, whatever the size of the capture.

use super::stamps::StampQuality;
use crate::capture::{LinkType, Packet};

/// Packets kept from the start of a capture, and again from the start of the other one.
const ROOM: usize = 4096;
/// Packets kept after each backward step, and the maximum number of such steps.
const ROOM_AFTER_STEP: usize = 1024;
const STEPS: usize = 16;
/// Number of packets of one time stamp that no running clock produces.
const CONSTANT: u64 = 16;
/// Octets kept of a packet.
const PREFIX: usize = 192;

/// The start of a packet, and its metadata.
#[derive(Debug, Clone)]
pub(crate) struct SampledPacket {
    pub(crate) time_ns: i64,
    /// Backward steps of the capture's clock before it.
    pub(crate) backward: usize,
    link: LinkType,
    wire_len: u32,
    octets: Box<[u8]>,
}

impl SampledPacket {
    /// Returns the packet as captures hold it, truncated to the kept octets.
    pub(crate) fn packet(&self) -> Packet<'_> {
        Packet {
            number: 0,
            time_ns: self.time_ns,
            interface: 0,
            interface_name: None,
            direction: None,
            link: self.link,
            wire_len: self.wire_len,
            octets: &self.octets,
        }
    }

    /// Returns true if both are the same frame, as far as both were captured.
    pub(crate) fn is_same_frame(&self, other: &Self) -> bool {
        (self.link, self.wire_len) == (other.link, other.wire_len)
            && self.octets.iter().zip(&other.octets).all(|(one, other)| one == other)
    }
}

/// A sample of one side: all packets are counted, some are kept.
#[derive(Debug, Clone)]
pub struct Sample {
    packets: Vec<SampledPacket>,
    room: usize,
    steps_left: usize,
    backward: usize,
    other_start_ns: Option<i64>,
    count: u64,
    times_ns: Option<(i64, i64)>,
    quality: StampQuality,
}

impl Default for Sample {
    fn default() -> Self {
        Sample {
            packets: Vec::new(),
            room: ROOM,
            steps_left: STEPS,
            backward: 0,
            other_start_ns: None,
            count: 0,
            times_ns: None,
            quality: StampQuality::default(),
        }
    }
}

impl Sample {
    /// Adds the next packet of the side; `backward`: its capture went back in time there.
    #[inline]
    pub(crate) fn observe(&mut self, packet: &Packet<'_>, backward: bool) {
        self.count += 1;
        let time_ns = packet.time_ns;
        let (first, last) = self.times_ns.unwrap_or((time_ns, time_ns));
        self.times_ns = Some((first.min(time_ns), last.max(time_ns)));
        self.quality.observe(packet);
        if backward || self.room > 0 || self.other_start_ns.is_some() {
            self.keep(packet, backward);
        }
    }

    /// Keeps the packet if there is room.
    #[cold]
    fn keep(&mut self, packet: &Packet<'_>, backward: bool) {
        let time_ns = packet.time_ns;
        if backward {
            self.backward += 1;
            if self.steps_left > 0 {
                self.steps_left -= 1;
                self.room = self.room.max(ROOM_AFTER_STEP);
            }
        }
        if self.room == 0 {
            if self.other_start_ns.is_none_or(|start_ns| time_ns < start_ns) {
                return;
            }
            self.other_start_ns = None;
            self.room = ROOM;
        }
        self.room -= 1;
        self.packets.push(SampledPacket {
            time_ns,
            backward: self.backward,
            link: packet.link,
            wire_len: packet.wire_len,
            octets: packet.octets[..packet.octets.len().min(PREFIX)].into(),
        });
    }

    /// Makes room in a full sample for further packets where the other side starts.
    pub(crate) fn expect_other(&mut self, start_ns: i64) {
        self.other_start_ns = Some(start_ns);
    }

    pub(crate) fn packets(&self) -> &[SampledPacket] {
        &self.packets
    }

    /// The number of packets of this side.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The earliest and the latest time stamp, in nanoseconds.
    pub fn times_ns(&self) -> Option<(i64, i64)> {
        self.times_ns
    }

    /// The quality of the time stamps.
    pub fn quality(&self) -> &StampQuality {
        &self.quality
    }

    /// Returns true if all time stamps are the same.
    pub(crate) fn is_constant(&self) -> bool {
        self.count >= CONSTANT && self.times_ns.is_some_and(|(first, last)| first == last)
    }
}

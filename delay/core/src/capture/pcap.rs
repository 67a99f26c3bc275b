//! pcap, the format of libpcap (draft-ietf-opsawg-pcap).
//!
//! ```text
//! file:    magic, version 2.4, two reserved, snap length, link type | record | record ...
//! record:  seconds, fraction, octets captured, octets on the wire | packet
//! ```

use std::io::Read;

use super::buffer::Buffer;
use super::error::Damage;
use super::octets::u32_at;
use super::{CaptureError, LinkType, MAX_PACKET, Record};

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const KUZNETZOV: u32 = 0xa1b2_cd34;

/// The bit of the link type that indicates that the number of FCS octets is given, in the four bits above.
const FCS_KNOWN: u32 = 1 << 26;

pub(super) struct Decoder {
    big_endian: bool,
    /// Nanoseconds per unit of the fraction.
    unit_ns: u32,
    link: LinkType,
    fcs_len: u32,
    packets: u64,
}

impl Decoder {
    pub(super) fn new<R: Read>(
        magic: [u8; 4],
        buffer: &mut Buffer<R>,
    ) -> Result<Self, CaptureError> {
        let known = |number| [MICROSECONDS, NANOSECONDS, KUZNETZOV].contains(&number);
        let (little, big) = (u32::from_le_bytes(magic), u32::from_be_bytes(magic));
        let (big_endian, kind) = match (known(little), known(big)) {
            (true, _) => (false, little),
            (_, true) => (true, big),
            _ => return Err(CaptureError::NotACapture(Some(magic))),
        };
        if kind == KUZNETZOV {
            return Err(CaptureError::Kuznetzov);
        }
        let header = buffer.peek(FILE_HEADER)?.ok_or(CaptureError::NotACapture(None))?;
        let version = u32_at(header, 4, big_endian);
        let (major, minor) = match big_endian {
            true => ((version >> 16) as u16, version as u16),
            false => (version as u16, (version >> 16) as u16),
        };
        if (major, minor) != (2, 4) {
            return Err(CaptureError::Version(major, minor));
        }
        let link = u32_at(header, 20, big_endian);
        buffer.take(FILE_HEADER);
        Ok(Decoder {
            big_endian,
            unit_ns: if kind == NANOSECONDS { 1 } else { 1000 },
            link: LinkType(link as u16),
            fcs_len: if link & FCS_KNOWN == 0 { 0 } else { (link >> 28) * 2 },
            packets: 0,
        })
    }

    /// The unit of time stamps, in nanoseconds.
    pub(super) fn unit_ns(&self) -> u32 {
        self.unit_ns
    }

    #[inline]
    pub(super) fn next<R: Read>(
        &mut self,
        buffer: &mut Buffer<R>,
    ) -> Result<Option<Record>, CaptureError> {
        let position = buffer.position();
        let Some(header) = buffer.need(RECORD_HEADER)? else { return Ok(None) };
        let field = |at| u32_at(header, at, self.big_endian);
        let (seconds, fraction, captured, wire) = (field(0), field(4), field(8), field(12));
        let damaged = |what| CaptureError::Damaged { number: self.packets + 1, position, what };
        if captured > MAX_PACKET {
            return Err(damaged(Damage::Length(captured)));
        }
        if fraction >= 1_000_000_000 / self.unit_ns {
            return Err(damaged(Damage::Fraction(fraction)));
        }
        let len = RECORD_HEADER + captured as usize;
        if buffer.need(len)?.is_none() {
            return Ok(None);
        }
        buffer.take(len);
        self.packets += 1;
        let wire_len = wire.max(captured).saturating_sub(self.fcs_len);
        Ok(Some(Record {
            time_ns: i64::from(seconds) * 1_000_000_000 + i64::from(fraction * self.unit_ns),
            interface: 0,
            direction: None,
            link: self.link,
            wire_len,
            start: captured as usize,
            len: captured.min(wire_len) as usize,
        }))
    }
}

//! pcapng (draft-ietf-opsawg-pcapng): sections of blocks.
//!
//! ```text
//! block:   type, length | body | length
//! ```
//!
//! Section headers, interface descriptions and enhanced packets are decoded; any other block is skipped, and
//! counted if it holds a packet.

use std::io::Read;

use super::blocks::{
    BYTE_ORDER, ENHANCED_PACKET, INTERFACE, INTERFACE_STATISTICS, OBSOLETE_PACKET, SECTION,
    SIMPLE_PACKET, option,
};
use super::buffer::Buffer;
use super::error::{Damage, MAX_INTERFACES, MAX_NAME};
use super::octets::u32_at;
use super::{CaptureError, Direction, LinkType, MAX_PACKET, Record};

/// Type, length, and the length again after the body.
const FRAME_LEN: usize = 12;
/// Maximum length of a block, including skipped ones: packets have a limit of their own.
const MAX_BLOCK: u32 = 64 << 20;

struct Interface {
    link: LinkType,
    name: Option<String>,
    units: Units,
    offset_s: i64,
    fcs_len: u32,
}

/// The unit of time stamps.
#[derive(Clone, Copy)]
enum Units {
    /// A number of nanoseconds.
    Nanoseconds(u32),
    /// A fraction of a second; the number exceeds a thousand million.
    PerSecond(u64),
}

pub(super) struct Decoder {
    big_endian: bool,
    interfaces: Vec<Interface>,
    packets: u64,
    without_time: u64,
    dropped: u64,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Decoder {
            big_endian: false,
            interfaces: Vec::new(),
            packets: 0,
            without_time: 0,
            dropped: 0,
        }
    }

    pub(super) fn without_time(&self) -> u64 {
        self.without_time
    }

    /// Packets that the capture dropped, by the statistics in the file.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The largest unit of time stamps of the interfaces, in nanoseconds.
    pub(super) fn unit_ns(&self) -> u32 {
        let unit_ns = |interface: &Interface| match interface.units {
            Units::Nanoseconds(ns) => ns,
            Units::PerSecond(_) => 1,
        };
        self.interfaces.iter().map(unit_ns).max().unwrap_or(1)
    }

    pub(super) fn interfaces(&self) -> u32 {
        self.interfaces.len() as u32
    }

    #[inline]
    pub(super) fn interface_name(&self, interface: u32) -> Option<&str> {
        self.interfaces.get(interface as usize)?.name.as_deref()
    }

    pub(super) fn next<R: Read>(
        &mut self,
        buffer: &mut Buffer<R>,
    ) -> Result<Option<Record>, CaptureError> {
        loop {
            let position = buffer.position();
            let number = self.packets + 1;
            let damaged = |what| CaptureError::Damaged { number, position, what };
            let Some(header) = buffer.need(8)? else { return Ok(None) };
            let mut kind = u32_at(header, 0, self.big_endian);
            if kind == SECTION {
                // The byte order follows the length to which it applies.
                let Some(header) = buffer.need(FRAME_LEN)? else { return Ok(None) };
                self.big_endian = match u32_at(header, 8, false) {
                    BYTE_ORDER => false,
                    other if other.swap_bytes() == BYTE_ORDER => true,
                    other => return Err(damaged(Damage::ByteOrder(other))),
                };
                self.interfaces.clear();
                kind = SECTION;
            }
            let Some(header) = buffer.need(8)? else { return Ok(None) };
            let len = u32_at(header, 4, self.big_endian);
            if len % 4 != 0 || len < FRAME_LEN as u32 || len > MAX_BLOCK {
                return Err(damaged(Damage::Block { kind, len }));
            }
            let Some(block) = buffer.need(len as usize)? else { return Ok(None) };
            let end = u32_at(block, len as usize - 4, self.big_endian);
            if end != len {
                return Err(damaged(Damage::BlockEnd(len, end)));
            }
            let body = &block[8..len as usize - 4];
            let record = match kind {
                INTERFACE => {
                    let interface = interface(body, self.big_endian)
                        .ok_or_else(|| damaged(Damage::Block { kind, len }))?
                        .map_err(damaged)?;
                    if self.interfaces.len() == MAX_INTERFACES {
                        return Err(damaged(Damage::Interfaces));
                    }
                    self.interfaces.push(interface);
                    None
                }
                ENHANCED_PACKET => Some(self.packet(body).map_err(damaged)?),
                OBSOLETE_PACKET | SIMPLE_PACKET => {
                    self.without_time += 1;
                    None
                }
                INTERFACE_STATISTICS => {
                    self.dropped = self.dropped.saturating_add(dropped(body, self.big_endian));
                    None
                }
                _ => None,
            };
            buffer.take(len as usize);
            if let Some(mut record) = record {
                self.packets += 1;
                // From the end of the block, the present position of the buffer.
                record.start = len as usize - 8 - record.start;
                return Ok(Some(record));
            }
        }
    }

    /// Decodes an enhanced packet; `start` counts from the start of the body.
    fn packet(&self, body: &[u8]) -> Result<Record, Damage> {
        const FIXED: usize = 20;
        let len = body.len() as u32 + FRAME_LEN as u32;
        if body.len() < FIXED {
            return Err(Damage::Block { kind: ENHANCED_PACKET, len });
        }
        let field = |at| u32_at(body, at, self.big_endian);
        let (id, captured, wire) = (field(0), field(12), field(16));
        let interface = self.interfaces.get(id as usize).ok_or(Damage::Interface(id))?;
        if captured > MAX_PACKET {
            return Err(Damage::Length(captured));
        }
        let padded = (captured as usize).next_multiple_of(4);
        let options =
            body.get(FIXED + padded..).ok_or(Damage::Block { kind: ENHANCED_PACKET, len })?;
        let flags = Options { octets: options, big_endian: self.big_endian }
            .find(|(code, value)| *code == option::EPB_FLAGS && value.len() == 4)
            .map_or(0, |(_, value)| u32_at(value, 0, self.big_endian));
        let wire_len = wire.max(captured).saturating_sub(interface.fcs_len);
        let units = u64::from(field(4)) << 32 | u64::from(field(8));
        Ok(Record {
            time_ns: nanoseconds(units, interface).ok_or(Damage::Time)?,
            interface: id,
            direction: match flags & 3 {
                1 => Some(Direction::Inbound),
                2 => Some(Direction::Outbound),
                _ => None,
            },
            link: interface.link,
            wire_len,
            start: FIXED,
            len: captured.min(wire_len) as usize,
        })
    }
}

/// Decodes an interface description; `None` if it is cut off.
fn interface(body: &[u8], big_endian: bool) -> Option<Result<Interface, Damage>> {
    let link = u32_at(body.get(..8)?, 0, big_endian);
    let link = if big_endian { (link >> 16) as u16 } else { link as u16 };
    let mut interface = Interface {
        link: LinkType(link),
        name: None,
        units: Units::Nanoseconds(1000),
        offset_s: 0,
        fcs_len: 0,
    };
    for (code, value) in (Options { octets: &body[8..], big_endian }) {
        match (code, value) {
            (option::IF_NAME, name) if name.len() > MAX_NAME => {
                return Some(Err(Damage::Name(name.len())));
            }
            (option::IF_NAME, name) => {
                interface.name = Some(String::from_utf8_lossy(name).into_owned());
            }
            (option::IF_TSRESOL, [resolution, ..]) => match units(*resolution) {
                Some(units) => interface.units = units,
                None => return Some(Err(Damage::Resolution(*resolution))),
            },
            (option::IF_FCSLEN, [len, ..]) => interface.fcs_len = u32::from(*len),
            (option::IF_TSOFFSET, value) => {
                let octets: [u8; 8] = value.try_into().unwrap_or_default();
                interface.offset_s = match big_endian {
                    true => i64::from_be_bytes(octets),
                    false => i64::from_le_bytes(octets),
                };
            }
            _ => {}
        }
    }
    Some(Ok(interface))
}

/// Decodes the numbers of packets that the interface and the operating system dropped.
fn dropped(body: &[u8], big_endian: bool) -> u64 {
    const FIXED: usize = 12;
    let options = Options { octets: body.get(FIXED..).unwrap_or_default(), big_endian };
    let drops = options.filter(|(code, _)| [option::ISB_IFDROP, option::ISB_OSDROP].contains(code));
    drops.fold(0, |sum, (_, value)| {
        let octets: [u8; 8] = value.try_into().unwrap_or_default();
        let number =
            if big_endian { u64::from_be_bytes(octets) } else { u64::from_le_bytes(octets) };
        number.saturating_add(sum)
    })
}

/// Decodes if_tsresol: a power of ten, or with the upper bit set of two.
fn units(resolution: u8) -> Option<Units> {
    match resolution {
        exponent @ 0..=9 => Some(Units::Nanoseconds(10_u32.pow(9 - u32::from(exponent)))),
        exponent @ 10..=19 => Some(Units::PerSecond(10_u64.pow(exponent.into()))),
        binary @ 0x80..=0xbf => Some(Units::PerSecond(1 << (binary & 0x7f))),
        _ => None,
    }
}

fn nanoseconds(units: u64, interface: &Interface) -> Option<i64> {
    let since_epoch = match interface.units {
        Units::Nanoseconds(ns) => i64::try_from(units).ok()?.checked_mul(ns.into())?,
        Units::PerSecond(per_second) => {
            let ns = u128::from(units) * 1_000_000_000 / u128::from(per_second);
            i64::try_from(ns).ok()?
        }
    };
    interface.offset_s.checked_mul(1_000_000_000)?.checked_add(since_epoch)
}

/// The options at the end of a block; a truncated one ends the iteration.
struct Options<'a> {
    octets: &'a [u8],
    big_endian: bool,
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[a, b, c, d], rest) = self.octets.split_first_chunk()?;
        let number = |pair| match self.big_endian {
            true => u16::from_be_bytes(pair),
            false => u16::from_le_bytes(pair),
        };
        let (code, len) = (number([a, b]), usize::from(number([c, d])));
        if code == option::END {
            return None;
        }
        let value = rest.get(..len)?;
        self.octets = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    }
}

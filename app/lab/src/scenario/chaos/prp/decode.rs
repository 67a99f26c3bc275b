//! Decodes captured frames for the judge, independent of the data planes.

use onbeat_wire::MacAddress;

use super::judge::{Lan, Trailer};
use crate::traffic::ETHERTYPE;

/// Content of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A frame of a station: stream and number.
    Station {
        /// Its stream.
        stream: u32,
        /// Its number.
        sequence: u64,
    },
    /// A frame of the redundancy protocol itself.
    Supervision,
    /// Another frame.
    Foreign,
}

/// A decoded frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodedFrame {
    /// Source address.
    pub source: MacAddress,
    /// Its content.
    pub content: Content,
    /// The trailer at its end.
    pub trailer: Option<Trailer>,
    /// It ends with the suffix of a trailer, whose other fields are not valid.
    pub has_bad_trailer: bool,
}

const VLAN: u16 = 0x8100;
const PRP: u16 = 0x88fb;
const MAGIC: &[u8] = b"onbt";
const TRAILER_LEN: usize = 6;

/// Decodes a frame; `None`: it has no complete header.
pub(super) fn decode(octets: &[u8]) -> Option<DecodedFrame> {
    let word = |at: usize| Some(u16::from_be_bytes([*octets.get(at)?, *octets.get(at + 1)?]));
    let source = MacAddress(octets.get(6..12)?.try_into().ok()?);
    let mut at = 12;
    if word(at)? == VLAN {
        at += 4;
    }
    let ethertype = word(at)?;
    let payload = octets.get(at + 2..)?;
    let content = match ethertype {
        PRP => Content::Supervision,
        ETHERTYPE => station(payload).unwrap_or(Content::Foreign),
        _ => Content::Foreign,
    };
    let (mut trailer, mut has_bad_trailer) = (None, false);
    if let Some(tail) = payload.last_chunk::<TRAILER_LEN>() {
        let [s0, s1, lan_and_size, size, suffix0, suffix1] = *tail;
        if u16::from_be_bytes([suffix0, suffix1]) == PRP {
            let lan = match lan_and_size >> 4 {
                0xa => Some(Lan::A),
                0xb => Some(Lan::B),
                _ => None,
            };
            let size = usize::from(lan_and_size & 0xf) << 8 | usize::from(size);
            trailer = lan
                .filter(|_| size == payload.len())
                .map(|lan| Trailer { number: u16::from_be_bytes([s0, s1]), lan });
            has_bad_trailer = trailer.is_none();
        }
    }
    Some(DecodedFrame { source, content, trailer, has_bad_trailer })
}

fn station(payload: &[u8]) -> Option<Content> {
    if payload.get(..4)? != MAGIC {
        return None;
    }
    let stream = u32::from_be_bytes(payload.get(4..8)?.try_into().ok()?);
    let sequence = u64::from_be_bytes(payload.get(8..16)?.try_into().ok()?);
    Some(Content::Station { stream, sequence })
}

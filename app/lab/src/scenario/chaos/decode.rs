//! Decodes captured frames for the checker, independent of the data planes.

use onbeat_wire::MacAddress;

use crate::traffic::{ETHERTYPE, Stamp, StampError};

/// A captured frame of a talker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TalkerFrame {
    /// Number of its stream, as its talker wrote it.
    pub stream: u32,
    /// Number of the frame at its talker.
    pub sequence: u64,
    /// The number in its R-TAG.
    pub number: Option<u16>,
    /// Destination address.
    pub destination: MacAddress,
    /// Id of its VLAN tag.
    pub vlan: Option<u16>,
}

/// Result of decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecodeResult {
    /// A complete frame of a talker.
    TalkerFrame(TalkerFrame),
    /// A frame of a talker that was corrupted or truncated after its headers.
    Corrupted,
    /// A foreign frame.
    Foreign,
}

const VLAN: u16 = 0x8100;
const R_TAG: u16 = 0xf1c1;
const IPV4: u16 = 0x0800;
const UDP: u8 = 17;

/// Decodes a frame; `octets` is the whole frame.
pub(super) fn decode(octets: &[u8]) -> DecodeResult {
    walk(octets).unwrap_or(DecodeResult::Foreign)
}

fn walk(octets: &[u8]) -> Option<DecodeResult> {
    let word = |at: usize| Some(u16::from_be_bytes([*octets.get(at)?, *octets.get(at + 1)?]));
    let destination = MacAddress(octets.get(..6)?.try_into().ok()?);
    let (mut vlan, mut number, mut at) = (None, None, 12);
    if word(at)? == VLAN {
        vlan = Some(word(at + 2)? & 0x0fff);
        at += 4;
    }
    if word(at)? == R_TAG {
        number = Some(word(at + 4)?);
        at += 6;
    }
    let payload = match word(at)? {
        ETHERTYPE => octets.get(at + 2..)?,
        IPV4 => {
            let header = 4 * usize::from(octets.get(at + 2)? & 0xf);
            let datagram = at + 2 + header;
            if *octets.get(at + 2 + 9)? != UDP {
                return None;
            }
            let len = usize::from(word(datagram + 4)?);
            octets.get(datagram + 8..datagram + len)?
        }
        _ => return None,
    };
    Some(match Stamp::parse(payload) {
        Ok(Stamp { stream, sequence, .. }) => {
            DecodeResult::TalkerFrame(TalkerFrame { stream, sequence, number, destination, vlan })
        }
        Err(StampError::Corrupted) => DecodeResult::Corrupted,
        Err(StampError::Foreign) => DecodeResult::Foreign,
    })
}

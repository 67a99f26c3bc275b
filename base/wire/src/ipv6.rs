//! IPv6 (RFC 8200) and its extension headers.

use core::fmt;
use core::net::Ipv6Addr;

use crate::bytes::{be16, room, split};
use crate::{EmitError, Protocol, TruncationError};

mod field {
    use core::ops::Range;

    pub(super) const VERSION_CLASS_FLOW: Range<usize> = 0..4;
    pub(super) const PAYLOAD_LEN: Range<usize> = 4..6;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(super) const SOURCE: Range<usize> = 8..24;
    pub(super) const DESTINATION: Range<usize> = 24..40;
}

/// Octets of the header.
pub const HEADER_LEN: usize = field::DESTINATION.end;
/// Maximum number of extension headers to skip. RFC 8200 4.1 recommends an order of six that can be skipped,
/// with destination options twice.
pub const MAX_EXTENSIONS: usize = 6;
/// Maximum flow label.
pub const MAX_FLOW_LABEL: u32 = 0x000f_ffff;

const WHAT: &str = "IPv6 packet";
const EXTENSION: &str = "IPv6 extension header";

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// The reason why octets are not an IPv6 packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketError {
    /// Header or payload is truncated.
    Truncated(TruncationError),
    /// The version is not 6.
    Version(u8),
}

impl From<TruncationError> for PacketError {
    fn from(error: TruncationError) -> Self {
        PacketError::Truncated(error)
    }
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketError::Truncated(error) => error.fmt(f),
            PacketError::Version(found) => write!(f, "IP version {found} in an IPv6 packet"),
        }
    }
}

impl core::error::Error for PacketError {}

/// The reason why the upper-layer protocol was not reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtensionError {
    /// An extension header exceeds the packet.
    Truncated(TruncationError),
    /// More than [`MAX_EXTENSIONS`].
    TooMany,
}

impl From<TruncationError> for ExtensionError {
    fn from(error: TruncationError) -> Self {
        ExtensionError::Truncated(error)
    }
}

impl fmt::Display for ExtensionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExtensionError::Truncated(error) => error.fmt(f),
            ExtensionError::TooMany => {
                write!(f, "more than {MAX_EXTENSIONS} IPv6 extension headers")
            }
        }
    }
}

impl core::error::Error for ExtensionError {}

/// A complete packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

/// The upper-layer part, after the extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpperLayer<'a> {
    /// The upper-layer protocol.
    pub protocol: Protocol,
    /// Fragment offset, in units of 8 octets; 0 for a whole packet. The protocol of a fragment other than the
    /// first is the one in its fragment header.
    pub fragment_offset: u16,
    /// The octets of that protocol.
    pub payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Reads the packet at the start of `octets`; octets after its payload length are padding. A jumbogram
    /// (RFC 2675) has payload length 0 and so no payload here.
    pub fn new_checked(octets: &'a [u8]) -> Result<Self, PacketError> {
        let (header, rest) = split::<HEADER_LEN>(WHAT, octets)?;
        if header[0] >> 4 != 6 {
            return Err(PacketError::Version(header[0] >> 4));
        }
        let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let payload = rest.get(..payload_len).ok_or(TruncationError {
            what: WHAT,
            needed: HEADER_LEN + payload_len,
            len: octets.len(),
        })?;
        Ok(View { header, payload })
    }

    fn first_word(&self) -> u32 {
        let [a, b, c, d, ..] = *self.header;
        u32::from_be_bytes([a, b, c, d])
    }

    fn address(&self, at: usize) -> Ipv6Addr {
        Ipv6Addr::from(core::array::from_fn::<u8, 16, _>(|i| self.header[at + i]))
    }

    /// Returns the differentiated services code point, `0..=63`.
    pub fn dscp(&self) -> u8 {
        (self.first_word() >> 22) as u8 & 0x3f
    }

    /// Returns the explicit congestion notification, `0..=3`.
    pub fn ecn(&self) -> u8 {
        (self.first_word() >> 20) as u8 & 0x03
    }

    /// Returns the flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        self.first_word() & MAX_FLOW_LABEL
    }

    /// Returns the first extension header's number, or the upper-layer protocol.
    pub fn next_header(&self) -> Protocol {
        Protocol(self.header[field::NEXT_HEADER])
    }

    /// Returns the remaining number of hops.
    pub fn hop_limit(&self) -> u8 {
        self.header[field::HOP_LIMIT]
    }

    /// Returns the source address.
    pub fn source(&self) -> Ipv6Addr {
        self.address(field::SOURCE.start)
    }

    /// Returns the destination address.
    pub fn destination(&self) -> Ipv6Addr {
        self.address(field::DESTINATION.start)
    }

    /// Returns the octets after the header, including extension headers, without padding of the frame.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Skips hop-by-hop options, destination options, routing, fragment and authentication headers. Any other
    /// number is treated as the upper-layer protocol, including ESP. Skipping ends at a fragment other than
    /// the first: the octets after it are not a header.
    pub fn upper(&self) -> Result<UpperLayer<'a>, ExtensionError> {
        let mut next = self.next_header().0;
        let mut rest = self.payload;
        for walked in 0..=MAX_EXTENSIONS {
            let units = rest.get(1).copied().map(usize::from);
            let len = match next {
                HOP_BY_HOP | DESTINATION_OPTIONS | ROUTING => units.map(|n| (n + 1) * 8),
                AUTHENTICATION => units.map(|n| (n + 2) * 4),
                FRAGMENT => Some(8),
                _ => {
                    let protocol = Protocol(next);
                    return Ok(UpperLayer { protocol, fragment_offset: 0, payload: rest });
                }
            };
            if walked == MAX_EXTENSIONS {
                break;
            }
            let needed = len.unwrap_or(8);
            let (header, behind) = rest.split_at_checked(needed).ok_or(TruncationError {
                what: EXTENSION,
                needed,
                len: rest.len(),
            })?;
            let offset = if next == FRAGMENT { be16(header, 2).unwrap_or(0) >> 3 } else { 0 };
            next = header.first().copied().unwrap_or(next);
            rest = behind;
            if offset != 0 {
                let protocol = Protocol(next);
                return Ok(UpperLayer { protocol, fragment_offset: offset, payload: rest });
            }
        }
        Err(ExtensionError::TooMany)
    }
}

/// An IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Differentiated services code point, `0..=63`.
    pub dscp: u8,
    /// Explicit congestion notification, `0..=3`.
    pub ecn: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// The protocol of the payload.
    pub next_header: Protocol,
    /// Maximum number of hops.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Octets of the payload, including extension headers.
    pub payload_len: u16,
}

impl Repr {
    /// Creates the header of a UDP packet with DSCP 0 and 64 hops.
    pub const fn new(source: Ipv6Addr, destination: Ipv6Addr, payload_len: u16) -> Self {
        Repr {
            dscp: 0,
            ecn: 0,
            flow_label: 0,
            next_header: Protocol::UDP,
            hop_limit: 64,
            source,
            destination,
            payload_len,
        }
    }

    /// Returns the fields of a packet.
    pub fn parse(packet: &View<'_>) -> Self {
        Repr {
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            flow_label: packet.flow_label(),
            next_header: packet.next_header(),
            hop_limit: packet.hop_limit(),
            source: packet.source(),
            destination: packet.destination(),
            // The payload came from a 16-bit length.
            payload_len: packet.payload.len() as u16,
        }
    }

    /// Returns the number of octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header to the start of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        EmitError::check("DSCP", self.dscp.into(), 63)?;
        EmitError::check("ECN", self.ecn.into(), 3)?;
        EmitError::check("flow label", self.flow_label as usize, MAX_FLOW_LABEL as usize)?;
        let header = room::<HEADER_LEN>(WHAT, buffer)?;
        let class = u32::from(self.dscp << 2 | self.ecn);
        let first_word = 6 << 28 | class << 20 | self.flow_label;
        header[field::VERSION_CLASS_FLOW].copy_from_slice(&first_word.to_be_bytes());
        header[field::PAYLOAD_LEN].copy_from_slice(&self.payload_len.to_be_bytes());
        header[field::NEXT_HEADER] = self.next_header.0;
        header[field::HOP_LIMIT] = self.hop_limit;
        header[field::SOURCE].copy_from_slice(&self.source.octets());
        header[field::DESTINATION].copy_from_slice(&self.destination.octets());
        Ok(HEADER_LEN)
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {} {}", self.source, self.destination, self.next_header)?;
        write!(f, " dscp {} hops {} len {}", self.dscp, self.hop_limit, self.payload_len)
    }
}

#[cfg(test)]
#[path = "ipv6_tests.rs"]
mod tests;

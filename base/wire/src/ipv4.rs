//! IPv4 (RFC 791), options skipped.

use core::fmt;
use core::net::Ipv4Addr;

use crate::bytes::{room, split};
use crate::checksum::Checksum;
use crate::{EmitError, Protocol, TruncationError};

mod field {
    use core::ops::Range;

    pub(super) const VERSION_AND_LEN: usize = 0;
    pub(super) const TRAFFIC_CLASS: usize = 1;
    pub(super) const TOTAL_LEN: Range<usize> = 2..4;
    pub(super) const IDENTIFICATION: Range<usize> = 4..6;
    pub(super) const FRAGMENT: Range<usize> = 6..8;
    pub(super) const TTL: usize = 8;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const CHECKSUM: Range<usize> = 10..12;
    pub(super) const SOURCE: Range<usize> = 12..16;
    pub(super) const DESTINATION: Range<usize> = 16..20;

    pub(super) const DONT_FRAGMENT: u16 = 0x4000;
    pub(super) const MORE_FRAGMENTS: u16 = 0x2000;
    pub(super) const OFFSET: u16 = 0x1fff;
}

/// Octets of a header without options.
pub const HEADER_LEN: usize = field::DESTINATION.end;

const WHAT: &str = "IPv4 packet";

/// The reason why octets are not an IPv4 packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketError {
    /// Header or payload is truncated.
    Truncated(TruncationError),
    /// The version is not 4.
    Version(u8),
    /// The header length, in octets, is less than that of a header without options.
    HeaderLength(usize),
    /// The total length does not cover the header.
    TotalLength {
        /// The total length, in octets.
        total: usize,
        /// The header length, in octets.
        header: usize,
    },
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
            PacketError::Version(found) => write!(f, "IP version {found} in an IPv4 packet"),
            PacketError::HeaderLength(found) => {
                write!(f, "IPv4 header length {found} is less than {HEADER_LEN}")
            }
            PacketError::TotalLength { total, header } => {
                write!(f, "IPv4 total length {total} is less than the header length {header}")
            }
        }
    }
}

impl core::error::Error for PacketError {}

/// A complete packet. Its checksum is not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    header: &'a [u8; HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Reads the packet at the start of `octets`; octets after its total length are padding.
    pub fn new_checked(octets: &'a [u8]) -> Result<Self, PacketError> {
        let (header, _) = split::<HEADER_LEN>(WHAT, octets)?;
        let first = header[field::VERSION_AND_LEN];
        if first >> 4 != 4 {
            return Err(PacketError::Version(first >> 4));
        }
        let header_len = usize::from(first & 0x0f) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header_len < HEADER_LEN {
            return Err(PacketError::HeaderLength(header_len));
        }
        if total < header_len {
            return Err(PacketError::TotalLength { total, header: header_len });
        }
        let cut_off = TruncationError { what: WHAT, needed: total, len: octets.len() };
        let packet = octets.get(..total).ok_or(cut_off)?;
        let (head, payload) = packet.split_at_checked(header_len).ok_or(cut_off)?;
        Ok(View { header, options: head.get(HEADER_LEN..).unwrap_or_default(), payload })
    }

    fn be16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
    }

    fn address(&self, at: usize) -> Ipv4Addr {
        Ipv4Addr::from(core::array::from_fn::<u8, 4, _>(|i| self.header[at + i]))
    }

    /// Returns the differentiated services code point, `0..=63`.
    pub fn dscp(&self) -> u8 {
        self.header[field::TRAFFIC_CLASS] >> 2
    }

    /// Returns the explicit congestion notification, `0..=3`.
    pub fn ecn(&self) -> u8 {
        self.header[field::TRAFFIC_CLASS] & 0x03
    }

    /// Returns the identification, common to the fragments of a packet.
    pub fn identification(&self) -> u16 {
        self.be16(field::IDENTIFICATION.start)
    }

    /// Returns whether routers must not fragment the packet.
    pub fn dont_fragment(&self) -> bool {
        self.be16(field::FRAGMENT.start) & field::DONT_FRAGMENT != 0
    }

    /// Returns whether further fragments follow.
    pub fn more_fragments(&self) -> bool {
        self.be16(field::FRAGMENT.start) & field::MORE_FRAGMENTS != 0
    }

    /// Returns the fragment offset, in units of 8 octets, `0..=8191`.
    pub fn fragment_offset(&self) -> u16 {
        self.be16(field::FRAGMENT.start) & field::OFFSET
    }

    /// Returns the remaining number of hops.
    pub fn ttl(&self) -> u8 {
        self.header[field::TTL]
    }

    /// Returns the protocol of the payload.
    pub fn protocol(&self) -> Protocol {
        Protocol(self.header[field::PROTOCOL])
    }

    /// Returns the header checksum.
    pub fn checksum(&self) -> u16 {
        self.be16(field::CHECKSUM.start)
    }

    /// Returns whether the header checksum is correct.
    pub fn verify_checksum(&self) -> bool {
        let mut sum = Checksum::new();
        sum.add(self.header);
        sum.add(self.options);
        sum.finish() == 0
    }

    /// Returns the source address.
    pub fn source(&self) -> Ipv4Addr {
        self.address(field::SOURCE.start)
    }

    /// Returns the destination address.
    pub fn destination(&self) -> Ipv4Addr {
        self.address(field::DESTINATION.start)
    }

    /// Returns the options, `0..=40` octets.
    pub fn options(&self) -> &'a [u8] {
        self.options
    }

    /// Returns the octets after the header, without padding of the frame.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An IPv4 header without options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Differentiated services code point, `0..=63`.
    pub dscp: u8,
    /// Explicit congestion notification, `0..=3`.
    pub ecn: u8,
    /// Identification, common to the fragments of a packet.
    pub identification: u16,
    /// Whether routers must not fragment the packet.
    pub dont_fragment: bool,
    /// Whether further fragments follow.
    pub more_fragments: bool,
    /// Fragment offset, in units of 8 octets, `0..=8191`.
    pub fragment_offset: u16,
    /// Maximum number of hops.
    pub ttl: u8,
    /// The protocol of the payload.
    pub protocol: Protocol,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Octets of the payload, `0..=65515`.
    pub payload_len: u16,
}

impl Repr {
    /// Creates the header of an unfragmented UDP packet with DSCP 0 and 64 hops.
    pub const fn new(source: Ipv4Addr, destination: Ipv4Addr, payload_len: u16) -> Self {
        Repr {
            dscp: 0,
            ecn: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: Protocol::UDP,
            source,
            destination,
            payload_len,
        }
    }

    /// Returns the fields of a packet without options.
    pub fn parse(packet: &View<'_>) -> Self {
        Repr {
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            identification: packet.identification(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset(),
            ttl: packet.ttl(),
            protocol: packet.protocol(),
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

    /// Writes the header, including the checksum, to the start of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let max_payload = usize::from(u16::MAX) - HEADER_LEN;
        EmitError::check("DSCP", self.dscp.into(), 63)?;
        EmitError::check("ECN", self.ecn.into(), 3)?;
        EmitError::check("fragment offset", self.fragment_offset.into(), field::OFFSET.into())?;
        EmitError::check("IPv4 payload length", self.payload_len.into(), max_payload)?;
        let header = room::<HEADER_LEN>(WHAT, buffer)?;
        let flag = |set, bit| if set { bit } else { 0 };
        let fragment = flag(self.dont_fragment, field::DONT_FRAGMENT)
            | flag(self.more_fragments, field::MORE_FRAGMENTS)
            | self.fragment_offset;
        let total = self.payload_len + HEADER_LEN as u16;
        header[field::VERSION_AND_LEN] = 0x45;
        header[field::TRAFFIC_CLASS] = self.dscp << 2 | self.ecn;
        header[field::TOTAL_LEN].copy_from_slice(&total.to_be_bytes());
        header[field::IDENTIFICATION].copy_from_slice(&self.identification.to_be_bytes());
        header[field::FRAGMENT].copy_from_slice(&fragment.to_be_bytes());
        header[field::TTL] = self.ttl;
        header[field::PROTOCOL] = self.protocol.0;
        header[field::CHECKSUM].fill(0);
        header[field::SOURCE].copy_from_slice(&self.source.octets());
        header[field::DESTINATION].copy_from_slice(&self.destination.octets());
        let mut sum = Checksum::new();
        sum.add(header);
        header[field::CHECKSUM].copy_from_slice(&sum.finish().to_be_bytes());
        Ok(HEADER_LEN)
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {} {}", self.source, self.destination, self.protocol)?;
        write!(f, " dscp {} ttl {} len {}", self.dscp, self.ttl, self.payload_len)?;
        if self.more_fragments || self.fragment_offset != 0 {
            write!(f, " fragment {}", self.fragment_offset)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    /// A header with one word of options, two octets of payload, two of padding.
    const OCTETS: [u8; 28] = [
        0x46, 0xb9, 0, 26, 0x12, 0x34, 0x20, 0x05, 64, 6, 0x47, 0xf1, 10, 0, 0, 1, 10, 0, 0,
        2, //
        1, 1, 1, 0, b'a', b'b', 0x77, 0x77,
    ];
    const REPR: Repr = Repr {
        dscp: 46,
        ecn: 1,
        identification: 0x1234,
        dont_fragment: false,
        more_fragments: true,
        fragment_offset: 5,
        ttl: 64,
        protocol: Protocol::TCP,
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 0, 2),
        payload_len: 2,
    };

    #[test]
    fn parses() {
        let packet = View::new_checked(&OCTETS).unwrap();
        assert_eq!(Repr::parse(&packet), REPR);
        assert_eq!(packet.options(), [1, 1, 1, 0]);
        assert_eq!(packet.payload(), b"ab");
    }

    #[test]
    fn emits_with_a_right_checksum() {
        let mut buffer = [0xa5; 22];
        assert_eq!(REPR.emit(&mut buffer), Ok(REPR.buffer_len()));
        assert_eq!(buffer[20..], [0xa5; 2]);
        let packet = View::new_checked(&buffer).unwrap();
        assert_eq!(Repr::parse(&packet), REPR);
        assert!(packet.verify_checksum());
        buffer[8] -= 1;
        assert!(!View::new_checked(&buffer).unwrap().verify_checksum());
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut buffer = [0xa5; 20];
        for repr in [
            Repr { dscp: 64, ..REPR },
            Repr { ecn: 4, ..REPR },
            Repr { fragment_offset: 8192, ..REPR },
            Repr { payload_len: 65516, ..REPR },
        ] {
            assert!(matches!(repr.emit(&mut buffer), Err(EmitError::OutOfRange { .. })));
        }
        assert!(REPR.emit(&mut buffer[..19]).is_err());
        assert_eq!(buffer, [0xa5; 20]);
    }

    #[test]
    fn bad_headers() {
        let with = |at: usize, octet| {
            let mut octets = OCTETS;
            octets[at] = octet;
            View::new_checked(&octets).unwrap_err()
        };
        assert_eq!(with(0, 0x66), PacketError::Version(6));
        assert_eq!(with(0, 0x44), PacketError::HeaderLength(16));
        assert_eq!(with(3, 23), PacketError::TotalLength { total: 23, header: 24 });
        for len in 0..26 {
            let error = View::new_checked(&OCTETS[..len]).unwrap_err();
            assert!(matches!(error, PacketError::Truncated(t) if t.len == len), "{len}");
        }
    }

    #[test]
    fn shows() {
        assert_eq!(REPR.to_string(), "10.0.0.1 -> 10.0.0.2 tcp dscp 46 ttl 64 len 2 fragment 5");
    }
}

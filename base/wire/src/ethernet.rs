//! The Ethernet header: two addresses and an EtherType (802.3 clause 3).

use core::fmt;

use crate::bytes::{room, split};
use crate::{EmitError, EtherType, MacAddress, TruncationError};

mod field {
    use core::ops::Range;

    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const ETHERTYPE: Range<usize> = 12..14;
}

/// Octets of both addresses: the offset of the first tag or the EtherType.
pub const ADDRESSES_LEN: usize = field::SOURCE.end;
/// Octets of the header of an untagged frame.
pub const HEADER_LEN: usize = field::ETHERTYPE.end;
/// Minimum octets of a frame on the wire, without FCS: a sender pads up to it.
pub const MIN_FRAME_LEN: usize = 60;

const WHAT: &str = "Ethernet header";

/// A frame with a complete header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Header<'a> {
    /// Reads the header at the start of `octets`.
    pub fn new_checked(octets: &'a [u8]) -> Result<Self, TruncationError> {
        let (header, payload) = split(WHAT, octets)?;
        Ok(Header { header, payload })
    }

    /// Returns the destination address.
    pub fn destination(&self) -> MacAddress {
        let [a, b, c, d, e, f, ..] = *self.header;
        MacAddress([a, b, c, d, e, f])
    }

    /// Returns the source address.
    pub fn source(&self) -> MacAddress {
        let [_, _, _, _, _, _, a, b, c, d, e, f, _, _] = *self.header;
        MacAddress([a, b, c, d, e, f])
    }

    /// Returns the EtherType, which may be that of a tag, or an 802.3 length.
    pub fn ethertype(&self) -> EtherType {
        EtherType::from([self.header[12], self.header[13]])
    }

    /// Returns the octets after the EtherType, including padding.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    /// EtherType or length.
    pub ethertype: EtherType,
}

impl Repr {
    /// Returns the fields of a header.
    pub fn parse(header: &Header<'_>) -> Self {
        Repr {
            destination: header.destination(),
            source: header.source(),
            ethertype: header.ethertype(),
        }
    }

    /// Returns the number of octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header to the start of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let header = room::<HEADER_LEN>(WHAT, buffer)?;
        header[field::DESTINATION].copy_from_slice(&self.destination.0);
        header[field::SOURCE].copy_from_slice(&self.source.0);
        header[field::ETHERTYPE].copy_from_slice(&self.ethertype.to_octets());
        Ok(HEADER_LEN)
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {} {}", self.source, self.destination, self.ethertype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const OCTETS: [u8; 15] =
        [0x01, 0x80, 0xc2, 0, 0, 0x0e, 0x02, 0, 0, 0, 0, 0x01, 0x88, 0xcc, 0x77];
    const REPR: Repr = Repr {
        destination: MacAddress([0x01, 0x80, 0xc2, 0, 0, 0x0e]),
        source: MacAddress([0x02, 0, 0, 0, 0, 0x01]),
        ethertype: EtherType::LLDP,
    };

    #[test]
    fn parses() {
        let header = Header::new_checked(&OCTETS).unwrap();
        assert_eq!(Repr::parse(&header), REPR);
        assert_eq!(header.payload(), [0x77]);
    }

    #[test]
    fn emits() {
        let mut buffer = [0xa5; 16];
        assert_eq!(REPR.emit(&mut buffer), Ok(REPR.buffer_len()));
        assert_eq!(buffer[..14], OCTETS[..14]);
        assert_eq!(buffer[14..], [0xa5; 2]);
        assert!(REPR.emit(&mut buffer[..13]).is_err());
    }

    #[test]
    fn truncated() {
        for len in 0..HEADER_LEN {
            let error = Header::new_checked(&OCTETS[..len]).unwrap_err();
            assert_eq!(error, TruncationError { what: WHAT, needed: 14, len });
        }
    }

    #[test]
    fn shows() {
        assert_eq!(REPR.to_string(), "02:00:00:00:00:01 -> 01:80:c2:00:00:0e 0x88cc (LLDP)");
    }
}

//! UDP (RFC 768).

use core::fmt;
use core::net::IpAddr;

use crate::bytes::{room, split};
use crate::checksum::Checksum;
use crate::{EmitError, Ports, Protocol, TruncationError};

mod field {
    use core::ops::Range;

    pub(super) const PORTS: Range<usize> = 0..4;
    pub(super) const LENGTH: Range<usize> = 4..6;
    pub(super) const CHECKSUM: Range<usize> = 6..8;
}

/// Octets of the header.
pub const HEADER_LEN: usize = field::CHECKSUM.end;

const WHAT: &str = "UDP datagram";

/// The reason why octets are not a UDP datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramError {
    /// Header or payload is truncated.
    Truncated(TruncationError),
    /// The length does not cover the header.
    Length(u16),
}

impl From<TruncationError> for DatagramError {
    fn from(error: TruncationError) -> Self {
        DatagramError::Truncated(error)
    }
}

impl fmt::Display for DatagramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatagramError::Truncated(error) => error.fmt(f),
            DatagramError::Length(length) => {
                write!(f, "UDP length {length} is less than the header's {HEADER_LEN} octets")
            }
        }
    }
}

impl core::error::Error for DatagramError {}

/// A complete datagram. Its checksum is not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Reads the datagram at the start of `octets`; octets after its length are ignored.
    pub fn new_checked(octets: &'a [u8]) -> Result<Self, DatagramError> {
        let (header, rest) = split::<HEADER_LEN>(WHAT, octets)?;
        let length = u16::from_be_bytes([header[4], header[5]]);
        let payload_len =
            usize::from(length).checked_sub(HEADER_LEN).ok_or(DatagramError::Length(length))?;
        let payload = rest.get(..payload_len).ok_or(TruncationError {
            what: WHAT,
            needed: length.into(),
            len: octets.len(),
        })?;
        Ok(View { header, payload })
    }

    /// Returns both ports.
    pub fn ports(&self) -> Ports {
        let [a, b, c, d, ..] = *self.header;
        Ports { source: u16::from_be_bytes([a, b]), destination: u16::from_be_bytes([c, d]) }
    }

    /// Returns the checksum; 0: none (IPv4 only).
    pub fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.header[6], self.header[7]])
    }

    /// Returns the octets after the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Both ports.
    pub ports: Ports,
    /// Octets of the payload, `0..=65527`.
    pub payload_len: u16,
}

impl Repr {
    /// Returns the fields of a header.
    pub fn parse(datagram: &View<'_>) -> Self {
        // The payload came from a 16-bit length.
        Repr { ports: datagram.ports(), payload_len: datagram.payload.len() as u16 }
    }

    /// Returns the number of octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header, without a checksum, to the start of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let max = usize::from(u16::MAX) - HEADER_LEN;
        EmitError::check("UDP payload length", self.payload_len.into(), max)?;
        let header = room::<HEADER_LEN>(WHAT, buffer)?;
        let length = self.payload_len + HEADER_LEN as u16;
        self.ports.emit(&mut header[field::PORTS])?;
        header[field::LENGTH].copy_from_slice(&length.to_be_bytes());
        header[field::CHECKSUM].fill(0);
        Ok(HEADER_LEN)
    }
}

/// Writes the checksum of the datagram at the start of `octets`, after its payload is complete. IPv6 requires
/// one.
pub fn fill_checksum(
    octets: &mut [u8],
    source: IpAddr,
    destination: IpAddr,
) -> Result<(), DatagramError> {
    let len = HEADER_LEN + View::new_checked(octets)?.payload.len();
    let Some(datagram) = octets.get_mut(..len) else { return Ok(()) };
    datagram[field::CHECKSUM].fill(0);
    let mut sum = Checksum::pseudo_header(source, destination, Protocol::UDP, len as u32);
    sum.add(datagram);
    // 0 means "no checksum"; in one's complement all ones has the same value.
    let checksum = match sum.finish() {
        0 => u16::MAX,
        sum => sum,
    };
    datagram[field::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "udp {} len {}", self.ports, self.payload_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use std::string::ToString;

    const OCTETS: [u8; 12] = [0x13, 0x88, 0, 53, 0, 11, 0, 0, b'a', b'b', b'c', 0x77];
    const REPR: Repr = Repr { ports: Ports { source: 5000, destination: 53 }, payload_len: 3 };

    #[test]
    fn parses() {
        let datagram = View::new_checked(&OCTETS).unwrap();
        assert_eq!(Repr::parse(&datagram), REPR);
        assert_eq!(datagram.payload(), b"abc");
        assert_eq!(datagram.checksum(), 0);
    }

    #[test]
    fn emits() {
        let mut buffer = [0xa5; 9];
        assert_eq!(REPR.emit(&mut buffer), Ok(REPR.buffer_len()));
        assert_eq!(buffer[..8], OCTETS[..8]);
        assert_eq!(buffer[8], 0xa5);
        assert!(REPR.emit(&mut buffer[..7]).is_err());
        assert!(Repr { payload_len: 65528, ..REPR }.emit(&mut buffer).is_err());
    }

    #[test]
    fn the_checksum_makes_the_sum_zero() {
        let mut octets = OCTETS;
        let (source, destination) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        fill_checksum(&mut octets, source.into(), destination.into()).unwrap();
        let mut sum = Checksum::pseudo_header(source.into(), destination.into(), Protocol::UDP, 11);
        sum.add(&octets[..11]);
        assert_eq!(sum.finish(), 0);
        assert_ne!(View::new_checked(&octets).unwrap().checksum(), 0);
        assert_eq!(octets[11], 0x77);
    }

    #[test]
    fn bad_lengths() {
        for len in 0..11 {
            let error = View::new_checked(&OCTETS[..len]).unwrap_err();
            assert!(matches!(error, DatagramError::Truncated(t) if t.len == len), "{len}");
        }
        let mut octets = OCTETS;
        octets[5] = 7;
        assert_eq!(View::new_checked(&octets), Err(DatagramError::Length(7)));
    }

    #[test]
    fn shows() {
        assert_eq!(REPR.to_string(), "udp port 5000 -> 53 len 3");
    }
}

//! Source and destination port: the first four octets of UDP, TCP and SCTP alike.

use core::fmt;

use crate::bytes::{room, split};
use crate::{EmitError, TruncationError};

mod field {
    use core::ops::Range;

    pub(super) const SOURCE: Range<usize> = 0..2;
    pub(super) const DESTINATION: Range<usize> = 2..4;
}

/// Octets of both ports.
pub const PORTS_LEN: usize = field::DESTINATION.end;

const WHAT: &str = "ports";

/// A pair of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ports {
    /// The sender's.
    pub source: u16,
    /// The receiver's.
    pub destination: u16,
}

impl Ports {
    /// Reads the ports at the start of a UDP, TCP or SCTP header.
    pub fn parse(octets: &[u8]) -> Result<Self, TruncationError> {
        let (&[a, b, c, d], _) = split::<PORTS_LEN>(WHAT, octets)?;
        Ok(Ports { source: u16::from_be_bytes([a, b]), destination: u16::from_be_bytes([c, d]) })
    }

    /// Returns the number of octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        PORTS_LEN
    }

    /// Writes the ports to the start of `buffer`; returns their length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let ports = room::<PORTS_LEN>(WHAT, buffer)?;
        ports[field::SOURCE].copy_from_slice(&self.source.to_be_bytes());
        ports[field::DESTINATION].copy_from_slice(&self.destination.to_be_bytes());
        Ok(PORTS_LEN)
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {} -> {}", self.source, self.destination)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const REPR: Ports = Ports { source: 0x1234, destination: 53 };

    #[test]
    fn there_and_back() {
        let mut buffer = [0xa5; 5];
        assert_eq!(REPR.emit(&mut buffer), Ok(REPR.buffer_len()));
        assert_eq!(buffer, [0x12, 0x34, 0, 53, 0xa5]);
        assert_eq!(Ports::parse(&buffer), Ok(REPR));
        for len in 0..PORTS_LEN {
            assert!(Ports::parse(&buffer[..len]).is_err());
            assert!(REPR.emit(&mut [0; PORTS_LEN][..len]).is_err());
        }
    }

    #[test]
    fn shows() {
        assert_eq!(REPR.to_string(), "port 4660 -> 53");
    }
}

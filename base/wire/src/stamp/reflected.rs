//! The reflected packet of a session reflector (RFC 8762 4.3.1).

use core::fmt;

use super::{ErrorEstimate, PACKET_LEN, Test, Timestamp};
use crate::bytes::{room, split};
use crate::{EmitError, TruncationError};

mod field {
    use core::ops::Range;

    pub(super) const SEQUENCE: Range<usize> = 0..4;
    pub(super) const TIMESTAMP: Range<usize> = 4..12;
    pub(super) const ERROR_ESTIMATE: Range<usize> = 12..14;
    pub(super) const SESSION: Range<usize> = 14..16;
    pub(super) const RECEIVED: Range<usize> = 16..24;
    pub(super) const TEST_SEQUENCE: Range<usize> = 24..28;
    pub(super) const TEST_TIMESTAMP: Range<usize> = 28..36;
    pub(super) const TEST_ERROR_ESTIMATE: Range<usize> = 36..38;
    pub(super) const ZERO: Range<usize> = 38..40;
    pub(super) const TEST_TTL: usize = 40;
    pub(super) const ZERO_TOO: Range<usize> = 41..44;
}

const WHAT: &str = "STAMP reflected packet";

/// A reflected packet and its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    packet: &'a [u8; PACKET_LEN],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Reads the packet at the start of a datagram.
    pub fn new_checked(octets: &'a [u8]) -> Result<Self, TruncationError> {
        let (packet, payload) = split::<PACKET_LEN>(WHAT, octets)?;
        Ok(View { packet, payload })
    }

    fn be16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.packet[at], self.packet[at + 1]])
    }

    fn be32(&self, at: usize) -> u32 {
        u32::from(self.be16(at)) << 16 | u32::from(self.be16(at + 2))
    }

    fn timestamp_at(&self, at: usize) -> Timestamp {
        Timestamp(core::array::from_fn(|i| self.packet[at + i]))
    }

    /// Returns the reflector's sequence number: a separate one if it keeps state, otherwise the sender's.
    pub fn sequence(&self) -> u32 {
        self.be32(field::SEQUENCE.start)
    }

    /// Returns the time of reflection.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp_at(field::TIMESTAMP.start)
    }

    /// Returns the error of the reflector's time stamps, and their format.
    pub fn error_estimate(&self) -> ErrorEstimate {
        ErrorEstimate::parse(self.be16(field::ERROR_ESTIMATE.start).to_be_bytes())
    }

    /// Returns the session (RFC 8972 3); 0: none.
    pub fn session(&self) -> u16 {
        self.be16(field::SESSION.start)
    }

    /// Returns the receive time of the test packet.
    pub fn received(&self) -> Timestamp {
        self.timestamp_at(field::RECEIVED.start)
    }

    /// Returns the test packet as received by the reflector, with the session of this packet.
    pub fn test(&self) -> Test {
        let error_estimate = self.be16(field::TEST_ERROR_ESTIMATE.start).to_be_bytes();
        Test {
            sequence: self.be32(field::TEST_SEQUENCE.start),
            timestamp: self.timestamp_at(field::TEST_TIMESTAMP.start),
            error_estimate: ErrorEstimate::parse(error_estimate),
            session: self.session(),
        }
    }

    /// Returns the TTL or hop limit of the received test packet.
    pub fn test_ttl(&self) -> u8 {
        self.packet[field::TEST_TTL]
    }

    /// Returns the payload: that of the test packet.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A reflected packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The reflector's sequence number: a separate one if it keeps state, otherwise the sender's.
    pub sequence: u32,
    /// The time of reflection.
    pub timestamp: Timestamp,
    /// The error of the reflector's time stamps, and their format.
    pub error_estimate: ErrorEstimate,
    /// The receive time of the test packet.
    pub received: Timestamp,
    /// The test packet, with the session of this packet.
    pub test: Test,
    /// The TTL or hop limit of the received test packet.
    pub test_ttl: u8,
}

impl Repr {
    /// Returns the fields of a packet; must-be-zero fields are ignored.
    pub fn parse(packet: &View<'_>) -> Self {
        Repr {
            sequence: packet.sequence(),
            timestamp: packet.timestamp(),
            error_estimate: packet.error_estimate(),
            received: packet.received(),
            test: packet.test(),
            test_ttl: packet.test_ttl(),
        }
    }

    /// Returns the number of octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        PACKET_LEN
    }

    /// Writes the packet to the start of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let error_estimate = self.error_estimate.emit()?;
        let test_error_estimate = self.test.error_estimate.emit()?;
        let packet = room::<PACKET_LEN>(WHAT, buffer)?;
        packet[field::SEQUENCE].copy_from_slice(&self.sequence.to_be_bytes());
        packet[field::TIMESTAMP].copy_from_slice(&self.timestamp.0);
        packet[field::ERROR_ESTIMATE].copy_from_slice(&error_estimate);
        packet[field::SESSION].copy_from_slice(&self.test.session.to_be_bytes());
        packet[field::RECEIVED].copy_from_slice(&self.received.0);
        packet[field::TEST_SEQUENCE].copy_from_slice(&self.test.sequence.to_be_bytes());
        packet[field::TEST_TIMESTAMP].copy_from_slice(&self.test.timestamp.0);
        packet[field::TEST_ERROR_ESTIMATE].copy_from_slice(&test_error_estimate);
        packet[field::ZERO].fill(0);
        packet[field::TEST_TTL] = self.test_ttl;
        packet[field::ZERO_TOO].fill(0);
        Ok(PACKET_LEN)
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stamp reflected {}, {}", self.sequence, self.error_estimate)?;
        write!(f, ", of {} ttl {}", self.test, self.test_ttl)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;
    use std::string::ToString;

    const ERROR: ErrorEstimate =
        ErrorEstimate { synchronized: false, format: Format::Ntp, scale: 12, multiplier: 13 };
    const REPR: Repr = Repr {
        sequence: 0x0001_0203,
        timestamp: Timestamp([4, 5, 6, 7, 8, 9, 10, 11]),
        error_estimate: ERROR,
        received: Timestamp([16, 17, 18, 19, 20, 21, 22, 23]),
        test: Test {
            sequence: 0x1819_1a1b,
            timestamp: Timestamp([28, 29, 30, 31, 32, 33, 34, 35]),
            error_estimate: ErrorEstimate { scale: 36, multiplier: 37, ..ERROR },
            session: 0x0e0f,
        },
        test_ttl: 40,
    };

    /// Each octet has its position as value, except zeros.
    #[test]
    fn there_and_back() {
        let mut buffer = [0xa5; PACKET_LEN + 2];
        assert_eq!(REPR.emit(&mut buffer), Ok(REPR.buffer_len()));
        for (at, octet) in buffer.iter().enumerate().take(PACKET_LEN) {
            let zero = (38..40).contains(&at) || at > 40;
            assert_eq!(usize::from(*octet), if zero { 0 } else { at });
        }
        let view = View::new_checked(&buffer).unwrap();
        assert_eq!(Repr::parse(&view), REPR);
        assert_eq!(view.payload(), [0xa5; 2]);
        for len in 0..PACKET_LEN {
            assert_eq!(View::new_checked(&buffer[..len]).unwrap_err().len, len);
            assert!(REPR.emit(&mut buffer[..len]).is_err());
        }
    }

    #[test]
    fn shows() {
        let text = REPR.to_string();
        assert!(text.starts_with("stamp reflected 66051, ±12398 ns, not synchronized, of stamp"));
        assert!(text.ends_with(" ttl 40"), "{text}");
    }
}

//! The test packet of a session sender (RFC 8762 4.2.1).

use core::fmt;

use super::{ErrorEstimate, PACKET_LEN, Timestamp};
use crate::bytes::{room, split};
use crate::{EmitError, TruncationError};

mod field {
    use core::ops::Range;

    pub(super) const SEQUENCE: Range<usize> = 0..4;
    pub(super) const TIMESTAMP: Range<usize> = 4..12;
    pub(super) const ERROR_ESTIMATE: Range<usize> = 12..14;
    pub(super) const SESSION: Range<usize> = 14..16;
    pub(super) const ZERO: Range<usize> = 16..44;
}

const WHAT: &str = "STAMP test packet";

/// A test packet and its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    packet: &'a [u8; PACKET_LEN],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Reads the packet at the start of a datagram. Only the port distinguishes it from other protocols.
    pub fn new_checked(octets: &'a [u8]) -> Result<Self, TruncationError> {
        let (packet, payload) = split::<PACKET_LEN>(WHAT, octets)?;
        Ok(View { packet, payload })
    }

    /// Returns the sender's sequence number.
    pub fn sequence(&self) -> u32 {
        u32::from_be_bytes(core::array::from_fn(|i| self.packet[field::SEQUENCE.start + i]))
    }

    /// Returns the send time.
    pub fn timestamp(&self) -> Timestamp {
        Timestamp(core::array::from_fn(|i| self.packet[field::TIMESTAMP.start + i]))
    }

    /// Returns the error of the send time.
    pub fn error_estimate(&self) -> ErrorEstimate {
        ErrorEstimate::parse([self.packet[12], self.packet[13]])
    }

    /// Returns the session (RFC 8972 3); 0: none.
    pub fn session(&self) -> u16 {
        u16::from_be_bytes([self.packet[14], self.packet[15]])
    }

    /// Returns the payload: padding or TLVs.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A test packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The sender's sequence number.
    pub sequence: u32,
    /// The send time, in the format of `error_estimate`.
    pub timestamp: Timestamp,
    /// The error of the send time.
    pub error_estimate: ErrorEstimate,
    /// The session (RFC 8972 3); 0: none.
    pub session: u16,
}

impl Repr {
    /// Returns the fields of a packet; must-be-zero fields are ignored.
    pub fn parse(packet: &View<'_>) -> Self {
        Repr {
            sequence: packet.sequence(),
            timestamp: packet.timestamp(),
            error_estimate: packet.error_estimate(),
            session: packet.session(),
        }
    }

    /// Returns the number of octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        PACKET_LEN
    }

    /// Writes the packet to the start of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let error_estimate = self.error_estimate.emit()?;
        let packet = room::<PACKET_LEN>(WHAT, buffer)?;
        packet[field::SEQUENCE].copy_from_slice(&self.sequence.to_be_bytes());
        packet[field::TIMESTAMP].copy_from_slice(&self.timestamp.0);
        packet[field::ERROR_ESTIMATE].copy_from_slice(&error_estimate);
        packet[field::SESSION].copy_from_slice(&self.session.to_be_bytes());
        packet[field::ZERO].fill(0);
        Ok(PACKET_LEN)
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stamp test {} session {}, {}", self.sequence, self.session, self.error_estimate)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;
    use std::string::ToString;

    const REPR: Repr = Repr {
        sequence: 0x0102_0304,
        timestamp: Timestamp([5, 6, 7, 8, 9, 10, 11, 12]),
        error_estimate: ErrorEstimate {
            synchronized: true,
            format: Format::Ptp,
            scale: 13,
            multiplier: 14,
        },
        session: 0x0f10,
    };

    #[test]
    fn there_and_back() {
        let mut buffer = [0xa5; PACKET_LEN + 2];
        assert_eq!(REPR.emit(&mut buffer), Ok(REPR.buffer_len()));
        let start = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0xcd, 14, 15, 16];
        assert_eq!(buffer[..16], start);
        assert_eq!(buffer[16..44], [0; 28]);
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
        assert_eq!(REPR.to_string(), "stamp test 16909060 session 3856, ±26703 ns to UTC");
    }
}

//! Packets with integrity protection (RFC 8762 4.2.2, 4.3.2, 4.4).
//!
//! Both are seven blocks of 16 octets; the last one is the HMAC over the six before it. The payload is not
//! covered. This code has no key: the caller provides the HMAC to emit, and verifies it before it uses a
//! parsed field.

use core::fmt;

use super::{ErrorEstimate, Reflected, Test, Timestamp};
use crate::bytes::{room, split};
use crate::{EmitError, TruncationError};

/// Octets of either packet.
pub const AUTHENTICATED_LEN: usize = COVERED_LEN + HMAC_LEN;
/// Octets covered by the HMAC, from the first one.
pub const COVERED_LEN: usize = 96;
/// Octets of the HMAC: HMAC-SHA-256, truncated to its first 128 bits.
pub const HMAC_LEN: usize = 16;

mod field {
    use core::ops::Range;

    pub(super) const SEQUENCE: usize = 0;
    pub(super) const TIMESTAMP: usize = 16;
    pub(super) const ERROR_ESTIMATE: usize = 24;
    pub(super) const SESSION: usize = 26;
    // In a reflected packet; zeros in a test packet.
    pub(super) const RECEIVED: usize = 32;
    pub(super) const TEST_SEQUENCE: usize = 48;
    pub(super) const TEST_TIMESTAMP: usize = 64;
    pub(super) const TEST_ERROR_ESTIMATE: usize = 72;
    pub(super) const TEST_TTL: usize = 80;
    pub(super) const HMAC: Range<usize> = super::COVERED_LEN..super::AUTHENTICATED_LEN;
}

const WHAT: &str = "authenticated STAMP packet";

/// An authenticated packet and its payload. Only the sender distinguishes a test packet from a reflected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    packet: &'a [u8; AUTHENTICATED_LEN],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Reads the packet at the start of a datagram.
    pub fn new_checked(octets: &'a [u8]) -> Result<Self, TruncationError> {
        let (packet, payload) = split::<AUTHENTICATED_LEN>(WHAT, octets)?;
        Ok(View { packet, payload })
    }

    fn at<const N: usize>(&self, at: usize) -> [u8; N] {
        core::array::from_fn(|i| self.packet[at + i])
    }

    /// Returns the octets covered by the HMAC as received, including must-be-zero fields.
    pub fn covered(&self) -> [u8; COVERED_LEN] {
        self.at(0)
    }

    /// Returns the HMAC, which is not verified.
    pub fn hmac(&self) -> [u8; HMAC_LEN] {
        self.at(field::HMAC.start)
    }

    /// Returns the fields of a test packet; must-be-zero fields are ignored.
    pub fn test(&self) -> Test {
        Test {
            sequence: u32::from_be_bytes(self.at(field::SEQUENCE)),
            timestamp: Timestamp(self.at(field::TIMESTAMP)),
            error_estimate: ErrorEstimate::parse(self.at(field::ERROR_ESTIMATE)),
            session: u16::from_be_bytes(self.at(field::SESSION)),
        }
    }

    /// Returns the fields of a reflected packet; must-be-zero fields are ignored.
    pub fn reflected(&self) -> Reflected {
        let own = self.test();
        Reflected {
            sequence: own.sequence,
            timestamp: own.timestamp,
            error_estimate: own.error_estimate,
            received: Timestamp(self.at(field::RECEIVED)),
            test: Test {
                sequence: u32::from_be_bytes(self.at(field::TEST_SEQUENCE)),
                timestamp: Timestamp(self.at(field::TEST_TIMESTAMP)),
                error_estimate: ErrorEstimate::parse(self.at(field::TEST_ERROR_ESTIMATE)),
                session: own.session,
            },
            test_ttl: self.packet[field::TEST_TTL],
        }
    }

    /// Returns the payload: padding or TLVs, not covered by the HMAC.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

impl fmt::Display for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{WHAT} {}, {} octets follow", self.test().sequence, self.payload.len())
    }
}

/// Writes fields and zeros, then the HMAC over both.
fn emit<const N: usize>(
    buffer: &mut [u8],
    fields: [(usize, &[u8]); N],
    hmac: impl FnOnce(&[u8; COVERED_LEN]) -> [u8; HMAC_LEN],
) -> Result<usize, EmitError> {
    let packet = room::<AUTHENTICATED_LEN>(WHAT, buffer)?;
    let mut covered = [0; COVERED_LEN];
    for (at, octets) in fields {
        covered[at..at + octets.len()].copy_from_slice(octets);
    }
    packet[..COVERED_LEN].copy_from_slice(&covered);
    packet[field::HMAC].copy_from_slice(&hmac(&covered));
    Ok(AUTHENTICATED_LEN)
}

impl Test {
    /// Writes the packet in its authenticated form to the start of `buffer`; returns its length.
    pub fn emit_authenticated(
        &self,
        buffer: &mut [u8],
        hmac: impl FnOnce(&[u8; COVERED_LEN]) -> [u8; HMAC_LEN],
    ) -> Result<usize, EmitError> {
        let fields = [
            (field::SEQUENCE, &self.sequence.to_be_bytes()[..]),
            (field::TIMESTAMP, &self.timestamp.0),
            (field::ERROR_ESTIMATE, &self.error_estimate.emit()?),
            (field::SESSION, &self.session.to_be_bytes()),
        ];
        emit(buffer, fields, hmac)
    }
}

impl Reflected {
    /// Writes the packet in its authenticated form to the start of `buffer`; returns its length.
    pub fn emit_authenticated(
        &self,
        buffer: &mut [u8],
        hmac: impl FnOnce(&[u8; COVERED_LEN]) -> [u8; HMAC_LEN],
    ) -> Result<usize, EmitError> {
        let test = &self.test;
        let fields = [
            (field::SEQUENCE, &self.sequence.to_be_bytes()[..]),
            (field::TIMESTAMP, &self.timestamp.0),
            (field::ERROR_ESTIMATE, &self.error_estimate.emit()?),
            (field::SESSION, &test.session.to_be_bytes()),
            (field::RECEIVED, &self.received.0),
            (field::TEST_SEQUENCE, &test.sequence.to_be_bytes()),
            (field::TEST_TIMESTAMP, &test.timestamp.0),
            (field::TEST_ERROR_ESTIMATE, &test.error_estimate.emit()?),
            (field::TEST_TTL, &[self.test_ttl]),
        ];
        emit(buffer, fields, hmac)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;
    use std::string::ToString;

    const fn stamp(first: u8) -> Timestamp {
        let f = first;
        Timestamp([f, f + 1, f + 2, f + 3, f + 4, f + 5, f + 6, f + 7])
    }

    const fn error(scale: u8) -> ErrorEstimate {
        let multiplier = scale + 1;
        ErrorEstimate { synchronized: false, format: Format::Ntp, scale, multiplier }
    }

    const TEST: Test = Test {
        sequence: 0x0001_0203,
        timestamp: stamp(16),
        error_estimate: error(24),
        session: 0x1a1b,
    };
    /// Each octet has its position as value; the scale of an error estimate is at most 63.
    const REFLECTED: Reflected = Reflected {
        sequence: 0x0001_0203,
        timestamp: stamp(16),
        error_estimate: error(24),
        received: stamp(32),
        test: Test {
            sequence: 0x3031_3233,
            timestamp: stamp(64),
            error_estimate: ErrorEstimate {
                synchronized: false,
                format: Format::Ptp,
                scale: 72 - 64,
                multiplier: 73,
            },
            session: 0x1a1b,
        },
        test_ttl: 80,
    };

    /// Returns whether an octet has its position as value; other ones must be zero, see the figures of RFC
    /// 8762.
    fn is_own_place(at: usize, reflected: bool) -> bool {
        let of_both = at < 4 || (16..28).contains(&at);
        let of_reflected = [32..40, 48..52, 64..74, 80..81].iter().any(|range| range.contains(&at));
        of_both || (reflected && of_reflected)
    }

    fn check(
        reflected: bool,
        emit: impl Fn(&mut [u8], &mut [u8; COVERED_LEN]) -> Result<usize, EmitError>,
    ) {
        let mut buffer = [0xa5; AUTHENTICATED_LEN + 2];
        let mut seen = [0; COVERED_LEN];
        assert_eq!(emit(&mut buffer, &mut seen), Ok(AUTHENTICATED_LEN));
        assert_eq!(buffer[..COVERED_LEN], seen, "the HMAC is over what is sent");
        for (at, octet) in seen.iter().enumerate() {
            let expected = if is_own_place(at, reflected) { at } else { 0 };
            assert_eq!(usize::from(*octet), expected, "octet {at}");
        }
        let view = View::new_checked(&buffer).unwrap();
        assert_eq!((view.covered(), view.hmac()), (seen, [0x77; HMAC_LEN]));
        assert_eq!((view.test(), view.payload()), (TEST, &[0xa5; 2][..]));
        if reflected {
            assert_eq!(view.reflected(), REFLECTED);
        }
        assert_eq!(view.to_string(), "authenticated STAMP packet 66051, 2 octets follow");
        for len in 0..AUTHENTICATED_LEN {
            let refused = View::new_checked(&buffer[..len]).unwrap_err();
            assert_eq!((refused.needed, refused.len), (AUTHENTICATED_LEN, len));
            let mut short = [0xa5; AUTHENTICATED_LEN];
            assert!(emit(&mut short[..len], &mut seen).is_err());
            assert_eq!(short, [0xa5; AUTHENTICATED_LEN], "no partial write");
        }
    }

    #[test]
    fn test_there_and_back() {
        check(false, |buffer, seen| {
            TEST.emit_authenticated(buffer, |covered| {
                *seen = *covered;
                [0x77; HMAC_LEN]
            })
        });
    }

    #[test]
    fn reflected_there_and_back() {
        check(true, |buffer, seen| {
            REFLECTED.emit_authenticated(buffer, |covered| {
                *seen = *covered;
                [0x77; HMAC_LEN]
            })
        });
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let test = Test { error_estimate: error(64), ..TEST };
        let reflected = Reflected { test, ..REFLECTED };
        let mut buffer = [0; AUTHENTICATED_LEN];
        assert!(test.emit_authenticated(&mut buffer, |_| [0; HMAC_LEN]).is_err());
        assert!(reflected.emit_authenticated(&mut buffer, |_| [0; HMAC_LEN]).is_err());
    }
}

//! The R-TAG (802.1CB 7.8): EtherType 0xF1C1, two reserved octets, sequence number.

use core::fmt;

use crate::bytes::{room, split};
use crate::{EmitError, EtherType, TagError};

mod field {
    use core::ops::Range;

    pub(super) const ETHERTYPE: Range<usize> = 0..2;
    pub(super) const RESERVED: Range<usize> = 2..4;
    pub(super) const SEQUENCE: Range<usize> = 4..6;
}

/// Octets of an R-TAG: the growth of a frame.
pub const TAG_LEN: usize = field::SEQUENCE.end;

const WHAT: &str = "R-TAG";

/// An R-TAG, including its EtherType.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    tag: &'a [u8; TAG_LEN],
}

impl<'a> View<'a> {
    /// Reads the tag at the start of `octets`, which starts with its EtherType.
    pub fn new_checked(octets: &'a [u8]) -> Result<Self, TagError> {
        let (tag, _) = split::<TAG_LEN>(WHAT, octets)?;
        let found = EtherType::from([tag[0], tag[1]]);
        if found == EtherType::R_TAG {
            Ok(View { tag })
        } else {
            Err(TagError::OtherEtherType { what: WHAT, found })
        }
    }

    /// Returns the reserved field: sent as 0, ignored on receipt.
    pub fn reserved(&self) -> u16 {
        u16::from_be_bytes([self.tag[2], self.tag[3]])
    }

    /// The sequence number.
    pub fn sequence(&self) -> u16 {
        u16::from_be_bytes([self.tag[4], self.tag[5]])
    }
}

/// An R-TAG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The sequence number.
    pub sequence: u16,
}

impl Repr {
    /// Returns the fields of a tag; the reserved octets are ignored, as required by the standard.
    pub fn parse(tag: &View<'_>) -> Self {
        Repr { sequence: tag.sequence() }
    }

    /// Returns the number of octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        TAG_LEN
    }

    /// Writes the tag to the start of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let tag = room::<TAG_LEN>(WHAT, buffer)?;
        tag[field::ETHERTYPE].copy_from_slice(&EtherType::R_TAG.to_octets());
        tag[field::RESERVED].fill(0);
        tag[field::SEQUENCE].copy_from_slice(&self.sequence.to_be_bytes());
        Ok(TAG_LEN)
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r-tag {}", self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const REPR: Repr = Repr { sequence: 0xfffe };

    #[test]
    fn parses_and_ignores_the_reserved_octets() {
        for reserved in [0, 0xa5] {
            let octets = [0xf1, 0xc1, reserved, reserved, 0xff, 0xfe, 0x08, 0x00];
            let tag = View::new_checked(&octets).unwrap();
            assert_eq!(Repr::parse(&tag), REPR);
            assert_eq!(tag.reserved(), u16::from(reserved) * 0x101);
        }
    }

    #[test]
    fn emits_reserved_octets_as_zero() {
        let mut buffer = [0xa5; 7];
        assert_eq!(REPR.emit(&mut buffer), Ok(REPR.buffer_len()));
        assert_eq!(buffer, [0xf1, 0xc1, 0, 0, 0xff, 0xfe, 0xa5]);
        assert!(REPR.emit(&mut buffer[..5]).is_err());
    }

    #[test]
    fn is_not_another_tag() {
        let octets = [0x89, 0x2f, 0, 0, 0, 0];
        assert_eq!(
            View::new_checked(&octets),
            Err(TagError::OtherEtherType { what: "R-TAG", found: EtherType::HSR })
        );
        for len in 0..TAG_LEN {
            assert!(matches!(View::new_checked(&octets[..len]), Err(TagError::Truncated(_))));
        }
    }

    #[test]
    fn shows() {
        assert_eq!(REPR.to_string(), "r-tag 65534");
    }
}

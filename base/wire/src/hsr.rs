//! The HSR tag (IEC 62439-3): EtherType 0x892F, path id and LSDU size, sequence number.

use core::fmt;

use crate::bytes::{room, split};
use crate::{EmitError, EtherType, TagError};

mod field {
    use core::ops::Range;

    pub(super) const ETHERTYPE: Range<usize> = 0..2;
    pub(super) const PATH_AND_SIZE: Range<usize> = 2..4;
    pub(super) const SEQUENCE: Range<usize> = 4..6;
}

/// Octets of an HSR tag.
pub const TAG_LEN: usize = field::SEQUENCE.end;
/// Maximum path id.
pub const MAX_PATH: u8 = 0x0f;
/// Maximum LSDU size, in octets; PRP's too.
pub const MAX_LSDU_SIZE: u16 = 0x0fff;

const WHAT: &str = "HSR tag";

/// An HSR tag, including its EtherType.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    tag: &'a [u8; TAG_LEN],
}

impl<'a> View<'a> {
    /// Reads the tag at the start of `octets`, which starts with its EtherType.
    pub fn new_checked(octets: &'a [u8]) -> Result<Self, TagError> {
        let (tag, _) = split::<TAG_LEN>(WHAT, octets)?;
        let found = EtherType::from([tag[0], tag[1]]);
        if found == EtherType::HSR {
            Ok(View { tag })
        } else {
            Err(TagError::OtherEtherType { what: WHAT, found })
        }
    }

    /// Returns the path id, `0..=15`: the ring direction or the PRP network of the frame.
    pub fn path(&self) -> u8 {
        self.tag[2] >> 4
    }

    /// Returns the octets from the tag's path id to the end of the payload, as counted by the sender.
    pub fn lsdu_size(&self) -> u16 {
        u16::from_be_bytes([self.tag[2], self.tag[3]]) & MAX_LSDU_SIZE
    }

    /// The sequence number.
    pub fn sequence(&self) -> u16 {
        u16::from_be_bytes([self.tag[4], self.tag[5]])
    }
}

/// An HSR tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Path id, `0..=15`.
    pub path: u8,
    /// Octets from the tag's path id to the end of the payload, `0..=4095`.
    pub lsdu_size: u16,
    /// The sequence number.
    pub sequence: u16,
}

impl Repr {
    /// Returns the fields of a tag.
    pub fn parse(tag: &View<'_>) -> Self {
        Repr { path: tag.path(), lsdu_size: tag.lsdu_size(), sequence: tag.sequence() }
    }

    /// Returns the number of octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        TAG_LEN
    }

    /// Writes the tag to the start of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        EmitError::check("HSR path id", self.path.into(), MAX_PATH.into())?;
        EmitError::check("HSR LSDU size", self.lsdu_size.into(), MAX_LSDU_SIZE.into())?;
        let tag = room::<TAG_LEN>(WHAT, buffer)?;
        let path_and_size = u16::from(self.path) << 12 | self.lsdu_size;
        tag[field::ETHERTYPE].copy_from_slice(&EtherType::HSR.to_octets());
        tag[field::PATH_AND_SIZE].copy_from_slice(&path_and_size.to_be_bytes());
        tag[field::SEQUENCE].copy_from_slice(&self.sequence.to_be_bytes());
        Ok(TAG_LEN)
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hsr {} path {} lsdu {}", self.sequence, self.path, self.lsdu_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const OCTETS: [u8; 8] = [0x89, 0x2f, 0xb0, 0x34, 0x12, 0x34, 0x08, 0x00];
    const REPR: Repr = Repr { path: 0xb, lsdu_size: 0x34, sequence: 0x1234 };

    #[test]
    fn parses() {
        assert_eq!(Repr::parse(&View::new_checked(&OCTETS).unwrap()), REPR);
    }

    #[test]
    fn emits() {
        let mut buffer = [0xa5; 7];
        assert_eq!(REPR.emit(&mut buffer), Ok(REPR.buffer_len()));
        assert_eq!(buffer[..6], OCTETS[..6]);
        assert_eq!(buffer[6], 0xa5);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut buffer = [0xa5; 6];
        assert!(Repr { path: 16, ..REPR }.emit(&mut buffer).is_err());
        assert!(Repr { lsdu_size: 4096, ..REPR }.emit(&mut buffer).is_err());
        assert!(REPR.emit(&mut buffer[..5]).is_err());
        assert_eq!(buffer, [0xa5; 6]);
    }

    #[test]
    fn is_not_another_tag() {
        let octets = [0xf1, 0xc1, 0, 0, 0, 0];
        assert_eq!(
            View::new_checked(&octets),
            Err(TagError::OtherEtherType { what: WHAT, found: EtherType::R_TAG })
        );
        for len in 0..TAG_LEN {
            assert!(matches!(View::new_checked(&OCTETS[..len]), Err(TagError::Truncated(_))));
        }
    }

    #[test]
    fn shows() {
        assert_eq!(REPR.to_string(), "hsr 4660 path 11 lsdu 52");
    }
}

//! The PRP redundancy control trailer (IEC 62439-3), the last six octets before the FCS:
//! sequence number, LAN id and LSDU size, 0x88FB.
//!
//! No field before the trailer announces it, so any frame may end like one by chance. The LSDU size
//! distinguishes them: it counts all octets after the EtherType and VLAN tags, including the trailer and the
//! padding before it. A sender pads a short frame first and then appends the trailer: [`Tail`].
//!
//! Nodes announce themselves by frames of their own: [`supervision`].

use core::fmt;

use crate::bytes::room;
use crate::hsr::MAX_LSDU_SIZE;
use crate::{EmitError, EtherType, TruncationError};

pub mod hello;
pub mod supervision;
mod tail;

pub use tail::{MAX_PADDING_LEN, MAX_TAIL_LEN, MIN_TAGGED_LEN, MIN_UNTAGGED_LEN, Tail};

mod field {
    use core::ops::Range;

    pub(super) const SEQUENCE: Range<usize> = 0..2;
    pub(super) const LAN_AND_SIZE: Range<usize> = 2..4;
    pub(super) const SUFFIX: Range<usize> = 4..6;
}

/// Octets of the trailer.
pub const TRAILER_LEN: usize = field::SUFFIX.end;

const WHAT: &str = "PRP trailer";

/// The network that a frame was sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lan {
    /// LAN id 0xA.
    A,
    /// LAN id 0xB.
    B,
}

impl Lan {
    /// Returns the LAN id, four bits.
    pub const fn id(self) -> u8 {
        match self {
            Lan::A => 0xa,
            Lan::B => 0xb,
        }
    }
}

/// The reason why a frame has no trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrailerError {
    /// Too short for a trailer.
    Truncated(TruncationError),
    /// The last two octets differ from the suffix.
    Suffix(u16),
    /// The LAN id is neither 0xA nor 0xB.
    LanId(u8),
    /// The size is not that of this frame: it ends like a trailer by chance.
    LsduSize {
        /// The size in the trailer, in octets.
        said: u16,
        /// The LSDU's octets.
        found: usize,
    },
}

impl fmt::Display for TrailerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrailerError::Truncated(error) => error.fmt(f),
            TrailerError::Suffix(found) => {
                write!(f, "no PRP trailer: the frame ends with {found:#06x}, not 0x88fb")
            }
            TrailerError::LanId(id) => {
                write!(f, "no PRP trailer: LAN id {id:#x} is neither 0xa nor 0xb")
            }
            TrailerError::LsduSize { said, found } => {
                write!(f, "no PRP trailer: LSDU size {said}, but the LSDU has {found} octets")
            }
        }
    }
}

impl core::error::Error for TrailerError {}

/// A trailer that is valid for its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    trailer: &'a [u8; TRAILER_LEN],
    lan: Lan,
}

impl<'a> View<'a> {
    /// Reads the trailer at the end of `lsdu`, which is the part of the frame after the EtherType that
    /// follows the VLAN tags.
    pub fn new_checked(lsdu: &'a [u8]) -> Result<Self, TrailerError> {
        let trailer: &[u8; TRAILER_LEN] =
            lsdu.last_chunk().ok_or(TrailerError::Truncated(TruncationError {
                what: WHAT,
                needed: TRAILER_LEN,
                len: lsdu.len(),
            }))?;
        let suffix = EtherType::from([trailer[4], trailer[5]]);
        if suffix != EtherType::PRP {
            return Err(TrailerError::Suffix(suffix.0));
        }
        let lan = match trailer[2] >> 4 {
            0xa => Lan::A,
            0xb => Lan::B,
            other => return Err(TrailerError::LanId(other)),
        };
        let view = View { trailer, lan };
        if usize::from(view.lsdu_size()) != lsdu.len() {
            return Err(TrailerError::LsduSize { said: view.lsdu_size(), found: lsdu.len() });
        }
        Ok(view)
    }

    /// The sequence number.
    pub fn sequence(&self) -> u16 {
        u16::from_be_bytes([self.trailer[0], self.trailer[1]])
    }

    /// Returns the network of the frame.
    pub fn lan(&self) -> Lan {
        self.lan
    }

    /// Returns the octets of the LSDU, including the trailer.
    pub fn lsdu_size(&self) -> u16 {
        u16::from_be_bytes([self.trailer[2], self.trailer[3]]) & MAX_LSDU_SIZE
    }
}

/// A redundancy control trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The sequence number.
    pub sequence: u16,
    /// The network.
    pub lan: Lan,
    /// Octets of the LSDU, including the trailer, `6..=4095`.
    pub lsdu_size: u16,
}

impl Repr {
    /// Returns the fields of a trailer.
    pub fn parse(trailer: &View<'_>) -> Self {
        Repr { sequence: trailer.sequence(), lan: trailer.lan(), lsdu_size: trailer.lsdu_size() }
    }

    /// Returns the number of octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        TRAILER_LEN
    }

    /// Writes the trailer to the start of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        EmitError::check("PRP LSDU size", self.lsdu_size.into(), MAX_LSDU_SIZE.into())?;
        let trailer = room::<TRAILER_LEN>(WHAT, buffer)?;
        let lan_and_size = u16::from(self.lan.id()) << 12 | self.lsdu_size;
        trailer[field::SEQUENCE].copy_from_slice(&self.sequence.to_be_bytes());
        trailer[field::LAN_AND_SIZE].copy_from_slice(&lan_and_size.to_be_bytes());
        trailer[field::SUFFIX].copy_from_slice(&EtherType::PRP.to_octets());
        Ok(TRAILER_LEN)
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "prp {} lan {:?} lsdu {}", self.sequence, self.lan, self.lsdu_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const LSDU: [u8; 10] = [1, 2, 3, 4, 0x12, 0x34, 0xb0, 10, 0x88, 0xfb];
    const REPR: Repr = Repr { sequence: 0x1234, lan: Lan::B, lsdu_size: 10 };

    #[test]
    fn parses() {
        assert_eq!(Repr::parse(&View::new_checked(&LSDU).unwrap()), REPR);
    }

    #[test]
    fn emits() {
        let mut buffer = [0xa5; 7];
        assert_eq!(REPR.emit(&mut buffer), Ok(REPR.buffer_len()));
        assert_eq!(buffer[..6], LSDU[4..]);
        assert_eq!(buffer[6], 0xa5);
        assert!(REPR.emit(&mut buffer[..5]).is_err());
        assert!(Repr { lsdu_size: 4096, ..REPR }.emit(&mut buffer).is_err());
    }

    #[test]
    fn an_accidental_trailer_is_refused() {
        let with = |at: usize, octet| {
            let mut lsdu = LSDU;
            lsdu[at] = octet;
            View::new_checked(&lsdu).unwrap_err()
        };
        assert_eq!(with(9, 0xfc), TrailerError::Suffix(0x88fc));
        assert_eq!(with(6, 0xc0), TrailerError::LanId(0xc));
        assert_eq!(with(7, 11), TrailerError::LsduSize { said: 11, found: 10 });
        assert_eq!(
            View::new_checked(&LSDU[1..]).unwrap_err().to_string(),
            "no PRP trailer: LSDU size 10, but the LSDU has 9 octets"
        );
    }

    #[test]
    fn truncated() {
        for len in 0..TRAILER_LEN {
            let error = View::new_checked(&LSDU[10 - len..]).unwrap_err();
            assert!(matches!(error, TrailerError::Truncated(t) if t.len == len));
        }
    }

    #[test]
    fn shows() {
        assert_eq!(REPR.to_string(), "prp 4660 lan B lsdu 10");
    }
}

//! The octets that a sender adds to a frame: zero padding, then the trailer.

use core::fmt;
use core::ops::Deref;

use super::{Lan, Repr, TRAILER_LEN, field};
use crate::ethernet::HEADER_LEN;
use crate::hsr::MAX_LSDU_SIZE;
use crate::{Frame, vlan};

/// Minimum length of an untagged frame before its trailer, in octets without FCS.
///
/// Source: Linux, net/hsr. A shorter frame is padded before the trailer, so that no device on its path adds
/// padding after it.
pub const MIN_UNTAGGED_LEN: usize = 60;
/// Minimum length of a frame with VLAN tags before its trailer, in octets without FCS.
///
/// Source: Linux, net/hsr. The frame stays long enough when a bridge removes the tag.
pub const MIN_TAGGED_LEN: usize = MIN_UNTAGGED_LEN + vlan::TAG_LEN;
/// Maximum padding, in octets: that of a frame without payload.
pub const MAX_PADDING_LEN: usize = MIN_UNTAGGED_LEN - HEADER_LEN;
/// Maximum growth of a frame, in octets: padding and trailer.
pub const MAX_TAIL_LEN: usize = MAX_PADDING_LEN + TRAILER_LEN;

/// Padding and trailer of a frame. The copies on both networks differ by the LAN id only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tail {
    /// Padding of the maximum length, then the trailer.
    octets: [u8; MAX_TAIL_LEN],
    /// Octets of the padding that the frame does not require.
    start: u8,
}

impl Tail {
    /// Creates the tail of a frame of `frame_len` octets without FCS. Its LSDU starts at `lsdu_offset`, which
    /// counts addresses, VLAN tags and the EtherType after them: [`Frame::lsdu_offset`].
    ///
    /// `None`: the LSDU would exceed 4,095 octets, or `lsdu_offset` is not that of such a frame.
    #[inline]
    pub fn new(frame_len: usize, lsdu_offset: usize, sequence: u16, lan: Lan) -> Option<Self> {
        if lsdu_offset < HEADER_LEN {
            return None;
        }
        let tagged = lsdu_offset >= HEADER_LEN + vlan::TAG_LEN;
        let min_len = if tagged { MIN_TAGGED_LEN } else { MIN_UNTAGGED_LEN };
        let lsdu_len = frame_len.max(min_len).checked_sub(lsdu_offset)?.checked_add(TRAILER_LEN)?;
        let lsdu_size = u16::try_from(lsdu_len).ok().filter(|size| *size <= MAX_LSDU_SIZE)?;
        let start = MAX_PADDING_LEN.checked_sub(min_len.saturating_sub(frame_len))?;
        let mut octets = [0; MAX_TAIL_LEN];
        let trailer = octets.get_mut(MAX_PADDING_LEN..)?;
        Repr { sequence, lan, lsdu_size }.emit(trailer).ok()?;
        Some(Tail { octets, start: start as u8 })
    }

    /// Creates the tail of `frame`, which has none. `None`: its LSDU would exceed 4,095 octets.
    #[inline]
    pub fn of(frame: &Frame<'_>, sequence: u16, lan: Lan) -> Option<Self> {
        Tail::new(frame.octets().len(), frame.lsdu_offset(), sequence, lan)
    }

    /// Changes the network, and nothing else.
    #[inline]
    pub fn set_lan(&mut self, lan: Lan) {
        let octet = &mut self.octets[MAX_PADDING_LEN + field::LAN_AND_SIZE.start];
        *octet = lan.id() << 4 | *octet & 0x0f;
    }

    /// Returns the octets to append to the frame.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.octets.get(usize::from(self.start)..).unwrap_or_default()
    }

    /// Returns the octets of padding before the trailer.
    pub fn padding_len(&self) -> usize {
        MAX_PADDING_LEN - usize::from(self.start)
    }
}

impl Deref for Tail {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [.., a, b, c, d, _, _] = self.octets;
        let (sequence, size) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c & 0x0f, d]));
        let lan = if c >> 4 == Lan::A.id() { Lan::A } else { Lan::B };
        write!(f, "{}", Repr { sequence, lan, lsdu_size: size })?;
        write!(f, " behind {} octets of padding", self.padding_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prp::View;
    use std::string::ToString;
    use std::vec;
    use std::vec::Vec;

    /// Returns the LSDU of a frame whose payload is 0x55, with its tail.
    fn lsdu(frame_len: usize, lsdu_offset: usize, tail: &Tail) -> Vec<u8> {
        [&vec![0x55; frame_len - lsdu_offset][..], tail].concat()
    }

    #[test]
    fn every_length_gives_a_valid_trailer_behind_zeros() {
        for lsdu_offset in [14, 18, 22] {
            let min_len = if lsdu_offset == 14 { 60 } else { 64 };
            for frame_len in lsdu_offset..=lsdu_offset + 4089 {
                let tail = Tail::new(frame_len, lsdu_offset, 0x1234, Lan::B).unwrap();
                let lsdu = lsdu(frame_len, lsdu_offset, &tail);
                let trailer = Repr::parse(&View::new_checked(&lsdu).unwrap());
                assert_eq!((trailer.sequence, trailer.lan), (0x1234, Lan::B));
                assert_eq!(tail.len(), tail.padding_len() + TRAILER_LEN);
                assert_eq!(frame_len + tail.padding_len(), frame_len.max(min_len));
                assert!(tail[..tail.padding_len()].iter().all(|octet| *octet == 0));
            }
        }
    }

    #[test]
    fn an_lsdu_of_more_than_4095_octets_has_no_tail() {
        for lsdu_offset in [14, 18, 22] {
            for frame_len in [lsdu_offset + 4090, 9018, 65_535, usize::MAX] {
                assert_eq!(Tail::new(frame_len, lsdu_offset, 0, Lan::A), None, "{frame_len}");
            }
        }
    }

    #[test]
    fn any_lengths_are_accepted_or_refused() {
        for lsdu_offset in (0..80).chain([usize::MAX]) {
            for frame_len in (0..80).chain([usize::MAX]) {
                let Some(tail) = Tail::new(frame_len, lsdu_offset, 0, Lan::A) else { continue };
                assert!(lsdu_offset >= HEADER_LEN && tail.len() <= MAX_TAIL_LEN);
            }
        }
    }

    #[test]
    fn copies_differ_by_the_lan_id_only() {
        for frame_len in [14, 42, 60, 1514] {
            let mut tail = Tail::new(frame_len, 14, 0xffff, Lan::A).unwrap();
            tail.set_lan(Lan::B);
            assert_eq!(tail, Tail::new(frame_len, 14, 0xffff, Lan::B).unwrap());
            tail.set_lan(Lan::A);
            assert_eq!(tail, Tail::new(frame_len, 14, 0xffff, Lan::A).unwrap());
        }
    }

    #[test]
    fn of_a_frame() {
        let r_tag = [0xf1, 0xc1, 0, 0, 0, 1];
        let vlan = [0x81, 0, 0, 5];
        let payload = [0x88, 0xb5, 1, 2, 3];
        for vlans in 0..=2 {
            let octets = [&[2; 12][..], &vlan.repeat(vlans), &r_tag, &payload].concat();
            let tail = Tail::of(&Frame::parse(&octets).unwrap(), 7, Lan::A).unwrap();
            let sent = [&octets[..], &tail].concat();
            let trailer = Frame::parse(&sent).unwrap().prp().unwrap();
            assert_eq!((trailer.sequence, trailer.lan), (7, Lan::A));
        }
    }

    #[test]
    fn shows() {
        let tail = Tail::new(42, 14, 4660, Lan::B).unwrap();
        assert_eq!(tail.to_string(), "prp 4660 lan B lsdu 52 behind 18 octets of padding");
    }
}

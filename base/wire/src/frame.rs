//! Parsing of all headers of a frame that identification and data planes read.
//!
//! ```text
//! destination, source | up to two VLAN tags | R-TAG or HSR tag | EtherType | payload
//!                                           '----------------- MSDU ------------------
//! ```
//!
//! Octets after the sequence tag belong to the payload: a VLAN tag there is not the frame's, and neither is a
//! second sequence tag. A third VLAN tag is the EtherType of the payload.

use core::fmt;

use crate::bytes::{be16, split};
use crate::ethernet::ADDRESSES_LEN;
use crate::ip::IpError;
use crate::{EtherType, Ip, MacAddress, TagError, TruncationError, VlanTag, hsr, prp, rtag, vlan};

const ETHERTYPE_LEN: usize = 2;

/// Maximum number of VLAN tags that are parsed.
pub const MAX_VLANS: usize = 2;

/// The tag that carries a frame's sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SequenceTag {
    /// R-TAG (802.1CB 7.8).
    RTag(rtag::Repr),
    /// HSR tag (IEC 62439-3).
    Hsr(hsr::Repr),
}

impl SequenceTag {
    /// Octets of either tag.
    pub const LEN: usize = rtag::TAG_LEN;

    /// Returns the sequence number.
    pub const fn sequence(&self) -> u16 {
        match self {
            SequenceTag::RTag(tag) => tag.sequence,
            SequenceTag::Hsr(tag) => tag.sequence,
        }
    }
}

// `LEN` holds for both.
const _: () = assert!(rtag::TAG_LEN == hsr::TAG_LEN);

impl fmt::Display for SequenceTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SequenceTag::RTag(tag) => tag.fmt(f),
            SequenceTag::Hsr(tag) => tag.fmt(f),
        }
    }
}

/// A frame with complete addresses, tags and EtherType.
///
/// It stores the offsets of the headers instead of their content: it is small and often copied, and most
/// headers are not read by most users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    octets: &'a [u8],
    sequence: Option<SequenceTag>,
    /// Octets before the MSDU.
    msdu: u8,
    /// Octets before the payload.
    payload: u8,
}

impl<'a> Frame<'a> {
    /// Parses the headers of a frame without FCS. The only possible error is a frame that ends within them.
    #[inline]
    pub fn parse(octets: &'a [u8]) -> Result<Self, TruncationError> {
        let (_, mut msdu) = split::<ADDRESSES_LEN>("Ethernet header", octets)?;
        for _ in 0..MAX_VLANS {
            match vlan::View::new_checked(msdu) {
                Ok(_) => msdu = msdu.get(vlan::TAG_LEN..).unwrap_or_default(),
                Err(TagError::Truncated(error)) if begins_with(msdu, EtherType::is_vlan) => {
                    return Err(error);
                }
                Err(_) => break,
            }
        }
        let sequence = sequence_tag(msdu)?;
        let tag_len = if sequence.is_some() { SequenceTag::LEN } else { 0 };
        let (_, payload) =
            split::<ETHERTYPE_LEN>("EtherType", msdu.get(tag_len..).unwrap_or_default())?;
        let behind = |rest: &[u8]| (octets.len() - rest.len()) as u8;
        Ok(Frame { octets, sequence, msdu: behind(msdu), payload: behind(payload) })
    }

    /// Returns all octets.
    pub fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// Returns the destination address.
    pub fn destination(&self) -> MacAddress {
        self.address(0)
    }

    /// Returns the source address.
    pub fn source(&self) -> MacAddress {
        self.address(ADDRESSES_LEN / 2)
    }

    /// Returns the VLAN tags, outer first.
    pub fn vlans(&self) -> impl DoubleEndedIterator<Item = VlanTag> + use<> {
        [self.vlan_at(0), self.vlan_at(1)].into_iter().flatten()
    }

    /// Returns the outer VLAN tag, which determines the VLAN of the frame.
    pub fn vlan(&self) -> Option<VlanTag> {
        self.vlan_at(0)
    }

    /// Returns the sequence tag after the VLAN tags. A PRP trailer is not included: see [`prp`](Self::prp).
    pub fn sequence_tag(&self) -> Option<SequenceTag> {
        self.sequence
    }

    /// Returns the EtherType of the payload, or its length in an 802.3 frame.
    pub fn ethertype(&self) -> EtherType {
        // The EtherType ends the headers.
        let at = self.payload_offset() - ETHERTYPE_LEN;
        EtherType(be16(self.octets, at).unwrap_or_default())
    }

    /// Returns the octets of the addresses and VLAN tags before the MSDU: the offset of an R-TAG.
    pub fn msdu_offset(&self) -> usize {
        usize::from(self.msdu)
    }

    /// Returns the octets after the addresses and VLAN tags, from the EtherType or sequence tag to the end of
    /// the frame, including padding.
    pub fn msdu(&self) -> &'a [u8] {
        self.octets.get(self.msdu_offset()..).unwrap_or_default()
    }

    /// Returns the octets before the LSDU of PRP: addresses, VLAN tags and the EtherType after them, which may
    /// be that of an R-TAG.
    pub fn lsdu_offset(&self) -> usize {
        self.msdu_offset() + ETHERTYPE_LEN
    }

    /// Returns the octets before the payload.
    pub fn payload_offset(&self) -> usize {
        usize::from(self.payload)
    }

    /// Returns the octets after the EtherType, including padding.
    pub fn payload(&self) -> &'a [u8] {
        self.octets.get(self.payload_offset()..).unwrap_or_default()
    }

    /// Returns the IP headers, with or without an R-TAG before them; `None`: not an IP packet.
    pub fn ip(&self) -> Result<Option<Ip>, IpError> {
        Ip::parse(self.ethertype(), self.payload())
    }

    /// Returns the PRP trailer at the end of the frame.
    pub fn prp(&self) -> Result<prp::Repr, prp::TrailerError> {
        let lsdu = self.octets.get(self.lsdu_offset()..).unwrap_or_default();
        prp::View::new_checked(lsdu).map(|trailer| prp::Repr::parse(&trailer))
    }

    fn address(&self, at: usize) -> MacAddress {
        let octets = self.octets.get(at..).and_then(<[u8]>::first_chunk);
        octets.copied().map(MacAddress).unwrap_or_default()
    }

    fn vlan_at(&self, place: usize) -> Option<VlanTag> {
        let at = ADDRESSES_LEN + place * vlan::TAG_LEN;
        let tag = self.octets.get(at..self.msdu_offset())?;
        vlan::View::new_checked(tag).ok().map(|tag| VlanTag::parse(&tag))
    }
}

/// Returns whether the octets start with an EtherType that matches `is`.
fn begins_with(octets: &[u8], is: impl Fn(EtherType) -> bool) -> bool {
    be16(octets, 0).is_some_and(|ethertype| is(EtherType(ethertype)))
}

#[inline]
fn sequence_tag(msdu: &[u8]) -> Result<Option<SequenceTag>, TruncationError> {
    let tag = if begins_with(msdu, |ethertype| ethertype == EtherType::R_TAG) {
        rtag::View::new_checked(msdu).map(|tag| SequenceTag::RTag(rtag::Repr::parse(&tag)))
    } else if begins_with(msdu, |ethertype| ethertype == EtherType::HSR) {
        hsr::View::new_checked(msdu).map(|tag| SequenceTag::Hsr(hsr::Repr::parse(&tag)))
    } else {
        return Ok(None);
    };
    match tag {
        Ok(tag) => Ok(Some(tag)),
        Err(TagError::Truncated(error)) => Err(error),
        Err(TagError::OtherEtherType { .. }) => Ok(None),
    }
}

impl fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.source(), self.destination())?;
        for tag in self.vlans() {
            write!(f, ", {tag}")?;
        }
        if let Some(tag) = self.sequence {
            write!(f, ", {tag}")?;
        }
        write!(f, ", {}", self.ethertype())?;
        match self.ip() {
            Ok(Some(ip)) => write!(f, ", {ip}")?,
            Ok(None) => {}
            Err(error) => write!(f, ", {error}")?,
        }
        write!(f, ", {} octets", self.octets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    const VLAN: [u8; 4] = [0x81, 0, 0xb0, 10];
    const R_TAG: [u8; 6] = [0xf1, 0xc1, 0, 0, 0x12, 0x34];

    fn frame(parts: &[&[u8]]) -> Vec<u8> {
        [&ADDRESSES, parts.concat().as_slice()].concat()
    }

    #[test]
    fn finds_everything() {
        let octets = frame(&[&[0x88, 0xa8, 0, 5], &VLAN, &R_TAG, &[0x88, 0xcc], b"data"]);
        let frame = Frame::parse(&octets).unwrap();
        assert_eq!(
            frame.to_string(),
            "02:00:00:00:00:01 -> 02:00:00:00:00:02, svlan 5 pcp 0, vlan 10 pcp 5 dei, \
             r-tag 4660, 0x88cc (LLDP), 32 octets"
        );
        assert_eq!((frame.msdu_offset(), frame.payload_offset()), (20, 28));
        assert_eq!(frame.payload(), b"data");
        assert_eq!(frame.msdu()[..6], R_TAG);
        assert_eq!(frame.ip(), Ok(None));
    }

    #[test]
    fn a_third_vlan_tag_is_the_ethertype() {
        let octets = frame(&[&VLAN, &VLAN, &VLAN, &[8, 0]]);
        let frame = Frame::parse(&octets).unwrap();
        assert_eq!(frame.vlans().count(), 2);
        assert_eq!(frame.ethertype(), EtherType::C_VLAN);
        assert_eq!(frame.payload_offset(), 22);
    }

    #[test]
    fn octets_after_the_r_tag_are_payload() {
        for inner in [&VLAN[..], &R_TAG[..], &[0x89, 0x2f, 0, 0, 0, 0][..]] {
            let octets = frame(&[&VLAN, &R_TAG, inner, &[8, 0]]);
            let frame = Frame::parse(&octets).unwrap();
            assert_eq!(frame.vlans().count(), 1);
            assert_eq!(frame.sequence_tag().map(|tag| tag.sequence()), Some(0x1234));
            assert_eq!(frame.ethertype(), EtherType::from([inner[0], inner[1]]));
            assert_eq!(frame.ip(), Ok(None));
        }
    }

    #[test]
    fn every_truncation_within_the_headers_is_refused() {
        let octets = frame(&[&VLAN, &VLAN, &R_TAG, &[0x88, 0xcc]]);
        for len in 0..octets.len() {
            let error = Frame::parse(&octets[..len]).unwrap_err();
            let (what, start) = match len {
                0..12 => ("Ethernet header", 0),
                14..16 => ("VLAN tag", 12),
                18..20 => ("VLAN tag", 16),
                22..26 => ("R-TAG", 20),
                26..28 => ("EtherType", 26),
                12..14 => ("EtherType", 12),
                16..18 => ("EtherType", 16),
                _ => ("EtherType", 20),
            };
            assert_eq!((error.what, error.len), (what, len - start), "{len}");
        }
        assert!(Frame::parse(&octets).is_ok());
    }

    #[test]
    fn a_prp_trailer_counts_after_the_vlan_tags() {
        let lsdu: &[u8] = &[1, 2, 3, 0, 9, 0xa0, 9, 0x88, 0xfb];
        for tags in [&[][..], &VLAN[..], &[VLAN, VLAN].concat()[..]] {
            let octets = frame(&[tags, &[0x88, 0xcc], lsdu]);
            let trailer = Frame::parse(&octets).unwrap().prp().unwrap();
            assert_eq!(trailer, prp::Repr { sequence: 9, lan: prp::Lan::A, lsdu_size: 9 });
        }
    }
}

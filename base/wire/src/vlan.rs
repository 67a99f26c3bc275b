//! The VLAN tag (802.1Q clause 9.3): TPID, then PCP, DEI and VLAN id.

use core::fmt;

use crate::bytes::{room, split};
use crate::{EmitError, EtherType, TagError};

mod field {
    use core::ops::Range;

    pub(super) const TPID: Range<usize> = 0..2;
    pub(super) const TCI: Range<usize> = 2..4;
}

/// Octets of a VLAN tag.
pub const TAG_LEN: usize = field::TCI.end;
/// Maximum value of a VLAN id field; 4095 itself is reserved, 0 means "no VLAN".
pub const MAX_VID: u16 = 0x0fff;
/// Maximum priority code point.
pub const MAX_PCP: u8 = 7;

const WHAT: &str = "VLAN tag";

/// A VLAN tag, including its TPID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    tag: &'a [u8; TAG_LEN],
}

impl<'a> View<'a> {
    /// Reads the tag at the start of `octets`, which starts with a VLAN TPID.
    pub fn new_checked(octets: &'a [u8]) -> Result<Self, TagError> {
        let (tag, _) = split(WHAT, octets)?;
        let view = View { tag };
        let found = view.tpid();
        if found.is_vlan() { Ok(view) } else { Err(TagError::OtherEtherType { what: WHAT, found }) }
    }

    /// Returns [`EtherType::C_VLAN`] or [`EtherType::S_VLAN`].
    pub fn tpid(&self) -> EtherType {
        EtherType::from([self.tag[0], self.tag[1]])
    }

    /// Returns the priority code point, `0..=7`.
    pub fn pcp(&self) -> u8 {
        self.tag[2] >> 5
    }

    /// Returns the drop eligible indicator.
    pub fn dei(&self) -> bool {
        self.tag[2] & 0x10 != 0
    }

    /// Returns the VLAN id, `0..=4095`.
    pub fn vid(&self) -> u16 {
        u16::from_be_bytes([self.tag[2], self.tag[3]]) & MAX_VID
    }
}

/// A VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VlanTag {
    /// The kind of tag: [`EtherType::C_VLAN`] or [`EtherType::S_VLAN`].
    pub tpid: EtherType,
    /// Priority code point, `0..=7`.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// VLAN id, `0..=4095`; 0: the frame is only priority-tagged.
    pub vid: u16,
}

impl VlanTag {
    /// Creates a customer VLAN tag with priority 0.
    pub const fn new(vid: u16) -> Self {
        VlanTag { tpid: EtherType::C_VLAN, pcp: 0, dei: false, vid }
    }

    /// Returns the fields of a tag.
    pub fn parse(tag: &View<'_>) -> Self {
        VlanTag { tpid: tag.tpid(), pcp: tag.pcp(), dei: tag.dei(), vid: tag.vid() }
    }

    /// Returns the number of octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        TAG_LEN
    }

    /// Writes the tag to the start of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        EmitError::check("priority", self.pcp.into(), MAX_PCP.into())?;
        EmitError::check("VLAN id", self.vid.into(), MAX_VID.into())?;
        let tag = room::<TAG_LEN>(WHAT, buffer)?;
        let tci = u16::from(self.pcp) << 13 | u16::from(self.dei) << 12 | self.vid;
        tag[field::TPID].copy_from_slice(&self.tpid.to_octets());
        tag[field::TCI].copy_from_slice(&tci.to_be_bytes());
        Ok(TAG_LEN)
    }
}

impl fmt::Display for VlanTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.tpid == EtherType::S_VLAN { "svlan" } else { "vlan" };
        let dei = if self.dei { " dei" } else { "" };
        write!(f, "{kind} {} pcp {}{dei}", self.vid, self.pcp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const OCTETS: [u8; 5] = [0x88, 0xa8, 0xb1, 0x23, 0x08];
    const REPR: VlanTag = VlanTag { tpid: EtherType::S_VLAN, pcp: 5, dei: true, vid: 0x123 };

    #[test]
    fn parses() {
        assert_eq!(VlanTag::parse(&View::new_checked(&OCTETS).unwrap()), REPR);
    }

    #[test]
    fn emits() {
        let mut buffer = [0xa5; 5];
        assert_eq!(REPR.emit(&mut buffer), Ok(REPR.buffer_len()));
        assert_eq!(buffer, [0x88, 0xa8, 0xb1, 0x23, 0xa5]);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut buffer = [0xa5; 4];
        let wide = VlanTag { vid: 4096, ..REPR };
        assert_eq!(
            wide.emit(&mut buffer).unwrap_err().to_string(),
            "VLAN id 4096 does not fit: at most 4095"
        );
        assert!(VlanTag { pcp: 8, ..REPR }.emit(&mut buffer).is_err());
        assert!(REPR.emit(&mut buffer[..3]).is_err());
        assert_eq!(buffer, [0xa5; 4]);
    }

    #[test]
    fn is_not_another_tag() {
        assert_eq!(
            View::new_checked(&[0xf1, 0xc1, 0, 0]).unwrap_err().to_string(),
            "no VLAN tag here: the EtherType is 0xf1c1 (R-TAG)"
        );
        for len in 0..TAG_LEN {
            assert!(matches!(View::new_checked(&OCTETS[..len]), Err(TagError::Truncated(_))));
        }
    }

    #[test]
    fn shows() {
        assert_eq!(REPR.to_string(), "svlan 291 pcp 5 dei");
        assert_eq!(VlanTag::new(10).to_string(), "vlan 10 pcp 0");
    }
}

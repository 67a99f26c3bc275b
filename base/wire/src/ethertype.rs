//! EtherTypes.

use core::fmt;

/// The two octets after addresses and tags: an EtherType, or in an 802.3 frame a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP.
    pub const ARP: EtherType = EtherType(0x0806);
    /// 802.1Q customer VLAN tag.
    pub const C_VLAN: EtherType = EtherType(0x8100);
    /// IPv6.
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// 802.1Q service VLAN tag.
    pub const S_VLAN: EtherType = EtherType(0x88a8);
    /// Ethernet POWERLINK (EPSG DS 301).
    pub const POWERLINK: EtherType = EtherType(0x88ab);
    /// LLDP.
    pub const LLDP: EtherType = EtherType(0x88cc);
    /// Ends a PRP redundancy control trailer (IEC 62439-3).
    pub const PRP: EtherType = EtherType(0x88fb);
    /// HSR tag (IEC 62439-3).
    pub const HSR: EtherType = EtherType(0x892f);
    /// R-TAG (802.1CB 7.8).
    pub const R_TAG: EtherType = EtherType(0xf1c1);

    /// Minimum EtherType; values below are lengths (802.3).
    pub const FIRST: u16 = 0x0600;

    /// Returns whether this is the length of an 802.3 frame instead of an EtherType.
    pub const fn is_length(self) -> bool {
        self.0 < Self::FIRST
    }

    /// Returns whether this is the TPID of a VLAN tag.
    pub const fn is_vlan(self) -> bool {
        self.0 == Self::C_VLAN.0 || self.0 == Self::S_VLAN.0
    }

    /// Returns the octets in wire order.
    pub const fn to_octets(self) -> [u8; 2] {
        self.0.to_be_bytes()
    }
}

impl From<[u8; 2]> for EtherType {
    fn from(octets: [u8; 2]) -> Self {
        EtherType(u16::from_be_bytes(octets))
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            EtherType::IPV4 => " (IPv4)",
            EtherType::ARP => " (ARP)",
            EtherType::C_VLAN => " (C-VLAN)",
            EtherType::IPV6 => " (IPv6)",
            EtherType::S_VLAN => " (S-VLAN)",
            EtherType::POWERLINK => " (POWERLINK)",
            EtherType::LLDP => " (LLDP)",
            EtherType::PRP => " (PRP)",
            EtherType::HSR => " (HSR)",
            EtherType::R_TAG => " (R-TAG)",
            length if length.is_length() => return write!(f, "length {}", length.0),
            _ => "",
        };
        write!(f, "{:#06x}{name}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn the_first_ethertype_is_0x0600() {
        assert!(EtherType(0x05ff).is_length());
        assert!(!EtherType(0x0600).is_length());
    }

    #[test]
    fn shows_number_and_name() {
        assert_eq!(EtherType::R_TAG.to_string(), "0xf1c1 (R-TAG)");
        assert_eq!(EtherType(0x9000).to_string(), "0x9000");
        assert_eq!(EtherType(46).to_string(), "length 46");
    }
}

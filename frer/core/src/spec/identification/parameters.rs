//! Parameters of identification types, and the rules for each.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use onbeat_wire::MacAddress;

use super::error::IdentificationError;

/// Number of MSDU octets that Mask-and-match can read (9.1.6).
const MSDU_LENGTHS: core::ops::RangeInclusive<usize> = 2..=1984;

/// The VLAN tag that a frame must carry to match (9.1.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TagMatch {
    /// A VLAN tag with a VLAN id other than 0.
    Tagged,
    /// No VLAN tag, or one with VLAN id 0.
    Priority,
    /// Either.
    All,
}

/// A VLAN requirement: `tagged` and `vlan`, where VLAN id 0 means "any" (9.1.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VlanMatch {
    /// Whether a tag is required.
    pub tagged: TagMatch,
    /// VLAN id `1..=4094`, or 0: any. Compared only in frames with a tag.
    pub vlan: u16,
}

/// Parameters of IP Stream identification (9.1.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpMatch {
    /// Destination MAC address to match.
    pub destination: MacAddress,
    /// VLAN to match.
    pub vlan: VlanMatch,
    /// IP source address; `None` (all zero in the standard): any.
    pub ip_source: Option<core::net::IpAddr>,
    /// IP destination address.
    pub ip_destination: core::net::IpAddr,
    /// DSCP `0..=63`; `None` (64 in the standard): any.
    pub dscp: Option<u8>,
    /// Next protocol and its ports.
    pub next_protocol: NextProtocol,
}

/// Next protocol of IP Stream identification (9.1.5.6 to 9.1.5.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NextProtocol {
    /// Any protocol; ports are ignored.
    None,
    /// UDP with these ports.
    Udp {
        /// Source port; `None`: any.
        source: Option<u16>,
        /// Destination port; `None`: any.
        destination: Option<u16>,
    },
    /// TCP with these ports.
    Tcp {
        /// Source port; `None`: any.
        source: Option<u16>,
        /// Destination port; `None`: any.
        destination: Option<u16>,
    },
    /// SCTP with these ports.
    Sctp {
        /// Source port; `None`: any.
        source: Option<u16>,
        /// Destination port; `None`: any.
        destination: Option<u16>,
    },
}

/// Parameters of Mask-and-match Stream identification (9.1.6, 802.1CBdb).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskAndMatch {
    /// Mask over the destination address.
    pub destination_mask: MacAddress,
    /// Value of the masked destination address.
    pub destination_match: MacAddress,
    /// Mask over the source address.
    pub source_mask: MacAddress,
    /// Value of the masked source address.
    pub source_match: MacAddress,
    /// Mask over the first octets of the MSDU (the octets after addresses and VLAN tags); empty, or
    /// `2..=1984` octets.
    pub msdu_mask: Vec<u8>,
    /// Value of the masked MSDU; of the same length as `msdu_mask`.
    pub msdu_match: Vec<u8>,
}

impl VlanMatch {
    /// Returns the part of [`owner_text`](super::Identification::owner_text).
    pub(super) fn owner_text(&self) -> String {
        let tagged = match self.tagged {
            TagMatch::Tagged => "Tagged",
            TagMatch::Priority => "Priority",
            TagMatch::All => "All",
        };
        format!("VlanMatch {{ tagged: {tagged}, vlan: {} }}", self.vlan)
    }

    /// Returns the VLAN id, unless it is "any".
    pub(super) fn id_mut(&mut self) -> Option<&mut u16> {
        Some(&mut self.vlan).filter(|vlan| **vlan != 0)
    }

    pub(super) fn validate(self) -> Result<(), IdentificationError> {
        if self.vlan > 4094 {
            return Err(IdentificationError::VlanId(self.vlan));
        }
        if self.tagged == TagMatch::Priority && self.vlan != 0 {
            return Err(IdentificationError::PriorityWithVlan(self.vlan));
        }
        Ok(())
    }
}

impl IpMatch {
    /// Returns the part of [`owner_text`](super::Identification::owner_text).
    pub(super) fn owner_text(&self) -> String {
        format!(
            "IpMatch {{ destination: MacAddress({:?}), vlan: {}, ip_source: {:?}, \
             ip_destination: {}, dscp: {:?}, next_protocol: {} }}",
            self.destination.0,
            self.vlan.owner_text(),
            self.ip_source,
            self.ip_destination,
            self.dscp,
            self.next_protocol.owner_text()
        )
    }

    pub(super) fn validate(&self) -> Result<(), IdentificationError> {
        self.vlan.validate()?;
        if let Some(dscp) = self.dscp.filter(|dscp| *dscp > 63) {
            return Err(IdentificationError::Dscp(dscp));
        }
        match self.ip_source {
            Some(source) if source.is_ipv4() != self.ip_destination.is_ipv4() => {
                Err(IdentificationError::IpFamilies { source, destination: self.ip_destination })
            }
            _ => Ok(()),
        }
    }
}

impl NextProtocol {
    fn owner_text(&self) -> String {
        let (name, source, destination) = match self {
            Self::None => return String::from("None"),
            Self::Udp { source, destination } => ("Udp", source, destination),
            Self::Tcp { source, destination } => ("Tcp", source, destination),
            Self::Sctp { source, destination } => ("Sctp", source, destination),
        };
        format!("{name} {{ source: {source:?}, destination: {destination:?} }}")
    }

    /// Returns source and destination port, if required.
    pub(super) fn ports_mut(&mut self) -> (Option<&mut u16>, Option<&mut u16>) {
        match self {
            Self::None => (None, None),
            Self::Udp { source, destination }
            | Self::Tcp { source, destination }
            | Self::Sctp { source, destination } => (source.as_mut(), destination.as_mut()),
        }
    }
}

impl MaskAndMatch {
    /// Returns the part of [`owner_text`](super::Identification::owner_text).
    pub(super) fn owner_text(&self) -> String {
        format!(
            "MaskAndMatch {{ destination_mask: MacAddress({:?}), \
             destination_match: MacAddress({:?}), source_mask: MacAddress({:?}), \
             source_match: MacAddress({:?}), msdu_mask: {:?}, msdu_match: {:?} }}",
            self.destination_mask.0,
            self.destination_match.0,
            self.source_mask.0,
            self.source_match.0,
            self.msdu_mask,
            self.msdu_match
        )
    }

    pub(super) fn validate(&self) -> Result<(), IdentificationError> {
        let (mask, value) = (self.msdu_mask.len(), self.msdu_match.len());
        if mask != value {
            return Err(IdentificationError::MsduLengths { mask, value });
        }
        if mask != 0 && !MSDU_LENGTHS.contains(&mask) {
            return Err(IdentificationError::MsduLength(mask));
        }
        for (field, mask, value) in [
            ("destination", &self.destination_mask.0[..], &self.destination_match.0[..]),
            ("source", &self.source_mask.0, &self.source_match.0),
            ("msdu", &self.msdu_mask, &self.msdu_match),
        ] {
            if let Some(octet) = mask.iter().zip(value).position(|(m, v)| v & !m != 0) {
                return Err(IdentificationError::MatchOutsideMask { field, octet });
            }
        }
        Ok(())
    }
}

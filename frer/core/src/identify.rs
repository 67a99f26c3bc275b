//! Stream identification (802.1CB clause 6, managed by 9.1): maps a frame to its stream.
//!
//! Interpretation of `tagged` and the VLAN id (9.1.2.2, 9.1.2.3):
//!
//! * A frame is *tagged* if its outer VLAN tag has a VLAN id other than 0. VLAN id 0 means "no VLAN", so a
//!   priority-tagged frame is treated like an untagged one.
//! * A required VLAN id (not 0) is compared only if the frame has one: with [`TagMatch::All`], frames without a
//!   VLAN match as well.

mod group;
mod index;
mod masks;
mod shape;
mod table;

use core::net::IpAddr;

use onbeat_wire::{Frame, Ip, MacAddress};

use crate::spec::{Identification, IpMatch, MaskAndMatch, NextProtocol, TagMatch, VlanMatch};

pub use shape::MemberRef;
pub use table::{Conflict, Table};

/// The fields of a frame that identification reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields<'a> {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    /// VLAN id of the outer VLAN tag, if present.
    pub vlan: Option<u16>,
    /// The IP packet in the frame, after VLAN tags and sequence tag.
    pub ip: Option<IpFields>,
    /// The octets after addresses and VLAN tags, from EtherType or length on. This includes a sequence tag,
    /// as identification is below sequence decoding (figure 6-1).
    pub msdu: &'a [u8],
}

/// The fields of an IP packet that identification reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpFields {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The upper six bits of the traffic class.
    pub dscp: u8,
    /// Protocol of the payload, after IPv6 extension headers.
    pub protocol: u8,
    /// Source and destination port; `None` if the protocol has none, and in all fragments except the first.
    pub ports: Option<(u16, u16)>,
}

/// Unreadable IP headers are treated as absent: such a frame matches no IP identification.
impl<'a> From<&Frame<'a>> for Fields<'a> {
    fn from(frame: &Frame<'a>) -> Self {
        let ip = frame.ip().ok().flatten().map(IpFields::from);
        Self { ip, ..Self::without_ip(frame) }
    }
}

impl From<Ip> for IpFields {
    fn from(ip: Ip) -> Self {
        Self {
            source: ip.source,
            destination: ip.destination,
            dscp: ip.dscp,
            protocol: ip.protocol.0,
            ports: ip.ports.map(|ports| (ports.source, ports.destination)),
        }
    }
}

impl<'a> Fields<'a> {
    /// Reads all fields of a frame except those of IP.
    pub(crate) fn without_ip(frame: &Frame<'a>) -> Self {
        Self {
            destination: frame.destination(),
            source: frame.source(),
            vlan: frame.vlan().map(|tag| tag.vid),
            ip: None,
            msdu: frame.msdu(),
        }
    }

    /// Returns a VLAN id other than 0.
    fn vid(&self) -> Option<u16> {
        self.vlan.filter(|vid| *vid != 0)
    }
}

impl Identification {
    /// Returns whether a frame with these fields matches the identification.
    ///
    /// [`Table`] defines the precedence if several match.
    pub fn matches(&self, fields: &Fields<'_>) -> bool {
        self.key().matches(fields)
    }
}

impl VlanMatch {
    fn matches(self, vid: Option<u16>) -> bool {
        match (self.tagged, vid) {
            (TagMatch::Tagged, None) | (TagMatch::Priority, Some(_)) => false,
            (TagMatch::Priority | TagMatch::All, None) => true,
            (TagMatch::Tagged | TagMatch::All, Some(vid)) => self.vlan == 0 || self.vlan == vid,
        }
    }
}

impl IpMatch {
    fn matches(&self, fields: &Fields<'_>) -> bool {
        let Some(ip) = &fields.ip else { return false };
        self.destination == fields.destination
            && self.vlan.matches(fields.vid())
            && self.ip_destination == ip.destination
            && self.ip_source.is_none_or(|source| source == ip.source)
            && self.dscp.is_none_or(|dscp| dscp == ip.dscp)
            && self.next_protocol.matches(ip)
    }
}

impl NextProtocol {
    /// Returns the IP protocol number, source port and destination port; `None`: any.
    #[must_use]
    pub fn parts(self) -> (Option<u8>, Option<u16>, Option<u16>) {
        match self {
            Self::None => (None, None, None),
            Self::Udp { source, destination } => (Some(17), source, destination),
            Self::Tcp { source, destination } => (Some(6), source, destination),
            Self::Sctp { source, destination } => (Some(132), source, destination),
        }
    }

    fn matches(self, ip: &IpFields) -> bool {
        let (protocol, source, destination) = self.parts();
        protocol.is_none_or(|protocol| protocol == ip.protocol)
            && source.is_none_or(|port| ip.ports.is_some_and(|ports| ports.0 == port))
            && destination.is_none_or(|port| ip.ports.is_some_and(|ports| ports.1 == port))
    }
}

impl MaskAndMatch {
    /// An MSDU shorter than the mask does not match (6.8).
    fn matches(&self, fields: &Fields<'_>) -> bool {
        masked(&fields.destination.0, &self.destination_mask.0, &self.destination_match.0)
            && masked(&fields.source.0, &self.source_mask.0, &self.source_match.0)
            && masked(fields.msdu, &self.msdu_mask, &self.msdu_match)
    }
}

fn masked(octets: &[u8], mask: &[u8], value: &[u8]) -> bool {
    octets.len() >= mask.len()
        && octets.iter().zip(mask).zip(value).all(|((octet, mask), value)| octet & mask == *value)
}

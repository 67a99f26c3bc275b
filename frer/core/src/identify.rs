//! Stream identification (802.1CB clause 6, managed by 9.1): which stream a frame is of.
//!
//! How `tagged` and the VLAN id read (9.1.2.2, 9.1.2.3):
//!
//! * A frame is *tagged* when its outer VLAN tag has a VLAN id other than 0. VLAN id 0 says "no
//!   VLAN", so that a priority-tagged frame is treated as one without a tag.
//! * A VLAN id that is asked for (not 0) is compared where the frame has one: with
//!   [`Tagged::All`], frames without a VLAN match as well.

mod group;
mod index;
mod masks;
mod shape;
mod table;

use core::net::IpAddr;

use onbeat_wire::{Frame, Ip, MacAddress};

use crate::spec::{Identification, IpMatch, MaskAndMatch, NextProtocol, Tagged, VlanMatch};

pub use shape::MemberRef;
pub use table::{Conflict, Table};

/// The fields of a frame that identification looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields<'a> {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    /// VLAN id of the outer VLAN tag, where there is one.
    pub vlan: Option<u16>,
    /// The IP packet in the frame, behind VLAN tags and sequence tag.
    pub ip: Option<IpFields>,
    /// What follows addresses and VLAN tags: EtherType or length first. A sequence tag is part
    /// of it, as identification stands below sequence decoding (figure 6-1).
    pub msdu: &'a [u8],
}

/// The fields of an IP packet that identification looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpFields {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The upper six bits of the traffic class.
    pub dscp: u8,
    /// Protocol of the payload, behind IPv6 extension headers.
    pub protocol: u8,
    /// Source and destination port; `None` where the protocol has none, and in all fragments of
    /// a packet but the first.
    pub ports: Option<(u16, u16)>,
}

/// IP headers that cannot be read are none: such a frame is of no stream that IP identifies.
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
    /// A frame's fields but for those of IP.
    pub(crate) fn without_ip(frame: &Frame<'a>) -> Self {
        Self {
            destination: frame.destination(),
            source: frame.source(),
            vlan: frame.vlan().map(|tag| tag.vid),
            ip: None,
            msdu: frame.msdu(),
        }
    }

    /// VLAN id other than 0.
    fn vid(&self) -> Option<u16> {
        self.vlan.filter(|vid| *vid != 0)
    }
}

impl Identification {
    /// Whether a frame with these fields is of the stream.
    ///
    /// Which one takes a frame that several match: [`Table`].
    pub fn matches(&self, fields: &Fields<'_>) -> bool {
        self.key().matches(fields)
    }
}

impl VlanMatch {
    fn matches(self, vid: Option<u16>) -> bool {
        match (self.tagged, vid) {
            (Tagged::Tagged, None) | (Tagged::Priority, Some(_)) => false,
            (Tagged::Priority | Tagged::All, None) => true,
            (Tagged::Tagged | Tagged::All, Some(vid)) => self.vlan == 0 || self.vlan == vid,
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
    /// IP protocol number, source port and destination port; `None`: any.
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

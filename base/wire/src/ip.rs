//! The fields that identification by IP (802.1CB 6.7) reads, for IPv4 and IPv6.

use core::fmt;
use core::net::IpAddr;

use crate::ipv6::ExtensionError;
use crate::{EtherType, Ports, TruncationError, ipv4, ipv6};

/// An IP protocol number; in IPv6, of the next header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// TCP.
    pub const TCP: Protocol = Protocol(6);
    /// UDP.
    pub const UDP: Protocol = Protocol(17);
    /// SCTP.
    pub const SCTP: Protocol = Protocol(132);

    /// Returns whether its header starts with two ports, which identification reads.
    pub const fn has_ports(self) -> bool {
        matches!(self, Protocol::TCP | Protocol::UDP | Protocol::SCTP)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Protocol::TCP => f.write_str("tcp"),
            Protocol::UDP => f.write_str("udp"),
            Protocol::SCTP => f.write_str("sctp"),
            Protocol(other) => write!(f, "protocol {other}"),
        }
    }
}

/// The reason why the IP headers of a frame could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpError {
    /// Not an IPv4 packet, despite the EtherType.
    V4(ipv4::PacketError),
    /// Not an IPv6 packet, despite the EtherType.
    V6(ipv6::PacketError),
    /// The extension headers of an IPv6 packet.
    Extension(ExtensionError),
    /// The packet ends before the end of the ports.
    Ports(TruncationError),
}

impl From<ipv4::PacketError> for IpError {
    fn from(error: ipv4::PacketError) -> Self {
        IpError::V4(error)
    }
}

impl From<ipv6::PacketError> for IpError {
    fn from(error: ipv6::PacketError) -> Self {
        IpError::V6(error)
    }
}

impl From<ExtensionError> for IpError {
    fn from(error: ExtensionError) -> Self {
        IpError::Extension(error)
    }
}

impl From<TruncationError> for IpError {
    fn from(error: TruncationError) -> Self {
        IpError::Ports(error)
    }
}

impl fmt::Display for IpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IpError::V4(error) => error.fmt(f),
            IpError::V6(error) => error.fmt(f),
            IpError::Extension(error) => error.fmt(f),
            IpError::Ports(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for IpError {}

/// Addresses, DSCP, next protocol and ports of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ip {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Differentiated services code point, `0..=63`.
    pub dscp: u8,
    /// The protocol after all IP headers. For a fragment other than the first it is the one in the fragment
    /// header, which may be an extension header that only the first fragment has.
    pub protocol: Protocol,
    /// Ports of UDP, TCP and SCTP; `None` for other protocols and for all fragments except the first.
    pub ports: Option<Ports>,
}

impl Ip {
    /// Parses the packet after `ethertype`; `None`: not an IP packet. Checksums are not verified.
    pub fn parse(ethertype: EtherType, octets: &[u8]) -> Result<Option<Self>, IpError> {
        match ethertype {
            EtherType::IPV4 => Self::parse_v4(octets).map(Some),
            EtherType::IPV6 => Self::parse_v6(octets).map(Some),
            _ => Ok(None),
        }
    }

    fn parse_v4(octets: &[u8]) -> Result<Self, IpError> {
        let packet = ipv4::View::new_checked(octets)?;
        let protocol = packet.protocol();
        Ok(Ip {
            source: packet.source().into(),
            destination: packet.destination().into(),
            dscp: packet.dscp(),
            protocol,
            ports: ports(protocol, packet.fragment_offset() == 0, packet.payload())?,
        })
    }

    fn parse_v6(octets: &[u8]) -> Result<Self, IpError> {
        let packet = ipv6::View::new_checked(octets)?;
        let upper = packet.upper()?;
        Ok(Ip {
            source: packet.source().into(),
            destination: packet.destination().into(),
            dscp: packet.dscp(),
            protocol: upper.protocol,
            ports: ports(upper.protocol, upper.fragment_offset == 0, upper.payload)?,
        })
    }
}

fn ports(
    protocol: Protocol,
    first: bool,
    payload: &[u8],
) -> Result<Option<Ports>, TruncationError> {
    if first && protocol.has_ports() { Ports::parse(payload).map(Some) } else { Ok(None) }
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {} dscp {} {}", self.source, self.destination, self.dscp, self.protocol)?;
        self.ports.map_or(Ok(()), |ports| write!(f, " {ports}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use std::string::ToString;
    use std::vec::Vec;

    const V4: ipv4::Repr = ipv4::Repr {
        protocol: Protocol::UDP,
        dscp: 46,
        ..ipv4::Repr::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), 4)
    };

    fn v4(repr: ipv4::Repr) -> Vec<u8> {
        let mut octets = [0; 24];
        repr.emit(&mut octets).unwrap();
        octets[20..].copy_from_slice(&[0, 1, 0, 2]);
        octets.to_vec()
    }

    #[test]
    fn v4_with_ports() {
        let ip = Ip::parse(EtherType::IPV4, &v4(V4)).unwrap().unwrap();
        assert_eq!(ip.to_string(), "10.0.0.1 -> 10.0.0.2 dscp 46 udp port 1 -> 2");
    }

    #[test]
    fn only_the_first_fragment_has_ports() {
        let first = ipv4::Repr { more_fragments: true, ..V4 };
        let second = ipv4::Repr { fragment_offset: 1, ..V4 };
        let ports = |repr| Ip::parse(EtherType::IPV4, &v4(repr)).unwrap().unwrap().ports;
        assert_eq!(ports(first), Some(Ports { source: 1, destination: 2 }));
        assert_eq!(ports(second), None);
    }

    #[test]
    fn ports_are_not_read_from_the_padding() {
        let short = ipv4::Repr { payload_len: 3, ..V4 };
        let error = Ip::parse(EtherType::IPV4, &v4(short)).unwrap_err();
        assert_eq!(error, IpError::Ports(TruncationError { what: "ports", needed: 4, len: 3 }));
        let icmp = ipv4::Repr { payload_len: 3, protocol: Protocol(1), ..V4 };
        assert_eq!(Ip::parse(EtherType::IPV4, &v4(icmp)).unwrap().unwrap().ports, None);
    }

    #[test]
    fn v6_with_ports() {
        let header = ipv6::Repr {
            next_header: Protocol::SCTP,
            ..ipv6::Repr::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 4)
        };
        let mut octets = [0xa5; 44];
        header.emit(&mut octets).unwrap();
        octets[40..].copy_from_slice(&[0, 1, 0, 2]);
        let ip = Ip::parse(EtherType::IPV6, &octets).unwrap().unwrap();
        assert_eq!(ip.to_string(), "::1 -> ::1 dscp 0 sctp port 1 -> 2");
    }

    #[test]
    fn other_ethertypes_are_no_ip() {
        assert_eq!(Ip::parse(EtherType::ARP, &v4(V4)), Ok(None));
        assert!(Ip::parse(EtherType::IPV6, &v4(V4)).is_err());
    }
}

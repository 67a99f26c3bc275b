//! ARP for IPv4 over Ethernet (RFC 826).

use core::fmt;
use core::net::Ipv4Addr;

use crate::bytes::{room, split};
use crate::{EmitError, EtherType, MacAddress, TruncationError};

mod field {
    use core::ops::Range;

    pub(super) const HARDWARE: Range<usize> = 0..2;
    pub(super) const PROTOCOL: Range<usize> = 2..4;
    pub(super) const LENGTHS: Range<usize> = 4..6;
    pub(super) const OPERATION: Range<usize> = 6..8;
    pub(super) const SENDER_MAC: Range<usize> = 8..14;
    pub(super) const SENDER_IP: Range<usize> = 14..18;
    pub(super) const TARGET_MAC: Range<usize> = 18..24;
    pub(super) const TARGET_IP: Range<usize> = 24..28;
}

/// Octets of a packet.
pub const PACKET_LEN: usize = field::TARGET_IP.end;

const WHAT: &str = "ARP packet";
/// Hardware type Ethernet.
const ETHERNET: u16 = 1;
/// Octets of a MAC and of an IPv4 address.
const LENGTHS: [u8; 2] = [6, 4];

/// The reason why octets are not an ARP packet for IPv4 over Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketError {
    /// The packet is truncated.
    Truncated(TruncationError),
    /// The hardware is not Ethernet.
    Hardware(u16),
    /// The protocol is not IPv4.
    Protocol(EtherType),
    /// The lengths are not those of MAC and IPv4 addresses.
    Lengths([u8; 2]),
}

impl From<TruncationError> for PacketError {
    fn from(error: TruncationError) -> Self {
        PacketError::Truncated(error)
    }
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketError::Truncated(error) => error.fmt(f),
            PacketError::Hardware(found) => {
                write!(f, "ARP hardware type {found} is not Ethernet ({ETHERNET})")
            }
            PacketError::Protocol(found) => write!(f, "ARP protocol {found} is not IPv4"),
            PacketError::Lengths([hardware, protocol]) => {
                write!(f, "ARP address lengths {hardware} and {protocol} are not 6 and 4")
            }
        }
    }
}

impl core::error::Error for PacketError {}

/// A packet for IPv4 over Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    packet: &'a [u8; PACKET_LEN],
}

impl<'a> View<'a> {
    /// Reads the packet at the start of `octets`; padding may follow.
    pub fn new_checked(octets: &'a [u8]) -> Result<Self, PacketError> {
        let (packet, _) = split::<PACKET_LEN>(WHAT, octets)?;
        let hardware = u16::from_be_bytes([packet[0], packet[1]]);
        let protocol = EtherType::from([packet[2], packet[3]]);
        let lengths = [packet[4], packet[5]];
        if hardware != ETHERNET {
            return Err(PacketError::Hardware(hardware));
        }
        if protocol != EtherType::IPV4 {
            return Err(PacketError::Protocol(protocol));
        }
        if lengths != LENGTHS {
            return Err(PacketError::Lengths(lengths));
        }
        Ok(View { packet })
    }

    fn octets<const N: usize>(&self, at: usize) -> [u8; N] {
        core::array::from_fn(|i| self.packet[at + i])
    }

    /// Returns the operation: request, reply, or another one.
    pub fn operation(&self) -> Operation {
        Operation(u16::from_be_bytes(self.octets(field::OPERATION.start)))
    }

    /// Returns the MAC address of the sender.
    pub fn sender_mac(&self) -> MacAddress {
        MacAddress(self.octets(field::SENDER_MAC.start))
    }

    /// Returns the IPv4 address of the sender.
    pub fn sender_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.octets(field::SENDER_IP.start))
    }

    /// Returns the MAC address of the target; unknown in a request.
    pub fn target_mac(&self) -> MacAddress {
        MacAddress(self.octets(field::TARGET_MAC.start))
    }

    /// Returns the IPv4 address of the target.
    pub fn target_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.octets(field::TARGET_IP.start))
    }
}

/// The operation of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operation(pub u16);

impl Operation {
    /// Requests the MAC address of the target's IP address.
    pub const REQUEST: Operation = Operation(1);
    /// Reports the MAC address of the sender.
    pub const REPLY: Operation = Operation(2);
}

/// A packet for IPv4 over Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The operation: request, reply, or another one.
    pub operation: Operation,
    /// MAC address of the sender.
    pub sender_mac: MacAddress,
    /// IPv4 address of the sender.
    pub sender_ip: Ipv4Addr,
    /// MAC address of the target.
    pub target_mac: MacAddress,
    /// IPv4 address of the target.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// Returns the fields of a packet.
    pub fn parse(packet: &View<'_>) -> Self {
        Repr {
            operation: packet.operation(),
            sender_mac: packet.sender_mac(),
            sender_ip: packet.sender_ip(),
            target_mac: packet.target_mac(),
            target_ip: packet.target_ip(),
        }
    }

    /// Returns the number of octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        PACKET_LEN
    }

    /// Writes the packet to the start of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let packet = room::<PACKET_LEN>(WHAT, buffer)?;
        packet[field::HARDWARE].copy_from_slice(&ETHERNET.to_be_bytes());
        packet[field::PROTOCOL].copy_from_slice(&EtherType::IPV4.to_octets());
        packet[field::LENGTHS].copy_from_slice(&LENGTHS);
        packet[field::OPERATION].copy_from_slice(&self.operation.0.to_be_bytes());
        packet[field::SENDER_MAC].copy_from_slice(&self.sender_mac.0);
        packet[field::SENDER_IP].copy_from_slice(&self.sender_ip.octets());
        packet[field::TARGET_MAC].copy_from_slice(&self.target_mac.0);
        packet[field::TARGET_IP].copy_from_slice(&self.target_ip.octets());
        Ok(PACKET_LEN)
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sender, target) = (self.sender_ip, self.target_ip);
        match self.operation {
            Operation::REQUEST => write!(f, "arp who-has {target} tell {sender}"), // words: ok
            Operation::REPLY => write!(f, "arp {sender} is-at {}", self.sender_mac),
            Operation(other) => write!(f, "arp operation {other} {sender} -> {target}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const OCTETS: [u8; 28] =
        [0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2];
    const REPR: Repr = Repr {
        operation: Operation::REPLY,
        sender_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        sender_ip: Ipv4Addr::new(10, 0, 0, 1),
        target_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        target_ip: Ipv4Addr::new(10, 0, 0, 2),
    };

    #[test]
    fn parses() {
        assert_eq!(Repr::parse(&View::new_checked(&OCTETS).unwrap()), REPR);
    }

    #[test]
    fn emits() {
        let mut buffer = [0xa5; 29];
        assert_eq!(REPR.emit(&mut buffer), Ok(REPR.buffer_len()));
        assert_eq!(buffer[..28], OCTETS);
        assert_eq!(buffer[28], 0xa5);
        assert!(REPR.emit(&mut buffer[..27]).is_err());
    }

    #[test]
    fn other_networks_are_refused() {
        let with = |at: usize| {
            let mut octets = OCTETS;
            octets[at] ^= 0x40;
            View::new_checked(&octets).unwrap_err()
        };
        assert_eq!(with(1), PacketError::Hardware(0x41));
        assert_eq!(with(2), PacketError::Protocol(EtherType(0x4800)));
        assert_eq!(with(4), PacketError::Lengths([0x46, 4]));
        assert_eq!(with(5), PacketError::Lengths([6, 0x44]));
        for len in 0..PACKET_LEN {
            assert!(matches!(View::new_checked(&OCTETS[..len]), Err(PacketError::Truncated(_))));
        }
    }

    #[test]
    fn shows() {
        assert_eq!(REPR.to_string(), "arp 10.0.0.1 is-at 02:00:00:00:00:01");
        let request = Repr { operation: Operation::REQUEST, ..REPR };
        assert_eq!(request.to_string(), "arp who-has 10.0.0.2 tell 10.0.0.1"); // words: ok
        let other = Repr { operation: Operation(9), ..REPR };
        assert_eq!(other.to_string(), "arp operation 9 10.0.0.1 -> 10.0.0.2");
    }
}

//! The key of a packet on both sides of a hop: a 64-bit hash of everything that the hop leaves unchanged.
//!
//! | excluded | reason |
//! |---|---|
//! | MAC addresses, VLAN tags, R-TAG, HSR tag, padding | a router, switch or relay rewrites them |
//! | traffic class, TTL or hop limit, flow label, IPv4 options | changed on the path |
//! | checksums | follow from the other fields; missing if the NIC inserts them |
//!
//! Two packets that differ in the remaining fields have different keys, except for one pair in 2^64. The key
//! includes IPv4's identification: it distinguishes packets of the same contents.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;
use onbeat_wire::{EtherType, Frame, Protocol};

use crate::capture::{LinkType, Packet};
use crate::pairing::Side;

/// The same for every run, so that keys can be compared between runs.
const HASH: FixedState = FixedState::with_seed(0);

const ICMP: Protocol = Protocol(1);
const ICMPV6: Protocol = Protocol(58);

/// The minimum payload of an Ethernet frame without tags. A longer one has no padding.
const MIN_PAYLOAD: usize = 46;

/// The method of packet identification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recognition {
    /// Addresses and ports are translated on the path, and excluded. Packets are then distinguished by
    /// identification, length and payload only.
    pub nat: bool,
    /// Departures are replies, with addresses and ports exchanged and an identification of their own, as with an
    /// echo.
    pub reply: bool,
    /// Octets to compare, from the start of the IP header or Ethernet's payload on. Both captures must hold that
    /// many.
    pub octets: usize,
}

impl Default for Recognition {
    /// No translation, no reply, all octets.
    fn default() -> Self {
        Recognition { nat: false, reply: false, octets: usize::MAX }
    }
}

/// The reason why a packet has no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoKeyReason {
    /// The capture holds fewer octets of it than are to be compared.
    Cut {
        /// Captured octets that could be compared.
        captured: usize,
    },
    /// It ends within its headers on the wire.
    Malformed,
    /// Its link type has no packets that can be matched.
    Link(LinkType),
}

impl Recognition {
    /// Returns the key of an arriving packet.
    pub fn key(&self, packet: &Packet<'_>) -> Result<u64, NoKeyReason> {
        self.key_on(Side::Arrivals, packet)
    }

    /// Returns the key of a packet captured on this side. A departing reply has the key of its request, and a
    /// request that is forwarded unchanged has another.
    pub fn key_on(&self, side: Side, packet: &Packet<'_>) -> Result<u64, NoKeyReason> {
        let reversed = self.reply && side == Side::Departures;
        let (ethertype, payload) = network(packet)?;
        // The payload on the wire, captured or not.
        let wire_len =
            payload.len() + (packet.wire_len as usize).saturating_sub(packet.octets.len());
        let mut hasher = HASH.build_hasher();
        match (ethertype, payload.first().map(|first| first >> 4)) {
            (EtherType::IPV4, Some(4)) => self.ipv4(&mut hasher, payload, wire_len, reversed)?,
            (EtherType::IPV6, Some(6)) => self.ipv6(&mut hasher, payload, wire_len, reversed)?,
            _ => self.other(&mut hasher, ethertype, payload, wire_len)?,
        }
        Ok(hasher.finish())
    }

    /// The first octets of `len`, limited to those to compare.
    fn prefix<'a>(&self, captured: &'a [u8], len: usize) -> Result<&'a [u8], NoKeyReason> {
        captured.get(..len.min(self.octets)).ok_or(NoKeyReason::Cut { captured: captured.len() })
    }

    fn ipv4(
        &self,
        hasher: &mut impl Hasher,
        captured: &[u8],
        wire_len: usize,
        reversed: bool,
    ) -> Result<(), NoKeyReason> {
        let header: &[u8; 20] = header(captured, wire_len)?;
        let header_len = usize::from(header[0] & 0x0f) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        // 0: a large packet that the NIC segments.
        let total = if total == 0 { wire_len } else { total };
        if header_len < 20 || total < header_len || total > wire_len {
            return Err(NoKeyReason::Malformed);
        }
        let packet = self.prefix(captured, total)?;
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
        let identification = if self.reply { 0 } else { be32(header, 4) >> 16 };
        hasher.write_u64(
            u64::from(identification) << 48
                | u64::from(fragment) << 32
                | ((total - header_len) as u64) << 8
                | u64::from(header[9]),
        );
        let addresses = [u128::from(be32(header, 12)), u128::from(be32(header, 16))];
        let transport = packet.get(header_len..).unwrap_or_default();
        // Only the first fragment contains the ports.
        let protocol = if fragment & 0x1fff == 0 { Protocol(header[9]) } else { Protocol(0xff) };
        self.transport(hasher, addresses, protocol, transport, reversed);
        Ok(())
    }

    fn ipv6(
        &self,
        hasher: &mut impl Hasher,
        captured: &[u8],
        wire_len: usize,
        reversed: bool,
    ) -> Result<(), NoKeyReason> {
        let header: &[u8; 40] = header(captured, wire_len)?;
        let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let total = if payload_len == 0 { wire_len } else { 40 + payload_len };
        if total > wire_len {
            return Err(NoKeyReason::Malformed);
        }
        let packet = self.prefix(captured, total)?;
        hasher.write_u64((total as u64) << 8 | u64::from(header[6]) | 1 << 63);
        let address = |at| u128::from_be_bytes(std::array::from_fn(|i| header[at + i]));
        let transport = packet.get(40..).unwrap_or_default();
        let addresses = [address(8), address(24)];
        self.transport(hasher, addresses, Protocol(header[6]), transport, reversed);
        Ok(())
    }

    /// Hashes addresses, ports and the payload, without the transport's checksum.
    fn transport(
        &self,
        hasher: &mut impl Hasher,
        addresses: [u128; 2],
        protocol: Protocol,
        octets: &[u8],
        reversed: bool,
    ) {
        let (has_ports, checksum) = match protocol {
            Protocol::UDP => (true, 6),
            Protocol::TCP => (true, 16),
            ICMP | ICMPV6 => (false, 2),
            _ => (false, octets.len()),
        };
        let (ports, rest) = match octets.split_first_chunk::<4>() {
            Some((&[a, b, c, d], rest)) if has_ports => {
                let ports = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                (ports, rest)
            }
            _ => ((0, 0), octets),
        };
        let mut ends = [(addresses[0], ports.0), (addresses[1], ports.1)];
        if reversed {
            ends.reverse();
        }
        if !self.nat {
            let [(source, from), (destination, to)] = ends;
            if (source | destination) >> 32 == 0 {
                hasher.write_u64((source << 32 | destination) as u64);
            } else {
                hasher.write_u128(source);
                hasher.write_u128(destination);
            }
            hasher.write_u32(u32::from(from) << 16 | u32::from(to));
        }
        let is_icmp = !has_ports && checksum == 2;
        if is_icmp && (self.reply || self.nat) {
            // Type, checksum, and the identifier, which a translator treats as a port.
            let skip = if self.nat { 6 } else { 4 };
            hasher.write(rest.get(skip..).unwrap_or_default());
            return;
        }
        let checksum = checksum - (octets.len() - rest.len()).min(checksum);
        let (before, from) = rest.split_at_checked(checksum).unwrap_or((rest, &[]));
        if !before.is_empty() {
            hasher.write(before);
        }
        hasher.write(from.get(2..).unwrap_or_default());
    }

    /// Hashes the payload of an unknown protocol.
    fn other(
        &self,
        hasher: &mut impl Hasher,
        ethertype: EtherType,
        captured: &[u8],
        wire_len: usize,
    ) -> Result<(), NoKeyReason> {
        let mut payload = self.prefix(captured, wire_len)?;
        if wire_len <= MIN_PAYLOAD {
            // Padding is present on one side and not yet, or no longer, on the other.
            let end = payload.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
            payload = &payload[..end];
        }
        hasher.write_u64(u64::from(ethertype.0) << 32 | 1 << 62 | payload.len() as u64);
        hasher.write(payload);
        Ok(())
    }
}

/// Returns the payload of the link header, and its EtherType.
fn network<'a>(packet: &Packet<'a>) -> Result<(EtherType, &'a [u8]), NoKeyReason> {
    let cut = packet.octets.len() < packet.wire_len as usize;
    match packet.link {
        // By reference: a frame that is moved right after it was written delays the processor.
        LinkType::ETHERNET => match &Frame::parse(packet.octets) {
            Ok(frame) => Ok((frame.ethertype(), frame.payload())),
            Err(_) if cut => Err(NoKeyReason::Cut { captured: 0 }),
            Err(_) => Err(NoKeyReason::Malformed),
        },
        LinkType::RAW_IP => Ok((ip_version(packet.octets), packet.octets)),
        LinkType::LINUX_SLL => cooked(packet.octets, 14, 16, cut),
        LinkType::LINUX_SLL2 => cooked(packet.octets, 0, 20, cut),
        other => Err(NoKeyReason::Link(other)),
    }
}

/// Sender and receiver of a packet on its link, as hashes: MAC addresses, or IP addresses if the capture lacks a
/// link header with both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketEndpoints {
    pub(crate) source: u64,
    pub(crate) destination: u64,
}

/// The endpoints of a packet; `None` without either kind of address.
pub(crate) fn endpoints(packet: &Packet<'_>) -> Option<PacketEndpoints> {
    if packet.link == LinkType::ETHERNET {
        let octets: &[u8; 12] = packet.octets.first_chunk()?;
        let address = |at: usize| HASH.hash_one(&octets[at..at + 6]);
        return Some(PacketEndpoints { source: address(6), destination: address(0) });
    }
    let (ethertype, payload) = network(packet).ok()?;
    let address = |from: usize, to: usize| payload.get(from..to).map(|one| HASH.hash_one(one));
    match ethertype {
        EtherType::IPV4 => {
            Some(PacketEndpoints { source: address(12, 16)?, destination: address(16, 20)? })
        }
        EtherType::IPV6 => {
            Some(PacketEndpoints { source: address(8, 24)?, destination: address(24, 40)? })
        }
        _ => None,
    }
}

/// Returns TTL or hop limit, which each router decrements.
pub(crate) fn hop_limit(packet: &Packet<'_>) -> Option<u8> {
    match network(packet).ok()? {
        (EtherType::IPV4, payload) => payload.get(8).copied(),
        (EtherType::IPV6, payload) => payload.get(7).copied(),
        _ => None,
    }
}

/// Returns the header at the start of a packet.
fn header<const N: usize>(captured: &[u8], wire_len: usize) -> Result<&[u8; N], NoKeyReason> {
    let cut = NoKeyReason::Cut { captured: captured.len() };
    captured.first_chunk().ok_or(if wire_len < N { NoKeyReason::Malformed } else { cut })
}

/// Returns the EtherType that an IP packet without a link header would have.
fn ip_version(octets: &[u8]) -> EtherType {
    match octets.first().map(|first| first >> 4) {
        Some(6) => EtherType::IPV6,
        _ => EtherType::IPV4,
    }
}

/// Returns the payload of a Linux cooked header.
fn cooked(
    octets: &[u8],
    protocol: usize,
    header_len: usize,
    cut: bool,
) -> Result<(EtherType, &[u8]), NoKeyReason> {
    match (octets.get(protocol..protocol + 2), octets.get(header_len..)) {
        (Some(&[a, b]), Some(payload)) => Ok((EtherType::from([a, b]), payload)),
        _ if cut => Err(NoKeyReason::Cut { captured: 0 }),
        _ => Err(NoKeyReason::Malformed),
    }
}

fn be32(octets: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|i| octets[at + i]))
}

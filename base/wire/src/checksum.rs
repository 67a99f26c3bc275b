//! The Internet checksum (RFC 1071).

use core::net::IpAddr;

use crate::{EtherType, Frame, Protocol, ipv4, ipv6};

/// A sum over slices. Every slice except the last must have an even length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checksum(u64);

impl Checksum {
    /// Creates an empty sum.
    pub const fn new() -> Self {
        Checksum(0)
    }

    /// Creates the sum of the pseudo header before `len` octets of `protocol` (RFC 768, RFC 8200 8.1).
    pub fn pseudo_header(
        source: IpAddr,
        destination: IpAddr,
        protocol: Protocol,
        len: u32,
    ) -> Self {
        let mut sum = Checksum::new();
        for address in [source, destination] {
            match address {
                IpAddr::V4(address) => sum.add(&address.octets()),
                IpAddr::V6(address) => sum.add(&address.octets()),
            }
        }
        sum.add(&len.to_be_bytes());
        sum.add(&[0, protocol.0]);
        sum
    }

    /// Adds octets; an odd last one is padded with a zero.
    pub fn add(&mut self, octets: &[u8]) {
        // 2^48 pairs fit: the sum cannot overflow.
        for pair in octets.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            self.0 += u64::from(u16::from_be_bytes([pair[0], low]));
        }
    }

    /// Returns the checksum: 0 if the added octets include a valid one.
    pub fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

/// Completes the checksum of a TCP or UDP packet in a frame, of which the sender left the calculation to hardware. Other
/// frames, and fragments, are not changed. Returns whether it was completed.
pub fn complete(frame: &mut [u8]) -> bool {
    let Some((start, end, at, sum)) = transport(frame) else { return false };
    let Some(transport) = frame.get_mut(start..end) else { return false };
    let Some(field) = transport.get_mut(at..at + 2) else { return false };
    field.fill(0);
    let mut sum = sum;
    sum.add(transport);
    // 0 is no checksum in UDP (RFC 768).
    let value = match sum.finish() {
        0 => 0xffff,
        value => value,
    };
    transport[at..at + 2].copy_from_slice(&value.to_be_bytes());
    true
}

/// Returns the range of a TCP or UDP packet in a frame, the position of the checksum in it, and the sum of its pseudo
/// header.
fn transport(frame: &[u8]) -> Option<(usize, usize, usize, Checksum)> {
    let frame = Frame::parse(frame).ok()?;
    let (source, destination, protocol, at, len): (IpAddr, IpAddr, _, _, _) =
        match frame.ethertype() {
            EtherType::IPV4 => {
                let packet = ipv4::View::new_checked(frame.payload()).ok()?;
                if packet.more_fragments() || packet.fragment_offset() != 0 {
                    return None;
                }
                let at = ipv4::HEADER_LEN + packet.options().len();
                let addresses = (packet.source().into(), packet.destination().into());
                (addresses.0, addresses.1, packet.protocol(), at, packet.payload().len())
            }
            EtherType::IPV6 => {
                let packet = ipv6::View::new_checked(frame.payload()).ok()?;
                let upper = packet.upper().ok()?;
                if upper.fragment_offset != 0 {
                    return None;
                }
                let at = ipv6::HEADER_LEN + packet.payload().len() - upper.payload.len();
                let addresses = (packet.source().into(), packet.destination().into());
                (addresses.0, addresses.1, upper.protocol, at, upper.payload.len())
            }
            _ => return None,
        };
    let field = match protocol {
        Protocol::TCP => 16,
        Protocol::UDP => 6,
        _ => return None,
    };
    let start = frame.payload_offset() + at;
    let sum = Checksum::pseudo_header(source, destination, protocol, len as u32);
    Some((start, start + len, field, sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071, section 3.
    #[test]
    fn example_of_the_rfc() {
        let mut sum = Checksum::new();
        sum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.finish(), !0xddf2);
    }

    #[test]
    fn an_odd_octet_is_the_high_one() {
        let mut sum = Checksum::new();
        sum.add(&[0x12, 0x34, 0x56]);
        assert_eq!(sum.finish(), !(0x1234 + 0x5600));
    }

    #[test]
    fn carries_fold_until_none_is_left() {
        let mut sum = Checksum::new();
        sum.add(&[0xff; 65534]);
        assert_eq!(sum.finish(), 0);
    }

    /// UDP from 192.0.2.1 to 192.0.2.2, in VLAN 5, with an odd payload and padding behind it.
    fn udp(checksum: [u8; 2]) -> std::vec::Vec<u8> {
        let mut frame = [[2; 12].as_slice(), &[0x81, 0, 0, 5, 8, 0]].concat();
        frame.extend([0x45, 0, 0, 31, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        frame.extend([0x0f, 0xa0, 0x0f, 0xa1, 0, 11]);
        frame.extend(checksum);
        frame.extend([1, 2, 3, 0xff, 0xff]);
        frame
    }

    #[test]
    fn completes_a_partial_checksum_once_and_leaves_other_frames() {
        let (mut first, mut second) = (udp([0x12, 0x34]), udp([0, 0]));
        assert!(complete(&mut first) && complete(&mut second));
        assert_eq!(first, second, "the former value does not matter");
        let addresses = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        let mut sum = Checksum::pseudo_header(addresses[0], addresses[1], Protocol::UDP, 11);
        sum.add(&first[38..49]);
        assert_eq!(sum.finish(), 0);
        assert_eq!(first[49..], [0xff, 0xff], "padding");
        // A fragment, another protocol, and every truncation.
        for (at, octet) in [(24, 0x20), (27, 1)] {
            let mut frame = udp([0x12, 0x34]);
            frame[at] = octet;
            let before = frame.clone();
            assert!(!complete(&mut frame));
            assert_eq!(frame, before);
        }
        for len in 0..first.len() - 2 {
            complete(&mut first.clone()[..len]);
        }
    }
}

//! The Internet checksum (RFC 1071).

use core::net::IpAddr;

use crate::Protocol;

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
}

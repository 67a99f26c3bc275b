//! MAC addresses.

use core::fmt;
use core::str::FromStr;

/// A 48-bit MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// ff:ff:ff:ff:ff:ff
    pub const BROADCAST: MacAddress = MacAddress([0xff; 6]);
    /// 00:00:00:00:00:00
    pub const ZERO: MacAddress = MacAddress([0; 6]);

    /// Returns whether the address is a group (I/G bit), including broadcast.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 0x01 != 0
    }

    /// Returns whether the address is the broadcast address.
    pub const fn is_broadcast(self) -> bool {
        self.as_u64() == 0xffff_ffff_ffff
    }

    /// Returns whether the address is of one station: not a group, not all zero.
    pub const fn is_unicast(self) -> bool {
        !self.is_multicast() && self.as_u64() != 0
    }

    /// Returns whether the address is locally administered (U/L bit).
    pub const fn is_local(self) -> bool {
        self.0[0] & 0x02 != 0
    }

    /// Returns the address as a number; the first octet on the wire is the most significant of the lower 48
    /// bits.
    pub const fn as_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// Returns the octets masked by `mask`.
    pub const fn masked(self, mask: MacAddress) -> MacAddress {
        let ([a, b, c, d, e, f], m) = (self.0, mask.0);
        MacAddress([a & m[0], b & m[1], c & m[2], d & m[3], e & m[4], f & m[5]])
    }
}

impl From<[u8; 6]> for MacAddress {
    fn from(octets: [u8; 6]) -> Self {
        MacAddress(octets)
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The reason why text is not a MAC address. Its text does not repeat the input, which the caller knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseMacAddressError {
    /// The number of parts is not six.
    Parts(usize),
    /// A part, counted from 1, is not two hexadecimal digits.
    Octet(usize),
}

impl fmt::Display for ParseMacAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseMacAddressError::Parts(n) => write!(f, "{n} part(s), but a MAC address has 6")?,
            ParseMacAddressError::Octet(n) => {
                write!(f, "part {n} of the MAC address is not two hexadecimal digits")?;
            }
        }
        f.write_str("; example: 02:00:00:00:00:01")
    }
}

impl core::error::Error for ParseMacAddressError {}

impl FromStr for MacAddress {
    type Err = ParseMacAddressError;

    /// Parses six octets of two hexadecimal digits, all separated by `:` or all by `-`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let separator = if text.contains(':') { ':' } else { '-' };
        let count = text.split(separator).count();
        if count != 6 {
            return Err(ParseMacAddressError::Parts(count));
        }
        let mut octets = [0; 6];
        for (i, (octet, part)) in octets.iter_mut().zip(text.split(separator)).enumerate() {
            // from_str_radix alone would accept a sign.
            let digits = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
            *octet = u8::from_str_radix(part, 16)
                .ok()
                .filter(|_| digits)
                .ok_or(ParseMacAddressError::Octet(i + 1))?;
        }
        Ok(MacAddress(octets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn text_and_back() {
        let address = MacAddress([0x02, 0xab, 0, 0x10, 0xff, 0x09]);
        assert_eq!(address.to_string(), "02:ab:00:10:ff:09");
        assert_eq!("02:ab:00:10:ff:09".parse(), Ok(address));
        assert_eq!("02-AB-00-10-FF-09".parse(), Ok(address));
    }

    #[test]
    fn invalid_text_is_refused_with_a_reason() {
        use ParseMacAddressError::{Octet, Parts};
        for (text, error) in [
            ("", Parts(1)),
            ("02:00:00:00:00", Parts(5)),
            ("02:00:00:00:00:01:02", Parts(7)),
            ("02:00:00:00:00:1", Octet(6)),
            ("+2:00:00:00:00:01", Octet(1)),
            ("02:00:0g:00:00:01", Octet(3)),
            ("02:00-00:00:00:00", Parts(5)),
            ("02:00:00:00:00:é", Octet(6)),
        ] {
            assert_eq!(text.parse::<MacAddress>(), Err(error), "{text}");
        }
        assert_eq!(
            "1".parse::<MacAddress>().unwrap_err().to_string(),
            "1 part(s), but a MAC address has 6; example: 02:00:00:00:00:01"
        );
    }

    #[test]
    fn kinds_of_address() {
        let group = MacAddress([0x01, 0x80, 0xc2, 0, 0, 0x0e]);
        let station = MacAddress([0x02, 0, 0, 0, 0, 1]);
        assert!(group.is_multicast() && !group.is_broadcast() && !group.is_unicast());
        assert!(MacAddress::BROADCAST.is_broadcast() && MacAddress::BROADCAST.is_multicast());
        assert!(station.is_unicast() && station.is_local() && !station.is_multicast());
        assert!(!MacAddress::ZERO.is_unicast());
        assert_eq!(station.as_u64(), 0x0200_0000_0001);
        assert_eq!(group.masked(MacAddress([0xff, 0xff, 0, 0, 0, 0])).as_u64(), 0x0180_0000_0000);
    }
}

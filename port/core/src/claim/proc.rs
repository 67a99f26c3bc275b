//! Parsers for tables of /proc/net. Pure: text in, facts out. Unknown lines are skipped: the kernel may append
//! columns.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const RTF_GATEWAY: u32 = 0x2;
/// A prefix that a router advertised.
const RTF_ADDRCONF: u32 = 0x4_0000;
const IFA_F_PERMANENT: u32 = 0x80;

/// Returns a route of /proc/net/route over `interface` that does not belong to one of its addresses.
pub(super) fn ipv4_route(
    table: &str,
    interface: &str,
    addresses: &[(IpAddr, u8)],
) -> Option<String> {
    table.lines().find_map(|line| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        (*columns.first()? == interface).then_some(())?;
        let number = |column: usize| u32::from_str_radix(columns.get(column)?, 16).ok();
        // Addresses are in network byte order in memory.
        let ipv4 = |column| Some(Ipv4Addr::from(number(column)?.to_ne_bytes()));
        let (to, mask) = (ipv4(1)?, ipv4(7)?);
        let prefix = mask.to_bits().leading_ones() as u8;
        if number(3)? & RTF_GATEWAY != 0 {
            return Some(format!("{to}/{prefix} via {}", ipv4(2)?));
        }
        let own = |(address, of): &(IpAddr, u8)| match address {
            IpAddr::V4(address) => {
                *of == prefix && address.to_bits() & mask.to_bits() == to.to_bits()
            }
            IpAddr::V6(_) => false,
        };
        (!addresses.iter().any(own)).then(|| format!("{to}/{prefix}"))
    })
}

/// Returns a route of /proc/net/ipv6_route over `interface` that belongs neither to one of its addresses, nor to
/// the interface, nor to a router's advertisement.
pub(super) fn ipv6_route(
    table: &str,
    interface: &str,
    addresses: &[(IpAddr, u8)],
) -> Option<String> {
    table.lines().find_map(|line| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        (*columns.get(9)? == interface).then_some(())?;
        let flags = u32::from_str_radix(columns[8], 16).ok()?;
        let (to, prefix) = (ipv6(columns[0])?, u8::from_str_radix(columns[1], 16).ok()?);
        if flags & RTF_GATEWAY != 0 {
            return Some(format!("{to}/{prefix} via {}", ipv6(columns[4])?));
        }
        let mask = network_mask(prefix);
        let own = |(address, of): &(IpAddr, u8)| match address {
            // Its network, itself, and the anycast address of its network.
            IpAddr::V6(address) => {
                let network = Ipv6Addr::from(address.to_bits() & network_mask(*of));
                (*of == prefix && address.to_bits() & mask == to.to_bits())
                    || (prefix == 128 && (to == *address || to == network))
            }
            IpAddr::V4(_) => false,
        };
        let by_kernel = flags & RTF_ADDRCONF != 0
            || to.is_multicast()
            || to.is_unicast_link_local()
            || addresses.iter().any(own);
        (!by_kernel).then(|| format!("{to}/{prefix}"))
    })
}

/// Returns the permanent addresses of `interface` in /proc/net/if_inet6, without advertised ones.
pub(super) fn ipv6_addresses(table: &str, interface: &str) -> Vec<(IpAddr, u8)> {
    let address = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        (*columns.get(5)? == interface).then_some(())?;
        let flags = u32::from_str_radix(columns[4], 16).ok()?;
        (flags & IFA_F_PERMANENT != 0).then_some(())?;
        Some((ipv6(columns[0])?.into(), u8::from_str_radix(columns[2], 16).ok()?))
    };
    table.lines().filter_map(address).collect()
}

fn network_mask(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128_u32.saturating_sub(prefix.into())).unwrap_or(0)
}

fn ipv6(digits: &str) -> Option<Ipv6Addr> {
    (digits.len() == 32).then_some(())?;
    u128::from_str_radix(digits, 16).ok().map(Ipv6Addr::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IPV4: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
";
    const IPV6: &str = "\
20010db8000000000000000000000000 20 00000000000000000000000000000000 00 \
fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0
fe800000000000000000000000000000 40 00000000000000000000000000000000 00 \
00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth1
";
    const INET6: &str = "\
fe8000000000000000000000000000aa 02 40 20 80     eth0
20010db80000000000000000000000aa 02 40 00 00     eth0
20010db80000000000000000000000bb 03 40 00 80     eth1
";

    #[test]
    #[cfg(target_endian = "little")]
    fn configured_routes_are_found() {
        let own = [("192.0.2.7".parse().unwrap(), 24), ("2001:db8::7".parse().unwrap(), 64)];
        assert_eq!(ipv4_route(IPV4, "eth0", &own).unwrap(), "0.0.0.0/0 via 192.0.2.1");
        assert_eq!(ipv4_route(IPV4, "eth1", &own), None, "it belongs to the address");
        assert_eq!(ipv4_route(IPV4, "eth1", &[]).unwrap(), "192.0.2.0/24");
        let other = [("192.0.2.7".parse().unwrap(), 25)];
        assert_eq!(ipv4_route(IPV4, "eth1", &other).unwrap(), "192.0.2.0/24");
        assert_eq!(ipv6_route(IPV6, "eth0", &own).unwrap(), "2001:db8::/32 via fe80::1");
        assert_eq!(ipv6_route(IPV6, "eth1", &own), None, "link-local");
        let line = |to: &str, prefix: &str, flags: &str| {
            let none = "0".repeat(32);
            format!("{to} {prefix} {none} 00 {none} 100 1 0 {flags} eth1\n")
        };
        let network = "20010db8000000000000000000000000";
        for (table, expected) in [
            (line(network, "40", "00000001"), None),
            (line("20010db8000000000000000000000007", "80", "80200001"), None),
            (line(network, "80", "80200001"), None),
            (line("ff000000000000000000000000000000", "08", "00000001"), None),
            (line("20010db9000000000000000000000000", "40", "00040001"), None),
            (line("20010db9000000000000000000000000", "40", "00000001"), Some("2001:db9::/64")),
            (line("00000000000000000000000000000000", "00", "00000001"), Some("::/0")),
        ] {
            assert_eq!(ipv6_route(&table, "eth1", &own).as_deref(), expected, "{table}");
        }
    }

    #[test]
    fn advertised_addresses_are_omitted() {
        assert_eq!(ipv6_addresses(INET6, "eth0"), [("fe80::aa".parse().unwrap(), 64)]);
        assert_eq!(ipv6_addresses(INET6, "eth1"), [("2001:db8::bb".parse().unwrap(), 64)]);
        assert_eq!(ipv6_addresses(INET6, "eth2"), []);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "([0-9a-f]{0,33}|eth0|é|[ \t\n]){0,60}") {
            let _ = ipv4_route(&text, "eth0", &[("::1".parse().unwrap(), 0)]);
            let _ = ipv6_route(&text, "eth0", &[("::1".parse().unwrap(), 0)]);
            let _ = ipv6_addresses(&text, "eth0");
        }
    }
}

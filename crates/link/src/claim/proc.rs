//! Tables of /proc/net. Pure: text in, facts out. A line that is not understood is passed over:
//! the kernel may append columns.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const RTF_GATEWAY: u32 = 0x2;
const IFA_F_PERMANENT: u32 = 0x80;

/// The gateway of a route of /proc/net/route over `interface`, if one has any.
pub(super) fn ipv4_gateway(table: &str, interface: &str) -> Option<IpAddr> {
    table.lines().find_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        (columns.next()? == interface).then_some(())?;
        let gateway = u32::from_str_radix(columns.nth(1)?, 16).ok()?;
        let flags = u32::from_str_radix(columns.next()?, 16).ok()?;
        // The address stands in memory as on the wire.
        (flags & RTF_GATEWAY != 0).then(|| Ipv4Addr::from(gateway.to_ne_bytes()).into())
    })
}

/// The gateway of a route of /proc/net/ipv6_route over `interface`, if one has any.
pub(super) fn ipv6_gateway(table: &str, interface: &str) -> Option<IpAddr> {
    table.lines().find_map(|line| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        (*columns.get(9)? == interface).then_some(())?;
        let flags = u32::from_str_radix(columns[8], 16).ok()?;
        (flags & RTF_GATEWAY != 0).then_some(())?;
        ipv6(columns[4])
    })
}

/// The addresses of /proc/net/if_inet6 that are on `interface` to stay: not those that a router
/// advertised.
pub(super) fn ipv6_addresses(table: &str, interface: &str) -> Vec<(IpAddr, u8)> {
    let address = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        (*columns.get(5)? == interface).then_some(())?;
        let flags = u32::from_str_radix(columns[4], 16).ok()?;
        (flags & IFA_F_PERMANENT != 0).then_some(())?;
        Some((ipv6(columns[0])?, u8::from_str_radix(columns[2], 16).ok()?))
    };
    table.lines().filter_map(address).collect()
}

fn ipv6(digits: &str) -> Option<IpAddr> {
    (digits.len() == 32).then_some(())?;
    u128::from_str_radix(digits, 16).ok().map(|bits| Ipv6Addr::from(bits).into())
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
    fn gateways_are_found_where_they_are() {
        assert_eq!(ipv4_gateway(IPV4, "eth0"), Some("192.0.2.1".parse().unwrap()));
        assert_eq!(ipv4_gateway(IPV4, "eth1"), None);
        assert_eq!(ipv6_gateway(IPV6, "eth0"), Some("fe80::1".parse().unwrap()));
        assert_eq!(ipv6_gateway(IPV6, "eth1"), None);
    }

    #[test]
    fn advertised_addresses_are_left_out() {
        assert_eq!(ipv6_addresses(INET6, "eth0"), [("fe80::aa".parse().unwrap(), 64)]);
        assert_eq!(ipv6_addresses(INET6, "eth1"), [("2001:db8::bb".parse().unwrap(), 64)]);
        assert_eq!(ipv6_addresses(INET6, "eth2"), []);
    }

    proptest! {
        #[test]
        fn any_text_may_be_looked_at(text in "([0-9a-f]{0,33}|eth0|é|[ \t\n]){0,60}") {
            let _ = ipv4_gateway(&text, "eth0");
            let _ = ipv6_gateway(&text, "eth0");
            let _ = ipv6_addresses(&text, "eth0");
        }
    }
}

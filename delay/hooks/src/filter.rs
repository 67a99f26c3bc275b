//! Packet filter: a subset of the language of pcap filters.

use std::net::IpAddr;

use crate::abi::{hooks_condition as condition, hooks_filter};

/// The packets to trace: all by default.
///
/// Accepts these terms of a pcap filter (pcap-filter(7)): `ip`, `ip6`, `arp`, `udp`, `tcp`, `icmp`, `icmp6`, `ether
/// proto N`, `ip proto N`, `[src|dst] host ADDRESS`, `[src|dst] port N`, joined by `and`. Each kind of term may
/// occur once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filter {
    ethertype: Option<u16>,
    protocol: Option<u8>,
    host: Option<(FlowEndpoint, IpAddr)>,
    port: Option<(FlowEndpoint, u16)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlowEndpoint {
    Source,
    Target,
    Either,
}

/// The error of an invalid filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid filter: {0}; use ip, ip6, arp, udp, tcp, icmp, icmp6, ether proto N, ip proto N, [src|dst] \
     host ADDRESS and [src|dst] port N, joined by `and`"
)]
pub struct FilterError(String);

const TCP: u8 = 6;
const UDP: u8 = 17;

impl Filter {
    /// Parses the words of a filter; without words, all packets pass.
    ///
    /// # Errors
    /// Names the invalid words, and the valid ones.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, FilterError> {
        let words: Vec<&str> = words.into_iter().flat_map(str::split_whitespace).collect();
        let mut filter = Self::default();
        if words.is_empty() {
            return Ok(filter);
        }
        for term in words.split(|word| *word == "and") {
            filter.add(term)?;
        }
        filter.check()
    }

    fn add(&mut self, term: &[&str]) -> Result<(), FilterError> {
        match term {
            ["ip"] => once(&mut self.ethertype, 0x0800, term),
            ["ip6"] => once(&mut self.ethertype, 0x86dd, term),
            ["arp"] => once(&mut self.ethertype, 0x0806, term),
            ["icmp"] => once(&mut self.protocol, 1, term),
            ["icmp6"] => once(&mut self.protocol, 58, term),
            ["tcp"] => once(&mut self.protocol, TCP, term),
            ["udp"] => once(&mut self.protocol, UDP, term),
            ["ether", "proto", value] => once(&mut self.ethertype, number(value)?, term),
            ["ip", "proto", value] => once(&mut self.protocol, number(value)?, term),
            ["host", value] => once(&mut self.host, (FlowEndpoint::Either, address(value)?), term),
            ["src", "host", value] => {
                once(&mut self.host, (FlowEndpoint::Source, address(value)?), term)
            }
            ["dst", "host", value] => {
                once(&mut self.host, (FlowEndpoint::Target, address(value)?), term)
            }
            ["port", value] => once(&mut self.port, (FlowEndpoint::Either, number(value)?), term),
            ["src", "port", value] => {
                once(&mut self.port, (FlowEndpoint::Source, number(value)?), term)
            }
            ["dst", "port", value] => {
                once(&mut self.port, (FlowEndpoint::Target, number(value)?), term)
            }
            [] => Err(FilterError("a term is missing before or after \"and\"".into())),
            _ => Err(FilterError(format!("unknown term {:?}", term.join(" ")))),
        }
    }

    /// Refuses a filter that no packet can pass.
    fn check(self) -> Result<Self, FilterError> {
        if self.port.is_some() && !matches!(self.protocol, None | Some(TCP | UDP)) {
            return Err(FilterError("this protocol has no ports".into()));
        }
        let ip = self.protocol.is_some() || self.host.is_some() || self.port.is_some();
        let other = self.ethertype.is_some_and(|value| value != 0x0800 && value != 0x86dd);
        let family = self.host.map(|(_, host)| if host.is_ipv6() { 0x86dd } else { 0x0800 });
        let contrary = family.is_some() && self.ethertype.is_some() && self.ethertype != family;
        if (ip && other) || contrary {
            return Err(FilterError("no packet can match all terms".into()));
        }
        Ok(self)
    }

    /// Encodes the filter for the programs.
    pub(crate) fn encode(&self) -> hooks_filter {
        let mut filter = hooks_filter::default();
        let mut say = |one: condition| filter.what |= one.0;
        if self.ethertype.is_some() {
            say(condition::HOOKS_ETHERTYPE);
        }
        if self.protocol.is_some() {
            say(condition::HOOKS_PROTOCOL);
        }
        if let Some((end, host)) = self.host {
            say(match end {
                FlowEndpoint::Source => condition::HOOKS_SOURCE,
                FlowEndpoint::Target => condition::HOOKS_TARGET,
                FlowEndpoint::Either => condition::HOOKS_EITHER_ADDRESS,
            });
            if host.is_ipv6() {
                say(condition::HOOKS_IPV6);
            }
        }
        if let Some((end, _)) = self.port {
            say(match end {
                FlowEndpoint::Source => condition::HOOKS_SOURCE_PORT,
                FlowEndpoint::Target => condition::HOOKS_TARGET_PORT,
                FlowEndpoint::Either => condition::HOOKS_EITHER_PORT,
            });
        }
        filter.ethertype = self.ethertype.unwrap_or_default();
        filter.protocol = self.protocol.unwrap_or_default();
        filter.port = self.port.map_or(0, |(_, port)| port);
        match self.host {
            Some((_, IpAddr::V4(address))) => {
                filter.address[..4].copy_from_slice(&address.octets())
            }
            Some((_, IpAddr::V6(address))) => filter.address = address.octets(),
            None => {}
        }
        filter
    }
}

fn once<T>(place: &mut Option<T>, value: T, term: &[&str]) -> Result<(), FilterError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(FilterError(format!("second term of the same kind: {:?}", term.join(" ")))),
    }
}

/// Parses a decimal number, or a hexadecimal one with 0x.
fn number<T: TryFrom<u64>>(text: &str) -> Result<T, FilterError> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let value = value.ok().and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| FilterError(format!("invalid number {text:?}")))
}

fn address(text: &str) -> Result<IpAddr, FilterError> {
    text.parse().map_err(|_| FilterError(format!("invalid IP address {text:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Filter, FilterError> {
        Filter::parse([text])
    }

    #[test]
    fn terms_of_pcap_filters_are_parsed() {
        let filter = parsed("udp and src host 10.0.0.1 and dst port 862").unwrap();
        let encoded = filter.encode();
        assert_eq!(encoded.what, 2 | 4 | 64);
        assert_eq!((encoded.protocol, encoded.port), (17, 862));
        assert_eq!(encoded.address[..5], [10, 0, 0, 1, 0]);
        assert_eq!(parsed("ether proto 0x88b5").unwrap().encode().ethertype, 0x88b5);
        assert_eq!(parsed("host 2001:db8::1").unwrap().encode().what, 16 | 256);
        assert_eq!(Filter::parse([]).unwrap().encode().what, 0);
        assert_eq!(Filter::parse(["udp", "and port 1"]), Filter::parse(["udp and", "port", "1"]));
    }

    #[test]
    fn an_invalid_term_is_named() {
        for (text, named) in [
            ("udp or tcp", "unknown term \"udp or tcp\""),
            ("udp and", "before or after \"and\""),
            ("port 70000", "\"70000\""),
            ("host example", "invalid IP address \"example\""),
            ("udp and tcp", "same kind: \"tcp\""),
            ("icmp and port 3", "has no ports"),
            ("arp and udp", "no packet can match"),
            ("ip6 and host 10.0.0.1", "no packet can match"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}

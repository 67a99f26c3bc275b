//! Addresses of servers.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// The address of a server: `https://HOST:PORT`, or `http://HOST:PORT` without TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether TLS is used.
    pub is_secure: bool,
    /// Name or address, without the brackets of IPv6.
    pub host: String,
    /// Port of TCP.
    pub port: u16,
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let error = || Error::Endpoint { text: text.to_owned() };
        let (scheme, rest) = text.split_once("://").ok_or_else(error)?;
        let is_secure = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(error()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = rest.rsplit_once(':').ok_or_else(error)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let is_valid = match bare {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.chars().all(is_allowed),
        };
        let port = port.parse().ok().filter(|port| *port > 0 && is_valid).ok_or_else(error)?;
        Ok(Self { is_secure, host: bare.unwrap_or(host).to_owned(), port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in ["https://127.0.0.1:2379", "http://etcd-1.plant:1", "https://[fe80::1]:65535"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!("https://a:1/".parse::<Endpoint>().unwrap().to_string(), "https://a:1");
        for text in [
            "",
            "a:1",
            "ftp://a:1",
            "https://a",
            "https://a:0",
            "https://a:65536",
            "https://:1",
            "https://a b:1",
            "https://a/b:1",
            "https://u@a:1",
            "https://[x]:1",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}

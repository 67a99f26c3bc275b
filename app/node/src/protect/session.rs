//! The ssh session of this command, and the interfaces that carry it.
//!
//! `sudo` and `su` clear the environment, so that of the parent processes is read as well. Any of them can belong to
//! another user: what it says is bounded, and only addresses are taken from it. A false one at worst refuses a change.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use onbeat_netdev::{Handle, Link};

const VARIABLE: &str = "SSH_CONNECTION";

/// Maximum number of parent processes.
const MOST_PARENTS: usize = 64;

/// Maximum size of an environment in octets.
const LONGEST_ENVIRONMENT: u64 = 1 << 20;

/// Returns the addresses of this host in the ssh sessions that this process is part of.
pub(super) fn addresses() -> BTreeSet<IpAddr> {
    let own = std::env::var(VARIABLE).ok();
    let mut addresses: BTreeSet<IpAddr> =
        own.iter().filter_map(|connection| local_address(connection)).collect();
    let mut pid = std::process::id();
    for _ in 0..MOST_PARENTS {
        match parent(pid) {
            // A parent of another PID namespace has number 0.
            Some(parent) if parent > 0 && parent != pid => pid = parent,
            _ => break,
        }
        let environment = read(&format!("/proc/{pid}/environ"));
        addresses.extend(environment.iter().filter_map(|environment| in_environment(environment)));
    }
    addresses
}

fn parent(pid: u32) -> Option<u32> {
    parent_in(&String::from_utf8_lossy(&read(&format!("/proc/{pid}/stat"))?))
}

/// The parent in a line of /proc/PID/stat: the name before may contain any characters.
fn parent_in(stat: &str) -> Option<u32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Reads a file of /proc; `None`: not readable, or longer than an environment.
fn read(path: &str) -> Option<Vec<u8>> {
    let mut octets = Vec::new();
    let file = File::open(path).ok()?;
    file.take(LONGEST_ENVIRONMENT + 1).read_to_end(&mut octets).ok()?;
    (octets.len() as u64 <= LONGEST_ENVIRONMENT).then_some(octets)
}

/// The local address in an environment.
fn in_environment(environment: &[u8]) -> Option<IpAddr> {
    let mut variables = environment.split(|octet| *octet == 0);
    let value = variables
        .find_map(|variable| variable.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="))?;
    local_address(std::str::from_utf8(value).ok()?)
}

/// The address of this host in "CLIENT PORT SERVER PORT".
fn local_address(connection: &str) -> Option<IpAddr> {
    let fields: Vec<&str> = connection.split(' ').collect();
    let [client, client_port, server, server_port] = fields[..] else { return None };
    // Without the interface of a link-local address.
    let address = |text: &str| text.split('%').next()?.parse::<IpAddr>().ok();
    address(client)?;
    client_port.parse::<u16>().ok()?;
    server_port.parse::<u16>().ok()?;
    Some(match address(server)? {
        // As a socket of IPv6 names an address of IPv4.
        IpAddr::V6(mapped) => mapped.to_ipv4_mapped().map_or(IpAddr::V6(mapped), IpAddr::V4),
        v4 @ IpAddr::V4(_) => v4,
    })
}

/// Returns the session's address on an interface, or on one that is stacked above it, with the name of that interface.
pub(super) fn over(handle: &Handle, link: &Link) -> Option<(IpAddr, String)> {
    let addresses = addresses();
    if addresses.is_empty() {
        return None;
    }
    let above = handle.stacked_above(link.index).unwrap_or_default();
    let names: Vec<String> = std::iter::once(link.name.clone())
        .chain(above.into_iter().map(|above| above.name))
        .collect();
    let local = handle.namespace().run(|| getifaddrs().map(Iterator::collect::<Vec<_>>));
    let local = local.ok()?.ok()?;
    local.into_iter().find_map(|entry| {
        let storage = entry.address?;
        let v4 = storage.as_sockaddr_in().map(|socket| IpAddr::V4(socket.ip()));
        let v6 = storage.as_sockaddr_in6().map(|socket| IpAddr::V6(socket.ip()));
        let address = v4.or(v6).filter(|address| addresses.contains(address))?;
        names.contains(&entry.interface_name).then_some((address, entry.interface_name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_address_is_read() {
        for (connection, address) in [
            ("192.0.2.9 1234 192.0.2.1 22", "192.0.2.1"),
            ("fe80::2%eth1 1234 fe80::1%eth1 22", "fe80::1"),
            ("::ffff:192.0.2.9 1234 ::ffff:192.0.2.1 22", "192.0.2.1"),
        ] {
            assert_eq!(local_address(connection), address.parse().ok(), "{connection}");
        }
    }

    #[test]
    fn only_addresses_are_taken_from_another_process() {
        for connection in [
            "",
            "192.0.2.1",
            "a 1 192.0.2.1 22",
            "192.0.2.9 1 192.0.2.1",
            "192.0.2.9 1 192.0.2.1 22 x",
            "192.0.2.9 1 192.0.2.1; 22",
            "192.0.2.9 99999 192.0.2.1 22",
            "192.0.2.9 1 $(reboot) 22",
        ] {
            assert_eq!(local_address(connection), None, "{connection:?}");
        }
        let environment =
            b"A=1\0XSSH_CONNECTION=a\0SSH_CONNECTION=192.0.2.9 1 192.0.2.1 22\0B=\xff\0";
        assert_eq!(in_environment(environment), Some(IpAddr::from([192, 0, 2, 1])));
        for environment in [&b""[..], b"\0\0", b"SSH_CONNECTION", b"SSH_CONNECTION=\xff\xff\0"] {
            assert_eq!(in_environment(environment), None);
        }
    }

    #[test]
    fn the_parent_follows_the_last_parenthesis() {
        assert_eq!(parent_in("12 (a) 1 (b) S 34 12 12 0 -1"), Some(34));
        assert_eq!(parent_in("12 (a"), None);
        assert_eq!(parent(std::process::id()), Some(std::os::unix::process::parent_id()));
    }
}

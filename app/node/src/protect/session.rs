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

/// The addresses of an ssh session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Session {
    /// That of this host.
    local: IpAddr,
    client: IpAddr,
}

/// Returns the ssh sessions that this process is part of.
fn sessions() -> BTreeSet<Session> {
    let own = std::env::var(VARIABLE).ok();
    let mut sessions: BTreeSet<Session> =
        own.iter().filter_map(|connection| Session::parse(connection)).collect();
    let mut pid = std::process::id();
    for _ in 0..MOST_PARENTS {
        match parent(pid) {
            // A parent of another PID namespace has number 0.
            Some(parent) if parent > 0 && parent != pid => pid = parent,
            _ => break,
        }
        let environment = read(&format!("/proc/{pid}/environ"));
        sessions.extend(environment.iter().filter_map(|environment| in_environment(environment)));
    }
    sessions
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

/// The session of an environment.
fn in_environment(environment: &[u8]) -> Option<Session> {
    let mut variables = environment.split(|octet| *octet == 0);
    let value = variables
        .find_map(|variable| variable.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="))?;
    Session::parse(std::str::from_utf8(value).ok()?)
}

impl Session {
    /// Parses "CLIENT PORT SERVER PORT".
    fn parse(connection: &str) -> Option<Self> {
        let fields: Vec<&str> = connection.split(' ').collect();
        let [client, client_port, server, server_port] = fields[..] else { return None };
        // Without the interface of a link-local address.
        let address = |text: &str| match text.split('%').next()?.parse().ok()? {
            // As a socket of IPv6 names an address of IPv4.
            IpAddr::V6(mapped) => {
                Some(mapped.to_ipv4_mapped().map_or(IpAddr::V6(mapped), IpAddr::V4))
            }
            v4 @ IpAddr::V4(_) => Some(v4),
        };
        client_port.parse::<u16>().ok()?;
        server_port.parse::<u16>().ok()?;
        Some(Self { client: address(client)?, local: address(server)? })
    }
}

/// Returns the address of a session that uses an interface, or one that is stacked above it, with the name of that
/// interface: it has the address, or the route to the client.
pub(super) fn over(handle: &Handle, link: &Link) -> Option<(IpAddr, String)> {
    let sessions = sessions();
    if sessions.is_empty() {
        return None;
    }
    let above = handle.stacked_above(link.index).unwrap_or_default();
    let links: Vec<Link> = std::iter::once(link.clone()).chain(above).collect();
    let local = handle.namespace().run(|| getifaddrs().map(Iterator::collect::<Vec<_>>));
    let local = local.ok()?.ok()?;
    // Of a session with another namespace, no interface here has the address.
    local.into_iter().find_map(|entry| {
        let storage = entry.address?;
        let v4 = storage.as_sockaddr_in().map(|socket| IpAddr::V4(socket.ip()));
        let v6 = storage.as_sockaddr_in6().map(|socket| IpAddr::V6(socket.ip()));
        let address = v4.or(v6)?;
        let own = sessions.iter().filter(|session| session.local == address);
        let routes: Vec<Option<u32>> =
            own.map(|session| handle.route(session.local, session.client).ok().flatten()).collect();
        let uses = |link: &&Link| {
            !routes.is_empty()
                && (link.name == entry.interface_name || routes.contains(&Some(link.index)))
        };
        links.iter().find(uses).map(|link| (address, link.name.clone()))
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
            let session = Session::parse(connection).map(|session| session.local);
            assert_eq!(session, address.parse().ok(), "{connection}");
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
            assert_eq!(Session::parse(connection), None, "{connection:?}");
        }
        let environment =
            b"A=1\0XSSH_CONNECTION=a\0SSH_CONNECTION=192.0.2.9 1 192.0.2.1 22\0B=\xff\0";
        let [client, local] = [9, 1].map(|host| IpAddr::from([192, 0, 2, host]));
        assert_eq!(in_environment(environment), Some(Session { local, client }));
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

//! Open sockets of this host, by the names that `ss` prints.

use std::fmt;
use std::mem::offset_of;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use onbeat_bpf::Object;

use super::TimeSlice;
use super::candidates::Socket;
use super::walk::{Slices, address_of, socket};
use crate::abi::guard_open_socket;
use crate::error::{Error, Result};

static SOCKETS: &[u8] = onbeat_bpf::bpf_object!("sockets.bpf.o");

onbeat_bpf::bpf_skeleton!(skeleton, "sockets.skel.rs");

use skeleton::types::rodata;

/// Transport protocols with ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// One or more sockets, as `ss -tuane` prints them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketName {
    /// `udp:10.0.0.1:5000`, `tcp:[::]:80`, `udp:0.0.0.0%eth0:68`; `udp:*:5000`: of any local address.
    Local {
        /// The protocol.
        transport: Transport,
        /// The local address; `None`: any.
        address: Option<IpAddr>,
        /// The interface that the socket is bound to; `None`: any or none.
        interface: Option<String>,
        /// The local port.
        port: u16,
    },
    /// `ino:1129`: the inode.
    Inode(u64),
    /// `sk:1b1`: the cookie.
    Cookie(u64),
}

impl FromStr for SocketName {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let invalid = || {
            format!(
                "invalid socket {text:?}; use PROTOCOL:ADDRESS:PORT such as tcp:10.0.0.1:80, udp:[::]:53 or \
                 udp:*:5000, or ino:N or sk:N as `ss -e` prints them"
            )
        };
        let local = |transport, rest: &str| {
            let (host, port) = rest.rsplit_once(':')?;
            let (host, interface) = match host.split_once('%') {
                Some((host, interface)) => (host, Some(interface.to_owned())),
                None => (host, None),
            };
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let address = match bare.unwrap_or(host) {
                "" | "*" => None,
                address => Some(address.parse::<IpAddr>().ok()?.to_canonical()),
            };
            Some(Self::Local { transport, address, interface, port: port.parse().ok()? })
        };
        let (kind, rest) = text.split_once(':').ok_or_else(invalid)?;
        let found = match kind {
            "tcp" => local(Transport::Tcp, rest),
            "udp" => local(Transport::Udp, rest),
            "ino" => rest.parse().ok().map(Self::Inode),
            "sk" => u64::from_str_radix(rest, 16).ok().map(Self::Cookie),
            _ => None,
        };
        found.ok_or_else(invalid)
    }
}

impl fmt::Display for SocketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local { transport, address, interface, port } => {
                f.write_str(match transport {
                    Transport::Tcp => "tcp:",
                    Transport::Udp => "udp:",
                })?;
                match address {
                    None => f.write_str("*")?,
                    Some(IpAddr::V4(address)) => write!(f, "{address}")?,
                    Some(IpAddr::V6(address)) => write!(f, "[{address}]")?,
                }
                interface.iter().try_for_each(|interface| write!(f, "%{interface}"))?;
                write!(f, ":{port}")
            }
            Self::Inode(inode) => write!(f, "ino:{inode}"),
            Self::Cookie(cookie) => write!(f, "sk:{cookie:x}"),
        }
    }
}

/// A socket that a process has open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenSocket {
    /// Where its packets come from, and the process.
    pub(super) socket: Socket,
    pub(super) local: SocketAddr,
    /// `None`: not connected.
    pub(super) peer: Option<SocketAddr>,
    pub(super) protocol: &'static str,
    pub(super) inode: u64,
    pub(super) cookie: u64,
    /// The inode of its network namespace.
    pub(super) netns: u32,
    /// Whether it can receive packets: it has a port, and a stream is connected or listens.
    pub(super) receives: bool,
}

impl OpenSocket {
    /// Whether it has this name; `index` returns the index of an interface of the guard's network namespace.
    pub(super) fn is(&self, name: &SocketName, index: impl Fn(&str) -> Option<u32>) -> bool {
        match name {
            SocketName::Inode(inode) => self.inode == *inode,
            SocketName::Cookie(cookie) => self.cookie == *cookie,
            SocketName::Local { transport, address, interface, port } => {
                let protocol = match transport {
                    Transport::Tcp => "tcp",
                    Transport::Udp => "udp",
                };
                let on = |interface: &String| {
                    !self.socket.elsewhere && index(interface) == Some(self.socket.device)
                };
                self.protocol == protocol
                    && self.local.port() == *port
                    && address.is_none_or(|address| self.local.ip() == address)
                    && interface.as_ref().is_none_or(on)
            }
        }
    }
}

/// All open sockets that may receive packets of interfaces; `netns`: the network namespace that sockets elsewhere
/// are not in.
pub(super) fn open_sockets(netns: u32) -> Result<Vec<OpenSocket>> {
    let object = Object::load(SOCKETS, "the programs of an explanation", |object| {
        object.set_constants(&[(offset_of!(rodata, netns), &netns.to_ne_bytes())]);
        Ok::<(), Error>(())
    })?;
    let mut sockets = Vec::new();
    let mut walk = Slices::new(&object, "each_socket")?;
    walk.advance(&TimeSlice::new(Duration::MAX), |entry| sockets.push(open_socket(entry)))?;
    Ok(sockets)
}

fn open_socket(entry: &guard_open_socket) -> OpenSocket {
    let family = entry.socket.family;
    let peer = SocketAddr::new(address_of(family, entry.peer), entry.peer_port);
    OpenSocket {
        socket: socket(&entry.socket),
        local: SocketAddr::new(address_of(family, entry.socket.address), entry.port),
        peer: (peer.port() != 0).then_some(peer),
        protocol: protocol(family as i32, entry.protocol as i32),
        inode: entry.inode,
        cookie: entry.cookie,
        netns: entry.netns,
        receives: entry.receives != 0,
    }
}

/// As `ss` names it, except raw and packet sockets of several kinds.
fn protocol(family: i32, protocol: i32) -> &'static str {
    match (family, protocol) {
        (libc::AF_PACKET, _) => "packet",
        (libc::AF_XDP, _) => "xdp",
        (_, libc::IPPROTO_TCP) => "tcp",
        (_, libc::IPPROTO_UDP) => "udp",
        (_, libc::IPPROTO_SCTP) => "sctp",
        (_, libc::IPPROTO_MPTCP) => "mptcp",
        _ => "raw",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_ss_prints_them() {
        for text in [
            "udp:10.0.0.1:5000",
            "tcp:[::]:80",
            "udp:0.0.0.0%eth0:68",
            "udp:[fe80::1]%eth0:546",
            "udp:*:5000",
            "ino:1129",
            "sk:1b1",
        ] {
            assert_eq!(text.parse::<SocketName>().unwrap().to_string(), text);
        }
        for (text, same) in [
            ("udp::5000", "udp:*:5000"),
            ("tcp::::80", "tcp:[::]:80"),
            ("tcp:[::ffff:10.0.0.1]:80", "tcp:10.0.0.1:80"),
        ] {
            assert_eq!(text.parse::<SocketName>().unwrap().to_string(), same);
        }
        for text in [
            "",
            "eth0",
            "10.0.0.1:80",
            "icmp:10.0.0.1:80",
            "udp:10.0.0.1",
            "udp:10.0.0:1",
            "tcp:10.0.0.1:http",
            "tcp:*:65536",
            "ino:x",
            "sk:",
        ] {
            let error = text.parse::<SocketName>().unwrap_err();
            assert!(error.starts_with(&format!("invalid socket {text:?}; use ")), "{error}");
        }
    }

    #[test]
    fn a_name_selects_sockets() {
        let (local, peer): (SocketAddr, SocketAddr) =
            ("10.0.0.1:80".parse().unwrap(), "10.0.0.2:4000".parse().unwrap());
        let socket =
            Socket { pid: 1, reader: None, device: 7, address: local.ip(), elsewhere: false };
        let (protocol, inode, cookie) = ("tcp", 1129, 0x1b1);
        let open = |elsewhere| OpenSocket {
            socket: Socket { elsewhere, ..socket },
            local,
            peer: Some(peer),
            protocol,
            inode,
            cookie,
            netns: 1,
            receives: true,
        };
        for (name, here, elsewhere) in [
            ("tcp:10.0.0.1:80", true, true),
            ("tcp:*:80", true, true),
            ("tcp:0.0.0.0:80", false, false),
            ("udp:10.0.0.1:80", false, false),
            ("tcp:10.0.0.1:81", false, false),
            ("tcp:10.0.0.2:4000", false, false),
            // Names of interfaces are those of the guard's network namespace.
            ("tcp:10.0.0.1%eth0:80", true, false),
            ("tcp:10.0.0.1%eth1:80", false, false),
            ("ino:1129", true, true),
            ("ino:1130", false, false),
            ("sk:1b1", true, true),
            ("sk:1129", false, false),
        ] {
            let name = name.parse::<SocketName>().unwrap();
            let is = |is_elsewhere| {
                open(is_elsewhere).is(&name, |interface| (interface == "eth0").then_some(7))
            };
            assert_eq!((is(false), is(true)), (here, elsewhere), "{name}");
        }
    }
}

//! The back end `packet`: what it needs is everywhere.

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use super::{Assessment, InterfaceFacts, Remark, unusable};

pub(super) fn examine(facts: &InterfaceFacts<'_>) -> Assessment {
    let refusal = if facts.link.mac.is_none() {
        Some(Remark::new("it has no Ethernet address", "take an Ethernet interface"))
    } else {
        raw_sockets(facts)
    };
    let mode = || (Some("receive ring, sends around the qdisc".to_owned()), Vec::new());
    refusal.map_or_else(mode, unusable)
}

/// Why the caller may not open packet sockets there, or AF_XDP sockets, which ask for the same.
pub(super) fn raw_sockets(facts: &InterfaceFacts<'_>) -> Option<Remark> {
    let opened = facts.namespace.run(|| {
        socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None).map(drop)
    });
    match opened {
        Ok(Ok(())) => None,
        Ok(Err(Errno::EPERM)) => Some(Remark::new(
            "raw sockets need CAP_NET_RAW",
            "run as root, or setcap cap_net_raw+ep on the program",
        )),
        Ok(Err(errno)) => Some(Remark::note(format!("no raw socket can be opened: {errno}"))),
        Err(error) => Some(Remark::note(error.to_string())),
    }
}

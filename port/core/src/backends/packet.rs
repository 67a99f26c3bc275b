//! The back end `packet`: its requirements are met on every host.

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use super::{Assessment, InterfaceFacts, Remark, unusable};

pub(super) fn examine(facts: &InterfaceFacts<'_>) -> Assessment {
    let refusal = if facts.link.mac.is_none() {
        Some(Remark::new("it has no Ethernet address", "use an Ethernet interface"))
    } else {
        raw_sockets(facts)
    };
    let mode = || (Some("receive ring, bypasses the qdisc on transmit".to_owned()), Vec::new());
    refusal.map_or_else(mode, unusable)
}

/// Returns the reason if the caller may not open packet sockets or AF_XDP sockets, which require the same
/// capability.
pub(super) fn raw_sockets(facts: &InterfaceFacts<'_>) -> Option<Remark> {
    let opened = facts.namespace.run(|| {
        socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None).map(drop)
    });
    match opened {
        Ok(Ok(())) => None,
        Ok(Err(Errno::EPERM)) => Some(Remark::new(
            "raw sockets require CAP_NET_RAW",
            "run as root, or setcap cap_net_raw+ep on the program",
        )),
        Ok(Err(errno)) => Some(Remark::note(format!("cannot open a raw socket: {errno}"))),
        Err(error) => Some(Remark::note(error.to_string())),
    }
}

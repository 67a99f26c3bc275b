//! What stands in the way of a port over XDP.

use onbeat_netdev::{Ethtool, Link, Namespace};

use super::rings::MAX_FRAME;
use crate::MIN_FRAME;
use crate::exclusive::shown_program;

/// Why no port over XDP can be opened on the interface, and what to do about it.
pub(crate) fn obstacle(namespace: &Namespace, link: &Link) -> Option<(String, String)> {
    let name = &link.name;
    if link.mac.is_none() || link.loopback {
        return Some(("it has no Ethernet address".into(), "take an Ethernet interface".into()));
    }
    if let Some(found) = link.xdp_program() {
        let program = shown_program(found.program_id);
        return Some((
            format!("XDP program {program} runs on it"),
            format!("stop what put it there, or: ip link set {name} xdp off (bpftool link detach)"),
        ));
    }
    if !link.up {
        return Some(("it is off".into(), format!("turn it on: ip link set {name} up")));
    }
    let longest = MAX_FRAME - MIN_FRAME;
    if link.mtu as usize > longest {
        return Some((
            format!("its MTU is {}, and a buffer takes {longest}", link.mtu),
            format!("ip link set {name} mtu 1500"),
        ));
    }
    // Of several queues the NIC chooses one by what is in a frame: the order would be lost between
    // them, and one socket is bound to one.
    let queues = receive_queues(namespace, link);
    (queues > 1).then(|| {
        (
            format!("it receives by {queues} queues, and a port takes frames from one"),
            format!("ethtool -L {name} combined 1 (or: rx 1)"),
        )
    })
}

/// Queues that the interface receives by at present.
pub(crate) fn receive_queues(namespace: &Namespace, link: &Link) -> u32 {
    let channels = Ethtool::in_namespace(namespace).and_then(|tool| tool.channels(&link.name));
    match channels {
        Ok(channels) => channels.rx + channels.combined,
        // Drivers that do not say have as many as they were made with.
        Err(_) => link.rx_queues,
    }
}

//! Obstacles to a port over XDP.

use onbeat_netdev::{Ethtool, Link, Namespace};

use super::rings::MAX_FRAME;
use crate::MIN_FRAME;
use crate::exclusive::shown_program;

/// Returns the reason why no port over XDP can be opened on the interface, and the remedy.
pub(crate) fn obstacle(namespace: &Namespace, link: &Link) -> Option<(String, String)> {
    let name = &link.name;
    if link.mac.is_none() || link.loopback {
        return Some(("it has no Ethernet address".into(), "use an Ethernet interface".into()));
    }
    if let Some(found) = link.xdp_program() {
        let program = shown_program(found.program_id);
        return Some((
            format!("XDP program {program} is attached"),
            format!(
                "stop the process that attached it, or run: ip link set {name} xdp off (bpftool link detach)"
            ),
        ));
    }
    if !link.up {
        return Some(("it is down".into(), format!("bring it up: ip link set {name} up")));
    }
    let longest = MAX_FRAME - MIN_FRAME;
    if link.mtu as usize > longest {
        return Some((
            format!("its MTU is {}, more than the limit of {longest} of a buffer", link.mtu),
            format!("ip link set {name} mtu 1500"),
        ));
    }
    // The NIC selects one of several queues by the content of a frame: order between them would be lost, and a
    // socket is bound to one queue.
    let queues = receive_queues(namespace, link);
    (queues > 1).then(|| {
        (
            format!("it has {queues} receive queues, and a port uses one"),
            format!("ethtool -L {name} combined 1 (or: rx 1)"),
        )
    })
}

/// Returns the present number of the interface's receive queues.
pub(crate) fn receive_queues(namespace: &Namespace, link: &Link) -> u32 {
    Ethtool::in_namespace(namespace).map_or(link.rx_queues, |tool| tool.receive_queues(link))
}

//! The back ends `xsk` and `xdp`, which need the same of an interface.

use onbeat_netdev::Ethtool;

use super::packet::raw_sockets;
use super::{Assessment, InterfaceFacts, Remark, unusable};
use crate::xsk::obstacle;

pub(super) fn examine_xsk(facts: &InterfaceFacts<'_>) -> Assessment {
    examine(facts, None)
}

pub(super) fn examine_xdp(facts: &InterfaceFacts<'_>) -> Assessment {
    let on_veth = (facts.link.kind.as_deref() == Some("veth")).then(|| {
        Remark::new(
            "answers arrive only where the other end of the veth runs an XDP program too",
            "put one there that passes every frame",
        )
    });
    let generic = native(facts) == Some(false);
    let no_room = generic.then(|| {
        Remark::new(
            "in generic mode there may be no room for an answer longer than its request",
            "take a NIC whose driver has native XDP, or pad requests",
        )
    });
    examine(facts, on_veth.or(no_room))
}

/// Whether the driver takes programs; `None`: nobody knows until it is tried.
fn native(facts: &InterfaceFacts<'_>) -> Option<bool> {
    facts.xdp.map(|features| features.basic)
}

fn examine(facts: &InterfaceFacts<'_>, remark: Option<Remark>) -> Assessment {
    let refusal = obstacle(facts.namespace, &facts.link)
        .map(|(why, remedy)| Remark::new(why, remedy))
        .or_else(|| raw_sockets(facts))
        .or_else(|| af_xdp(facts));
    if let Some(refusal) = refusal {
        return unusable(refusal);
    }
    let mode = match (native(facts), facts.xdp.is_some_and(|features| features.xsk_zerocopy)) {
        (Some(true), true) => "native XDP, zero copy",
        (Some(true), false) => "native XDP, frames are copied to the UMEM",
        (Some(false), _) => "generic XDP, frames are copied to the UMEM",
        (None, _) => "native XDP where the driver has it, else generic",
    };
    let generic = (native(facts) == Some(false)).then(|| {
        Remark::new(
            "the driver has no native XDP: frames come no sooner than with packet",
            "take a NIC whose driver has it (igb, igc, ixgbe, i40e, ice, stmmac, virtio_net)",
        )
    });
    let remarks = generic.into_iter().chain(remark).chain(stripped_tags(facts)).collect();
    (Some(mode.to_owned()), remarks)
}

/// Why no AF_XDP socket can be opened.
fn af_xdp(facts: &InterfaceFacts<'_>) -> Option<Remark> {
    let opened = facts.namespace.run(crate::xsk::unbound);
    let error = match opened {
        Ok(Ok(_)) => return None,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    Some(Remark::new(
        format!("the kernel opens no AF_XDP socket: {error}"),
        "take a kernel with CONFIG_XDP_SOCKETS",
    ))
}

/// That the NIC takes VLAN tags off, where a program does not see them.
fn stripped_tags(facts: &InterfaceFacts<'_>) -> Option<Remark> {
    // What a veth passes on is as it was sent.
    if facts.link.kind.is_some() {
        return None;
    }
    let name = &facts.link.name;
    let features = Ethtool::in_namespace(facts.namespace).ok()?.features(name).ok()?;
    let strips = features.iter().any(|f| f.name == "rx-vlan-hw-parse" && f.active);
    strips.then(|| {
        Remark::new(
            "the NIC takes VLAN tags off: of tagged frames the tag is not told",
            format!("ethtool -K {name} rxvlan off"),
        )
    })
}

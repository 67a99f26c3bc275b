//! The back ends `xsk` and `xdp`, which have the same requirements.

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
            "responses are sent in the driver only while the peer of the veth runs NAPI, else by the process",
            "in the peer's namespace: ethtool -K PEER gro on",
        )
    });
    let generic = native(facts) == Some(false);
    let no_room = generic.then(|| {
        Remark::new(
            "generic mode may lack room for a response longer than its request",
            "use a NIC whose driver has native XDP, or pad requests",
        )
    });
    examine(facts, on_veth.or(no_room))
}

/// Returns true if the driver supports native XDP; `None`: unknown until a program is attached.
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
        (None, _) => "native XDP if the driver supports it, else generic",
    };
    let generic = (native(facts) == Some(false)).then(|| {
        Remark::new(
            "the driver has no native XDP: frames arrive no sooner than with packet",
            "use a NIC whose driver has it (igb, igc, ixgbe, i40e, ice, stmmac, virtio_net)",
        )
    });
    let remarks = generic.into_iter().chain(remark).chain(stripped_tags(facts)).collect();
    (Some(mode.to_owned()), remarks)
}

/// Returns the reason if no AF_XDP socket can be opened.
fn af_xdp(facts: &InterfaceFacts<'_>) -> Option<Remark> {
    let opened = facts.namespace.run(crate::xsk::unbound);
    let error = match opened {
        Ok(Ok(_)) => return None,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    Some(Remark::new(
        format!("cannot open an AF_XDP socket: {error}"),
        "use a kernel with CONFIG_XDP_SOCKETS",
    ))
}

/// Returns a remark if the NIC strips VLAN tags, which hides them from a program.
fn stripped_tags(facts: &InterfaceFacts<'_>) -> Option<Remark> {
    // A veth does not strip tags.
    if facts.link.kind.is_some() {
        return None;
    }
    let name = &facts.link.name;
    let features = Ethtool::in_namespace(facts.namespace).ok()?.features(name).ok()?;
    let strips = features.iter().any(|f| f.name == "rx-vlan-hw-parse" && f.active);
    strips.then(|| {
        Remark::new(
            "the NIC strips VLAN tags: the tag of a frame is not reported",
            format!("ethtool -K {name} rxvlan off"),
        )
    })
}

//! Creation of virtual devices.

use std::os::fd::AsRawFd;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{InfoBridge, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkInfo, LinkMessage},
};
use nix::errno::Errno;
use onbeat_wire::MacAddress;

use super::Handle;
use crate::{Error, Namespace, Result, check_name};

/// One end of a veth pair.
///
/// The kernel chooses omitted parameters: a random address, an MTU of 1500, one queue per possible CPU (one
/// if there are many).
#[derive(Debug, Clone)]
pub struct VethEnd {
    name: String,
    namespace: Option<Namespace>,
    mac: Option<MacAddress>,
    mtu: Option<u32>,
    queues: Option<(u32, u32)>,
}

impl VethEnd {
    /// Creates an end of that name, in the namespace of the creating handle.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), namespace: None, mac: None, mtu: None, queues: None }
    }

    /// Sets its namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &Namespace) -> Self {
        self.namespace = Some(namespace.clone());
        self
    }

    /// Sets its hardware address.
    #[must_use]
    pub fn mac(mut self, mac: MacAddress) -> Self {
        self.mac = Some(mac);
        self
    }

    /// Sets its MTU, in octets.
    #[must_use]
    pub fn mtu(mut self, mtu: u32) -> Self {
        self.mtu = Some(mtu);
        self
    }

    /// Sets the numbers of its transmit and receive queues. XDP_REDIRECT to a veth uses the receive queues of
    /// the other end, one per CPU.
    #[must_use]
    pub fn queues(mut self, transmit: u32, receive: u32) -> Self {
        self.queues = Some((transmit, receive));
        self
    }

    fn message(&self, home: &Namespace) -> Result<LinkMessage> {
        check_name(&self.name)?;
        let mut message = LinkMessage::default();
        let attributes = &mut message.attributes;
        attributes.push(LinkAttribute::IfName(self.name.clone()));
        // Always set: the default namespace of the other end depends on the kernel.
        let namespace = self.namespace.as_ref().unwrap_or(home);
        attributes.push(LinkAttribute::NetNsFd(namespace.as_raw_fd()));
        if let Some(mac) = self.mac {
            attributes.push(LinkAttribute::Address(mac.0.to_vec()));
        }
        if let Some(mtu) = self.mtu {
            attributes.push(LinkAttribute::Mtu(mtu));
        }
        if let Some((transmit, receive)) = self.queues {
            attributes.push(LinkAttribute::NumTxQueues(transmit));
            attributes.push(LinkAttribute::NumRxQueues(receive));
        }
        Ok(message)
    }
}

/// A bridge to create: no spanning tree, no VLAN filtering, no forward delay.
#[derive(Debug, Clone)]
pub struct Bridge {
    name: String,
    mac: Option<MacAddress>,
    multicast_snooping: bool,
    group_forward_mask: u16,
}

impl Bridge {
    /// Creates the parameters of a bridge of that name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), mac: None, multicast_snooping: true, group_forward_mask: 0 }
    }

    /// Sets the hardware address; default: the lowest of its ports.
    #[must_use]
    pub fn mac(mut self, mac: MacAddress) -> Self {
        self.mac = Some(mac);
        self
    }

    /// Sets whether the bridge learns the listeners of multicast groups (the kernel's default), or floods
    /// multicast frames to all ports.
    #[must_use]
    pub fn multicast_snooping(mut self, on: bool) -> Self {
        self.multicast_snooping = on;
        self
    }

    /// Sets the link-local groups 01-80-C2-00-00-0X that the bridge forwards: bit X for each. LLDP, on 0E, is
    /// bit 14. By default the kernel forwards none; it refuses bits 0 to 2.
    #[must_use]
    pub fn group_forward_mask(mut self, mask: u16) -> Self {
        self.group_forward_mask = mask;
        self
    }
}

impl Handle {
    /// Creates a veth pair. Frames sent on one end arrive at the other.
    ///
    /// # Errors
    /// A name is in use or invalid; the kernel refuses.
    pub fn create_veth(&self, end: &VethEnd, peer: &VethEnd) -> Result<()> {
        let peer = peer.message(&self.namespace)?;
        let data = InfoData::Veth(InfoVeth::Peer(peer));
        self.create(end.message(&self.namespace)?, InfoKind::Veth, Some(data), &end.name)
    }

    /// Creates a bridge.
    ///
    /// # Errors
    /// Those of [`Handle::create_veth`]; [`Error::Unsupported`]: the kernel has no bridges.
    pub fn create_bridge(&self, bridge: &Bridge) -> Result<()> {
        let mut message = named(&bridge.name)?;
        if let Some(mac) = bridge.mac {
            message.attributes.push(LinkAttribute::Address(mac.0.to_vec()));
        }
        let mut data = vec![InfoBridge::ForwardDelay(0)];
        // Kernels built without snooping refuse the attribute, so it is sent only to turn snooping off.
        if !bridge.multicast_snooping {
            data.push(InfoBridge::MulticastSnooping(false));
        }
        if bridge.group_forward_mask != 0 {
            data.push(InfoBridge::GroupFwdMask(bridge.group_forward_mask));
        }
        self.create(message, InfoKind::Bridge, Some(InfoData::Bridge(data)), &bridge.name)
    }

    /// Creates a dummy device: it drops every frame.
    ///
    /// # Errors
    /// Those of [`Handle::create_veth`]; [`Error::Unsupported`]: the kernel has no dummy devices.
    pub fn create_dummy(&self, name: &str) -> Result<()> {
        self.create(named(name)?, InfoKind::Dummy, None, name)
    }

    fn create(
        &self,
        mut message: LinkMessage,
        kind: InfoKind,
        data: Option<InfoData>,
        name: &str,
    ) -> Result<()> {
        let operation = format!("create {kind}");
        let unsupported = Error::Unsupported {
            what: format!("a network device of kind {kind:?}", kind = kind.to_string()),
            remedy: format!("load or build the kernel module that provides it: modprobe {kind}"),
        };
        let mut info = vec![LinkInfo::Kind(kind)];
        info.extend(data.map(LinkInfo::Data));
        message.attributes.push(LinkAttribute::LinkInfo(info));
        self.rtnl.change(&RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL).map_err(
            |failure| match failure.errno() {
                Some(Errno::EOPNOTSUPP) => unsupported,
                _ => failure.of(operation, name),
            },
        )
    }
}

pub(super) fn named(name: &str) -> Result<LinkMessage> {
    check_name(name)?;
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.to_owned()));
    Ok(message)
}

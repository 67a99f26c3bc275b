//! Changes of existing devices.

use std::os::fd::AsRawFd;

use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{LinkAttribute, LinkFlags, LinkMessage, Prop},
};
use onbeat_wire::MacAddress;

use super::{Handle, create::named};
use crate::{Namespace, Result, check_name};

impl Handle {
    /// Sets the device up.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`]; the kernel refuses. The same holds for all changes here.
    pub fn set_up(&self, name: &str) -> Result<()> {
        self.set_flag(name, LinkFlags::Up, true, "set up")
    }

    /// Sets the device down.
    ///
    /// # Errors
    /// As [`Handle::set_up`].
    pub fn set_down(&self, name: &str) -> Result<()> {
        self.set_flag(name, LinkFlags::Up, false, "set down")
    }

    /// Makes the device receive frames to all addresses, or only to its own.
    ///
    /// This is the flag of an administrator. The kernel counts it in addition to other users of the mode
    /// (bridges, packet sockets): see [`super::Link::promiscuity`].
    ///
    /// # Errors
    /// As [`Handle::set_up`].
    pub fn set_promiscuous(&self, name: &str, on: bool) -> Result<()> {
        self.set_flag(name, LinkFlags::Promisc, on, &format!("set promiscuous to {on}"))
    }

    /// Turns address resolution (ARP, and for IPv6 neighbor discovery) on the device on or off.
    ///
    /// # Errors
    /// As [`Handle::set_up`].
    pub fn set_arp(&self, name: &str, on: bool) -> Result<()> {
        self.set_flag(name, LinkFlags::Noarp, !on, &format!("set ARP to {on}"))
    }

    /// Sets the MTU, the maximum payload of a frame, in octets: without Ethernet header and FCS.
    ///
    /// # Errors
    /// As [`Handle::set_up`].
    pub fn set_mtu(&self, name: &str, mtu: u32) -> Result<()> {
        self.set(name, LinkAttribute::Mtu(mtu), &format!("set MTU to {mtu}"))
    }

    /// Sets the hardware address.
    ///
    /// # Errors
    /// As [`Handle::set_up`].
    pub fn set_mac(&self, name: &str, mac: MacAddress) -> Result<()> {
        self.set(name, LinkAttribute::Address(mac.0.to_vec()), &format!("set MAC address to {mac}"))
    }

    /// Makes the device a port of `bridge`, or removes it from its bridge.
    ///
    /// # Errors
    /// Those of [`Handle::set_up`]; there is no such bridge.
    pub fn set_master(&self, name: &str, bridge: Option<&str>) -> Result<()> {
        let index = bridge.map_or(Ok(0), |bridge| self.index(bridge))?;
        let operation =
            bridge.map_or("leave its bridge".into(), |bridge| format!("join {bridge:?}"));
        self.set(name, LinkAttribute::Controller(index), &operation)
    }

    /// Renames the device.
    ///
    /// # Errors
    /// Those of [`Handle::set_up`]; the new name is in use or invalid.
    pub fn rename(&self, name: &str, new: &str) -> Result<()> {
        check_name(new)?;
        let mut message = LinkMessage::default();
        message.header.index = self.index(name)?;
        message.attributes.push(LinkAttribute::IfName(new.to_owned()));
        self.set_link(message, name, &format!("rename to {new:?}"))
    }

    /// Adds an alternative name, which lookups accept as well.
    ///
    /// # Errors
    /// Those of [`Handle::set_up`]; the name is in use.
    pub fn add_alternative_name(&self, name: &str, other: &str) -> Result<()> {
        check_name(other)?;
        let mut message = named(name)?;
        let names = vec![Prop::AltIfName(other.to_owned())];
        message.attributes.push(LinkAttribute::PropList(names));
        self.rtnl.change(&RouteNetlinkMessage::NewLinkProp(message), 0).map_err(|failure| {
            self.explain(failure, &format!("add the alternative name {other:?}"), name)
        })
    }

    /// Moves the device to another namespace. It is down there, without addresses.
    ///
    /// # Errors
    /// Those of [`Handle::set_up`]; the name is in use there, or the device cannot be moved.
    pub fn move_to(&self, name: &str, namespace: &Namespace) -> Result<()> {
        self.set(name, LinkAttribute::NetNsFd(namespace.as_raw_fd()), "move to another namespace")
    }

    /// Deletes the device; both ends of a veth pair.
    ///
    /// # Errors
    /// Those of [`Handle::set_up`]; the device is not virtual.
    pub fn delete(&self, name: &str) -> Result<()> {
        let message = RouteNetlinkMessage::DelLink(named(name)?);
        self.rtnl.change(&message, 0).map_err(|failure| self.explain(failure, "delete", name))
    }

    fn set_flag(&self, name: &str, flag: LinkFlags, on: bool, operation: &str) -> Result<()> {
        let mut message = named(name)?;
        message.header.change_mask = flag;
        message.header.flags = if on { flag } else { LinkFlags::empty() };
        self.set_link(message, name, operation)
    }

    fn set(&self, name: &str, attribute: LinkAttribute, operation: &str) -> Result<()> {
        let mut message = named(name)?;
        message.attributes.push(attribute);
        self.set_link(message, name, operation)
    }

    fn set_link(&self, message: LinkMessage, name: &str, operation: &str) -> Result<()> {
        self.rtnl
            .change(&RouteNetlinkMessage::SetLink(message), 0)
            .map_err(|failure| self.explain(failure, operation, name))
    }
}

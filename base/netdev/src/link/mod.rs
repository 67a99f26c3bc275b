//! Network devices by rtnetlink: reading, creation and changes.

mod change;
mod create;
mod info;
mod route;
mod statistics;

use std::{
    collections::BTreeSet,
    fs, io,
    net::IpAddr,
    time::{Duration, Instant},
};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressHeaderFlags, AddressMessage},
    link::{LinkAttribute, LinkExtentMask, LinkMessage},
    route::{RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType},
};
use nix::errno::Errno;

pub use self::{
    create::{Bridge, VethEnd},
    info::{Link, XdpAttachment, XdpMode},
    statistics::Statistics,
};
use crate::{Error, Monitor, Namespace, Result, check_name, netlink::Failure, rtnl::Rtnl};

/// An rtnetlink socket of one namespace: creates, changes and reads the devices there.
///
/// Requests of several threads are serialized.
#[derive(Debug)]
pub struct Handle {
    rtnl: Rtnl,
    namespace: Namespace,
}

impl Handle {
    /// Opens a handle of the calling thread's namespace, independent of later moves of the thread.
    ///
    /// # Errors
    /// No netlink socket can be opened or /proc cannot be read.
    pub fn open() -> Result<Self> {
        Ok(Self { rtnl: Rtnl::open()?, namespace: Namespace::current()? })
    }

    /// Opens a handle of `namespace`.
    ///
    /// # Errors
    /// Those of [`Handle::open`]; the caller may not enter the namespace.
    pub fn in_namespace(namespace: &Namespace) -> Result<Self> {
        namespace.run(Self::open)?
    }

    pub(crate) fn rtnl(&self) -> &Rtnl {
        &self.rtnl
    }

    /// Returns the namespace of the handle.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Returns all devices, in the order of their index.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn links(&self) -> Result<Vec<Link>> {
        let mut query = LinkMessage::default();
        query.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        let links = self.rtnl.links(query).map_err(|failure| failure.of("list interfaces", ""))?;
        Ok(links.into_iter().map(Link::from).collect())
    }

    /// Returns the devices of this namespace that are stacked above the device of that index, at any height: VLANs and the
    /// like on top of it, and the bridge or bond that it belongs to.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn stacked_above(&self, index: u32) -> Result<Vec<Link>> {
        Ok(stacked_above(self.links()?, index))
    }

    /// Returns the devices of the namespace with this id in the handle's namespace.
    pub(crate) fn links_of(&self, namespace_id: i32) -> Result<Vec<Link>> {
        let mut query = LinkMessage::default();
        query.attributes.push(LinkAttribute::IfNetnsId(namespace_id));
        query.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        let links = self.rtnl.links(query);
        let links = links.map_err(|failure| failure.of("list interfaces of a namespace", ""))?;
        Ok(links.into_iter().map(Link::from).collect())
    }

    /// Returns the device of that name.
    ///
    /// # Errors
    /// [`Error::NotFound`], with the existing names.
    pub fn link(&self, name: &str) -> Result<Link> {
        self.message(name, vec![LinkExtentMask::SkipStats]).map(Link::from)
    }

    /// Returns the device of that index.
    ///
    /// # Errors
    /// [`Error::NotFound`], with the existing names.
    pub fn link_by_index(&self, index: u32) -> Result<Link> {
        let mut query = LinkMessage::default();
        query.header.index = index;
        query.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        let name = format!("index {index}");
        let found = self.rtnl.link(query);
        found.map(Link::from).map_err(|failure| self.explain(failure, "look up", &name))
    }

    /// Returns the index of the device of that name.
    ///
    /// # Errors
    /// [`Error::NotFound`], with the existing names.
    pub fn index(&self, name: &str) -> Result<u32> {
        self.link(name).map(|link| link.index)
    }

    /// Returns the counters of the device.
    ///
    /// # Errors
    /// [`Error::NotFound`], with the existing names.
    pub fn statistics(&self, name: &str) -> Result<Statistics> {
        let message = self.message(name, vec![])?;
        Statistics::of(&message).ok_or_else(|| Error::Malformed {
            operation: format!("read the counters of {name}"),
            reason: "they are missing".into(),
        })
    }

    /// Adds an address to the device. IPv6 addresses are usable immediately, without duplicate address
    /// detection.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the kernel refuses, for example an existing address.
    pub fn add_address(&self, name: &str, address: IpAddr, prefix: u8) -> Result<()> {
        let mut message = AddressMessage::default();
        message.header.index = self.index(name)?;
        message.header.prefix_len = prefix;
        message.header.family = family(address);
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        message.attributes.push(AddressAttribute::Local(address));
        message.attributes.push(AddressAttribute::Address(address));
        self.rtnl
            .change(&RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
            .map_err(|failure| {
                self.explain(failure, &format!("add address {address}/{prefix}"), name)
            })
    }

    /// Adds a route to `destination`/`prefix` through the device, via the neighbor `via`.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the kernel refuses, for example a neighbor that is not reachable from the
    /// device's addresses.
    pub fn add_route(
        &self,
        name: &str,
        destination: IpAddr,
        prefix: u8,
        via: IpAddr,
    ) -> Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(destination);
        message.header.destination_prefix_length = prefix;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.attributes.push(RouteAttribute::Destination(destination.into()));
        message.attributes.push(RouteAttribute::Gateway(via.into()));
        message.attributes.push(RouteAttribute::Oif(self.index(name)?));
        self.rtnl
            .change(&RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
            .map_err(|failure| {
                let operation = format!("add a route to {destination}/{prefix} via {via}");
                self.explain(failure, &operation, name)
            })
    }

    /// Turns IPv6 on the device off or on. Without IPv6, the device sends no frames by itself: no router
    /// solicitation, no neighbor discovery, no multicast report.
    ///
    /// # Errors
    /// [`Error::NotFound`]; /proc/sys cannot be written. On a kernel without IPv6, turning it off is no
    /// error.
    pub fn set_ipv6(&self, name: &str, on: bool) -> Result<()> {
        let path = self.setting("ipv6", name, "disable_ipv6")?;
        match self.write(&path, if on { "0" } else { "1" })? {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !on => Ok(()),
            result => result.map_err(|error| Error::io(format!("write {path}"), error)),
        }
    }

    /// Returns for which addresses a device answers ARP requests (`arp_ignore`, Linux's ip-sysctl.rst): 0, all of the host.
    ///
    /// # Errors
    /// [`Error::NotFound`]; /proc/sys cannot be read.
    pub fn arp_ignore(&self, name: &str) -> Result<u8> {
        let path = self.setting("ipv4", name, "arp_ignore")?;
        let text = self.namespace.run(|| fs::read_to_string(&path))?;
        let number = text.and_then(|text| text.trim().parse().map_err(io::Error::other));
        number.map_err(|error| Error::io(format!("read {path}"), error))
    }

    /// Sets for which addresses a device answers ARP requests: 1, its own; 8, none.
    ///
    /// # Errors
    /// [`Error::NotFound`]; /proc/sys cannot be written.
    pub fn set_arp_ignore(&self, name: &str, level: u8) -> Result<()> {
        let path = self.setting("ipv4", name, "arp_ignore")?;
        let result = self.write(&path, &level.to_string())?;
        result.map_err(|error| Error::io(format!("write {path}"), error))
    }

    /// Makes the namespace route IPv4 packets between its devices, or not: all devices, including later ones.
    ///
    /// # Errors
    /// /proc/sys cannot be written.
    pub fn set_forwarding(&self, on: bool) -> Result<()> {
        let path = "/proc/sys/net/ipv4/ip_forward";
        let result = self.write(path, if on { "1" } else { "0" })?;
        result.map_err(|error| Error::io(format!("write {path}"), error))
    }

    /// Returns the path of a setting of a device.
    fn setting(&self, family: &str, name: &str, key: &str) -> Result<String> {
        check_name(name)?;
        self.index(name)?;
        Ok(format!("/proc/sys/net/{family}/conf/{name}/{key}"))
    }

    /// Writes a setting of the namespace; the inner result is that of the write.
    fn write(&self, path: &str, value: &str) -> Result<io::Result<()>> {
        // /proc/sys/net shows the namespace of the thread that opens it.
        self.namespace.run(|| fs::write(path, value))
    }

    /// Waits until `condition` holds for the device, which need not exist yet, and returns it. `what`
    /// describes the condition in an error: "up", "out of its bridge".
    ///
    /// # Errors
    /// [`Error::Timeout`]; the kernel refuses.
    pub fn wait_for(
        &self,
        name: &str,
        what: &str,
        timeout: Duration,
        mut condition: impl FnMut(&Link) -> bool,
    ) -> Result<Link> {
        // Some changes (a queueing discipline, an XDP program) are reported late or to other groups, so the
        // device is also polled at this interval.
        const POLL_INTERVAL: Duration = Duration::from_millis(20);
        let deadline = Instant::now() + timeout;
        let mut monitor = Monitor::in_namespace(&self.namespace)?;
        loop {
            match self.link(name) {
                Ok(link) if condition(&link) => return Ok(link),
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Timeout {
                    interface: name.to_owned(),
                    condition: what.to_owned(),
                    timeout,
                });
            }
            monitor.next_within(left.min(POLL_INTERVAL))?;
        }
    }

    /// Waits until the device is up and has carrier.
    ///
    /// # Errors
    /// As [`Handle::wait_for`].
    pub fn wait_carrier(&self, name: &str, timeout: Duration) -> Result<Link> {
        self.wait_for(name, "up with carrier", timeout, |link| link.up && link.carrier)
    }

    fn message(&self, name: &str, mask: Vec<LinkExtentMask>) -> Result<LinkMessage> {
        check_name(name)?;
        let mut query = LinkMessage::default();
        query.attributes.push(LinkAttribute::IfName(name.to_owned()));
        query.attributes.push(LinkAttribute::ExtMask(mask));
        self.rtnl.link(query).map_err(|failure| self.explain(failure, "look up", name))
    }

    /// Returns the error of a failed operation; for a missing device, with the existing names.
    fn explain(&self, failure: Failure, operation: &str, name: &str) -> Error {
        if failure.errno() != Some(Errno::ENODEV) {
            return failure.of(operation, name);
        }
        let names = self.links().map(|links| links.into_iter().map(|link| link.name).collect());
        Error::NotFound { name: name.to_owned(), available: names.unwrap_or_default() }
    }
}

/// Returns the devices among `links` that are stacked above the one of that index.
fn stacked_above(links: Vec<Link>, index: u32) -> Vec<Link> {
    let (mut found, mut pending) = (BTreeSet::from([index]), vec![index]);
    while let Some(lower) = pending.pop() {
        let master = links.iter().find(|link| link.index == lower).and_then(|link| link.master);
        for link in &links {
            // The peer of a veth is beside it.
            let is_on_top = link.peer == Some(lower)
                && link.peer_namespace.is_none()
                && link.kind.as_deref() != Some("veth");
            if (is_on_top || master == Some(link.index)) && found.insert(link.index) {
                pending.push(link.index);
            }
        }
    }
    found.remove(&index);
    links.into_iter().filter(|link| found.contains(&link.index)).collect()
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_at_any_height_are_stacked_above() {
        let link = |index, lower: Option<u32>, master, kind: &str| Link {
            index,
            peer: lower,
            master,
            kind: Some(kind.to_owned()),
            ..Link::default()
        };
        let links = vec![
            link(1, None, None, "device"),
            link(2, Some(1), Some(3), "vlan"),
            link(3, None, None, "bridge"),
            link(4, Some(3), None, "macvlan"),
            link(5, Some(1), None, "veth"),
            link(6, None, Some(3), "device"),
            Link { peer_namespace: Some(0), ..link(7, Some(1), None, "macvlan") },
        ];
        let above = |index| {
            let above = stacked_above(links.clone(), index);
            above.into_iter().map(|link| link.index).collect::<Vec<_>>()
        };
        assert_eq!(above(1), [2, 3, 4]);
        assert_eq!(above(2), [3, 4]);
        assert_eq!(above(6), [3, 4]);
        assert!(above(4).is_empty());
        // A loop, as between two readings, ends.
        let looped = vec![link(1, Some(2), None, "vlan"), link(2, Some(1), None, "vlan")];
        assert_eq!(stacked_above(looped, 1).len(), 1);
    }
}

//! The route of packets to an address.

use std::net::IpAddr;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{RouteAttribute, RouteMessage};

use nix::errno::Errno;

use super::{Handle, family};
use crate::Result;

/// Answers of the kernel for addresses that no packet reaches.
const UNREACHABLE: [Errno; 5] =
    [Errno::ENETUNREACH, Errno::EHOSTUNREACH, Errno::EINVAL, Errno::EACCES, Errno::ENOENT];

impl Handle {
    /// Returns the index of the interface that packets to an address leave by, as `ip route get ADDRESS from SOURCE` does;
    /// `None`: they have no route.
    ///
    /// # Errors
    /// The kernel does not answer, or in another form.
    pub fn route(&self, source: IpAddr, to: IpAddr) -> Result<Option<u32>> {
        let mut query = RouteMessage::default();
        query.header.address_family = family(to);
        let length = if to.is_ipv4() { 32 } else { 128 };
        query.header.destination_prefix_length = length;
        query.attributes.push(RouteAttribute::Destination(to.into()));
        if source.is_ipv4() == to.is_ipv4() {
            query.header.source_prefix_length = length;
            query.attributes.push(RouteAttribute::Source(source.into()));
        }
        let route = match self.rtnl.get(&RouteNetlinkMessage::GetRoute(query)) {
            Ok(RouteNetlinkMessage::NewRoute(route)) => route,
            Ok(_) => return Ok(None),
            // Without a route, or by a route of type blackhole, unreachable or prohibit.
            Err(failure) if failure.errno().is_some_and(|errno| UNREACHABLE.contains(&errno)) => {
                return Ok(None);
            }
            Err(failure) => return Err(failure.of("look up a route", "")),
        };
        Ok(route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use onbeat_testing::{Feature, require_all};

    use super::*;
    use crate::{Namespace, VethEnd};

    #[test]
    fn packets_leave_by_the_interface_of_their_route() {
        if !require_all(&[Feature::Root]) {
            return;
        }
        let handle = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
        handle.create_veth(&VethEnd::new("v0"), &VethEnd::new("v1")).unwrap();
        handle.set_up("v0").unwrap();
        handle.set_up("v1").unwrap();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        handle.add_address("v0", address("192.0.2.1"), 24).unwrap();
        let route = |to| handle.route(address("192.0.2.1"), address(to)).unwrap();
        assert_eq!(route("192.0.2.7"), Some(handle.link("v0").unwrap().index));
        assert_eq!(route("198.51.100.1"), None);
        assert_eq!(handle.route(address("2001:db8::1"), address("2001:db8::2")).unwrap(), None);
    }
}

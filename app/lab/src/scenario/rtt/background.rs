//! Background traffic through the nodes of a row: datagrams that the network stacks of both nodes
//! route, half by each path. They belong to no stream.
//!
//! ```text
//!                             .5  path1  .6
//!   talker .1 --- .2 a             198.51.100.x            b .1 --- .2, .3 listener
//!         192.0.2.x           .9  path2  .10                   203.0.113.x
//! ```

use std::fs;
use std::net::{IpAddr, Ipv4Addr};

use onbeat_netdev::Handle;

use super::row::Row;
use crate::load::{UdpLoad, UdpSpec};
use crate::{Error, Result, World};

/// A network for documentation (RFC 5737).
#[derive(Clone, Copy)]
enum TestNetwork {
    Talker,
    Paths,
    Listener,
}

impl TestNetwork {
    fn address(self, host: u8) -> IpAddr {
        let [a, b, c] = match self {
            TestNetwork::Talker => [192, 0, 2],
            TestNetwork::Paths => [198, 51, 100],
            TestNetwork::Listener => [203, 0, 113],
        };
        Ipv4Addr::new(a, b, c, host).into()
    }
}

/// Addresses of stations: station, interface, network, host number, prefix length.
const ADDRESSES: [(&str, &str, TestNetwork, u8, u8); 9] = [
    ("talker", "eth0", TestNetwork::Talker, 1, 24),
    ("a", "host", TestNetwork::Talker, 2, 24),
    ("a", "path1", TestNetwork::Paths, 5, 30),
    ("b", "path1", TestNetwork::Paths, 6, 30),
    ("a", "path2", TestNetwork::Paths, 9, 30),
    ("b", "path2", TestNetwork::Paths, 10, 30),
    ("b", "host", TestNetwork::Listener, 1, 24),
    ("listener", "eth0", TestNetwork::Listener, 2, 24),
    ("listener", "eth0", TestNetwork::Listener, 3, 24),
];

struct Route {
    at: (&'static str, &'static str),
    to: (TestNetwork, u8, u8),
    via: (TestNetwork, u8),
}

/// Routes to the listener by both paths, to the talker by the first.
const ROUTES: [Route; 5] = [
    Route {
        at: ("talker", "eth0"),
        to: (TestNetwork::Listener, 0, 24),
        via: (TestNetwork::Talker, 2),
    },
    Route { at: ("a", "path1"), to: (TestNetwork::Listener, 2, 32), via: (TestNetwork::Paths, 6) },
    Route { at: ("a", "path2"), to: (TestNetwork::Listener, 3, 32), via: (TestNetwork::Paths, 10) },
    Route { at: ("b", "path1"), to: (TestNetwork::Talker, 0, 24), via: (TestNetwork::Paths, 5) },
    Route {
        at: ("listener", "eth0"),
        to: (TestNetwork::Talker, 0, 24),
        via: (TestNetwork::Listener, 1),
    },
];

/// Adds addresses and routes to the hosts and nodes of a row.
pub(super) fn prepare(world: &World, row: &Row) -> Result<()> {
    for (station, interface, net, host, prefix) in ADDRESSES {
        let handle = world.handle(&row.station(station))?;
        handle.add_address(interface, net.address(host), prefix)?;
    }
    for Route { at: (station, interface), to: (net, host, prefix), via: (near, neighbor) } in ROUTES
    {
        let handle = world.handle(&row.station(station))?;
        handle.add_route(interface, net.address(host), prefix, near.address(neighbor))?;
    }
    for node in ["a", "b"] {
        forward(world.handle(&row.station(node))?)?;
    }
    Ok(())
}

fn forward(handle: &Handle) -> Result<()> {
    handle.set_forwarding(true)?;
    // Replies arrive by path1 only, and the kernel drops packets from other directions (rp_filter).
    for interface in ["all", "path1", "path2"] {
        let path = format!("/proc/sys/net/ipv4/conf/{interface}/rp_filter");
        // /proc/sys/net shows the namespace of the thread that opens it.
        let written = handle.namespace().run(|| fs::write(&path, "0"))?;
        written.map_err(|error| Error::io(format!("write 0 to {path}"), error))?;
    }
    Ok(())
}

/// Starts to send through the nodes of a row, with the affinity of this thread.
pub(super) fn start(world: &World, row: &Row) -> Result<UdpLoad> {
    let (talker, listener) = (row.station("talker"), row.station("listener"));
    let targets = [2, 3].map(|host| TestNetwork::Listener.address(host));
    UdpLoad::start(world.namespace(&talker)?, world.namespace(&listener)?, &targets, UdpSpec::PAPER)
}

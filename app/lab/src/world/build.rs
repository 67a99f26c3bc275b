//! Creation of namespaces and links from a topology.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;

use onbeat_netdev::{Bridge, Ethtool, Handle, Namespace, VethEnd};
use onbeat_wire::MacAddress;

use super::{BOUND, Mounts, World};
use crate::fault::Wire;
use crate::topology::{Link, Topology};
use crate::{Error, Result};

/// MTU between nodes: 1,500 octets plus two VLAN tags, the R-TAG and a margin.
const NODE_MTU: u32 = 1600;
const HOST_MTU: u32 = 1500;

/// Interfaces of a wire, in a namespace between the two ends of its link.
pub(super) const WIRE_ENDS: [&str; 2] = ["first", "second"];

pub(super) fn world(topology: Topology) -> Result<World> {
    let mounts = Mounts::enter()?;
    let mut stations = BTreeMap::new();
    let hosts = topology.hosts.iter().map(|host| &host.name);
    for name in hosts.chain(topology.nodes.iter().map(|node| &node.name)) {
        stations.insert(name.clone(), quiet_namespace()?);
    }
    let mut wires = BTreeMap::new();
    for (number, link) in topology.links.iter().enumerate() {
        if let Some(wire) = build_link(&topology, &stations, link, number)? {
            wires.insert(link.name.clone(), wire);
        }
    }
    for node in topology.nodes.iter().filter(|node| !node.bridge.is_empty()) {
        let handle = &stations[&node.name];
        handle.create_bridge(&Bridge::new("br0").multicast_snooping(false))?;
        keep_trailers(handle.namespace())?;
        for interface in &node.bridge {
            handle.set_master(interface, Some("br0"))?;
        }
        handle.set_up("br0")?;
    }
    for end in topology.links.iter().flat_map(|link| &link.ends) {
        stations[&end.station].wait_carrier(&end.interface, BOUND)?;
    }
    Ok(World {
        backend: None,
        daemons: BTreeMap::new(),
        wires,
        unplugged: BTreeMap::new(),
        stations,
        topology,
        _mounts: mounts,
    })
}

/// Creates a namespace whose interfaces send no frames on their own.
fn quiet_namespace() -> Result<Handle> {
    let namespace = Namespace::with_loopback()?;
    let path = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
    namespace.run(|| match fs::write(path, "1") {
        // A kernel without IPv6 sends none.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result.map_err(|error| Error::io(format!("write {path}"), error)),
    })??;
    Ok(Handle::in_namespace(&namespace)?)
}

/// Turns off br_netfilter in a namespace: with it, a bridge trims IP packets, and so removes trailers of PRP.
fn keep_trailers(namespace: &Namespace) -> Result<()> {
    for family in ["iptables", "ip6tables", "arptables"] {
        let path = format!("/proc/sys/net/bridge/bridge-nf-call-{family}");
        namespace.run(|| match fs::write(&path, "0") {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            result => result.map_err(|error| Error::io(format!("write {path}"), error)),
        })??;
    }
    Ok(())
}

fn build_link(
    topology: &Topology,
    stations: &BTreeMap<String, Handle>,
    link: &Link,
    number: usize,
) -> Result<Option<Wire>> {
    let at = |index: usize| {
        (&stations[&link.ends[index].station], link_end(topology, link, number, index))
    };
    let Some(impairment) = link.impairment else {
        pair(at(0), at(1))?;
        for end in &link.ends {
            settle(&stations[&end.station], &end.interface)?;
        }
        return Ok(None);
    };
    let middle = quiet_namespace()?;
    for index in 0..2 {
        wire_end(topology, stations, (link, number), index, &middle)?;
    }
    for name in WIRE_ENDS {
        middle.wait_carrier(name, BOUND)?;
    }
    Wire::start(&middle, WIRE_ENDS, impairment, link.tapped).map(Some)
}

/// Creates the veth pair between an end of a link and its wire.
pub(super) fn wire_end(
    topology: &Topology,
    stations: &BTreeMap<String, Handle>,
    (link, number): (&Link, usize),
    index: usize,
    middle: &Handle,
) -> Result<()> {
    let (end, name) = (&link.ends[index], WIRE_ENDS[index]);
    let station = &stations[&end.station];
    let inner = VethEnd::new(name).mtu(mtu(topology, link));
    pair((station, link_end(topology, link, number, index)), (middle, inner))?;
    settle(station, &end.interface)?;
    settle(middle, name)
}

fn link_end(topology: &Topology, link: &Link, number: usize, index: usize) -> VethEnd {
    let end = VethEnd::new(&link.ends[index].interface);
    end.mtu(mtu(topology, link)).mac(address(number, index))
}

fn mtu(topology: &Topology, link: &Link) -> u32 {
    let between_nodes = link.ends.iter().all(|end| topology.is_node(&end.station));
    if between_nodes { NODE_MTU } else { HOST_MTU }
}

/// Creates a pair with one queue per direction: frames keep their order on any CPU.
fn pair((handle, end): (&Handle, VethEnd), (peer, peer_end): (&Handle, VethEnd)) -> Result<()> {
    let peer_end = peer_end.queues(1, 1).namespace(peer.namespace());
    Ok(handle.create_veth(&end.queues(1, 1), &peer_end)?)
}

fn settle(handle: &Handle, interface: &str) -> Result<()> {
    handle.set_up(interface)?;
    let ethtool = Ethtool::in_namespace(handle.namespace())?;
    // A veth accepts redirects of XDP only if its peer polls, which GRO enables. The kernel exposes the
    // peer, which nodes look up, only while the device is up. XDP would forward a frame whose checksum
    // or segments are still to be computed.
    ethtool.set_features(interface, &[("gro", true), ("tso", false), ("tx", false)])?;
    Ok(())
}

/// A locally administered address, the same in every run.
fn address(link: usize, end: usize) -> MacAddress {
    let [high, low] = (link as u16).to_be_bytes();
    MacAddress([0x02, 0x0b, 0, high, low, end as u8])
}

//! ```text
//!                       path1
//!                     /-------\
//! talker eth0 --- host a       b host --- eth0 listener
//!                     \-------/
//!                       path2
//! ```

use onbeat_lab::{Topology, World};

use super::{machine, program};

/// The destination of a stream, and its VLAN at the hosts.
pub(crate) const GROUP: &str = "01:00:5e:00:00:01";
pub(crate) const VLAN: u16 = 100;

/// The ports of both nodes. Their paths have an MTU for the hosts' frames with R-TAG.
pub(crate) const PORTS: &str = r#"
[[port]]
name = "host"
interface = "host"
[[port]]
name = "path1"
interface = "path1"
mtu = 1506
[[port]]
name = "path2"
interface = "path2"
mtu = 1506
"#;

/// [`PORTS`] with programs in this mode.
pub(crate) fn ports_in_mode(mode: &str) -> String {
    PORTS.replace("interface =", &format!("mode = \"{mode}\"\ninterface ="))
}

/// A stream that a node numbers and sends over both paths, in VLAN 11 and VLAN 12.
pub(crate) fn replicate(name: &str, destination: &str, vlan: u16) -> String {
    format!(
        r#"
[[stream]]
name = "{name}"
generate = true
member = [{{ port = "host", identify = {{ type = "null", destination = "{destination}", vlan = {vlan} }} }}]
egress = [
  {{ port = "path1", tag = "r-tag", vlan = 11 }},
  {{ port = "path2", tag = "r-tag", vlan = 12 }},
]
"#
    )
}

/// A stream that a node numbers and sends over both paths, with equal replicas.
pub(crate) fn replicate_alike() -> String {
    format!(
        r#"
[[stream]]
name = "axis"
generate = true
member = [{{ port = "host", identify = {{ type = "null", destination = "{GROUP}", vlan = {VLAN} }} }}]
egress = [{{ port = "path1", tag = "r-tag" }}, {{ port = "path2", tag = "r-tag" }}]
"#
    )
}

/// A stream of which a node forwards one replica from the paths, with its VLAN.
pub(crate) fn eliminate(name: &str, destination: &str, vlan: u16) -> String {
    let host = format!("tag = \"none\", vlan = {vlan}");
    eliminate_to(name, destination, &host, "{ history-length = 256, reset-timeout-ms = 0 }")
}

/// Like [`eliminate`], with a host port and a recovery function of the caller.
pub(crate) fn eliminate_to(name: &str, destination: &str, host: &str, recover: &str) -> String {
    format!(
        r#"
[[stream]]
name = "{name}"
member = [
  {{ port = "path1", identify = {{ type = "null", destination = "{destination}", vlan = 11 }} }},
  {{ port = "path2", identify = {{ type = "null", destination = "{destination}", vlan = 12 }} }},
]
recover = {recover}
egress = [{{ port = "host", {host} }}]
"#
    )
}

/// The network drawn above; nodes run with these configurations.
pub(crate) fn two_paths(a: &str, b: &str) -> Topology {
    let mut network = Topology::default();
    network.host("talker", 0, 0).host("listener", 3, 0).node("a", 1, 0, a).node("b", 2, 0, b);
    network.link("access", "talker:eth0", "a:host").link("exit", "b:host", "listener:eth0");
    network.link("path1", "a:path1", "b:path1").link("path2", "a:path2", "b:path2");
    network
}

/// One node "a", and a host at each of its ports, named as the port; each host's interface is "eth0".
///
/// ```text
/// host eth0 --- host a path1 --- eth0 path1
///                      path2 --- eth0 path2
/// ```
pub(crate) fn one_node(a: &str) -> Topology {
    let mut network = Topology::default();
    network.node("a", 1, 0, a);
    for (row, port) in ["host", "path1", "path2"].into_iter().enumerate() {
        network.host(port, 2 * u16::from(row > 0), row as u16);
        network.link(port, &format!("{port}:eth0"), &format!("a:{port}"));
    }
    network
}

/// Builds a network.
#[track_caller]
pub(crate) fn build(network: &Topology) -> World {
    machine::shared();
    World::build(network).expect("the network")
}

/// Builds a network and starts its nodes.
#[track_caller]
pub(crate) fn start(network: &Topology) -> World {
    let mut world = build(network);
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    world
}

//! The static entries of `onbeat plan` in a bridge of Linux: two streams, to a group and to an individual address, each over
//! the bridge and over a relay.
//!
//! ```text
//!               +------ b (bridge of Linux) ------+
//!   talker --- [ a ]            |               [ c ] --- group
//!               |               |                 |
//!               |             [ e ] --- individual|
//!               |               |                 |
//!               +------------ [ d ] --------------+
//! ```

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::common::{Capture, Flow, address, build, can_run, program, show, stream, wait_for};
use onbeat_lab::world::CutEnds;
use onbeat_lab::{Topology, World};
use onbeat_netdev::Namespace;
use onbeat_plan::plan::PreviousRoutes;
use onbeat_plan::{Network, Plan, bridge, node_file};

const NETWORK: &str = r#"
[network]
label-vlans = [101, 102]

[[node]]
name = "a"
host = { interface = "a-host" }
port = [{ name = "a-b" }, { name = "a-d" }]

[[node]]
name = "b"
bridge = "br0"
port = [{ name = "b-a" }, { name = "b-c" }, { name = "b-e" }]

[[node]]
name = "c"
host = { interface = "c-host" }
port = [{ name = "c-b" }, { name = "c-d" }]

[[node]]
name = "d"
port = [{ name = "d-a" }, { name = "d-c" }, { name = "d-e" }]

[[node]]
name = "e"
host = { interface = "e-host" }
port = [{ name = "e-b" }, { name = "e-d" }]

[[link]]
a = "a:a-b"
b = "b:b-a"

[[link]]
a = "b:b-c"
b = "c:c-b"

[[link]]
a = "b:b-e"
b = "e:e-b"

[[link]]
a = "a:a-d"
b = "d:d-a"
name = "a-d"

[[link]]
a = "d:d-c"
b = "c:c-d"

[[link]]
a = "d:d-e"
b = "e:e-d"

[[stream]]
name = "group"
talker = "a"
listeners = ["c"]
address = "01:00:5e:00:00:01"
vlan = 100
interval-us = 1000
size = 304

[[stream]]
name = "individual"
talker = "a"
listeners = ["e"]
address = "02:00:00:00:0e:09"
vlan = 100
interval-us = 1000
size = 304
"#;

const GROUP: &str = "01:00:5e:00:00:01";
const INDIVIDUAL: &str = "02:00:00:00:0e:09";

fn topology(network: &Network, plan: &Plan) -> Topology {
    let mut topology = Topology::default();
    for (file, place) in node_file::all(network, plan).into_iter().zip(1..) {
        let node = &network.nodes[file.node as usize];
        // The links of a host, as the bridge is one here, have the MTU 1500.
        let at_bridge = format!("interface = \"{}-b\"\n", node.name);
        let mtu = "mtu = 1506\n";
        let text = file.text.replace(&format!("{at_bridge}{mtu}"), &at_bridge);
        let text = text.replace(&at_bridge, &format!("{at_bridge}{mtu}"));
        topology.node(&node.name, place, 1, text);
        if let Some(host) = &node.host {
            let station = format!("at-{}", node.name);
            topology.host(&station, place, 0);
            let end = format!("{}:{}", node.name, host.interface);
            topology.link(&format!("host-{}", node.name), &format!("{station}:eth0"), &end);
        }
    }
    topology.host("b", 0, 1);
    for link in &network.links {
        let [a, b] = link.ends.map(|end| network.end_name(end));
        topology.link(&link.name, &a, &b);
    }
    topology
}

/// Whether this kernel has bridges with VLANs. Not a feature that tests require: the suite `bridge` of tests/vm has it.
fn has_bridge_vlans() -> bool {
    let namespace = Namespace::new().expect("a namespace");
    let mut create = Command::new("ip");
    create.args(["link", "add", "br0", "type", "bridge", "vlan_filtering", "1"]);
    let created = namespace.start_in(&mut create).stderr(Stdio::null()).status();
    let has = created.expect("ip starts").success();
    if !has {
        // Not by eprintln!, which shows the output of failed tests only.
        let _ = writeln!(
            std::io::stderr(),
            "SKIP: bridge: requires CONFIG_BRIDGE_VLAN_FILTERING (tests/vm)"
        );
    }
    has
}

/// Runs a command of iproute2 at the bridge.
#[track_caller]
fn at_bridge(world: &World, command: &str) {
    let mut words = command.split_whitespace();
    let mut started = Command::new(words.next().expect("a program"));
    let started = started.args(words);
    let status = world.namespace("b").unwrap().start_in(started).status().expect("it starts");
    assert!(status.success(), "{command}");
}

#[test]
fn a_bridge_of_linux_forwards_by_the_entries_of_the_plan() {
    if !can_run() || !has_bridge_vlans() {
        return;
    }
    let network = Network::parse(NETWORK, "net.toml").unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::new(&network, &PreviousRoutes::default());
    assert!(plan.is_complete());
    let mut world = build(&topology(&network, &plan));
    // As the reference of plan requires: VLANs, groups, and no VLAN but those of the entries.
    at_bridge(
        &world,
        "ip link add br0 type bridge vlan_filtering 1 vlan_default_pvid 0 mcast_snooping 1",
    );
    for port in ["b-a", "b-c", "b-e"] {
        at_bridge(&world, &format!("ip link set {port} mtu 1506 master br0"));
        // As on a wire: a veth passes the tag beside the frame, where the program of its peer does not see it.
        at_bridge(&world, &format!("ethtool -K {port} txvlan off"));
    }
    at_bridge(&world, "ip link set br0 up");
    let entries = bridge::entries(&network, &plan);
    let file = "/run/onbeat/lab/b.bridge";
    fs::write(file, bridge::batch(&network, 1, &entries)).unwrap();
    at_bridge(&world, &format!("bridge -batch {file}"));
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));

    let paths = [("c", "c-b"), ("e", "e-b")];
    let mut captures = paths.map(|(node, port)| Capture::open(&world, node, port));
    let flows = [(1, "at-c", GROUP), (2, "at-e", INDIVIDUAL)].map(|(number, to, destination)| {
        Flow::start(&world, ("at-a", to), number, (destination, 100), 1000, None)
    });
    flows.iter().for_each(|flow| flow.advance(300));
    // Without the relay, the path over the bridge carries all.
    world.cut("a-d", CutEnds::Both).unwrap();
    flows.iter().for_each(|flow| flow.advance(300));
    let of = |captures: &mut [Capture; 2], port: usize, destination: &str| {
        let destination = address(destination).0;
        captures[port].take().iter().filter(|frame| frame[..6] == destination).count()
    };
    // Each stream leaves by one port of the bridge: the stack of a node gets the frames that are in none of its streams.
    for (place, (node, port)) in paths.into_iter().enumerate() {
        let (name, other) = [("group", INDIVIDUAL), ("individual", GROUP)][place];
        let status = show(node);
        let member = stream(&status, name).members.iter().find(|member| member.port == port);
        assert!(member.expect("a member").input_packets >= 300, "{status:?}");
        assert_eq!(of(&mut captures, place, other), 0, "{other} at {port}");
    }
    flows.into_iter().for_each(|flow| _ = flow.finish_whole());

    // Without the entries, the bridge sends a frame to each port of the VLAN.
    for entry in &entries {
        let (address, vlan) = (entry.address, entry.vlan);
        let port = &network.nodes[1].ports[*entry.egress.first().unwrap() as usize].interface;
        at_bridge(
            &world,
            &match address.is_multicast() {
                true => {
                    format!("bridge mdb del dev br0 port {port} grp {address} permanent vid {vlan}")
                }
                false => format!("bridge fdb del {address} dev {port} master static vlan {vlan}"),
            },
        );
    }
    let flow = Flow::start(&world, ("at-a", "at-e"), 3, (GROUP, 100), 1000, Some(50));
    wait_for("the flood", || of(&mut captures, 1, GROUP) > 0);
    let _ = flow.finish();
}

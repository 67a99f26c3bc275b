//! The end systems of the examples: a program sends UDP by an interface that the talker's node created,
//! a program at the listener receives it by an ordinary socket, and one path after the other is cut.
//!
//! ```text
//!         +-- talker ----------+  path1, VLAN 101  +---------- listener --+
//!   UDP ----> tsn0 == [node] eth0 --------------- eth0 [node] == tsn0 ----> UDP
//!         |               eth1 --------------- eth1                |
//!         +--------------------+  path2, VLAN 102  +----------------------+
//! ```

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;

use crate::common::{build, can_run, input, program, show, start, stream, wait_for};
use onbeat_lab::world::CutEnds;
use onbeat_lab::{Topology, World};
use onbeat_netdev::{Ethtool, Namespace};
use onbeat_node::control::PortMode;

const TALKER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const LISTENER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// Datagrams of each stream between two events.
const WHILE: u16 = 100;

/// A stream of the examples, with the parameters of a sending program.
#[derive(Debug, Clone, Copy)]
struct Stream {
    name: &'static str,
    /// The MAC address that identifies the stream.
    group: Ipv4Addr,
    port: u16,
}

/// Identified by its destination address, 01:00:5e:00:00:01.
const AXIS: Stream = Stream { name: "axis-1", group: Ipv4Addr::new(239, 0, 0, 1), port: 4000 };
/// Identified by IP addresses and port.
const CAMERA: Stream = Stream { name: "camera", group: Ipv4Addr::new(239, 1, 2, 3), port: 5000 };

fn network() -> Topology {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let example = |name| std::fs::read_to_string(examples.join(name)).expect("an example");
    let mut network = Topology::default();
    network.node("talker", 0, 0, example("talker-end-system.toml"));
    network.node("listener", 1, 0, example("listener-end-system.toml"));
    network.link("path1", "talker:eth0", "listener:eth0");
    network.link("path2", "talker:eth1", "listener:eth1");
    network
}

fn socket(namespace: &Namespace, address: Ipv4Addr, port: u16) -> UdpSocket {
    namespace.run(|| UdpSocket::bind((address, port))).unwrap().unwrap()
}

/// Payload of datagram `number`: of various lengths, even and odd.
fn payload(number: u16) -> Vec<u8> {
    let mut octets = number.to_be_bytes().to_vec();
    octets.extend((0..number % 301).map(|place| (place ^ number) as u8));
    octets
}

/// Two programs.
struct Programs {
    stream: Stream,
    talker: UdpSocket,
    listener: UdpSocket,
    sent: u16,
    received: Vec<u16>,
}

impl Programs {
    fn start(world: &World, stream: Stream) -> Programs {
        let talker = socket(world.namespace("talker").unwrap(), TALKER, 0);
        talker.connect((stream.group, stream.port)).unwrap();
        let listener = socket(world.namespace("listener").unwrap(), stream.group, stream.port);
        listener.join_multicast_v4(&stream.group, &LISTENER).unwrap();
        listener.set_nonblocking(true).unwrap();
        Programs { stream, talker, listener, sent: 0, received: Vec::new() }
    }

    fn receive(&mut self) {
        let mut buffer = [0; 2048];
        loop {
            match self.listener.recv_from(&mut buffer) {
                Ok((length, from)) => {
                    let number = u16::from_be_bytes([buffer[0], buffer[1]]);
                    assert_eq!(buffer[..length], payload(number), "datagram {number}");
                    assert_eq!(from.ip(), IpAddr::V4(TALKER));
                    self.received.push(number);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Sends datagrams over `paths` paths, and waits until each replica and datagram has arrived.
    #[track_caller]
    fn talk(&mut self, paths: u64) {
        let name = self.stream.name;
        let before = input(stream(&show("listener"), name));
        for _ in 0..WHILE {
            self.talker.send(&payload(self.sent)).unwrap();
            self.sent += 1;
        }
        let replicas = before + paths * u64::from(WHILE);
        wait_for(&format!("{replicas} replicas of {name} in all"), || {
            input(stream(&show("listener"), name)) == replicas
        });
        wait_for(&format!("{} datagrams of {name} in all", self.sent), || {
            self.receive();
            self.received.len() >= usize::from(self.sent)
        });
        // Each once, in order: both replicas have arrived, and no more datagrams follow.
        assert!(self.received.iter().copied().eq(0..self.sent), "{:?}", self.received);
        let status = show("listener");
        let stream = stream(&status, name);
        assert_eq!(stream.recovery.as_ref().unwrap().counters.passed, u64::from(self.sent));
        assert_eq!(stream.egress[0].output_packets, u64::from(self.sent));
    }
}

/// Gives the programs' interfaces of both nodes their addresses.
#[track_caller]
fn give_addresses(world: &World) {
    for (node, address) in [("talker", TALKER), ("listener", LISTENER)] {
        let handle = world.handle(node).unwrap();
        handle.add_address("tsn0", address.into(), 24).unwrap();
        wait_for("tsn0 carries frames", || handle.link("tsn0").unwrap().carrier);
        let ethtool = Ethtool::in_namespace(handle.namespace()).unwrap();
        let offload = ethtool.feature("tsn0", "tx-checksum-ip-generic").unwrap();
        assert!(!offload, "no device behind tsn0 of {node} would compute checksums");
    }
}

/// A node starts before the far ends of its paths are up, and its streams pass once these are up.
fn in_order(first: &str, second: &str) {
    let mut world = build(&network());
    for path in ["eth0", "eth1"] {
        world.handle(second).unwrap().set_down(path).unwrap();
    }
    world.start(first, program()).unwrap_or_else(|error| panic!("{error}"));
    let down = onbeat_node::control::LinkState::Down;
    for path in ["path1", "path2"] {
        assert_eq!(crate::common::port(&show(first), path).link, down);
    }
    let events = crate::common::run(&["show", first, "--events"]);
    assert!(events.out.contains("port \"path1\": waiting for carrier on eth0"), "{events:?}");
    let shown = crate::common::run(&["show", first]);
    assert!(shown.out.contains("port path2: waiting for carrier on eth1"), "{shown:?}");

    world.start(second, program()).unwrap_or_else(|error| panic!("{error}"));
    let ready = |node: &str| {
        let up = onbeat_node::control::LinkState::Up;
        show(node).ports.iter().all(|port| port.link == up && port.frames_lost.is_none())
    };
    wait_for("both nodes report both paths", || ready("talker") && ready("listener"));
    give_addresses(&world);
    for stream in [AXIS, CAMERA] {
        Programs::start(&world, stream).talk(2);
    }
    for node in ["talker", "listener"] {
        assert_eq!(crate::common::port(&show(node), "app").mode, PortMode::Native);
        world.daemon(node).unwrap().interrupt().unwrap();
        crate::common::assert_gone(node);
    }
}

#[test]
fn the_talker_may_start_first() {
    if can_run() {
        in_order("talker", "listener");
    }
}

#[test]
fn the_listener_may_start_first() {
    if can_run() {
        in_order("listener", "talker");
    }
}

#[test]
fn a_cut_path_does_not_affect_the_programs() {
    if !can_run() {
        return;
    }
    let mut world = start(&network());
    give_addresses(&world);

    let mut programs = [AXIS, CAMERA].map(|stream| Programs::start(&world, stream));
    let mut talk = |paths| programs.iter_mut().for_each(|programs| programs.talk(paths));
    talk(2);
    for path in ["path1", "path2"] {
        world.cut(path, CutEnds::Both).unwrap();
        talk(1);
        world.restore(path).unwrap();
        // Wait until the programs of both nodes use the path again.
        let port = |node| {
            let status = show(node);
            crate::common::port(&status, path).link
        };
        let up = onbeat_node::control::LinkState::Up;
        wait_for("both nodes report that it is up", || {
            port("talker") == up && port("listener") == up
        });
        talk(2);
    }

    // No socket received a wrong checksum.
    let statistics = world.namespace("listener").unwrap().run(udp_statistics).unwrap();
    assert_eq!((statistics("InCsumErrors"), statistics("InErrors")), (0, 0));
    assert_eq!(statistics("InDatagrams"), programs.iter().map(|p| u64::from(p.sent)).sum::<u64>());

    // The interfaces that the nodes created are removed with them.
    for node in ["talker", "listener"] {
        world.daemon(node).unwrap().interrupt().unwrap();
        assert!(world.handle(node).unwrap().link("tsn0").unwrap_err().is_not_found());
        crate::common::assert_gone(node);
    }
}

/// UDP counters of the namespace of the calling thread, by name.
fn udp_statistics() -> impl Fn(&str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("statistics");
    move |name| {
        let mut lines = text.lines().filter(|line| line.starts_with("Udp: "));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let found = names.split(' ').zip(values.split(' ')).find(|(found, _)| *found == name);
        found.and_then(|(_, value)| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
    }
}

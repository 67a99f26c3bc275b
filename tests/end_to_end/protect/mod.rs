//! `onbeat protect`: hosts with a redundant interface over two networks, with ordinary sockets on it.
//!
//! ```text
//!   +-- h1 -------------+    LAN A, a bridge     +------------- h2 --+
//!   | prot1 == [node] lana ------- br0 ------- lana [node] == prot2  |
//!   |              lanb ----------  |  -------- lanb                 |
//!   +-------------------+    LAN B  |            +-------------------+
//!                                   |
//!                              san eth0: without redundancy
//! ```

mod absent;
mod generic;
mod prp;
mod refusals;
mod rtag;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use onbeat_netdev::{Bridge, Ethtool, Handle, Namespace, VethEnd};
use onbeat_node::control::{NodesStatus, WildcardStatus, WildcardTables};
use onbeat_realtime::interrupt::wait_until;

use crate::common::{BOUND, CommandOutput, assert_gone, machine, run, run_in, wait_for};

const H1: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const H2: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const SAN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 3);
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
const PORT: u16 = 4000;
pub(crate) const LANS: [&str; 2] = ["lana", "lanb"];

pub(crate) struct Network {
    pub(crate) h1: Handle,
    pub(crate) h2: Handle,
    pub(crate) san: Handle,
    /// With the bridge of LAN A, br0.
    pub(crate) hub: Handle,
}

pub(crate) fn network() -> Network {
    machine::shared();
    let namespace = || Handle::in_namespace(&Namespace::with_loopback().unwrap()).unwrap();
    let (h1, h2, san, hub) = (namespace(), namespace(), namespace(), namespace());
    hub.create_bridge(&Bridge::new("br0").multicast_snooping(false)).unwrap();
    hub.set_up("br0").unwrap();
    // With br_netfilter, a bridge cuts off what follows an IP packet, and so the trailer.
    for family in ["iptables", "ip6tables"] {
        let setting = format!("/proc/sys/net/bridge/bridge-nf-call-{family}");
        let written = hub.namespace().run(|| std::fs::write(&setting, "0")).unwrap();
        assert!(written.is_ok() || !std::path::Path::new(&setting).exists(), "{setting}");
    }
    for (port, handle, name) in [("p1", &h1, "lana"), ("p2", &h2, "lana"), ("p3", &san, "eth0")] {
        let far = VethEnd::new(name).namespace(handle.namespace());
        hub.create_veth(&VethEnd::new(port), &far).unwrap();
        hub.set_master(port, Some("br0")).unwrap();
        hub.set_up(port).unwrap();
        handle.set_up(name).unwrap();
        handle.wait_carrier(name, BOUND).unwrap();
    }
    h1.create_veth(&VethEnd::new("lanb"), &VethEnd::new("lanb").namespace(h2.namespace())).unwrap();
    [&h1, &h2].iter().for_each(|handle| handle.set_up("lanb").unwrap());
    san.add_address("eth0", IpAddr::V4(SAN), 24).unwrap();
    Network { h1, h2, san, hub }
}

/// The far ends of the paths poll, as redirection to a veth requires.
fn network_that_polls() -> Network {
    let network = network();
    let polls = |handle: &Handle, name: &str| {
        let ethtool = Ethtool::in_namespace(handle.namespace()).unwrap();
        ethtool.set_features(name, &[("gro", true)]).unwrap();
    };
    ["p1", "p2"].iter().for_each(|port| polls(&network.hub, port));
    [&network.h1, &network.h2].iter().for_each(|handle| polls(handle, "lanb"));
    network
}

/// Two hosts with a redundant interface, removed at the end.
struct ProtectedHosts {
    network: Network,
    format: &'static str,
    /// Nodes have different names in tests that run at the same time.
    names: [&'static str; 2],
}

impl ProtectedHosts {
    fn new(names: [&'static str; 2]) -> Self {
        let protected = Self::with(network(), names, "prp");
        for node in names {
            wait_for("each node hears the other on both LANs", || hears(&nodes(node)));
        }
        protected
    }

    fn with(network: Network, names: [&'static str; 2], format: &'static str) -> Self {
        Self::with_options(network, names, format, &[])
    }

    fn with_options(
        network: Network,
        names: [&'static str; 2],
        format: &'static str,
        options: &[&str],
    ) -> Self {
        let hosts = [(&network.h1, H1), (&network.h2, H2)];
        for ((handle, address), name) in hosts.into_iter().zip(names) {
            let arguments = ["protect", "lana", "lanb", "--name", name, "--format", format];
            let made = run_in(handle.namespace(), &[&arguments, options].concat());
            assert_eq!((made.code, made.err.as_str()), (0, ""), "{}", made.out);
            assert!(made.out.contains(&format!("ip address add ADDRESS/PREFIX dev {name}")));
            handle.add_address(name, IpAddr::V4(address), 24).unwrap();
        }
        Self { network, format, names }
    }

    /// Checks that programs in the kernel, in the drivers, are the data planes.
    fn run_natively(&self) {
        for node in self.names {
            let shown = run(&["show", node]).out;
            assert!(shown.contains("data plane xdp") && !shown.contains("generic"), "{shown}");
        }
    }

    /// Ends the daemons: programs in the kernel continue.
    fn continue_without_daemons(&self) {
        for node in self.names {
            end_daemon(process_of(node));
        }
        let Network { h1, h2, .. } = &self.network;
        let (here, there) = (udp(h1, H1, 0), udp(h2, H2, PORT));
        let mut receiver = Receiver::new(there);
        const DATAGRAMS: u32 = 700;
        for number in 0..DATAGRAMS {
            let mut datagram = vec![0x5a; length(number)];
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            here.send_to(&datagram, (H2, PORT)).unwrap();
        }
        receiver.has_each_once(DATAGRAMS);
    }

    /// Removes the interfaces by the command.
    fn undo(&self) {
        for (handle, name) in [&self.network.h1, &self.network.h2].into_iter().zip(self.names) {
            let undone = run_in(handle.namespace(), &["protect", "--undo", name]);
            assert_eq!((undone.code, undone.err.as_str()), (0, ""), "{}", undone.out);
            assert!(handle.link(name).unwrap_err().is_not_found());
            assert_gone(name);
        }
    }

    /// Frames that the second host received from a LAN, whatever became of them.
    fn received(&self, lan: usize) -> u64 {
        match self.format {
            "prp" => nodes(self.names[1]).lans[lan].counters.received,
            _ => wildcard(self.names[1]).paths[lan].received,
        }
    }
}

impl Drop for ProtectedHosts {
    fn drop(&mut self) {
        for (handle, name) in [&self.network.h1, &self.network.h2].into_iter().zip(self.names) {
            run_in(handle.namespace(), &["protect", "--undo", name]);
        }
    }
}

pub(crate) fn nodes(node: &str) -> NodesStatus {
    let CommandOutput { code, out, err } = run(&["show", node, "--nodes", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    serde_json::from_str(&out).expect("tables")
}

/// The only wildcard of a node.
fn wildcard(node: &str) -> WildcardStatus {
    let CommandOutput { code, out, err } = run(&["show", node, "--nodes", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let tables: WildcardTables = serde_json::from_str(&out).expect("tables");
    let [wildcard] = <[_; 1]>::try_from(tables.wildcards).expect("one wildcard");
    wildcard
}

fn hears(status: &NodesStatus) -> bool {
    let both = |node: &onbeat_node::control::RemoteNode| {
        node.supervision_age_ns.is_some() && node.a.age_ns.is_some() && node.b.age_ns.is_some()
    };
    status.nodes.iter().any(both)
}

fn udp(handle: &Handle, address: Ipv4Addr, port: u16) -> UdpSocket {
    handle.namespace().run(|| UdpSocket::bind((address, port))).unwrap().unwrap()
}

/// Counts of each number.
struct Receiver {
    socket: UdpSocket,
    counts: Vec<u32>,
}

impl Receiver {
    fn new(socket: UdpSocket) -> Self {
        socket.set_nonblocking(true).unwrap();
        // It is not drained while a command of a test runs.
        setsockopt(&socket, sockopt::RcvBufForce, &(16 << 20)).unwrap();
        Self { socket, counts: Vec::new() }
    }

    fn drain(&mut self) {
        let mut octets = [0; 2048];
        while let Ok(len) = self.socket.recv(&mut octets) {
            let number = u32::from_be_bytes(octets[..4].try_into().unwrap()) as usize;
            assert_eq!(len, length(number as u32), "{number}");
            self.counts.resize(self.counts.len().max(number + 1), 0);
            self.counts[number] += 1;
        }
    }

    fn received(&self) -> u32 {
        self.counts.iter().sum()
    }

    /// Checks that each of the datagrams sent has arrived once.
    fn has_each_once(&mut self, sent: u32) {
        // Missing datagrams are reported below, one by one.
        let _ = wait_until(BOUND, || {
            self.drain();
            self.received() >= sent
        });
        assert!(self.counts.len() <= sent as usize, "{:?}", self.counts);
        self.counts.resize(sent as usize, 0);
        let wrong: Vec<_> = self.counts.iter().enumerate().filter(|(_, n)| **n != 1).collect();
        assert!(wrong.is_empty(), "of {sent}, number and count: {wrong:?}");
    }
}

/// The length of a datagram: the shortest are padded, the longest fill a frame.
fn length(number: u32) -> usize {
    [4, 18, 19, 22, 23, 100, 1494 - 28][number as usize % 7]
}

/// Sends numbered datagrams until `stop`; returns their number.
fn send(socket: &UdpSocket, to: Ipv4Addr, sent: &AtomicU32, stop: &AtomicBool) {
    let octets = [0x5a; 2048];
    while !stop.load(Ordering::Relaxed) {
        let number = sent.load(Ordering::Relaxed);
        let mut datagram = octets[..length(number)].to_vec();
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        socket.send_to(&datagram, (to, PORT)).unwrap();
        sent.store(number + 1, Ordering::Release);
        thread::sleep(Duration::from_micros(200));
    }
}

/// Transfers octets by TCP while `running`; returns the number of octets, all as sent.
fn transfer(network: &Network, running: &AtomicBool) -> usize {
    let listener = network.h2.namespace().run(|| TcpListener::bind((H2, PORT))).unwrap().unwrap();
    let mut sender =
        network.h1.namespace().run(|| TcpStream::connect((H2, PORT))).unwrap().unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let pattern: Vec<u8> = (0..65_521_u32).map(|number| ((number * 31) >> 3) as u8).collect();
    let pattern = &pattern;
    thread::scope(|scope| {
        scope.spawn(move || {
            while !running.load(Ordering::Relaxed) {
                sender.write_all(pattern).unwrap();
            }
        });
        let mut total = 0;
        let mut octets = [0; 32768];
        loop {
            let len = receiver.read(&mut octets).unwrap();
            if len == 0 {
                return total;
            }
            let expected = pattern.iter().cycle().skip(total % pattern.len());
            assert!(octets[..len].iter().eq(expected.take(len)), "at {total}");
            total += len;
        }
    })
}

/// The process of a node.
pub(crate) fn process_of(node: &str) -> Pid {
    let status = run(&["show", node, "--json"]).out;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    Pid::from_raw(status["pid"].as_i64().unwrap().try_into().unwrap())
}

/// Kills a daemon and waits for its end.
pub(crate) fn end_daemon(daemon: Pid) {
    signal::kill(daemon, Signal::SIGKILL).unwrap();
    wait_for("the daemon ends", || signal::kill(daemon, None).is_err());
}

/// Sends by UDP, to a group and by TCP while each path is cut in turn: each datagram arrives once.
fn exchange_while_paths_are_cut(protected: &ProtectedHosts) {
    let Network { h1, h2, .. } = &protected.network;
    let stop = AtomicBool::new(false);
    let sent = [AtomicU32::new(0), AtomicU32::new(0)];
    let sockets = [udp(h1, H1, 0), udp(h1, H1, 0)];
    sockets[1].set_multicast_loop_v4(false).unwrap();
    let group = udp(h2, GROUP, PORT);
    group.join_multicast_v4(&GROUP, &H2).unwrap();
    let mut receivers = [Receiver::new(udp(h2, H2, PORT)), Receiver::new(group)];
    // To the group, they leave by the interface of their source address.
    let octets = thread::scope(|scope| {
        let _stopped = StopGuard(&stop);
        for ((socket, to), sent) in sockets.iter().zip([H2, GROUP]).zip(&sent) {
            let stop = &stop;
            scope.spawn(move || send(socket, to, sent, stop));
        }
        let tcp = scope.spawn(|| transfer(&protected.network, &stop));
        let mut both = || {
            receivers.iter_mut().for_each(Receiver::drain);
            [receivers[0].received(), receivers[1].received()]
        };
        // Datagrams arrive by the path that is up, then on both again.
        let mut advance = |what: &str| {
            let before = both();
            wait_for(what, || both().iter().zip(before).all(|(now, before)| *now > before + 100));
        };
        advance("datagrams arrive");
        for lan in [0, 1, 0, 1] {
            h1.set_down(LANS[lan]).unwrap();
            advance("datagrams arrive by one path");
            h1.set_up(LANS[lan]).unwrap();
            let frames = || protected.received(lan);
            let before = frames();
            wait_for("the path carries frames again", || frames() > before + 50);
            advance("datagrams arrive by both paths");
        }
        stop.store(true, Ordering::Relaxed);
        tcp.join().unwrap()
    });
    for (receiver, sent) in receivers.iter_mut().zip(&sent) {
        receiver.has_each_once(sent.load(Ordering::Acquire));
    }
    assert!(octets > 1 << 20, "{octets} octets by TCP");
}

const PATH1: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const PATH2: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const PATH3: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 3);

/// The address that a host resolved.
fn neighbor(handle: &Handle, address: Ipv4Addr) -> String {
    let table = handle.namespace().run(|| std::fs::read_to_string("/proc/thread-self/net/arp"));
    let table = table.unwrap().unwrap();
    let line = table.lines().find(|line| line.starts_with(&format!("{address} ")));
    let line = line.unwrap_or_else(|| panic!("no neighbor {address}: {table}"));
    line.split_whitespace().nth(3).unwrap().to_owned()
}

struct StopGuard<'a>(&'a AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

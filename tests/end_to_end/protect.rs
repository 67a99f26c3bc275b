//! `onbeat protect`: hosts with a redundant interface over two networks, with ordinary sockets on it, while the paths are
//! cut in turn; a host without redundancy; a refusal.
//!
//! ```text
//!   +-- h1 -------------+    LAN A, a bridge     +------------- h2 --+
//!   | prot1 == [node] lana ------- br0 ------- lana [node] == prot2  |
//!   |              lanb ----------  |  -------- lanb                 |
//!   +-------------------+    LAN B  |            +-------------------+
//!                                   |
//!                              san eth0: without redundancy
//! ```

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

use crate::common::{BOUND, CommandOutput, assert_gone, can_run, machine, run, run_in, wait_for};

pub(crate) const H1: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const H2: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const SAN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 3);
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
pub(crate) const PORT: u16 = 4000;
pub(crate) const LANS: [&str; 2] = ["lana", "lanb"];

pub(crate) struct Network {
    pub(crate) h1: Handle,
    pub(crate) h2: Handle,
    pub(crate) san: Handle,
    /// With the bridge of LAN A.
    hub: Handle,
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

fn nodes(node: &str) -> NodesStatus {
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

#[test]
fn sockets_on_a_redundant_interface_lose_nothing_while_its_paths_are_cut() {
    if !can_run() {
        return;
    }
    let protected = ProtectedHosts::new(["prot1", "prot2"]);
    exchange_while_paths_are_cut(&protected);
    let status = nodes("prot2");
    for lan in &status.lans {
        let c = &lan.counters;
        let causes = c.passed + c.own + c.accepted + c.duplicates + c.untagged + c.supervision;
        assert_eq!(c.received, causes + c.invalid_supervision + c.unread_supervision, "{status:?}");
        assert!(c.accepted > 0 && c.wrong_lan == 0, "{status:?}");
    }
    assert_eq!(neighbor(&protected.network.h1, H2), nodes("prot2").mac, "the path answered ARP");
}

/// The far ends of the paths poll, as redirection to a veth requires.
#[test]
fn programs_in_the_kernel_lose_nothing_while_paths_are_cut_and_without_the_daemon() {
    if !can_run() {
        return;
    }
    let network = network();
    let polls = |handle: &Handle, name: &str| {
        let ethtool = Ethtool::in_namespace(handle.namespace()).unwrap();
        ethtool.set_features(name, &[("gro", true)]).unwrap();
    };
    ["p1", "p2"].iter().for_each(|port| polls(&network.hub, port));
    [&network.h1, &network.h2].iter().for_each(|handle| polls(handle, "lanb"));
    // Programs forward checksums as they are.
    let ethtool = Ethtool::in_namespace(network.san.namespace()).unwrap();
    ethtool.set_features("eth0", &[("tx", false)]).unwrap();
    let protected =
        ProtectedHosts::with_options(network, ["protb", "protc"], "prp", &["--backend", "xdp"]);
    for node in protected.names {
        wait_for("each node hears the other on both LANs", || hears(&nodes(node)));
        let shown = run(&["show", node]).out;
        assert!(shown.contains("data plane xdp") && !shown.contains("generic"), "{shown}");
    }
    exchange_while_paths_are_cut(&protected);
    let Network { h1, h2, san, .. } = &protected.network;
    let status = nodes("protc");
    for lan in &status.lans {
        assert!(lan.counters.accepted > 0, "{status:?}");
        assert_eq!((lan.counters.wrong_lan, lan.counters.own), (0, 0), "{status:?}");
    }
    assert!(status.lans.iter().any(|lan| lan.counters.duplicates > 0), "{status:?}");
    assert_eq!(neighbor(h1, H2), status.mac, "the path answered ARP");

    // A host without redundancy, whose broadcasts are for the host and for the path's own stack. Each answers for its own
    // address.
    let setting = "/proc/sys/net/ipv4/conf/all/arp_ignore";
    h1.namespace().run(|| std::fs::write(setting, "1")).unwrap().unwrap();
    h1.add_address("lana", IpAddr::V4(PATH1), 24).unwrap();
    san.add_address("eth0", IpAddr::V4(PATH3), 24).unwrap();
    let there = udp(san, Ipv4Addr::UNSPECIFIED, PORT);
    for (from, to) in [(H1, SAN), (PATH1, PATH3)] {
        let here = udp(h1, from, PORT);
        let mut octets = [0; 16];
        for socket in [&here, &there] {
            socket.set_read_timeout(Some(BOUND)).unwrap();
        }
        for number in 0..20 {
            // The first one of the other side requires ARP by broadcast.
            there.send_to(&[number], (from, PORT)).unwrap();
            let what = format!("{from} and {to}, {number}");
            let (len, _) = here.recv_from(&mut octets).expect(&what);
            assert_eq!((len, octets[0]), (1, number));
            here.send_to(&[number + 100], (to, PORT)).unwrap();
            let (len, source) = there.recv_from(&mut octets).expect(&what);
            assert_eq!((len, octets[0], source.ip()), (1, number + 100, IpAddr::V4(from)));
        }
    }
    assert_eq!(neighbor(san, H1), nodes("protb").mac);
    let of_path = h1.link("lana").unwrap().mac.unwrap().to_string();
    assert_eq!(neighbor(san, PATH1), of_path);

    // The programs continue without their daemons.
    for node in protected.names {
        end_daemon(process_of(node));
    }
    let (here, there) = (udp(h1, H1, 0), udp(h2, H2, PORT));
    let mut receiver = Receiver::new(there);
    const DATAGRAMS: u32 = 700;
    for number in 0..DATAGRAMS {
        let mut datagram = vec![0x5a; length(number)];
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        here.send_to(&datagram, (H2, PORT)).unwrap();
    }
    let _ = wait_until(BOUND, || {
        receiver.drain();
        receiver.received() >= DATAGRAMS
    });
    let all_once = receiver.counts.iter().all(|count| *count == 1);
    assert!(all_once && receiver.counts.len() == DATAGRAMS as usize, "{:?}", receiver.counts);
    for (handle, name) in [(h1, "protb"), (h2, "protc")] {
        let undone = run_in(handle.namespace(), &["protect", "--undo", name]);
        assert_eq!((undone.code, undone.err.as_str()), (0, ""), "{}", undone.out);
        assert!(handle.link(name).unwrap_err().is_not_found());
        assert_gone(name);
    }
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
        let sent = sent.load(Ordering::Acquire);
        // Missing datagrams are reported below, one by one.
        let _ = wait_until(BOUND, || {
            receiver.drain();
            receiver.received() >= sent
        });
        receiver.counts.resize(sent as usize, 0);
        let wrong: Vec<_> = receiver.counts.iter().enumerate().filter(|(_, n)| **n != 1).collect();
        assert!(wrong.is_empty(), "of {sent}, number and count: {wrong:?}");
    }
    assert!(octets > 1 << 20, "{octets} octets by TCP");
}

#[test]
fn frames_with_r_tags_are_lost_by_no_cut_and_paths_keep_their_own_traffic() {
    if !can_run() {
        return;
    }
    let protected = ProtectedHosts::with(network(), ["prot7", "prot8"], "rtag");
    let Network { h1, h2, san, .. } = &protected.network;
    // The paths have addresses of their own, and a host on one of them has no R-TAGs.
    for (handle, address) in [(h1, PATH1), (h2, PATH2), (san, PATH3)] {
        let name = if std::ptr::eq(handle, san) { "eth0" } else { "lana" };
        handle.add_address(name, IpAddr::V4(address), 24).unwrap();
    }
    assert_eq!(h1.link("prot7").unwrap().mtu, 1494);
    exchange_while_paths_are_cut(&protected);
    let (here, there) = (udp(h1, PATH1, PORT), udp(san, PATH3, PORT));
    for socket in [&here, &there] {
        socket.set_read_timeout(Some(BOUND)).unwrap();
    }
    let mut octets = [0; 16];
    let receivers = [there, udp(h2, PATH2, PORT)];
    for (receiver, to) in receivers.iter().zip([PATH3, PATH2]) {
        receiver.set_read_timeout(Some(BOUND)).unwrap();
        for number in 0..20 {
            here.send_to(&[number], (to, PORT)).unwrap();
            let (len, from) = receiver.recv_from(&mut octets).unwrap();
            assert_eq!((len, octets[0], from.ip()), (1, number, IpAddr::V4(PATH1)));
            receiver.send_to(&[number + 100], from).unwrap();
            let (len, _) = here.recv_from(&mut octets).unwrap();
            assert_eq!((len, octets[0]), (1, number + 100));
        }
    }
    // The path's address is that of its own interface, and the redundant one is not heard there.
    let of_path = h2.link("lana").unwrap().mac.unwrap().to_string();
    assert_eq!(neighbor(h1, PATH2), of_path);
    let status = wildcard("prot8");
    assert_eq!(neighbor(h1, H2), status.mac);
    assert_eq!(status.senders.len(), 1, "{status:?}");
    assert_eq!(status.senders[0].mac, wildcard("prot7").mac);
    for path in &status.paths {
        let causes = path.passed + path.own + path.accepted + path.duplicates;
        assert_eq!((path.received, path.own), (causes, 0), "{status:?}");
        assert!(path.accepted > 0, "{status:?}");
    }
    assert!(status.paths.iter().any(|path| path.duplicates > 0), "{status:?}");
    let shown = run(&["show", "prot8"]);
    assert!(shown.out.contains("WILDCARD"), "{}", shown.out);
    let shown = run(&["show", "prot8", "--nodes"]);
    assert!(shown.out.contains(&status.senders[0].mac), "{}", shown.out);
    let appeared = format!("node {} appeared", status.senders[0].mac);
    wait_for(&appeared, || run(&["show", "prot8", "--events"]).out.contains(&appeared));
    for (handle, name) in [(h1, "prot7"), (h2, "prot8")] {
        let undone = run_in(handle.namespace(), &["protect", "--undo", name]);
        assert_eq!((undone.code, undone.err.as_str()), (0, ""), "{}", undone.out);
        assert!(handle.link(name).unwrap_err().is_not_found());
        assert_gone(name);
    }
}

/// All interfaces are ports of one bridge.
#[test]
fn both_paths_on_one_bridge_make_no_storm() {
    if !can_run() {
        return;
    }
    let network = network();
    network.h1.delete("lanb").unwrap();
    for (port, handle) in [("q1", &network.h1), ("q2", &network.h2)] {
        let far = VethEnd::new("lanb").namespace(handle.namespace());
        network.hub.create_veth(&VethEnd::new(port), &far).unwrap();
        network.hub.set_master(port, Some("br0")).unwrap();
        network.hub.set_up(port).unwrap();
        handle.set_up("lanb").unwrap();
        handle.wait_carrier("lanb", BOUND).unwrap();
    }
    let protected = ProtectedHosts::with(network, ["prot9", "prota"], "rtag");
    let Network { h1, h2, .. } = &protected.network;
    let (here, there) = (udp(h1, H1, PORT), udp(h2, H2, PORT));
    here.set_broadcast(true).unwrap();
    let group = udp(h2, BROADCAST, PORT + 1);
    let mut receivers = [Receiver::new(there), Receiver::new(group)];
    const DATAGRAMS: u32 = 500;
    for number in 0..DATAGRAMS {
        let mut datagram = vec![0x5a; length(number)];
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        here.send_to(&datagram, (H2, PORT)).unwrap();
        here.send_to(&datagram, (BROADCAST, PORT + 1)).unwrap();
        thread::sleep(Duration::from_micros(500));
    }
    let _ = wait_until(BOUND, || {
        receivers.iter_mut().for_each(Receiver::drain);
        receivers.iter().all(|receiver| receiver.received() >= DATAGRAMS)
    });
    wait_for("frames of the node return", || {
        wildcard("prot9").paths.iter().all(|path| path.own >= u64::from(DATAGRAMS))
    });
    for receiver in &receivers {
        let counts = &receiver.counts;
        let all_once = counts.len() == DATAGRAMS as usize && counts.iter().all(|count| *count == 1);
        assert!(all_once, "{counts:?}");
    }
    // A storm would continue: the counters of both nodes stand still but for neighbor discovery.
    let received = || {
        [wildcard("prot9"), wildcard("prota")]
            .map(|status| status.paths.iter().map(|path| path.received).sum::<u64>())
    };
    let before = received();
    thread::sleep(Duration::from_secs(2));
    for (before, after) in before.into_iter().zip(received()) {
        assert!(after - before < 200, "{before} frames, {after} two seconds later");
    }
    let all: u64 = received().iter().sum();
    assert!(all < u64::from(DATAGRAMS) * 2 * 8, "{all} frames");
    wait_for("an event", || {
        run(&["show", "prot9", "--events"]).out.contains("the paths are connected")
    });
}

const PATH1: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const PATH2: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const PATH3: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 3);
const BROADCAST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 255);

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

#[test]
fn a_host_without_redundancy_is_reached_and_all_is_removed_at_the_end() {
    if !can_run() {
        return;
    }
    let protected = ProtectedHosts::new(["prot4", "prot5"]);
    let Network { h1, san, .. } = &protected.network;
    let (here, there) = (udp(h1, H1, PORT), udp(san, SAN, PORT));
    for socket in [&here, &there] {
        socket.set_read_timeout(Some(BOUND)).unwrap();
    }
    let mut octets = [0; 16];
    for number in 0..20 {
        here.send_to(&[number], (SAN, PORT)).unwrap();
        let (_, from) = there.recv_from(&mut octets).unwrap();
        assert_eq!((octets[0], from.ip()), (number, IpAddr::V4(H1)));
        there.send_to(&[number + 100], from).unwrap();
        let (len, _) = here.recv_from(&mut octets).unwrap();
        assert_eq!((len, octets[0]), (1, number + 100));
    }
    assert_eq!(neighbor(san, H1), nodes("prot4").mac);
    // Its interfaces are in use: nothing is left of another node.
    let refused = run_in(h1.namespace(), &["protect", "lana", "lanb", "--name", "prot6"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    assert!(refused.err.contains("prot4"), "{}", refused.err);
    assert!(h1.link("prot6").unwrap_err().is_not_found());
    assert_gone("prot6");
    let features = |handle: &Handle, name: &str| {
        let features = Ethtool::in_namespace(handle.namespace()).unwrap().features(name).unwrap();
        features.into_iter().filter(|feature| feature.active).map(|f| f.name).collect::<Vec<_>>()
    };
    let fresh = network();
    let handles = [&protected.network.h1, &protected.network.h2];
    for (handle, name) in handles.into_iter().zip(protected.names) {
        let undone = run_in(handle.namespace(), &["protect", "--undo", name]);
        assert_eq!((undone.code, undone.err.as_str()), (0, ""), "{}", undone.out);
        assert!(handle.link(name).unwrap_err().is_not_found());
        for lan in LANS {
            assert_eq!(features(handle, lan), features(&fresh.h1, lan), "{lan}");
            assert_eq!(handle.link(lan).unwrap().mtu, 1500);
        }
        assert_gone(name);
    }
}

#[test]
fn obstacles_are_reported_with_remedies_and_nothing_is_changed() {
    if !can_run() {
        return;
    }
    let network = network();
    let h1 = network.h1.namespace();
    let links = || network.h1.links().unwrap().len();
    let before = links();
    let refused = |arguments: &[&str], texts: &[&str]| {
        let ran = run_in(h1, &[&["protect"], arguments].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}: {}", ran.err);
        texts.iter().for_each(|text| assert!(ran.err.contains(text), "{arguments:?}: {}", ran.err));
        assert_eq!(links(), before);
    };
    refused(&["lana", "nosuch", "--name", "prot3"], &["nosuch", "ip link"]);
    refused(&["lana", "lana", "--name", "prot3"], &["named twice"]);
    refused(&["lana", "lo", "--name", "prot3"], &["loopback"]);
    refused(&["lana", "lanb", "--name", "lanb"], &["exists", "--name"]);
    refused(&["lana", "lanb", "--name", "a-name-too-long"], &["too long"]);
    refused(&["lana", "lanb", "--name", "../x"], &["not a valid name"]);
    network.h1.create_bridge(&Bridge::new("br1")).unwrap();
    network.h1.set_master("lanb", Some("br1")).unwrap();
    let before = links();
    let ran = run_in(h1, &["protect", "lana", "lanb", "--name", "prot3"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("ip link set lanb nomaster"), "{}", ran.err);
    assert_eq!(links(), before);
    network.h1.set_master("lanb", None).unwrap();
    let planned = run_in(h1, &["protect", "lana", "lanb", "--name", "prot3", "--check"]);
    assert_eq!((planned.code, planned.err.as_str()), (0, ""));
    assert!(planned.out.contains("prot3: created, with MTU 1494"), "{}", planned.out);
    assert!(planned.out.contains("protocol = \"prp\""), "{}", planned.out);
    let arguments = ["protect", "lana", "lanb", "--name", "prot3", "--format", "rtag", "--check"];
    let planned = run_in(h1, &arguments);
    assert_eq!((planned.code, planned.err.as_str()), (0, ""));
    assert!(planned.out.contains("lana: path A; promiscuous\n"), "{}", planned.out);
    assert!(planned.out.contains("identify = { type = \"all\" }"), "{}", planned.out);
    assert_eq!(links(), before);
    assert_gone("prot3");
    let undone = run(&["protect", "--undo", "prot3"]);
    assert_eq!(undone.code, 2, "{}", undone.out);
    assert!(undone.err.contains("was not created by onbeat protect"), "{}", undone.err);
}

//! The network: hosts in namespaces, and their LANs.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use onbeat_netdev::{Ethtool, Namespace};
use onbeat_node::control::NodesStatus;
use onbeat_realtime::interrupt::wait_until;
use onbeat_testing::{TemporaryDirectory, command};

/// Longest wait: emulation is slow.
const BOUND: Duration = Duration::from_secs(60);

/// A host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    Linux,
    Onbeat,
    San,
    Control,
    Peer,
}

/// All, by the last octet of their address from 1.
const HOSTS: [Host; 5] = [Host::Linux, Host::Onbeat, Host::San, Host::Control, Host::Peer];

impl Host {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Onbeat => "onbeat",
            Self::San => "san",
            Self::Control => "control",
            Self::Peer => "peer",
        }
    }

    /// The interface that its programs use. Names of PRP interfaces differ, because debugfs has no namespaces.
    fn interface(self) -> &'static str {
        match self {
            Self::Linux => "prp0",
            Self::Onbeat => "red0",
            Self::San => "etha",
            Self::Control => "prp1",
            Self::Peer => "red1",
        }
    }

    pub(crate) fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, self as u8 + 1)
    }

    fn address_in_vlan(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 5, self as u8 + 1)
    }

    /// Whether it is a node of onbeat.
    pub(crate) fn is_onbeat(self) -> bool {
        matches!(self, Self::Onbeat | Self::Peer)
    }

    /// The LANs to which it has a link.
    pub(crate) fn lans(self) -> &'static [Lan] {
        if self == Self::San { &[Lan::A] } else { &LANS }
    }
}

/// A LAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lan {
    A,
    B,
}

const LANS: [Lan; 2] = [Lan::A, Lan::B];

impl Lan {
    fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    /// The interface of a host.
    fn interface(self) -> String {
        format!("eth{}", self.name())
    }
}

/// Waits until `condition` holds; fails with `what` if it does not within [`BOUND`].
#[track_caller]
pub(crate) fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    assert!(wait_until(BOUND, condition).expect("no signal"), "not within {BOUND:?}: {what}");
}

/// Runs a command to its end.
fn output(mut command: Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command that must succeed, and returns its output.
#[track_caller]
fn run(command: Command) -> String {
    let text = format!("{command:?}");
    let Output { status, stdout, stderr } = output(command);
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{text}: {status}\n{out}{err}");
    out.into_owned()
}

/// Loads the modules; returns whether the kernel has PRP.
pub(crate) fn has_modules() -> bool {
    let load = |module: &str| {
        let mut modprobe = Command::new("modprobe");
        modprobe.arg(module);
        output(modprobe).status.success()
    };
    ["veth", "bridge", "sch_netem", "8021q"].iter().all(|module| {
        assert!(load(module), "modprobe {module}");
        true
    }) && load("hsr")
}

/// The addresses of the interfaces of a node of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addresses {
    /// One on both LANs, as PRP demands.
    One,
    /// Those of the interfaces: Linux 6.12 then sends with another source on each LAN.
    Two,
}

/// The data plane of onbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plane {
    Packet,
    /// XDP in native mode: the other ends of its veths poll.
    Native,
    /// XDP in generic mode.
    Generic,
}

impl Plane {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Native => "xdp",
            Self::Generic => "generic",
        }
    }

    /// That of the peer. Generic XDP skips frames that a program of the same machine redirected, as both nodes would.
    fn of_peer(self) -> Self {
        if self == Self::Generic { Self::Packet } else { self }
    }

    /// Its keys of the node and of a port.
    fn keys(self) -> [&'static str; 2] {
        match self {
            Self::Packet => ["backend = \"packet\"", ""],
            Self::Native => ["backend = \"xdp\"", "mode = \"native\"\n"],
            Self::Generic => ["backend = \"xdp\"", "mode = \"generic\"\n"],
        }
    }
}

/// The network of the file `main.rs`, with traffic of its hosts only.
pub(crate) struct Network {
    lans: Namespace,
    hosts: [Namespace; 5],
    nodes: Vec<(Host, Child)>,
    files: TemporaryDirectory,
    _alone: MutexGuard<'static, ()>,
}

/// One network at a time: Linux's tables have no namespaces.
static NETWORK: Mutex<()> = Mutex::new(());

impl Network {
    /// Builds the network, starts onbeat, and waits until all hosts hear each other.
    pub(crate) fn start(addresses: Addresses, plane: Plane) -> Self {
        let alone = NETWORK.lock().unwrap_or_else(PoisonError::into_inner);
        let lans = Namespace::with_loopback().expect("a namespace");
        let hosts = HOSTS.map(|_| Namespace::with_loopback().expect("a namespace"));
        for namespace in hosts.iter().chain([&lans]) {
            // No frames but those of this test.
            let setting = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
            let write =
                || fs::write(setting, "1").and(fs::write(setting.replace("all", "default"), "1"));
            namespace.run(write).expect("the namespace").expect("IPv6 off");
        }
        for lan in LANS {
            ip(&lans, &format!("link add name lan-{} type bridge mcast_snooping 0", lan.name()));
            ip(&lans, &format!("link set lan-{} up", lan.name()));
        }
        for (host, namespace) in HOSTS.into_iter().zip(&hosts) {
            for lan in host.lans() {
                let (interface, port) = (lan.interface(), port(host, *lan));
                let peer = namespace.path();
                ip(
                    &lans,
                    &format!(
                        "link add name {port} type veth peer name {interface} netns {}",
                        peer.display()
                    ),
                );
                ip(&lans, &format!("link set {port} master lan-{} up", lan.name()));
                if plane == Plane::Native && host.is_onbeat() {
                    let ethtool = Ethtool::in_namespace(&lans).expect("ethtool");
                    ethtool.set_features(&port, &[("gro", true)]).expect("GRO starts polling");
                }
                if plane != Plane::Packet && host == Host::San {
                    let ethtool = Ethtool::in_namespace(namespace).expect("ethtool");
                    let done = ethtool.set_features(&interface, &[("tx", false)]);
                    done.expect("programs forward checksums as they are");
                }
                ip(namespace, &format!("link set {interface} up"));
            }
            if matches!(host, Host::Linux | Host::Control) {
                if addresses == Addresses::One {
                    let address = mac(namespace, "etha");
                    ip(namespace, &format!("link set ethb address {address}"));
                }
                let interface = host.interface();
                ip(
                    namespace,
                    &format!(
                        "link add name {interface} type hsr slave1 etha slave2 ethb supervision 45 proto 1"
                    ),
                );
            }
        }
        let files = TemporaryDirectory::new("prp");
        let of_onbeat = [(Host::Onbeat, plane), (Host::Peer, plane.of_peer())];
        let start =
            |(host, plane)| (host, start_onbeat((host, &hosts[host as usize]), &files, plane));
        let nodes = of_onbeat.map(start).into();
        let network = Self { lans, hosts, nodes, files, _alone: alone };
        for (host, _) in of_onbeat {
            let interface = PathBuf::from("/sys/class/net").join(host.interface());
            let is_there = || {
                let there = network.namespace(host).run_with_sysfs(|| interface.exists());
                there.expect("the namespace")
            };
            wait_for(host.interface(), is_there);
        }
        for host in HOSTS {
            let interface = host.interface();
            ip(
                network.namespace(host),
                &format!("address add {}/24 dev {interface}", host.address()),
            );
            ip(network.namespace(host), &format!("link set {interface} up"));
        }
        // A node is silent after its start.
        for (host, _) in of_onbeat {
            wait_for("a ping", || {
                let ping = network.ping_command(host, Host::Linux.address(), 56, 1);
                output(ping).status.success()
            });
        }
        network
    }

    fn namespace(&self, host: Host) -> &Namespace {
        &self.hosts[host as usize]
    }

    /// Runs `f` in the namespace of a host.
    pub(crate) fn in_host<T: Send>(&self, host: Host, f: impl FnOnce() -> T + Send) -> T {
        self.namespace(host).run(f).expect("the namespace")
    }

    /// Sets netem on the port of a LAN towards a host.
    pub(crate) fn disturb(&self, host: Host, lan: Lan, netem: &str) {
        tc(
            &self.lans,
            &format!("qdisc replace dev {} root netem limit 10000 {netem}", port(host, lan)),
        );
    }

    /// Removes it.
    pub(crate) fn calm(&self, host: Host, lan: Lan) {
        tc(&self.lans, &format!("qdisc delete dev {} root", port(host, lan)));
    }

    /// Cuts the link of a host to a LAN.
    pub(crate) fn cut(&self, host: Host, lan: Lan) {
        ip(&self.lans, &format!("link set {} down", port(host, lan)));
    }

    /// Ends [`Network::cut`].
    pub(crate) fn join(&self, host: Host, lan: Lan) {
        ip(&self.lans, &format!("link set {} up", port(host, lan)));
    }

    /// The number of frames that a host's interface received from a LAN.
    pub(crate) fn received(&self, host: Host, lan: Lan) -> u64 {
        link(self.namespace(host), &lan.interface())["stats64"]["rx"]["packets"]
            .as_u64()
            .expect("a counter")
    }

    /// The address of a host's interface.
    pub(crate) fn mac(&self, host: Host) -> String {
        mac(self.namespace(host), host.interface())
    }

    /// The MTU of a host's interface.
    pub(crate) fn mtu(&self, host: Host) -> u64 {
        link(self.namespace(host), host.interface())["mtu"].as_u64().expect("an MTU")
    }

    /// The tables of onbeat.
    pub(crate) fn nodes(&self) -> NodesStatus {
        serde_json::from_str(&self.show(&["--json"])).expect("the tables of a node")
    }

    /// Prints the tables of onbeat.
    pub(crate) fn print_status(&self) {
        println!("{}", self.show(&[]));
    }

    fn show(&self, options: &[&str]) -> String {
        let mut show = program();
        show.args(["show", Host::Onbeat.name(), "--nodes"]).args(options);
        run(show)
    }

    /// The table of a host with Linux's PRP.
    pub(crate) fn node_table(&self, host: Host) -> String {
        let path = format!("/sys/kernel/debug/hsr/{}/node_table", host.interface());
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn ping_command(&self, from: Host, to: Ipv4Addr, payload: usize, count: u32) -> Command {
        let mut ping = Command::new("ping");
        let (count, payload) = (count.to_string(), payload.to_string());
        ping.args(["-c", &count, "-i", "0.05", "-W", "5", "-M", "do", "-s", &payload]);
        ping.arg(to.to_string());
        self.namespace(from).start_in(&mut ping);
        ping
    }

    /// Three pings of this payload in octets: each has an answer.
    #[track_caller]
    pub(crate) fn ping(&self, from: Host, to: Host, payload: usize) {
        self.ping_address(from, to.address(), payload);
    }

    /// Like [`Network::ping`], in VLAN 5.
    #[track_caller]
    pub(crate) fn ping_in_vlan(&self, from: Host, to: Host, payload: usize) {
        self.ping_address(from, to.address_in_vlan(), payload);
    }

    #[track_caller]
    fn ping_address(&self, from: Host, to: Ipv4Addr, payload: usize) {
        let text = run(self.ping_command(from, to, payload, 3));
        let are_whole = text.contains("3 packets transmitted, 3 received, ");
        assert!(
            are_whole && text.contains("0% packet loss"),
            "{} to {to}, {payload} octets: {text}",
            from.name()
        );
    }

    /// Adds VLAN 5 to a host; returns whether its interface supports that.
    pub(crate) fn add_vlan(&self, host: Host) -> bool {
        let (namespace, interface) = (self.namespace(host), host.interface());
        let add = format!("link add link {interface} name vlan5 type vlan id 5");
        if !output(in_namespace(namespace, "ip", &add)).status.success() {
            return false;
        }
        ip(namespace, &format!("address add {}/24 dev vlan5", host.address_in_vlan()));
        ip(namespace, "link set vlan5 up");
        true
    }

    /// Sends octets by TCP, and compares them at the receiver.
    pub(crate) fn transfer(&self, from: Host, to: Host, octets: usize) {
        let sent: Vec<u8> =
            (0..octets).map(|index| (index.wrapping_mul(index) >> 7) as u8).collect();
        let listener =
            self.in_host(to, || TcpListener::bind((to.address(), 0))).expect("a listener");
        let address = listener.local_addr().expect("its address");
        let receiver = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.set_read_timeout(Some(BOUND)).expect("a timeout");
            let mut received = Vec::new();
            stream.read_to_end(&mut received).expect("it receives to the end");
            received
        });
        let mut stream = self
            .in_host(from, || TcpStream::connect_timeout(&address, BOUND))
            .expect("a connection");
        stream.set_write_timeout(Some(BOUND)).expect("a timeout");
        stream.write_all(&sent).expect("it sends");
        drop(stream);
        let is_equal = receiver.join().expect("it receives") == sent;
        assert!(is_equal, "{} to {}: other octets arrived", from.name(), to.name());
        println!("{} to {}: {octets} octets by TCP", from.name(), to.name());
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for (host, child) in &mut self.nodes {
            let _ = child.kill();
            let _ = child.wait();
            let mut down = program();
            down.args(["down", host.name()]);
            self.hosts[*host as usize].start_in(&mut down);
            output(down);
            if thread::panicking() {
                let log = fs::read_to_string(self.files.file(log_name(*host)));
                println!("log of {}:\n{}", host.name(), log.unwrap_or_default());
            }
        }
    }
}

/// The port of a LAN towards a host.
fn port(host: Host, lan: Lan) -> String {
    format!("{}-{}", host.name(), lan.name())
}

fn program() -> Command {
    command(env!("CARGO_BIN_EXE_onbeat").as_ref())
}

fn log_name(host: Host) -> String {
    format!("{}.log", host.name())
}

fn start_onbeat(
    (host, namespace): (Host, &Namespace),
    files: &TemporaryDirectory,
    plane: Plane,
) -> Child {
    let name = host.name();
    let [of_node, of_port] = plane.keys();
    let port = |name: &str, interface: &str, key: &str| {
        format!("[[port]]\nname = \"{name}\"\ninterface = \"{interface}\"\n{of_port}{key}\n")
    };
    let mut config = format!("[node]\nname = \"{name}\"\nprotocol = \"prp\"\n{of_node}\n");
    config += &port("host", host.interface(), "create = \"veth\"");
    for lan in LANS {
        config += &port(lan.name(), &lan.interface(), &format!("lan = \"{}\"", lan.name()));
    }
    let path = files.file(format!("{name}.toml"));
    fs::write(&path, config).expect("the configuration");
    let log = fs::File::create(files.file(log_name(host))).expect("the log");
    let mut onbeat = program();
    onbeat.arg("run").arg(path).stdout(log.try_clone().expect("the log")).stderr(log);
    namespace.start_in(&mut onbeat).spawn().expect("onbeat starts")
}

fn in_namespace(namespace: &Namespace, program: &str, arguments: &str) -> Command {
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace());
    namespace.start_in(&mut command);
    command
}

/// An interface, as iproute2 shows it.
fn link(namespace: &Namespace, interface: &str) -> serde_json::Value {
    let text = ip(namespace, &format!("-j -s link show {interface}"));
    serde_json::from_str::<serde_json::Value>(&text).expect("JSON")[0].clone()
}

fn mac(namespace: &Namespace, interface: &str) -> String {
    link(namespace, interface)["address"].as_str().expect("an address").to_owned()
}

#[track_caller]
fn ip(namespace: &Namespace, arguments: &str) -> String {
    run(in_namespace(namespace, "ip", arguments))
}

#[track_caller]
fn tc(namespace: &Namespace, arguments: &str) -> String {
    run(in_namespace(namespace, "tc", arguments))
}

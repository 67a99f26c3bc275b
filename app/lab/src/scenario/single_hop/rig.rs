//! The network of the scenario, and the function of its hop.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;

use onbeat_netdev::Handle;
use onbeat_realtime::CpuSet;

use crate::{Error, Result, Topology, World, cpus};

/// The function of the hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Hop {
    /// The kernel routes
    Router,
    /// The kernel bridges
    Bridge,
    /// A node identifies a stream and relays it, by XDP, which the hooks do not observe
    #[value(name = "frer")]
    Relay,
    /// A process responds
    Reflector,
    /// No hop: sender and receiver are on one link. Delays are outside of the hop
    #[value(skip)]
    Nothing,
}

impl Hop {
    /// Hops in which a packet is delayed.
    pub(super) const ALL: [Hop; 4] = [Hop::Router, Hop::Bridge, Hop::Relay, Hop::Reflector];

    /// Name in figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            Hop::Router => "router",
            Hop::Bridge => "bridge",
            Hop::Relay => "FRER relay",
            Hop::Reflector => "reflector",
            Hop::Nothing => "no hop",
        }
    }

    fn is_bridged(self) -> bool {
        matches!(self, Hop::Bridge | Hop::Relay)
    }

    pub(super) fn network(self) -> Topology {
        let mut network = Topology::default();
        network.host("sender", 0, 0);
        if self.is_bridged() {
            network.node("hop", 1, 0, "").bridge(&["eth0", "eth1"]).detail(self.name());
        } else {
            network.host("hop", 1, 0);
        }
        network.host("receiver", 2, 0);
        if self == Hop::Nothing {
            network.link("in", "sender:eth0", "receiver:eth0");
        } else {
            network.link("in", "sender:eth0", "hop:eth0");
            network.link("out", "hop:eth1", "receiver:eth0");
        }
        network.link("load", "sender:eth1", "hop:eth2");
        network
    }
}

/// Networks for documentation (RFC 5737): before the hop, after it, and that of the load.
const IN: [u8; 3] = [192, 0, 2];
const OUT: [u8; 3] = [198, 51, 100];
const LOAD: [u8; 3] = [203, 0, 113];

fn address([a, b, c]: [u8; 3], host: u8) -> IpAddr {
    Ipv4Addr::new(a, b, c, host).into()
}

/// A network with a hop, ready for measurements.
pub(super) struct Rig {
    pub(super) hop: Hop,
    pub(super) world: World,
    /// No process reads from it: the kernel drops datagrams without an ICMP error.
    sink: UdpSocket,
}

impl Rig {
    pub(super) fn build(hop: Hop, program: &Path) -> Result<Self> {
        let mut world = World::build(&hop.network())?;
        let routes = !hop.is_bridged() && hop != Hop::Nothing;
        let behind = if routes { OUT } else { IN };
        let addresses = [
            ("sender", "eth0", IN, 1),
            ("sender", "eth1", LOAD, 1),
            ("hop", "eth2", LOAD, 2),
            ("receiver", "eth0", behind, 3),
        ];
        for (station, interface, net, host) in addresses {
            world.handle(station)?.add_address(interface, address(net, host), 24)?;
        }
        if routes {
            let between = world.handle("hop")?;
            between.add_address("eth0", address(IN, 2), 24)?;
            between.add_address("eth1", address(OUT, 2), 24)?;
            between.set_forwarding(true)?;
            world.handle("sender")?.add_route("eth0", address(OUT, 0), 24, address(IN, 2))?;
            world.handle("receiver")?.add_route("eth0", address(IN, 0), 24, address(OUT, 2))?;
        }
        if hop == Hop::Relay {
            let config = relay(world.handle("receiver")?)?;
            world.set_config("hop", config)?;
            world.start("hop", program)?;
        }
        let bind = || UdpSocket::bind((address(LOAD, 2), 0));
        let sink = world.namespace("hop")?.run(bind)?;
        let sink = sink.map_err(|error| Error::io("open a socket for the load", error))?;
        Ok(Self { hop, world, sink })
    }

    /// Destination of the load.
    pub(super) fn sink(&self) -> Result<std::net::SocketAddr> {
        self.sink
            .local_addr()
            .map_err(|error| Error::io("read the address of the load's socket", error))
    }

    /// The station that reflects probes, with its address.
    pub(super) fn reflector(&self) -> (&'static str, IpAddr) {
        match self.hop {
            Hop::Reflector => ("hop", address(IN, 2)),
            Hop::Router => ("receiver", address(OUT, 3)),
            Hop::Bridge | Hop::Relay | Hop::Nothing => ("receiver", address(IN, 3)),
        }
    }

    /// Makes these CPUs receive the packets of the hop.
    pub(super) fn steer(&self, cpus: &CpuSet) -> Result<()> {
        let all = ["eth0", "eth1", "eth2"];
        let there = if self.hop == Hop::Nothing { &all[2..] } else { &all[..] };
        cpus::steer(self.world.namespace("hop")?, there, cpus)
    }
}

/// The configuration of a node that relays frames to the receiver, without sequence numbers, which a
/// host cannot decode. Frames from the receiver match no stream.
fn relay(receiver: &Handle) -> Result<String> {
    let destination = receiver.link("eth0")?.mac.unwrap_or_default();
    Ok(format!(
        r#"
[[port]]
name = "in"
interface = "eth0"
[[port]]
name = "out"
interface = "eth1"

[[stream]]
name = "probes"
member = [{{ port = "in", identify = {{ type = "null", destination = "{destination}" }} }}]
egress = [{{ port = "out" }}]
"#
    ))
}

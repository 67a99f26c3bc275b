//! Chains of interfaces to measure on: talker, node A, two paths, node B, listener.
//!
//! ```text
//! talker t ---- a  A  path1 ---- path1  B  b ---- l listener
//!                     path2 ---- path2
//! ```
//!
//! Each compared variant has a chain of its own, built identically, in the same four namespaces: no
//! chain is removed or built between two measurements.

use std::iter;
use std::time::Duration;

use onbeat_frer::dataplane::{Mode, PortSpec, ReceiveQueues};
use onbeat_netdev::{Ethtool, Handle, Namespace, VethEnd};

use crate::Result;

/// Room for the R-TAG in addition to 1,500 octets.
const PATH_MTU: u32 = 1506;
const HOST_MTU: u32 = 1500;

/// Time within which a veth pair that was set up has carrier.
const BOUND: Duration = Duration::from_secs(10);

/// The namespaces of all chains.
#[derive(Debug)]
pub(super) struct Stations {
    pub(super) talker: Handle,
    pub(super) a: Handle,
    pub(super) b: Handle,
    pub(super) listener: Handle,
}

impl Stations {
    pub(super) fn new() -> Result<Self> {
        let station = || Handle::in_namespace(&Namespace::with_loopback()?);
        Ok(Self { talker: station()?, a: station()?, b: station()?, listener: station()? })
    }
}

/// One end of a link.
#[derive(Debug, Clone)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) index: u32,
    /// Receive queues.
    pub(super) queues: u32,
}

impl Interface {
    /// The port of a data plane on this interface, in native mode.
    pub(super) fn port(&self) -> PortSpec {
        PortSpec {
            name: self.name.clone(),
            interface: self.name.clone(),
            ifindex: self.index,
            mode: Mode::Native,
            queues: if self.queues == 1 { ReceiveQueues::Single } else { ReceiveQueues::Serial },
            running: Vec::new(),
        }
    }
}

/// The interfaces of one chain.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) talker: Interface,
    pub(super) a: Interface,
    pub(super) a_paths: [Interface; 2],
    pub(super) b_paths: [Interface; 2],
    pub(super) b: Interface,
    pub(super) listener: Interface,
    /// The nodes are threads, to which the source must yield.
    pub(super) of_threads: bool,
    /// Frames that the source has sent into the chain in total.
    pub(super) sent: u64,
    /// Frames that sinks have received from it in total.
    pub(super) received: u64,
}

/// Frames that interfaces of a chain dropped because their queues were full.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ChainDrops {
    /// From talker to A.
    pub(super) to_a: u64,
    /// On each path.
    pub(super) on_path: [u64; 2],
    /// From B to the listener.
    pub(super) to_listener: u64,
}

impl Chain {
    /// Builds chain `number`. `polls`: its interfaces poll (NAPI); a veth accepts redirects of XDP only
    /// if its peer polls.
    pub(super) fn build(stations: &Stations, number: usize, polls: bool) -> Result<Self> {
        Self::with_queues(stations, number, polls, 1)
    }

    /// As [`Chain::build`], with this number of queues per direction of an interface.
    pub(super) fn with_queues(
        stations: &Stations,
        number: usize,
        polls: bool,
        queues: u32,
    ) -> Result<Self> {
        let Stations { talker, a, b, listener } = stations;
        let name = |role: &str| format!("{role}.{number}");
        let link = |from: (&Handle, &str), to: (&Handle, &str), mtu| {
            pair((from.0, &name(from.1)), (to.0, &name(to.1)), mtu, polls, queues)
        };
        let (t0, a0) = link((talker, "t"), (a, "a"), HOST_MTU)?;
        let (a1, b1) = link((a, "path1"), (b, "path1"), PATH_MTU)?;
        let (a2, b2) = link((a, "path2"), (b, "path2"), PATH_MTU)?;
        let (b0, l0) = link((b, "b"), (listener, "l"), HOST_MTU)?;
        Ok(Self {
            talker: t0,
            a: a0,
            a_paths: [a1, a2],
            b_paths: [b1, b2],
            b: b0,
            listener: l0,
            of_threads: false,
            sent: 0,
            received: 0,
        })
    }

    /// The same chain, with nodes that are threads on the CPU of the source.
    pub(super) fn of_threads(self) -> Self {
        Self { of_threads: true, ..self }
    }

    /// The ports of nodes A and B with `paths` paths: the host port, then the paths.
    pub(super) fn ports(&self, paths: usize) -> [Vec<&Interface>; 2] {
        [(&self.a, &self.a_paths), (&self.b, &self.b_paths)]
            .map(|(host, all)| iter::once(host).chain(&all[..paths]).collect())
    }

    /// Frames dropped since the chain was built.
    pub(super) fn dropped(&self, stations: &Stations) -> Result<ChainDrops> {
        let of = |handle: &Handle, interface: &Interface| {
            handle.statistics(&interface.name).map(|statistics| statistics.tx_dropped)
        };
        Ok(ChainDrops {
            to_a: of(&stations.talker, &self.talker)?,
            on_path: [of(&stations.a, &self.a_paths[0])?, of(&stations.a, &self.a_paths[1])?],
            to_listener: of(&stations.b, &self.b)?,
        })
    }
}

/// Creates a link. With one queue per direction, frames keep their order.
fn pair(
    (handle, name): (&Handle, &str),
    (peer, peer_name): (&Handle, &str),
    mtu: u32,
    polls: bool,
    queues: u32,
) -> Result<(Interface, Interface)> {
    handle.create_veth(
        &VethEnd::new(name).mtu(mtu).queues(queues, queues),
        &VethEnd::new(peer_name).mtu(mtu).queues(queues, queues).namespace(peer.namespace()),
    )?;
    let ends = [(handle, name), (peer, peer_name)];
    for (handle, name) in ends {
        let ethtool = Ethtool::in_namespace(handle.namespace())?;
        // GRO makes a veth poll. XDP would forward a frame whose checksum is still to be computed.
        ethtool.set_features(name, &[("gro", polls), ("tx", false)])?;
        // Frames that IPv6 sends on its own would be counted.
        handle.set_ipv6(name, false)?;
    }
    // An interface that is set up before its peer polls accepts no redirects.
    for (handle, name) in ends {
        handle.set_up(name)?;
    }
    let end = |handle: &Handle, name: &str| {
        let link = handle.wait_carrier(name, BOUND)?;
        Ok::<_, crate::Error>(Interface { name: name.to_owned(), index: link.index, queues })
    };
    Ok((end(handle, name)?, end(peer, peer_name)?))
}

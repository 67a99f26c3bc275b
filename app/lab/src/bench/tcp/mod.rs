//! Throughput of TCP between two hosts with PRP, compared with plain forwarding of the same frames.
//!
//! ```text
//! server -> t ==== a  A (forward | PRP)  path1, path2  B (forward | PRP)  b ==== l -> client
//! ```
//!
//! Interfaces, offloads and copies of frames are the same: with plain forwarding, each node sends frames of its host by both
//! paths, and drops those of path 2. Server, client, both nodes and all kernel work for them share one CPU, so that a
//! segment's share of the time is the sum of its costs.

pub(super) mod figures;
mod nodes;
mod transfer;

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use onbeat_node::config::Backend;
use onbeat_realtime::interrupt;
use onbeat_report::Progress;

use self::nodes::Nodes;
use self::transfer::transfer;
use super::Options;
use super::chain::{Chain, Stations};
use super::cpu::Cpus;
use crate::rounds::{Variant, pair};
use crate::traffic::Segments;
use crate::{Error, Result};

/// Maximum number of octets of data in a segment.
const MSS: u64 = 1460;
const PORT: u16 = 4001;
/// Duration of a transfer, in slices of the bench.
const SLICES: u32 = 5;

/// Results of one back end.
#[derive(Debug)]
pub(super) struct TcpResults {
    backend: Backend,
    /// Pairs of PRP and plain forwarding, in Mbit/s.
    pairs: Vec<(f64, f64)>,
    /// PRP, then plain forwarding.
    totals: [TransferTotals; 2],
    /// Frames with a number that A sent, copies of frames that B discarded.
    numbered: u64,
    discarded: u64,
}

/// Sums of all transfers over a chain.
#[derive(Debug, Clone, Copy, Default)]
struct TransferTotals {
    sent: u64,
    received: u64,
    segments: u64,
    retransmitted: u64,
}

/// A chain whose ends have addresses.
struct TcpChain {
    nodes: Nodes,
    server: Ipv4Addr,
    client: SocketAddrV4,
    totals: TransferTotals,
}

impl TcpChain {
    fn start(
        stations: &Stations,
        (number, polls): (u8, bool),
        start: impl FnOnce(Chain) -> Result<Nodes>,
    ) -> Result<Self> {
        Ok(Self {
            nodes: start(Chain::build(stations, usize::from(number), polls)?)?,
            server: Ipv4Addr::new(198, 18, number, 1),
            client: SocketAddrV4::new(Ipv4Addr::new(198, 18, number, 2), PORT),
            totals: TransferTotals::default(),
        })
    }

    fn set_addresses(&mut self, stations: &Stations) -> Result<()> {
        let chain = self.nodes.chain();
        let Stations { talker, listener, .. } = stations;
        talker.add_address(&chain.talker.name, IpAddr::V4(self.server), 24)?;
        Ok(listener.add_address(&chain.listener.name, IpAddr::V4(*self.client.ip()), 24)?)
    }
}

pub(super) fn measure(
    options: &Options,
    cpus: Cpus,
    backend: Backend,
    progress: &mut Progress,
) -> Result<TcpResults> {
    let stations = Stations::new()?;
    progress.update(|| format!("starting PRP by {backend}"));
    let polls = !backend.is_user_space();
    let mut chains = [
        TcpChain::start(&stations, (0, polls), |chain| {
            Nodes::with_prp(&stations, chain, backend, cpus)
        })?,
        TcpChain::start(&stations, (1, polls), |chain| {
            Nodes::plain(&stations, chain, backend, cpus)
        })?,
    ];
    for chain in &mut chains {
        chain.set_addresses(&stations)?;
    }
    let mut pairs = Vec::new();
    for round in 0..options.rounds {
        interrupt::check()?;
        progress.update(|| format!("round {} of {}: TCP by {backend}", round + 1, options.rounds));
        pairs.push(pair(round, |variant| {
            let chain = match variant {
                Variant::Subject => &mut chains[0],
                Variant::Reference => &mut chains[1],
            };
            let before = Segments::read(stations.talker.namespace())?;
            let ends = (chain.server, chain.client);
            let result = transfer(&stations, ends, &cpus, options.slice * SLICES)?;
            let segments = Segments::read(stations.talker.namespace())?.since(before);
            chain.totals.sent += result.sent;
            chain.totals.received += result.received;
            chain.totals.segments += segments.sent;
            chain.totals.retransmitted += segments.retransmitted;
            Ok::<_, Error>(result.rate)
        })?);
    }
    let [numbered, discarded] = chains[0].nodes.counted()?;
    let totals = chains.map(|chain| chain.totals);
    Ok(TcpResults { backend, pairs, totals, numbered, discarded })
}

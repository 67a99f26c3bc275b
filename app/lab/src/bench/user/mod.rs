//! Throughput of FRER in user space, compared with a bare forwarder over the same sockets.
//!
//! ```text
//! source -> talker -> A (bare | FRER) -> path1, path2 -> B (bare | FRER) -> listener -> sink
//! ```
//!
//! Source and nodes are threads on one CPU, at one real-time priority. The source sends a batch and
//! yields; each node runs until it has no more frames. So no queue runs empty or overflows, and a
//! frame's share of the time is the sum of its costs, as for FRER in XDP. With [`Options::offered`] the source has
//! another CPU, and offers frames at a rate: the nodes forward what they can, and lose the rest.

pub(super) mod bare_forwarders;
pub(super) mod figures;
mod frer;

use libbpf_rs::Link;
use onbeat_node::config::Backend;
use onbeat_realtime::interrupt;
use onbeat_report::Progress;
use onbeat_report::format::count;

use self::bare_forwarders::BareForwarders;
use self::frer::UserSpaceChain;
use super::account::FrameAccount;
use super::chain::{Chain, ChainDrops, Stations};
use super::cpu::{AffinityGuard, Cpus};
use super::programs::Programs;
use super::throughput::ThroughputBed;
use super::{Options, Source};
use crate::Result;
use crate::rounds::{Variant, pair};

/// Frames per second of FRER, and of its limit measured directly before or after, per round.
#[derive(Debug)]
struct UserSpaceCase {
    paths: usize,
    streams: u32,
    /// Pairs of FRER and limit.
    pairs: Vec<(f64, f64)>,
}

/// Results of one back end.
#[derive(Debug)]
pub(super) struct UserSpaceResults {
    backend: Backend,
    /// Drivers work on AF_XDP's memory.
    zero_copy: bool,
    cases: Vec<UserSpaceCase>,
    bare: Vec<FrameAccount>,
    protected: Vec<FrameAccount>,
    undisturbed: bool,
}

/// The CPU and the priority of the threads that are nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodePlacement {
    pub(super) cpus: Cpus,
    /// With a source on another CPU, nodes that cannot keep pace share their CPU: at one real-time priority, the
    /// first would starve the second.
    pub(super) real_time: bool,
}

impl NodePlacement {
    /// Places the calling thread.
    pub(super) fn apply(self) -> Result<AffinityGuard> {
        let pinned = self.cpus.pin()?;
        if self.real_time {
            Cpus::raise_priority();
        }
        Ok(pinned)
    }
}

/// The nodes of a chain, by FRER or bare.
pub(super) trait ChainNodes {
    fn chain(&mut self) -> &mut Chain;

    fn zero_copy(&self) -> bool;

    /// The account of the frames, given the drops at interfaces.
    fn account(&self, dropped: ChainDrops) -> Result<FrameAccount>;
}

pub(super) fn measure(
    options: &Options,
    cpus: Cpus,
    backend: Backend,
    progress: &mut Progress,
) -> Result<UserSpaceResults> {
    let stations = Stations::new()?;
    let mut programs = Programs::load()?;
    let placement = NodePlacement { cpus, real_time: options.offered.is_none() };
    let mut number = 0;
    let mut chain = || {
        number += 1;
        let polls = backend == Backend::Xsk;
        Chain::build(&stations, number - 1, polls).map(Chain::of_threads)
    };
    let mut bare = Vec::new();
    for paths in [1, 2] {
        bare.push(BareForwarders::start(&stations, chain()?, paths, backend, placement)?);
    }
    let mut protected = Vec::new();
    for &streams in &options.streams {
        for paths in [1, 2] {
            interrupt::check()?;
            progress.update(|| format!("starting FRER by {backend}: {}", title(paths, streams)));
            let nodes =
                UserSpaceChain::start(&stations, chain()?, paths, streams, backend, placement)?;
            protected.push(nodes);
        }
    }
    let chains =
        protected.iter_mut().map(ChainNodes::chain).chain(bare.iter_mut().map(ChainNodes::chain));
    let _sinks: Vec<Link> = chains
        .map(|chain| programs.attach("sink", &stations.listener, &chain.listener))
        .collect::<Result<_>>()?;

    let mut bed = ThroughputBed {
        stations: &stations,
        programs: &mut programs,
        cpus,
        options,
        undisturbed: true,
    };
    let cases = throughput(&mut bed, backend, &mut bare, &mut protected, progress)?;
    let undisturbed = bed.undisturbed;
    let zero_copy = bare.iter().all(ChainNodes::zero_copy);
    let bare = accounts(&stations, &mut bare)?;
    let protected = accounts(&stations, &mut protected)?;
    Ok(UserSpaceResults { backend, zero_copy, cases, bare, protected, undisturbed })
}

fn throughput(
    bed: &mut ThroughputBed<'_>,
    backend: Backend,
    bare: &mut [BareForwarders],
    protected: &mut [UserSpaceChain],
    progress: &mut Progress,
) -> Result<Vec<UserSpaceCase>> {
    let rounds = bed.options.rounds;
    let case = |frer: &UserSpaceChain| UserSpaceCase {
        paths: frer.paths,
        streams: frer.streams,
        pairs: vec![],
    };
    let mut cases: Vec<UserSpaceCase> = protected.iter().map(case).collect();
    for round in 0..rounds {
        for (case, frer) in cases.iter_mut().zip(protected.iter_mut()) {
            let title = title(case.paths, case.streams);
            progress.update(|| format!("round {} of {rounds}: {backend}: {title}", round + 1));
            let limit = &mut bare[case.paths - 1];
            case.pairs.push(pair(round, |variant| {
                let nodes: &mut dyn ChainNodes = match variant {
                    Variant::Subject => frer,
                    Variant::Reference => limit,
                };
                bed.measure(nodes.chain(), case.streams, Source::Socket)
            })?);
        }
    }
    Ok(cases)
}

fn accounts<T: ChainNodes>(stations: &Stations, all: &mut [T]) -> Result<Vec<FrameAccount>> {
    let account = |nodes: &mut T| {
        let dropped = nodes.chain().dropped(stations)?;
        nodes.account(dropped)
    };
    all.iter_mut().map(account).collect()
}

impl UserSpaceResults {
    /// Name of the port mode, for the conditions.
    pub(super) fn mode(&self) -> &'static str {
        match (self.backend, self.zero_copy) {
            (Backend::Xsk, true) => "xsk-zero-copy",
            (Backend::Xsk, false) => "xsk-copy",
            _ => "packet",
        }
    }
}

fn title(paths: usize, streams: u32) -> String {
    let paths = if paths == 1 { "one path" } else { "two paths" };
    let streams = count(streams as u64, "stream");
    format!("FRER, {paths}, {streams}")
}

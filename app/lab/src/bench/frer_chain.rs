//! The chain with FRER on nodes A and B.

use std::io;
use std::time::Duration;

use onbeat_frer::counters::Counters;
use onbeat_frer::prp::{
    ENTRY_FORGET_MS, LIFE_CHECK_MS, LanCounters, LanPort, MAX_NODES, NODE_FORGET_MS, Parameters,
};
use onbeat_frer::reading::StreamReading;
use onbeat_frer::spec::{
    Algorithm, Egress, Identification, Member, PortId, Recovery, Rewrite, SequenceTag, Stream,
    VlanAction,
};
use onbeat_frer::wildcard::{Scope, Wildcard, WildcardReading};
use onbeat_frer_xdp::{Options, Plane};
use onbeat_netdev::Handle;
use onbeat_realtime::interrupt;
use onbeat_wire::MacAddress;

use super::chain::{Chain, Interface, Stations};
use super::{Functions, frames};
use crate::{Error, Result};

pub(super) const HISTORY_LENGTH: u16 = 64;
/// For nodes that lose frames: after a longer gap, recovery discards all frames until its reset timeout.
pub(super) const LONG_HISTORY_LENGTH: u16 = 1024;
const RESET_TIMEOUT_MS: u32 = 1000;

/// The host of B.
const LISTENER: MacAddress = MacAddress([0x02, 0x0b, 0xff, 0, 0, 2]);
/// Maximum time of an entity's silence.
const SILENCE: Duration = Duration::from_secs(2);

/// Ports of each node: the host port, then the paths.
const HOST: PortId = PortId(0);

fn path_port(path: usize) -> PortId {
    PortId(1 + path as u8)
}

/// What protects the frames of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    /// FRER, with this number of streams configured.
    Streams(u32),
    /// A link redundancy entity of PRP, on two paths.
    Prp,
    /// The wildcard of all frames, on two paths.
    Wildcard,
}

impl Protection {
    /// Number of streams of the source.
    pub(super) fn streams(self) -> u32 {
        match self {
            Self::Streams(streams) => streams,
            Self::Prp | Self::Wildcard => 1,
        }
    }
}

/// A chain with FRER, PRP or a wildcard.
#[derive(Debug)]
pub(super) struct ProtectedChain {
    pub(super) chain: Chain,
    /// Paths in use, 1 or 2.
    pub(super) paths: usize,
    pub(super) protection: Protection,
    pub(super) a: Plane,
    pub(super) b: Plane,
}

/// Counters of both nodes, summed over all streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FrerNodeCounters {
    /// Stream frames that A received.
    pub(super) a_input: u64,
    /// Frames that A sent by each path.
    pub(super) a_output: u64,
    /// Stream frames that B received by all paths.
    pub(super) b_input: u64,
    /// Frames that B's recovery passed.
    pub(super) passed: u64,
    /// Frames that B's recovery discarded, including rogue ones.
    pub(super) discarded: u64,
    /// Frames that B sent to the listener.
    pub(super) b_output: u64,
}

impl ProtectedChain {
    pub(super) fn start(
        stations: &Stations,
        chain: Chain,
        paths: usize,
        streams: u32,
        functions: Functions,
    ) -> Result<Self> {
        let [generate, recover] = configuration(paths, streams, HISTORY_LENGTH, functions);
        let [a_ports, b_ports] = chain.ports(paths);
        let apply = |streams: Vec<Stream>| {
            move |plane: &mut Plane, names: &[String]| plane.apply(names, &streams).map(drop)
        };
        let a = node("A", &stations.a, &a_ports, streams, apply(generate))?;
        let b = node("B", &stations.b, &b_ports, streams, apply(recover))?;
        Ok(Self { chain, paths, protection: Protection::Streams(streams), a, b })
    }

    /// With PRP, or the wildcard of all frames: the talker is the host of A.
    pub(super) fn of_all_frames(
        stations: &Stations,
        chain: Chain,
        protection: Protection,
    ) -> Result<Self> {
        let [a_ports, b_ports] = chain.ports(2);
        let set = |mac: MacAddress| {
            let link = entity(mac, [mac; 2]);
            move |plane: &mut Plane, names: &[String]| match protection {
                Protection::Wildcard => {
                    let (name, scope) = (String::from("all"), Scope::All);
                    plane.set_wildcards(names, &[Wildcard { name, scope, link }])
                }
                _ => plane.set_lre(names, Some(&link)),
            }
        };
        let a = node("A", &stations.a, &a_ports, 1, set(frames::SOURCE))?;
        let b = node("B", &stations.b, &b_ports, 1, set(LISTENER))?;
        // After a start, an entity is silent.
        let is_silent = || match protection {
            Protection::Wildcard => a.read_wildcards().is_ok_and(|wildcards| {
                wildcards.iter().any(|wildcard| wildcard.silence_ms.is_some())
            }),
            _ => a.supervise().is_ok_and(|ms| ms.is_some_and(|ms| ms < LIFE_CHECK_MS)),
        };
        interrupt::wait_until(SILENCE, || !is_silent())?;
        Ok(Self { chain, paths: 2, protection, a, b })
    }

    /// The counters of B's sequence recovery of a stream.
    pub(super) fn recovery(&self, stream: u32) -> Result<Counters> {
        let name = stream_name(stream);
        let reading = self.b.read_stream(&name).map_err(failed(format!("read stream {name:?}")))?;
        let recovery = reading.and_then(|reading| reading.recovery);
        let missing = || Error::Invalid(format!("stream {stream} is missing on node B"));
        Ok(recovery.ok_or_else(missing)?.counters)
    }

    /// The current counters of the nodes.
    pub(super) fn counted(&self) -> Result<FrerNodeCounters> {
        let Protection::Streams(streams) = self.protection else {
            return self.counted_entities();
        };
        FrerNodeCounters::sum(streams, |node, stream| {
            let plane = if node == 0 { &self.a } else { &self.b };
            plane.read_stream(stream).map_err(failed(format!("read stream {stream:?}")))
        })
    }

    fn counted_entities(&self) -> Result<FrerNodeCounters> {
        let read = |plane: &Plane| {
            let of_wildcard = |mut readings: Vec<WildcardReading>| readings.pop().map(|of| of.link);
            let reading = match self.protection {
                Protection::Wildcard => plane.read_wildcards().map(of_wildcard),
                _ => plane.read_lre(),
            };
            reading
                .map_err(failed("read a node".into()))?
                .ok_or_else(|| Error::Invalid("a node of the bench has no entity".into()))
        };
        let (a, b) = (read(&self.a)?, read(&self.b)?);
        let sum = |count: fn(&LanCounters) -> u64| b.lans.iter().map(count).sum::<u64>();
        let passed = sum(|lan| lan.accepted);
        Ok(FrerNodeCounters {
            a_input: a.host.received,
            a_output: a.host.numbered,
            b_input: sum(|lan| lan.accepted + lan.duplicates),
            passed,
            discarded: sum(|lan| lan.duplicates),
            b_output: passed,
        })
    }
}

impl FrerNodeCounters {
    /// Sums the value that `read` returns for each stream on node A (0) and B (1).
    pub(super) fn sum(
        streams: u32,
        read: impl Fn(usize, &str) -> Result<Option<StreamReading>>,
    ) -> Result<Self> {
        let mut sum = Self::default();
        for number in 0..streams {
            let name = stream_name(number);
            let read = |node| {
                read(node, &name)?
                    .ok_or_else(|| Error::Invalid(format!("stream {number} is missing on a node")))
            };
            let (a, b) = (read(0)?, read(1)?);
            sum.a_input += a.members.iter().map(|member| member.input).sum::<u64>();
            sum.a_output += a.output;
            sum.b_input += b.members.iter().map(|member| member.input).sum::<u64>();
            sum.b_output += b.output;
            if let Some(recovery) = b.recovery {
                sum.passed += recovery.counters.passed;
                sum.discarded += recovery.counters.discarded;
            }
        }
        Ok(sum)
    }
}

/// The streams of node A, which numbers and replicates, and of B, which eliminates.
pub(super) fn configuration(
    paths: usize,
    streams: u32,
    history_length: u16,
    functions: Functions,
) -> [Vec<Stream>; 2] {
    let vlan = |vlan| if functions.vlan { VlanAction::Set(vlan) } else { VlanAction::Keep };
    let path_vlan = if functions.vlan { frames::PATH_VLAN } else { frames::VLAN };
    let individual = functions.individual.then_some(Recovery {
        algorithm: Algorithm::Match,
        reset_timeout_ms: RESET_TIMEOUT_MS,
        ..Recovery::vector(2)
    });
    let to_b =
        (0..paths).map(|path| egress(path_port(path), SequenceTag::RTag, vlan(frames::PATH_VLAN)));
    let to_b: Vec<_> = to_b.collect();
    let generate = stream(frames::VLAN, |name, identification| Stream {
        name,
        members: vec![Member { port: HOST, identification, individual: None }],
        generate: true,
        recover: None,
        egress: Vec::clone(&to_b),
    });
    let recover = stream(path_vlan, |name, identification| Stream {
        name,
        members: (0..paths)
            .map(|path| Member {
                port: path_port(path),
                identification: identification.clone(),
                individual,
            })
            .collect(),
        generate: false,
        recover: Some(Recovery {
            reset_timeout_ms: RESET_TIMEOUT_MS,
            ..Recovery::vector(history_length)
        }),
        egress: vec![egress(HOST, SequenceTag::Remove, vlan(frames::VLAN))],
    });
    [(0..streams).map(generate).collect(), (0..streams).map(recover).collect()]
}

fn stream_name(number: u32) -> String {
    format!("stream-{number}")
}

fn stream(vlan: u16, make: impl Fn(String, Identification) -> Stream) -> impl Fn(u32) -> Stream {
    move |number| make(stream_name(number), frames::identification(number, vlan))
}

fn egress(port: PortId, tag: SequenceTag, vlan: VlanAction) -> Egress {
    Egress { port, tag, rewrite: Rewrite { vlan, ..Rewrite::default() } }
}

fn failed(operation: String) -> impl FnOnce(onbeat_frer_xdp::Error) -> Error {
    |error| Error::io(operation, io::Error::other(error))
}

/// The link redundancy entity of a node whose host and interfaces of the paths have these addresses.
pub(super) fn entity(mac: MacAddress, paths: [MacAddress; 2]) -> Parameters {
    let lan = |path| LanPort { port: path_port(path), mac: paths[path] };
    Parameters {
        a: lan(0),
        b: lan(1),
        host: HOST,
        mac,
        is_segment: false,
        entry_forget_ms: ENTRY_FORGET_MS,
        node_forget_ms: NODE_FORGET_MS,
        max_nodes: MAX_NODES,
    }
}

/// Options of a data plane with room for this number of streams.
pub(super) fn plane_options(max_streams: u32) -> Options {
    Options {
        directory: None,
        max_streams,
        test_clock: false,
        // The programs that count output run for all frames of the machine, those of the limit as well.
        count_output: false,
    }
}

/// Starts a data plane with these ports, numbered in order, and configures it.
fn node(
    name: &str,
    handle: &Handle,
    ports: &[&Interface],
    streams: u32,
    configure: impl FnOnce(&mut Plane, &[String]) -> onbeat_frer_xdp::Result<()> + Send,
) -> Result<Plane> {
    let start = || {
        let mut plane = Plane::open(&plane_options(streams))?;
        for interface in ports {
            plane.attach(&interface.port(), false)?;
        }
        let names: Vec<String> = ports.iter().map(|interface| interface.name.clone()).collect();
        configure(&mut plane, &names)?;
        Ok(plane)
    };
    // Interfaces are identified by their index in the thread's namespace.
    handle.namespace().run(start)?.map_err(failed(format!("start node {name}")))
}

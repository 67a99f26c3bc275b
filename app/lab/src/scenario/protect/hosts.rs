//! Hosts with a redundant interface, as `onbeat protect` makes it, and ordinary sockets on it, while the paths are cut in
//! turn.
//!
//! ```text
//!                path1: LAN A
//!   red0 == h1 ================ h2 == red0      download and multicast to h1, ping flood from h1
//!                path2: LAN B
//! ```
//!
//! Runs with and without cuts alternate: a difference of TCP between them is that of the cuts. The last run is a control:
//! with path2 down, a cut of path1 loses packets.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use onbeat_realtime::clock::{SECOND, now_ns};
use onbeat_realtime::interrupt::{pause_until, wait_until};
use onbeat_report::format::count;
use onbeat_report::{Cell, Check, Counters, Measurement, Spread};

use super::sockets::{Download, PacketRecord, Packets};
use super::{Options, PATIENCE, node, nodes, read, wait_for_nodes};
use crate::scenario::stage::Stage;
use crate::traffic::Segments;
use crate::world::CutEnds;
use crate::{Error, Result, Topology, World};

const HOSTS: [&str; 2] = ["h1", "h2"];
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 1, 1, 1), 4000);
const TCP_PORT: u16 = 4001;
const INTERFACE: &str = "red0";
const PATHS: [&str; 2] = ["path1", "path2"];

/// Pairs of runs: one without cuts, one with cuts.
const PAIRS: usize = 4;
/// Cuts of a run, of each path in turn.
const CUTS: usize = 4;
/// Frames of a path after which it is in use again.
const IN_USE: u64 = 20;

/// The port of a host, whose interface the node makes.
const HOST: &str = r#"
name = "host"
interface = "red0"
create = "veth"
mtu = 1500
"#;

fn network() -> Topology {
    let node = node(HOST);
    let mut network = Topology::default();
    network.node("h1", 0, 0, &node).node("h2", 1, 0, &node);
    for path in PATHS {
        network.link(path, &format!("h1:{path}"), &format!("h2:{path}"));
    }
    network
}

/// The cuts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cuts {
    None,
    /// Each path in turn.
    InTurn,
    /// Path1, while path2 is down.
    OnlyPath,
}

impl Cuts {
    fn name(self) -> &'static str {
        match self {
            Cuts::None => "without cuts",
            Cuts::InTurn => "paths cut in turn",
            Cuts::OnlyPath => "control: the only path cut",
        }
    }
}

/// The result of a run.
struct RunResult {
    cuts: Cuts,
    pings: PacketRecord,
    multicast: PacketRecord,
    octets: u64,
    segments: Segments,
    seconds: f64,
}

pub(super) fn play(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    let run_ns = options.streams.phases.ns()? * 3 / 2;
    let world = stage.open(&network(), &options.streams.plane)?;
    for (host, address) in HOSTS.into_iter().zip(ADDRESSES) {
        world.handle(host)?.add_address(INTERFACE, IpAddr::V4(address), 24)?;
    }
    wait_for_nodes(&world, HOSTS)?;
    let rate = options.streams.frames.rate;
    let mut runs = Vec::new();
    for pair in 0..PAIRS {
        // Each of both is first in turn.
        let order = [Cuts::None, Cuts::InTurn];
        let order = if pair % 2 == 0 { order } else { [order[1], order[0]] };
        for cuts in order {
            runs.push(run(stage, &world, cuts, (rate, run_ns))?);
        }
    }
    evaluate(stage, &runs);
    let control = run(stage, &world, Cuts::OnlyPath, (rate, run_ns))?;
    check_control(stage, &control, retransmission_limit(&runs));
    runs.push(control);
    stage.figure("runs", table(&runs));
    stage.figure("nodes of the hosts", nodes(&read(&world, HOSTS)?));
    Ok(())
}

/// Exchanges packets while the paths are cut.
fn run(
    stage: &mut Stage<'_>,
    world: &World,
    cuts: Cuts,
    (rate, run_ns): (u64, u64),
) -> Result<RunResult> {
    let [h1, h2] = [world.namespace(HOSTS[0])?, world.namespace(HOSTS[1])?];
    let [address1, address2] = ADDRESSES;
    if cuts == Cuts::OnlyPath {
        world.cut(PATHS[1], CutEnds::Both)?;
    }
    let (before, start_ns) = (Segments::read(h2)?, now_ns());
    let download = Download::start((h2, SocketAddrV4::new(address2, TCP_PORT)), h1)?;
    let pings = Packets::ping(h1, (address1, address2), rate)?;
    let multicast = Packets::multicast((h2, address2), (h1, address1), GROUP, rate)?;
    let slot_ns = run_ns / CUTS as u64;
    for number in 0..CUTS {
        let end_ns = now_ns() + slot_ns;
        let path = match cuts {
            Cuts::None => None,
            Cuts::InTurn => Some(number % PATHS.len()),
            Cuts::OnlyPath => Some(0).filter(|_| number == 1),
        };
        if let Some(path) = path {
            pass(stage, cuts, [&pings, &multicast], now_ns() + slot_ns / 4)?;
            world.cut(PATHS[path], CutEnds::Both)?;
            pass(stage, cuts, [&pings, &multicast], now_ns() + slot_ns / 2)?;
            world.restore(PATHS[path])?;
            wait_in_use(world, path)?;
        }
        pass(stage, cuts, [&pings, &multicast], end_ns)?;
    }
    // The server stops with all octets acknowledged, while both paths are as they were.
    let octets = download.stop()?;
    let seconds = (now_ns() - start_ns) as f64 / SECOND as f64;
    let segments = Segments::read(h2)?.since(before);
    for packets in [&pings, &multicast] {
        packets.cease();
    }
    settle(&pings)?;
    settle(&multicast)?;
    let (pings, multicast) = (pings.stop()?, multicast.stop()?);
    if cuts == Cuts::OnlyPath {
        world.restore(PATHS[1])?;
    }
    Ok(RunResult { cuts, pings, multicast, octets, segments, seconds })
}

fn pass(stage: &mut Stage<'_>, cuts: Cuts, packets: [&Packets; 2], end_ns: u64) -> Result<()> {
    Ok(pause_until(end_ns, || {
        let [pings, multicast] = packets.map(|packets| (packets.sent(), packets.arrived()));
        stage.show_step(&format!(
            "{}; {}, {} answered; {}, {} received",
            cuts.name(),
            count(pings.0, "ping"),
            pings.1,
            count(multicast.0, "datagram"),
            multicast.1
        ));
    })?)
}

/// Waits until a path carries frames to both hosts again: else the next cut could be that of the only path.
fn wait_in_use(world: &World, path: usize) -> Result<()> {
    let received = |host: &str| Ok::<_, Error>(world.nodes(host)?.lans[path].counters.received);
    for host in HOSTS {
        let enough = received(host)? + IN_USE;
        if !wait_until(PATIENCE, || received(host).is_ok_and(|received| received >= enough))? {
            let what = format!("reception of {IN_USE} frames by {host} over {}", PATHS[path]);
            return Err(Error::Timeout { what, seconds: PATIENCE.as_secs_f64() });
        }
    }
    Ok(())
}

/// Waits until packets in flight have arrived: all of them, or none any more.
fn settle(packets: &Packets) -> Result<()> {
    const QUIET_NS: u64 = 500_000_000;
    let (mut arrived, mut since_ns) = (packets.arrived(), now_ns());
    wait_until(PATIENCE, || {
        if packets.arrived() != arrived {
            (arrived, since_ns) = (packets.arrived(), now_ns());
        }
        arrived == packets.sent() || now_ns() > since_ns + QUIET_NS
    })?;
    // A second copy of the last ones would arrive as well.
    Ok(pause_until(now_ns() + QUIET_NS / 10, || ())?)
}

fn evaluate(stage: &mut Stage<'_>, runs: &[RunResult]) {
    for cuts in [Cuts::None, Cuts::InTurn] {
        let of = || runs.iter().filter(move |run| run.cuts == cuts);
        let name = cuts.name();
        for (what, lost, repeated) in [
            ("pings", sum(of(), |run| run.pings.lost()), sum(of(), |run| run.pings.repeated())),
            (
                "multicast",
                sum(of(), |run| run.multicast.lost()),
                sum(of(), |run| run.multicast.repeated()),
            ),
        ] {
            stage.check(Check::eq(format!("{name}: {what} lost"), lost, 0_u64, "packets"));
            stage.check(Check::eq(format!("{name}: {what} repeated"), repeated, 0_u64, "packets"));
        }
        let octets = of().map(|run| run.octets).min().unwrap_or(0);
        stage.check(Check::min(
            format!("{name}: downloaded in each run"),
            octets,
            1_u64 << 20,
            "B",
        ));
        let rates: Vec<f64> = of().map(|run| run.octets as f64 * 8e-6 / run.seconds).collect();
        stage.figure(
            format!("TCP retransmissions {name}"),
            Measurement::of_runs("segments per run", &retransmitted(runs, cuts)),
        );
        stage.figure(format!("TCP throughput {name}"), Measurement::of_runs("Mbit/s", &rates));
    }
    let limit = retransmission_limit(runs);
    let with = Extent::of(&retransmitted(runs, Cuts::InTurn)).median;
    stage.check(Check::max(
        "TCP retransmissions, paths cut in turn, median",
        with,
        limit,
        "segments per run",
    ));
}

/// Retransmissions by run.
fn retransmitted(runs: &[RunResult], cuts: Cuts) -> Vec<f64> {
    let runs = runs.iter().filter(|run| run.cuts == cuts);
    runs.map(|run| run.segments.retransmitted as f64).collect()
}

/// The median of runs without cuts, and the difference that is none: their own spread, and probes of the last segment, which
/// TCP sends when a host has no CPU time.
fn retransmission_limit(runs: &[RunResult]) -> f64 {
    const PROBES: f64 = 4.0;
    let without = Extent::of(&retransmitted(runs, Cuts::None));
    without.median + (without.max - without.min).max(PROBES)
}

/// Median and extremes of runs.
#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    min: f64,
    median: f64,
    max: f64,
}

impl Extent {
    fn of(values: &[f64]) -> Self {
        match Spread::of_runs(values) {
            Some(Spread::Runs { min, median, max, .. }) => {
                Self { min: min.as_f64(), median: median.as_f64(), max: max.as_f64() }
            }
            _ => Self::default(),
        }
    }
}

fn sum<'a>(runs: impl Iterator<Item = &'a RunResult>, of: fn(&RunResult) -> u64) -> u64 {
    runs.map(of).sum()
}

/// A cut that loses nothing over a single path is none, and the other checks show nothing.
fn check_control(stage: &mut Stage<'_>, control: &RunResult, retransmission_limit: f64) {
    let name = control.cuts.name();
    stage.check(Check::min(format!("{name}: pings lost"), control.pings.lost(), 1_u64, "packets"));
    let lost = control.multicast.lost();
    stage.check(Check::min(format!("{name}: multicast lost"), lost, 1_u64, "packets"));
    // More than the limit of the other runs: their check detects a lost flight.
    stage.check(Check::min(
        format!("{name}: TCP retransmissions"),
        control.segments.retransmitted as f64,
        retransmission_limit + 1.0,
        "segments per run",
    ));
}

fn table(runs: &[RunResult]) -> Counters {
    let mut table = Counters::new([
        "run",
        "pings",
        "pings lost",
        "pings repeated",
        "datagrams",
        "datagrams lost",
        "datagrams repeated",
        "TCP octets",
        "TCP segments",
        "TCP retransmissions",
    ]);
    for run in runs {
        table.row([
            Cell::from(run.cuts.name()),
            run.pings.sent.into(),
            run.pings.lost().into(),
            run.pings.repeated().into(),
            run.multicast.sent.into(),
            run.multicast.lost().into(),
            run.multicast.repeated().into(),
            run.octets.into(),
            run.segments.sent.into(),
            run.segments.retransmitted.into(),
        ]);
    }
    table
}

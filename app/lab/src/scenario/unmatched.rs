//! Frames without a stream pass through the nodes as without FRER, while streams are active.
//!
//! ```text
//!                   path1 (bridged)
//!   talker --- a ===================== b --- listener
//!                   path2
//! ```
//!
//! In each node a Linux bridge joins the host's port and path1, on interfaces with the XDP program. Raw
//! frames of many kinds must arrive unchanged, programs of the hosts must reach each other by IPv4 and
//! IPv6 (which requires ARP and neighbor discovery), and LLDP must reach the stack of the node itself.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use onbeat_netdev::Ethtool;
use onbeat_netdev::Namespace;
use onbeat_realtime::clock::{SECOND, now_ns};
use onbeat_realtime::interrupt::{check, wait_until};
use onbeat_report::{Cell, Check, Counters, PhaseState};

use super::options::StreamOptions;
use super::outage::check_clean;
use super::phase::PhaseLog;
use super::probe::{self, Probe};
use super::stage::Stage;
use super::two_paths::{self, THERE, TwoPaths, VLAN};
use super::{figures, flow};
use crate::traffic::{Receiver, socket};
use crate::{Error, Result, Topology, World};

/// Number of transmissions of each frame.
const ROUNDS: u64 = 20;
/// Maximum wait for a frame that is expected at once.
const BOUND: Duration = Duration::from_secs(3);

/// The network.
pub(super) fn network() -> Topology {
    TwoPaths { bridged: true, ..TwoPaths::vector(1000) }.topology()
}

pub(super) fn play(stage: &mut Stage<'_>, options: &StreamOptions) -> Result<()> {
    let world = stage.open(&network(), &options.plane)?;
    for node in ["a", "b"] {
        // A tag within the frame is one that XDP of the next node sees.
        let ethtool = Ethtool::in_namespace(world.namespace(node)?)?;
        for port in ["host", "path1"] {
            ethtool.set_features(port, &[("txvlan", false)])?;
        }
    }
    let flows = two_paths::start(&world, &options.frames)?;
    let mut course = PhaseLog::default();
    course.begin("with other frames", PhaseState::Up, &flows, || Ok(()))?;
    stage.pass("streams flow", &flows, options.phases.ns()?)?;

    let mut table =
        Counters::new(["frames without a stream", "sender", "receiver", "sent", "arrived as sent"]);
    let mut row = |stage: &mut Stage<'_>, name: &str, to: &str, arrived: u64| {
        stage.check(Check::eq(
            format!("{name}: arrived at {to} as sent"),
            arrived,
            ROUNDS,
            "frames",
        ));
        table.row([Cell::from(name), "talker".into(), to.into(), ROUNDS.into(), arrived.into()]);
    };
    let talker = world.handle("talker")?;
    let source = talker.link("eth0")?.mac.unwrap_or_default();
    let invalid = |error| Error::Invalid(format!("cannot create a probe: {error}"));
    let probes = probe::to_hosts(source, THERE, VLAN).map_err(invalid)?;
    stage.show_flows("frames without a stream", &flows);
    let counts = exchange(&world, &probes, "listener", "eth0")?;
    for (probe, arrived) in probes.iter().zip(counts) {
        row(stage, probe.name, "listener", arrived);
    }
    let lldp = [probe::lldp(source)];
    for arrived in exchange(&world, &lldp, "a", "host")? {
        row(stage, lldp[0].name, "node a", arrived);
    }
    stage.show_flows("programs of the hosts", &flows);
    for (name, echoed) in echo(&world)? {
        stage.check(Check::eq(format!("{name} echo, host to host"), echoed, ROUNDS, "datagrams"));
        table.row([
            Cell::from(format!("{name} echo")),
            "talker".into(),
            "listener and back".into(),
            ROUNDS.into(),
            echoed.into(),
        ]);
    }
    stage.pass("streams flow", &flows, options.phases.ns()?)?;
    course.end();

    let flowed = flow::finish_all(flows)?;
    let statuses = stage.statuses(&world)?;
    let lost: u64 = flowed.iter().map(|flow| flow.delivery.lost()).sum();
    stage.check(Check::eq("streams: lost", lost, 0_u64, "frames"));
    check_clean(stage, &flowed);
    two_paths::check_counters(stage, &statuses, &flowed);
    let unmatched = statuses
        .iter()
        .filter(|status| status.node == "a")
        .flat_map(|status| &status.ports)
        .find(|port| port.name == "host")
        .map_or(0, |port| port.unmatched);
    let sent = ROUNDS * (probes.len() as u64 + 1);
    stage.check(Check::min("counted at a:host as without a stream", unmatched, sent, "frames"));
    stage.figure("frames without a stream", table);
    figures::all(stage, &flowed, &course, &statuses);
    Ok(())
}

/// Sends each probe from the talker; returns the number that arrived unchanged at an interface, by
/// probe.
fn exchange(world: &World, probes: &[Probe], station: &str, interface: &str) -> Result<Vec<u64>> {
    let socket = socket::receiver(world.namespace(station)?, interface)?;
    let mut receiver = Receiver::new(socket);
    let sender = socket::sender(world.namespace("talker")?, "eth0")?;
    let places: HashMap<&[u8], usize> =
        probes.iter().enumerate().map(|(place, probe)| (probe.octets.as_slice(), place)).collect();
    let mut counts = vec![0; probes.len()];
    for round in 1..=ROUNDS {
        for probe in probes {
            // A full queue: the frame is sent again shortly after.
            let sent = wait_until(BOUND, || sender.send(&probe.octets).is_ok())?;
            if !sent {
                return Err(Error::Invalid(format!("the talker cannot send {}", probe.name)));
            }
        }
        wait_until(BOUND, || {
            let taken = receiver.receive(|frame| {
                if let Some(place) = places.get(frame.octets) {
                    counts[*place] += 1;
                }
            });
            taken.is_err() || counts.iter().all(|count| *count >= round)
        })?;
        if counts.iter().any(|count| *count < round) {
            // It does not arrive; further waits would only take time.
            break;
        }
    }
    Ok(counts)
}

/// Exchanges datagrams between programs of the talker and the listener, by IP version.
fn echo(world: &World) -> Result<Vec<(&'static str, u64)>> {
    let mut found = Vec::new();
    let versions: [(&str, u8, [IpAddr; 2]); 2] = [
        ("IPv4", 24, [Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::new(192, 0, 2, 2).into()]),
        (
            "IPv6",
            64,
            [
                Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into(),
                Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).into(),
            ],
        ),
    ];
    for (name, prefix, [near, far]) in versions {
        for (station, address) in [("talker", near), ("listener", far)] {
            let handle = world.handle(station)?;
            if address.is_ipv6() {
                handle.set_ipv6("eth0", true)?;
            }
            handle.add_address("eth0", address, prefix)?;
        }
        let client = socket(world.namespace("talker")?, near)?;
        let server = socket(world.namespace("listener")?, far)?;
        let to = server.local_addr().map_err(|error| Error::io("read an address", error))?;
        found.push((name, converse(&client, &server, to)?));
    }
    Ok(found)
}

fn converse(client: &UdpSocket, server: &UdpSocket, to: SocketAddr) -> Result<u64> {
    /// Maximum wait for the first datagram, which may be lost during address resolution.
    const AGAIN_NS: u64 = SECOND;
    let mut echoed = 0;
    for round in 0..ROUNDS {
        check()?;
        let question = round.to_be_bytes();
        let mut sent_ns = 0;
        let answered = wait_until(BOUND, || {
            if now_ns() - sent_ns > AGAIN_NS {
                sent_ns = now_ns();
                let _ = client.send_to(&question, to);
            }
            let mut buffer = [0; 64];
            if let Ok((len, from)) = server.recv_from(&mut buffer) {
                let _ = server.send_to(&buffer[..len], from);
            }
            client.recv_from(&mut buffer).is_ok_and(|(len, _)| buffer[..len] == question)
        })?;
        if !answered {
            break;
        }
        echoed += 1;
    }
    Ok(echoed)
}

fn socket(namespace: &Namespace, address: IpAddr) -> Result<UdpSocket> {
    namespace
        .run(|| {
            let socket = UdpSocket::bind((address, 0))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        })?
        .map_err(|error: std::io::Error| Error::io(format!("open a socket on {address}"), error))
}

//! The state of a node, read from its data plane.

use onbeat_frer::counters::{Counters, PortCounters, StreamCounters};
use onbeat_frer::reading::{RecoveryReading, StreamReading};
use onbeat_frer::spec::{Identification, PortId, Stream};
use onbeat_frer_user::Copies;
use onbeat_frer_xdp::Mode;
use onbeat_netdev as netdev;

use super::assembly::Node;
use super::engine::By;
use super::error::Result;
use crate::control::{
    EgressStatus, GenerationStatus, Link, MemberStatus, NodeStatus, PortMode, PortStatus,
    RecoveryStatus, StreamStatus,
};

/// Reads everything.
pub(super) fn read(node: &Node) -> Result<NodeStatus> {
    node.plane.expire()?;
    let mut readings = Vec::new();
    for stream in &node.config.streams {
        if let Some(reading) = node.plane.read_stream(&stream.name)? {
            readings.push((stream, reading));
        }
    }
    let streams = readings.iter().map(|(stream, reading)| of_stream(node, stream, reading));
    Ok(NodeStatus {
        node: node.config.node.name.clone(),
        pid: std::process::id(),
        uptime_s: node.started.elapsed().as_secs(),
        data_plane: node.config.node.backend.to_string(),
        streams: streams.collect(),
        ports: (0..node.config.ports.len())
            .map(|index| of_port(node, index, &readings))
            .collect::<Result<_>>()?,
    })
}

fn of_stream(node: &Node, stream: &Stream, reading: &StreamReading) -> StreamStatus {
    let name = |port| node.config.port(port).name.clone();
    let members = stream.members.iter().zip(&reading.members);
    let latent = node.latent.get(&stream.name);
    StreamStatus {
        name: stream.name.clone(),
        members: members
            .map(|(member, reading)| MemberStatus {
                port: name(member.port),
                identification: type_name(&member.identification).to_string(),
                input_packets: reading.input,
                individual: reading.individual.map(|r| of_recovery(&r, 0, 0)),
            })
            .collect(),
        generation: reading.generation.map(|generation| GenerationStatus {
            gen_seq_num: generation.next,
            seq_gen_resets: generation.resets,
        }),
        recovery: reading.recovery.map(|r| {
            of_recovery(&r, latent.map_or(0, |l| l.base_resets()), latent.map_or(0, |l| l.errors))
        }),
        egress: stream
            .egress
            .iter()
            .map(|egress| EgressStatus { port: name(egress.port), output_packets: reading.output })
            .collect(),
        seq_enc_errored: reading.members.iter().map(|member| member.enc_errored).sum(),
    }
}

fn of_recovery(
    r: &RecoveryReading,
    latent_error_resets: u64,
    latent_errors: u64,
) -> RecoveryStatus {
    let counters = Counters { latent_error_resets, ..r.counters };
    RecoveryStatus::new(&counters, r.recov_seq_num, r.take_any, latent_errors)
}

/// `type` as the configuration has it.
fn type_name(identification: &Identification) -> &'static str {
    match identification {
        Identification::Null { .. } => "null",
        Identification::SourceMacVlan { .. } => "source",
        Identification::ActiveDestination { .. } => "active",
        Identification::Ip(_) => "ip",
        Identification::MaskAndMatch(_) => "mask",
    }
}

fn of_port(node: &Node, index: usize, readings: &[(&Stream, StreamReading)]) -> Result<PortStatus> {
    let config = &node.config.ports[index];
    let id = PortId(index as u8);
    let interface = config.attached_interface();
    let link = node.devices.handle.link(&interface).ok();
    let sums = port_sums(id, readings);
    let attached = node.plane.ports().into_iter().find(|(name, _, _)| *name == config.name);
    let there = match (&link, attached) {
        (Some(link), Some((_, ifindex, _))) if link.index == ifindex => Some(link),
        _ => None,
    };
    // As the kernel has it.
    let mode = match (node.plane.port_by(&config.name), there) {
        (_, None) => PortMode::Detached,
        (Some(By::Packet), Some(_)) => PortMode::Packet,
        (Some(By::Xsk(Mode::Generic, _)), Some(_)) => PortMode::XskGeneric,
        (Some(By::Xsk(Mode::Native, Copies::Made)), Some(_)) => PortMode::XskCopy,
        (Some(By::Xsk(Mode::Native, Copies::None)), Some(_)) => PortMode::XskZeroCopy,
        (None, Some(link)) => match link.xdp_program().map(|program| program.mode) {
            None => PortMode::Detached,
            Some(netdev::XdpMode::Generic) => PortMode::Generic,
            Some(_) => PortMode::Native,
        },
    };
    let generic = matches!(mode, PortMode::Generic | PortMode::XskGeneric);
    let not_native = node.not_native.get(&config.name).filter(|_| generic);
    Ok(PortStatus {
        name: config.name.clone(),
        interface,
        ifindex: link.as_ref().map_or(0, |link| link.index),
        mode,
        not_native: not_native.cloned(),
        link: match &link {
            Some(link) if link.up && link.carrier => Link::Up,
            Some(_) => Link::Down,
            None => Link::Missing,
        },
        input_packets: sums.input_packets,
        output_packets: sums.output_packets,
        passed: sums.passed,
        discard: sums.discard,
        unmatched: node.plane.unmatched(&config.name)?,
    })
}

/// The port's sums over its streams (9.3, 10.9). A sequence recovery function stands over all
/// ports of its stream: it is counted at each port by which its packets leave.
fn port_sums(id: PortId, readings: &[(&Stream, StreamReading)]) -> PortCounters {
    let (mut traffic, mut last, mut before) = (Vec::new(), Vec::new(), Vec::new());
    for (stream, reading) in readings {
        for (member, counted) in stream.members.iter().zip(&reading.members) {
            if member.port != id {
                continue;
            }
            traffic.push(StreamCounters { input_packets: counted.input, output_packets: 0 });
            if let Some(individual) = counted.individual {
                let list = if stream.recover.is_some() { &mut before } else { &mut last };
                list.push(individual.counters);
            }
        }
        if stream.egress.iter().any(|egress| egress.port == id) {
            traffic.push(StreamCounters { input_packets: 0, output_packets: reading.output });
            last.extend(reading.recovery.map(|recovery| recovery.counters));
        }
    }
    PortCounters::sum(traffic, last, before)
}

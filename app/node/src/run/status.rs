//! The state of a node, read from its data plane.

use onbeat_frer::counters::{Counters, PortCounters};
use onbeat_frer::dataplane::{AttachedPort, Attachment, Mode};
use onbeat_frer::reading::{RecoveryReading, StreamReading};
use onbeat_frer::spec::Stream;
use onbeat_netdev as netdev;
use onbeat_report::rfc3339;

use super::assembly::Node;
use super::error::Result;
use super::port_counters::shares;
use crate::config::PortConfig;
use crate::control::{
    EgressStatus, GenerationStatus, LinkState, MemberStatus, MemoryStatus, NodeStatus, PortMode,
    PortStatus, RecoveryStatus, StreamStatus, UnknownStream,
};

/// Reads the state of a node.
pub(super) fn read(node: &Node) -> Result<NodeStatus> {
    node.plane.expire()?;
    let setup = &node.setup;
    let mut sums = former_sums(node);
    let mut streams = Vec::with_capacity(setup.streams.len());
    for stream in setup.streams.iter() {
        if let Some(reading) = node.plane.read_stream(&stream.name)? {
            shares(stream, &reading).for_each(|(port, share)| sums[usize::from(port.0)] += share);
            streams.push(of_stream(node, stream, &reading));
        }
    }
    Ok(NodeStatus {
        node: setup.node.name.clone(),
        pid: std::process::id(),
        uptime_s: node.started.elapsed().as_secs(),
        counted_since: rfc3339(node.counted_since),
        configuration: setup.version(&node.file),
        memory: memory(node)?,
        data_plane: setup.node.backend.to_string(),
        output_gap: node.plane.output_gap().map(str::to_owned),
        streams,
        wildcards: node.wildcard_status()?,
        ports: ports(node, sums)?,
        ptp: node.upkeep.ptp.status(),
    })
}

/// Reads the streams with these names, and no others.
pub(super) fn read_streams(node: &Node, names: &[String]) -> Result<Vec<StreamStatus>> {
    node.plane.expire()?;
    let read = |name: &String| {
        let stream = node.setup.streams.get(name);
        let reading = node.plane.read_stream(name)?;
        let (Some(stream), Some(reading)) = (stream, reading) else {
            let streams = node.setup.streams.iter().map(|stream| stream.name.as_str());
            return Err(UnknownStream::new(&node.setup.node.name, name, streams).into());
        };
        Ok(of_stream(node, stream, &reading))
    };
    names.iter().map(read).collect()
}

/// By port: the sums of streams that the node no longer has.
pub(super) fn former_sums(node: &Node) -> Vec<PortCounters> {
    let ports = node.setup.ports.iter();
    ports.map(|port| node.former_counters.of_port(&port.name)).collect()
}

/// The memory of the stream tables.
pub(super) fn memory(node: &Node) -> Result<Option<MemoryStatus>> {
    Ok(node.plane.memory()?.map(|memory| MemoryStatus {
        streams: memory.streams,
        octets: memory.octets,
        octets_per_stream: memory.octets_per_stream(),
    }))
}

/// The ports, with the sums of their streams.
pub(super) fn ports(node: &Node, mut sums: Vec<PortCounters>) -> Result<Vec<PortStatus>> {
    node.add_redundant(&mut sums)?;
    node.add_wildcards(&mut sums)?;
    let attached = node.plane.ports();
    let ports = node.setup.ports.iter().zip(sums);
    ports.map(|(port, sums)| of_port(node, port, &attached, sums)).collect()
}

pub(super) fn of_stream(node: &Node, stream: &Stream, reading: &StreamReading) -> StreamStatus {
    let name = |port| node.setup.port(port).name.clone();
    let members = stream.members.iter().zip(&reading.members);
    let watcher = &node.watcher;
    let draining = node.setup.streams.draining(&stream.name);
    let latent = watcher.latent(&stream.name);
    StreamStatus {
        name: stream.name.clone(),
        members: members
            .enumerate()
            .map(|(number, (member, reading))| MemberStatus {
                port: name(member.port),
                lost: watcher.is_lost(&stream.name, number),
                draining: draining.contains(&number),
                identification: member.identification.kind().name().to_string(),
                input_packets: reading.input,
                seq_enc_errored: reading.enc_errored,
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
            .map(|egress| EgressStatus {
                port: name(egress.port),
                output_packets: reading.output,
                loses: node.is_losing(&node.setup.port(egress.port).name),
            })
            .collect(),
        seq_enc_errored: reading.members.iter().map(|member| member.enc_errored).sum(),
    }
}

fn of_recovery(
    r: &RecoveryReading,
    latent_error_resets: u64,
    latent_errors: u64,
) -> RecoveryStatus {
    RecoveryStatus {
        recov_seq_num: r.recov_seq_num,
        take_any: r.take_any,
        counters: Counters { latent_error_resets, ..r.counters },
        latent_errors,
    }
}

fn of_port(
    node: &Node,
    config: &PortConfig,
    attached: &[AttachedPort],
    sums: PortCounters,
) -> Result<PortStatus> {
    let interface = config.attached_interface();
    let link = node.devices.handle.link(&interface).ok();
    let attached = attached.iter().find(|port| port.name == config.name);
    let there = match (&link, attached) {
        (Some(link), Some(attached)) if link.index == attached.ifindex => {
            Some((link, attached.attachment))
        }
        _ => None,
    };
    let mode = match there {
        None => PortMode::Detached,
        Some((_, Attachment::Packet)) => PortMode::Packet,
        Some((_, Attachment::Xsk { mode: Mode::Generic, .. })) => PortMode::XskGeneric,
        Some((_, Attachment::Xsk { zero_copy: false, .. })) => PortMode::XskCopy,
        Some((_, Attachment::Xsk { zero_copy: true, .. })) => PortMode::XskZeroCopy,
        // As the kernel has it.
        Some((link, Attachment::Xdp(_))) => match link.xdp_program().map(|program| program.mode) {
            None => PortMode::Detached,
            Some(netdev::XdpMode::Generic) => PortMode::Generic,
            Some(_) => PortMode::Native,
        },
    };
    let generic = matches!(mode, PortMode::Generic | PortMode::XskGeneric);
    let not_attached = node
        .upkeep
        .not_attached(&config.name)
        .filter(|_| link.is_some() && mode == PortMode::Detached);
    let not_native = node.not_native.get(&config.name).filter(|_| generic);
    let frames_lost = node.frames_lost.get(&config.name).filter(|_| mode != PortMode::Detached);
    let reading = node.plane.read_port(&config.name)?;
    Ok(PortStatus {
        name: config.name.clone(),
        interface,
        ifindex: link.as_ref().map_or(0, |link| link.index),
        mode,
        not_attached: not_attached.map(str::to_owned),
        not_native: not_native.cloned(),
        frames_lost: frames_lost.cloned(),
        unfinished_checksums: node.upkeep.unfinished_checksums(&config.name).map(str::to_owned),
        link: LinkState::of(link.as_ref()),
        admin_up: link.as_ref().is_some_and(|link| link.up),
        input_packets: sums.input_packets,
        output_packets: reading.sent.unwrap_or(sums.output_packets),
        passed: sums.passed,
        discard: sums.discard,
        unmatched: reading.unmatched,
        lost: node.losses(&config.name, &reading),
    })
}

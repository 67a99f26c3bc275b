//! The back ends that are measured, a line each.

use std::sync::LazyLock;

use onbeat_link::{Backend as PortBackend, Port, PortOptions};
use onbeat_netdev::qdisc::{Discipline, Etf, Qdisc, QdiscHandle};
use onbeat_netdev::{Handle, Namespace};

use super::frames::ETHER_TYPE;
use super::limit::{BareRequester, Reflector};
use super::node::{ControlledNode, ManagingNode};
use super::pcap;
use super::rig::{CN, MN, ResponseMode, Rig};
use super::stack;

/// The two ends, ready to run; or why they cannot be had here.
type NodePair = Result<(Box<dyn ManagingNode>, Box<dyn ControlledNode>), String>;

/// A row of the bench.
pub(super) struct Backend {
    pub(super) name: &'static str,
    /// What it is, in a line.
    pub(super) summary: &'static str,
    pub(super) kind: RowKind,
    /// Takes the whole CPU of its node: it can only be measured by itself.
    pub(super) spins: bool,
}

/// What a row is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind {
    /// A port of `onbeat-link`.
    Port(PortBackend),
    /// What others do.
    Reference,
    /// The best that could be.
    Limit,
}

pub(super) const LIMIT: &str = "limit";
/// The port that works everywhere: what the others are held against.
pub(super) const BASELINE: &str = PortBackend::Packet.name();

/// All rows, in the order in which they are shown.
pub(super) static BACKENDS: LazyLock<Vec<Backend>> = LazyLock::new(|| {
    let row = |name, kind, summary| Backend { name, summary, kind, spins: false };
    let reflected = "an XDP program reflects each request; requests by clock_nanosleep and send";
    let mut rows = vec![row(LIMIT, RowKind::Limit, reflected)];
    for (name, backend) in PortBackend::ALL {
        rows.push(row(name, RowKind::Port(backend), summary(backend)));
        if name == BASELINE {
            let summary = "PacketPort, the controlled node's thread never sleeping";
            rows.push(Backend {
                spins: true,
                ..row("packet-spin", RowKind::Port(backend), summary)
            });
        }
    }
    let plain = "a plain libpcap program: immediate mode, filter, pcap_sendpacket";
    rows.push(row("pcap", RowKind::Reference, plain));
    rows
});

const fn summary(backend: PortBackend) -> &'static str {
    match backend {
        PortBackend::Packet => "PacketPort: packet socket, ring, around the queueing discipline",
        PortBackend::Xsk => "XskPort: AF_XDP, responses by the thread",
        PortBackend::Xdp => "XdpPort: AF_XDP, responses by XDP_TX in the driver",
        PortBackend::Txtime => "PacketPort with launch times, kept by etf; responses by the thread",
        PortBackend::Module => "ModulePort: onbeat.ko answers in softirq, and sends by a timer",
    }
}

/// Frames that a port has room for: at the shortest period, those of half a second in which the host
/// gives this machine no time.
const BUFFERS: usize = 2048;

/// How much earlier etf wakes up than it sends: what a timer may be late by.
const ETF_DELTA_NS: i32 = 200_000;

/// The back end of the controlled node, where the managing node has `managing`: launch times are of
/// no use to it.
pub(in crate::bench) const fn controlled(managing: PortBackend) -> PortBackend {
    match managing {
        PortBackend::Txtime => PortBackend::Packet,
        other => other,
    }
}

/// Sets up the managing node's interface for a back end: etf, where it uses launch times.
pub(in crate::bench) fn prepare(mn: &Handle, backend: PortBackend) -> Result<(), String> {
    if backend != PortBackend::Txtime {
        return Ok(());
    }
    let qdisc = Qdisc {
        parent: QdiscHandle::ROOT,
        handle: QdiscHandle::NONE,
        discipline: Discipline::Etf(Etf { delta_ns: ETF_DELTA_NS, ..Etf::default() }),
    };
    mn.replace_qdisc(MN, &qdisc).map_err(|error| error.to_string())
}

fn open(
    namespace: &Namespace,
    interface: &str,
    backend: PortBackend,
    spin: bool,
) -> Result<Box<dyn Port>, String> {
    let mut options = PortOptions {
        ether_types: vec![ETHER_TYPE],
        spin,
        confirm: false,
        ..PortOptions::default()
    };
    if !backend.launches() {
        options.receive_buffers = BUFFERS;
    }
    onbeat_link::open(backend, namespace, interface, options).map_err(|error| error.to_string())
}

/// A port at each end; the controlled node's spins if `spin`.
fn ports(rig: &Rig, backend: PortBackend, spin: bool) -> NodePair {
    prepare(&rig.mn, backend)?;
    let mn = open(rig.mn.namespace(), MN, backend, false)?;
    let cn = open(rig.cn.namespace(), CN, controlled(backend), spin)?;
    let asking = stack::Requester::new(mn, &rig.request).map_err(|error| error.to_string())?;
    let answering = stack::Responder::new(cn, &rig.response, &rig.request);
    Ok((Box::new(asking), Box::new(answering.map_err(|error| error.to_string())?)))
}

impl Backend {
    /// How its controlled node answers.
    pub(super) fn answers(&self) -> ResponseMode {
        if self.kind == RowKind::Limit { ResponseMode::Reflection } else { ResponseMode::Response }
    }

    /// Opens both ends on a rig.
    pub(super) fn open(&self, rig: &Rig) -> NodePair {
        match self.kind {
            RowKind::Port(backend) => ports(rig, backend, self.spins),
            RowKind::Reference => {
                Ok((Box::new(pcap::Requester::open(rig)?), Box::new(pcap::Responder::open(rig)?)))
            }
            RowKind::Limit => {
                let asking = BareRequester::new(rig).map_err(|error| error.to_string())?;
                Ok((Box::new(asking), Box::new(Reflector)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_rows_apart_and_the_table_has_what_others_are_held_against() {
        for (index, backend) in BACKENDS.iter().enumerate() {
            assert!(BACKENDS[..index].iter().all(|other| other.name != backend.name));
            assert_eq!(backend.kind == RowKind::Limit, backend.name == LIMIT);
        }
        let baseline = BACKENDS.iter().find(|backend| backend.name == BASELINE);
        assert!(baseline.is_some_and(|backend| matches!(backend.kind, RowKind::Port(_))));
    }
}

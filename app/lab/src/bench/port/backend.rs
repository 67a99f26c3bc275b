//! The measured back ends, one per line.

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

/// Both ends, ready to run; or the reason why the back end is unavailable.
type NodePair = Result<(Box<dyn ManagingNode>, Box<dyn ControlledNode>), String>;

/// A row of the bench.
pub(super) struct Backend {
    pub(super) name: &'static str,
    /// Description, one line.
    pub(super) summary: &'static str,
    pub(super) kind: RowKind,
    /// It occupies the whole CPU of its node: it is measured separately.
    pub(super) spins: bool,
}

/// Role of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind {
    /// A port of `onbeat-link`.
    Port(PortBackend),
    /// An alternative implementation.
    Reference,
    /// The optimum.
    Limit,
}

pub(super) const LIMIT: &str = "limit";
/// The port that works everywhere: the baseline of the others.
pub(super) const BASELINE: &str = PortBackend::Packet.name();

/// All rows, in order of display.
pub(super) static BACKENDS: LazyLock<Vec<Backend>> = LazyLock::new(|| {
    let row = |name, kind, summary| Backend { name, summary, kind, spins: false };
    let reflected = "an XDP program reflects each request; requests by clock_nanosleep and send";
    let mut rows = vec![row(LIMIT, RowKind::Limit, reflected)];
    for (name, backend) in PortBackend::ALL {
        rows.push(row(name, RowKind::Port(backend), summary(backend)));
        if name == BASELINE {
            let summary = "PacketPort, the controlled node's thread never sleeps";
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
        PortBackend::Packet => "PacketPort: packet socket, ring, bypasses the queueing discipline",
        PortBackend::Xsk => "XskPort: AF_XDP, responses by the thread",
        PortBackend::Xdp => "XdpPort: AF_XDP, responses by XDP_TX in the driver",
        PortBackend::Txtime => {
            "PacketPort with launch times, by the etf qdisc; responses by the thread"
        }
        PortBackend::Module => "ModulePort: onbeat.ko responds in softirq, and sends by a timer",
    }
}

/// Frames of a port's queue: at the shortest period, those of half a second of CPU steal.
const BUFFERS: usize = 2048;

/// Interval by which etf wakes up before the launch time: the maximum delay of a timer.
const ETF_DELTA_NS: i32 = 200_000;

/// The back end of the controlled node, if the managing node has `managing`: it does not use launch
/// times.
pub(in crate::bench) const fn controlled(managing: PortBackend) -> PortBackend {
    match managing {
        PortBackend::Txtime => PortBackend::Packet,
        other => other,
    }
}

/// Configures the managing node's interface for a back end: adds etf if it uses launch times.
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

/// A port at each end; with `spin`, that of the controlled node polls without sleeping.
fn ports(rig: &Rig, backend: PortBackend, spin: bool) -> NodePair {
    prepare(&rig.mn, backend)?;
    let mn = open(rig.mn.namespace(), MN, backend, false)?;
    let cn = open(rig.cn.namespace(), CN, controlled(backend), spin)?;
    let asking = stack::Requester::new(mn, &rig.request).map_err(|error| error.to_string())?;
    let answering = stack::Responder::new(cn, &rig.response, &rig.request);
    Ok((Box::new(asking), Box::new(answering.map_err(|error| error.to_string())?)))
}

impl Backend {
    /// Response mode of its controlled node.
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
    fn row_names_are_distinct_and_the_table_has_baselines() {
        for (index, backend) in BACKENDS.iter().enumerate() {
            assert!(BACKENDS[..index].iter().all(|other| other.name != backend.name));
            assert_eq!(backend.kind == RowKind::Limit, backend.name == LIMIT);
        }
        let baseline = BACKENDS.iter().find(|backend| backend.name == BASELINE);
        assert!(baseline.is_some_and(|backend| matches!(backend.kind, RowKind::Port(_))));
    }
}

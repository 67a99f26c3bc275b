//! The back ends that are measured, a line each.

use onbeat_link::{
    ModuleOptions, ModulePort, PacketOptions, PacketPort, Port, TxtimeOptions, XdpOptions, XdpPort,
    XskPort,
};
use onbeat_netdev::Namespace;
use onbeat_netdev::qdisc::{Discipline, Etf, Qdisc, QdiscHandle};

use super::frames::ETHER_TYPE;
use super::limit::{Bare, Reflecting};
use super::node::{ControlledNode, ManagingNode};
use super::pcap;
use super::rig::{Answers, CN, MN, Rig};
use super::stack;

/// The two ends, ready to run; or why they cannot be had here.
type Nodes = Result<(Box<dyn ManagingNode>, Box<dyn ControlledNode>), String>;

/// A port on one interface, likewise.
type Opened = Result<Box<dyn Port>, String>;

/// A row of the bench.
pub(super) struct Backend {
    pub(super) name: &'static str,
    /// What it is, in a line.
    pub(super) summary: &'static str,
    pub(super) kind: Kind,
    /// Takes the whole CPU of its node: it can only be measured by itself.
    pub(super) spins: bool,
    open: fn(&Rig) -> Nodes,
}

/// What a row is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A port of `onbeat-link`.
    Port,
    /// What others do.
    Reference,
    /// The best that could be.
    Limit,
}

pub(super) const LIMIT: &str = "limit";
/// The port that works everywhere: what the others are held against.
pub(super) const BASELINE: &str = "packet";

/// All rows, in the order in which they are shown. To add a port: a line here, and a function that
/// opens it on an interface.
pub(super) const BACKENDS: &[Backend] = &[
    Backend {
        name: LIMIT,
        summary: "an XDP program reflects each request; requests by clock_nanosleep and send",
        kind: Kind::Limit,
        spins: false,
        open: |rig| {
            let asking = Bare::new(rig).map_err(|error| error.to_string())?;
            Ok((Box::new(asking), Box::new(Reflecting)))
        },
    },
    port(BASELINE, "PacketPort: packet socket, ring, around the queueing discipline", |rig| {
        ports(rig, packet(false))
    }),
    Backend {
        spins: true,
        ..port("packet-spin", "PacketPort, the controlled node's thread never sleeping", |rig| {
            let asking = packet(false)(rig.mn.namespace(), MN)?;
            stacks(rig, asking, packet(true)(rig.cn.namespace(), CN)?)
        })
    },
    port("xsk", "XskPort: AF_XDP, responses by the thread", |rig| {
        ports(rig, |namespace, interface| boxed(XskPort::open(namespace, interface, xdp())))
    }),
    port("xdp", "XdpPort: AF_XDP, responses by XDP_TX in the driver", |rig| {
        ports(rig, |namespace, interface| boxed(XdpPort::open(namespace, interface, xdp())))
    }),
    port("txtime", "PacketPort with launch times, kept by etf; responses by the thread", |rig| {
        let asking = launching(rig)?;
        stacks(rig, asking, packet(false)(rig.cn.namespace(), CN)?)
    }),
    port("module", "ModulePort: onbeat.ko answers in softirq, and sends by a timer", |rig| {
        ports(rig, |namespace, interface| {
            let ether_types = vec![ETHER_TYPE];
            let options = ModuleOptions { ether_types, confirm: false, ..ModuleOptions::default() };
            boxed(ModulePort::open(namespace, interface, options))
        })
    }),
    Backend {
        name: "pcap",
        summary: "a plain libpcap program: immediate mode, filter, pcap_sendpacket",
        kind: Kind::Reference,
        spins: false,
        open: |rig| Ok((Box::new(pcap::Asking::open(rig)?), Box::new(pcap::Answering::open(rig)?))),
    },
];

/// Frames that a port has room for: at the shortest period, those of half a second in which the host
/// gives this machine no time.
const BUFFERS: usize = 2048;

/// How much earlier etf wakes up than it sends: what a timer may be late by.
const ETF_DELTA_NS: i32 = 200_000;

const fn port(name: &'static str, summary: &'static str, open: fn(&Rig) -> Nodes) -> Backend {
    Backend { name, summary, kind: Kind::Port, spins: false, open }
}

/// A port of one kind at each end.
fn ports(rig: &Rig, open: impl Fn(&Namespace, &str) -> Opened) -> Nodes {
    stacks(rig, open(rig.mn.namespace(), MN)?, open(rig.cn.namespace(), CN)?)
}

fn stacks(rig: &Rig, mn: Box<dyn Port>, cn: Box<dyn Port>) -> Nodes {
    let asking = stack::Asking::new(mn, &rig.request).map_err(|error| error.to_string())?;
    let answering = stack::Answering::new(cn, &rig.response, &rig.request);
    Ok((Box::new(asking), Box::new(answering.map_err(|error| error.to_string())?)))
}

fn packet(spin: bool) -> impl Fn(&Namespace, &str) -> Opened {
    move |namespace, interface| {
        let ether_types = vec![ETHER_TYPE];
        let options = PacketOptions {
            ether_types,
            spin,
            confirm: false,
            receive_buffers: BUFFERS,
            ..PacketOptions::default()
        };
        boxed(PacketPort::open(namespace, interface, options))
    }
}

/// With etf on the managing node's interface.
fn launching(rig: &Rig) -> Opened {
    let qdisc = Qdisc {
        parent: QdiscHandle::ROOT,
        handle: QdiscHandle::NONE,
        discipline: Discipline::Etf(Etf { delta_ns: ETF_DELTA_NS, ..Etf::default() }),
    };
    rig.mn.replace_qdisc(MN, &qdisc).map_err(|error| error.to_string())?;
    let options =
        PacketOptions { ether_types: vec![ETHER_TYPE], confirm: false, ..PacketOptions::default() };
    let txtime = TxtimeOptions::default();
    boxed(PacketPort::open_txtime(rig.mn.namespace(), MN, options, &txtime))
}

fn xdp() -> XdpOptions {
    XdpOptions {
        ether_types: vec![ETHER_TYPE],
        confirm: false,
        receive_buffers: BUFFERS,
        ..XdpOptions::default()
    }
}

fn boxed(opened: onbeat_link::Result<impl Port + 'static>) -> Opened {
    match opened {
        Ok(port) => Ok(Box::new(port)),
        Err(error) => Err(error.to_string()),
    }
}

impl Backend {
    /// How its controlled node answers.
    pub(super) fn answers(&self) -> Answers {
        if self.kind == Kind::Limit { Answers::Reflection } else { Answers::Response }
    }

    /// Opens both ends on a rig.
    pub(super) fn open(&self, rig: &Rig) -> Nodes {
        (self.open)(rig)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_rows_apart_and_the_table_has_what_others_are_held_against() {
        for (index, backend) in BACKENDS.iter().enumerate() {
            assert!(BACKENDS[..index].iter().all(|other| other.name != backend.name));
            assert_eq!(backend.kind == Kind::Limit, backend.name == LIMIT);
        }
        let baseline = BACKENDS.iter().find(|backend| backend.name == BASELINE);
        assert!(baseline.is_some_and(|backend| backend.kind == Kind::Port));
    }
}

//! What a device is, as the kernel shows it.

use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp, State};
use onbeat_wire::MacAddress;

/// A network device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// Unique in its namespace, and kept when the device is renamed.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Hardware address, where it has six octets.
    pub mac: Option<MacAddress>,
    /// Hardware address that the device was made with, which no process changes; virtual devices have
    /// none.
    pub permanent_mac: Option<MacAddress>,
    /// Longest payload of a frame, in octets.
    pub mtu: u32,
    /// Smallest MTU the driver takes.
    pub min_mtu: u32,
    /// Largest MTU the driver takes; `None` where it names no limit.
    pub max_mtu: Option<u32>,
    /// Turned on (`IFF_UP`).
    pub up: bool,
    /// The medium is there (`IFF_LOWER_UP`); of a veth, that the other end is turned on.
    pub carrier: bool,
    /// Operational state "up" of RFC 2863, or unknown, which drivers without the notion show.
    pub operational: bool,
    /// The promiscuous flag, as an administrator sets it.
    pub promiscuous: bool,
    /// How many asked for promiscuous mode: the flag, bridges, packet sockets. Above 0 it is on.
    pub promiscuity: u32,
    /// Addresses are resolved on the device (no `IFF_NOARP`).
    pub arp: bool,
    /// The loopback device.
    pub loopback: bool,
    /// Kind of a virtual device: "veth", "bridge".
    pub kind: Option<String>,
    /// Kind of the root queueing discipline.
    pub qdisc: Option<String>,
    /// Index of the bridge that the device is a port of.
    pub master: Option<u32>,
    /// Index of the device behind this one; of a veth, the other end, by its own namespace.
    pub peer: Option<u32>,
    /// Id of the namespace of `peer` in that of this device; `None`: the same.
    pub peer_namespace: Option<i32>,
    /// Transmit queues.
    pub tx_queues: u32,
    /// Receive queues.
    pub rx_queues: u32,
    /// Number of times the carrier came or went.
    pub carrier_changes: u32,
    /// XDP programs: none, one, or one for each of several modes.
    pub xdp: Vec<XdpAttachment>,
}

/// An XDP program on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpAttachment {
    /// Where it runs.
    pub mode: XdpMode,
    /// The kernel's id of the program.
    pub program_id: u32,
}

/// Where an XDP program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum XdpMode {
    /// In the driver, before there is a socket buffer.
    Native,
    /// In the stack, on socket buffers.
    Generic,
    /// In the device.
    Offload,
}

impl std::fmt::Display for XdpMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
            XdpMode::Offload => "offload",
        })
    }
}

impl From<LinkMessage> for Link {
    fn from(message: LinkMessage) -> Self {
        let flags = message.header.flags;
        let mut link = Link {
            index: message.header.index,
            up: flags.contains(LinkFlags::Up),
            carrier: flags.contains(LinkFlags::LowerUp),
            promiscuous: flags.contains(LinkFlags::Promisc),
            arp: !flags.contains(LinkFlags::Noarp),
            loopback: flags.contains(LinkFlags::Loopback),
            ..Link::default()
        };
        for attribute in message.attributes {
            link.take(attribute);
        }
        link
    }
}

impl Link {
    fn take(&mut self, attribute: LinkAttribute) {
        match attribute {
            LinkAttribute::IfName(name) => self.name = name,
            LinkAttribute::Address(octets) => {
                self.mac = <[u8; 6]>::try_from(octets).ok().map(MacAddress);
            }
            LinkAttribute::PermAddress(octets) => {
                self.permanent_mac = <[u8; 6]>::try_from(octets).ok().map(MacAddress);
            }
            LinkAttribute::Mtu(mtu) => self.mtu = mtu,
            LinkAttribute::MinMtu(mtu) => self.min_mtu = mtu,
            // 0 says that the driver names no limit.
            LinkAttribute::MaxMtu(mtu) => self.max_mtu = (mtu != 0).then_some(mtu),
            LinkAttribute::OperState(state) => {
                self.operational = matches!(state, State::Up | State::Unknown);
            }
            LinkAttribute::Promiscuity(count) => self.promiscuity = count,
            LinkAttribute::Qdisc(qdisc) => self.qdisc = Some(qdisc),
            LinkAttribute::Controller(index) => self.master = Some(index),
            LinkAttribute::Link(index) => self.peer = Some(index),
            LinkAttribute::LinkNetNsId(id) => self.peer_namespace = Some(id),
            LinkAttribute::NumTxQueues(number) => self.tx_queues = number,
            LinkAttribute::NumRxQueues(number) => self.rx_queues = number,
            LinkAttribute::CarrierChanges(number) => self.carrier_changes = number,
            LinkAttribute::LinkInfo(infos) => {
                self.kind = infos.into_iter().find_map(|info| match info {
                    LinkInfo::Kind(kind) => Some(kind.to_string()),
                    _ => None,
                });
            }
            LinkAttribute::Xdp(programs) => {
                self.xdp = programs.iter().filter_map(attachment).collect();
            }
            _ => {}
        }
    }

    /// The XDP program on the device, where there is one; of several, that which runs first.
    #[must_use]
    pub fn xdp_program(&self) -> Option<XdpAttachment> {
        let of = |mode| self.xdp.iter().copied().find(move |program| program.mode == mode);
        of(XdpMode::Offload).or_else(|| of(XdpMode::Native)).or_else(|| of(XdpMode::Generic))
    }
}

/// A program by the attribute of its mode, which every kernel sends beside `IFLA_XDP_PROG_ID`.
fn attachment(attribute: &LinkXdp) -> Option<XdpAttachment> {
    let (mode, program_id) = match *attribute {
        LinkXdp::DrvProgId(id) => (XdpMode::Native, id),
        LinkXdp::SkbProgId(id) => (XdpMode::Generic, id),
        LinkXdp::HwProgId(id) => (XdpMode::Offload, id),
        _ => return None,
    };
    Some(XdpAttachment { mode, program_id })
}

//! Properties of a device, as reported by the kernel.

use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp, State};
use onbeat_wire::MacAddress;

/// A network device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// Unique in its namespace, and constant when the device is renamed.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Hardware address, if it has six octets.
    pub mac: Option<MacAddress>,
    /// Permanent hardware address of the device, which no process changes; virtual devices have none.
    pub permanent_mac: Option<MacAddress>,
    /// Maximum payload of a frame, in octets.
    pub mtu: u32,
    /// Minimum MTU of the driver.
    pub min_mtu: u32,
    /// Maximum MTU of the driver; `None`: no limit.
    pub max_mtu: Option<u32>,
    /// Set up (`IFF_UP`).
    pub up: bool,
    /// Carrier (`IFF_LOWER_UP`); for a veth, the other end is up.
    pub carrier: bool,
    /// Operational state "up" of RFC 2863, or unknown, which drivers without operational state report.
    pub operational: bool,
    /// The promiscuous flag, as set by an administrator.
    pub promiscuous: bool,
    /// Number of requests of promiscuous mode: the flag, bridges, packet sockets. Above 0 it is on.
    pub promiscuity: u32,
    /// Address resolution on the device (no `IFF_NOARP`).
    pub arp: bool,
    /// The loopback device.
    pub loopback: bool,
    /// Kind of a virtual device: "veth", "bridge".
    pub kind: Option<String>,
    /// Kind of the root queueing discipline.
    pub qdisc: Option<String>,
    /// Index of the bridge that the device is a port of.
    pub master: Option<u32>,
    /// Index of the device linked to this one; for a veth, the other end, in its own namespace.
    pub peer: Option<u32>,
    /// Id of the namespace of `peer` in that of this device; `None`: the same.
    pub peer_namespace: Option<i32>,
    /// Transmit queues.
    pub tx_queues: u32,
    /// Receive queues.
    pub rx_queues: u32,
    /// Number of carrier changes.
    pub carrier_changes: u32,
    /// XDP programs: none, one, or one for each of several modes.
    pub xdp: Vec<XdpAttachment>,
}

/// An XDP program on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpAttachment {
    /// The XDP mode.
    pub mode: XdpMode,
    /// The kernel's id of the program.
    pub program_id: u32,
}

/// The execution point of an XDP program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum XdpMode {
    /// In the driver, before allocation of a socket buffer.
    Native,
    /// In the stack, on socket buffers.
    Generic,
    /// Offloaded to the device.
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
            // 0: the driver has no limit.
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

    /// Returns the XDP program on the device, if any; the first one to run if there are several.
    #[must_use]
    pub fn xdp_program(&self) -> Option<XdpAttachment> {
        let of = |mode| self.xdp.iter().copied().find(move |program| program.mode == mode);
        of(XdpMode::Offload).or_else(|| of(XdpMode::Native)).or_else(|| of(XdpMode::Generic))
    }
}

/// Converts the attribute of a mode, which every kernel sends in addition to `IFLA_XDP_PROG_ID`.
fn attachment(attribute: &LinkXdp) -> Option<XdpAttachment> {
    let (mode, program_id) = match *attribute {
        LinkXdp::DrvProgId(id) => (XdpMode::Native, id),
        LinkXdp::SkbProgId(id) => (XdpMode::Generic, id),
        LinkXdp::HwProgId(id) => (XdpMode::Offload, id),
        _ => return None,
    };
    Some(XdpAttachment { mode, program_id })
}

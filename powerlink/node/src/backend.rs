//! Ports for POWERLINK.

use std::fmt;

use onbeat_link::{
    ModuleOptions, ModulePort, PacketOptions, PacketPort, Port, Result, TxtimeOptions, XdpOptions,
    XdpPort, XskPort,
};
use onbeat_netdev::Namespace;
use onbeat_wire::EtherType;

/// Frames that a port has room for: a cycle of a full network, twice.
const BUFFERS: usize = 1024;

/// What moves a node's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// A packet socket: works on every interface.
    #[default]
    Packet,
    /// AF_XDP.
    Xsk,
    /// AF_XDP, with answers in the driver.
    Xdp,
    /// A packet socket with launch times.
    Txtime,
    /// The kernel module onbeat.ko.
    Module,
}

impl Backend {
    /// Each with its name in files and on the command line.
    pub const ALL: [(&'static str, Self); 5] = [
        ("packet", Self::Packet),
        ("xsk", Self::Xsk),
        ("xdp", Self::Xdp),
        ("txtime", Self::Txtime),
        ("module", Self::Module),
    ];
}

impl Backend {
    /// Whether it answers polls without this process.
    #[must_use]
    pub const fn answers(self) -> bool {
        matches!(self, Self::Xdp | Self::Module)
    }

    /// Whether the network stack gets what its port receives as well.
    #[must_use]
    pub(crate) const fn copies(self) -> bool {
        matches!(self, Self::Packet | Self::Txtime)
    }

    /// Whether it sends at an instant without this process.
    #[must_use]
    pub const fn launches(self) -> bool {
        matches!(self, Self::Txtime | Self::Module)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, backend)| backend == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

/// Opens a port for POWERLINK on an interface of `namespace`.
///
/// # Errors
/// What the back end says of the interface.
pub fn open(backend: Backend, namespace: &Namespace, interface: &str) -> Result<Box<dyn Port>> {
    open_with(backend, namespace, interface, Wanted::default())
}

/// What a port is to do beyond the usual.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted<'a> {
    /// It tells when frames left that it sends by itself.
    pub(crate) confirm: bool,
    /// What it receives beside POWERLINK.
    pub(crate) others: &'a [EtherType],
}

pub(crate) fn open_with(
    backend: Backend,
    namespace: &Namespace,
    interface: &str,
    wanted: Wanted<'_>,
) -> Result<Box<dyn Port>> {
    let Wanted { confirm, others } = wanted;
    let ether_types = [&[EtherType::POWERLINK], others].concat();
    let packet = || PacketOptions {
        ether_types: ether_types.clone(),
        receive_buffers: BUFFERS,
        confirm,
        ..PacketOptions::default()
    };
    let xdp = || XdpOptions {
        ether_types: ether_types.clone(),
        receive_buffers: BUFFERS,
        confirm,
        ..XdpOptions::default()
    };
    Ok(match backend {
        Backend::Packet => Box::new(PacketPort::open(namespace, interface, packet())?),
        Backend::Xsk => Box::new(XskPort::open(namespace, interface, xdp())?),
        Backend::Xdp => Box::new(XdpPort::open(namespace, interface, xdp())?),
        Backend::Txtime => {
            let options = TxtimeOptions::default();
            Box::new(PacketPort::open_txtime(namespace, interface, packet(), &options)?)
        }
        Backend::Module => {
            let receive_buffers = BUFFERS;
            let options =
                ModuleOptions { ether_types, receive_buffers, confirm, ..Default::default() };
            Box::new(ModulePort::open(namespace, interface, options)?)
        }
    })
}

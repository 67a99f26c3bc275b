//! Opens a port by the name of its back end.

use onbeat_netdev::Namespace;

use crate::{Backend, ModulePort, PacketPort, Port, PortOptions, Result, XdpPort, XskPort};

/// Opens a port on an interface of `namespace`: that of a [`crate::Claim`], or any other.
///
/// # Errors
/// As `open` of the back end's port.
pub fn open(
    backend: Backend,
    namespace: &Namespace,
    interface: &str,
    options: PortOptions,
) -> Result<Box<dyn Port>> {
    Ok(match backend {
        Backend::Packet => Box::new(PacketPort::open(namespace, interface, options)?),
        Backend::Xsk => Box::new(XskPort::open(namespace, interface, options)?),
        Backend::Xdp => Box::new(XdpPort::open(namespace, interface, options)?),
        Backend::Txtime => Box::new(PacketPort::open_txtime(namespace, interface, options)?),
        Backend::Module => Box::new(ModulePort::open(namespace, interface, options)?),
    })
}

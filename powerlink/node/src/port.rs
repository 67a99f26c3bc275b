//! Ports for POWERLINK.

use onbeat_link::{Backend, Port, PortOptions, Result};
use onbeat_netdev::Namespace;
use onbeat_wire::EtherType;

/// Number of buffers of a port: two cycles of a full network.
pub(crate) const BUFFERS: usize = 1024;

/// Opens a port for POWERLINK on an interface of `namespace`. It does not confirm transmissions: response times of a
/// controlled node on it are without driver.
///
/// # Errors
/// As [`onbeat_link::open`].
pub fn open(backend: Backend, namespace: &Namespace, interface: &str) -> Result<Box<dyn Port>> {
    onbeat_link::open(backend, namespace, interface, options(false, &[]))
}

/// Options of a port that receives `others` besides POWERLINK, and confirms transmissions if
/// `confirm`. It does not spin: a node's thread has a real-time policy by default, and
/// would block its CPU.
pub(crate) fn options(confirm: bool, others: &[EtherType]) -> PortOptions {
    PortOptions {
        ether_types: [&[EtherType::POWERLINK], others].concat(),
        receive_buffers: BUFFERS,
        confirm,
        // Each cycle has frames that wake the process: SoC and SoA.
        wake_when_answered: false,
        ..PortOptions::default()
    }
}

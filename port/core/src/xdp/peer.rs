//! Transmission to the peer of a veth.

use onbeat_netdev::{Handle, Namespace, xdp};

use super::abi::port_transmission;
use crate::{Result, Time};

/// Time between two queries of the driver's features.
const INTERVAL_NS: u64 = 250_000_000;

/// Whether a program on a veth can send frames to the peer.
///
/// It can while the peer runs NAPI, which the driver reports as a feature of this end (Linux 6.3). The driver drops
/// frames otherwise, without an error.
pub(super) struct VethPeer {
    handle: Handle,
    interface: String,
    next_query: Time,
    transmission: port_transmission,
}

impl VethPeer {
    pub(super) fn new(namespace: &Namespace, interface: &str) -> Result<Self> {
        Ok(Self {
            handle: Handle::in_namespace(namespace)?,
            interface: interface.to_owned(),
            next_query: Time(0),
            transmission: port_transmission::PORT_TRANSMIT_REDIRECT,
        })
    }

    /// Returns how the program must send, if this has changed or `now` is the first call; queries once per interval.
    pub(super) fn changed(&mut self, now: Time) -> Option<port_transmission> {
        if now < self.next_query {
            return None;
        }
        let first = self.next_query == Time(0);
        self.next_query = now.after(INTERVAL_NS);
        // An interface that was removed fails elsewhere; a kernel that does not report the feature may support it.
        let features = xdp::features(&self.handle, &self.interface).ok().flatten();
        let transmission = match features.is_none_or(|features| features.ndo_xmit) {
            true => port_transmission::PORT_TRANSMIT_REDIRECT,
            false => port_transmission::PORT_TRANSMIT_NONE,
        };
        if transmission == self.transmission && !first {
            return None;
        }
        self.transmission = transmission;
        let interface = &self.interface;
        if transmission == port_transmission::PORT_TRANSMIT_NONE {
            tracing::warn!(
                "{interface}: responses cannot be sent in the driver: the peer of this veth runs no NAPI; \
                 they are left to this process; to send them in the driver, in the peer's namespace: \
                 ethtool -K PEER gro on"
            );
        } else if !first {
            tracing::info!("{interface}: responses are sent in the driver: the peer runs NAPI");
        }
        Some(transmission)
    }
}

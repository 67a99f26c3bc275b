//! SDO over UDP at a controlled node.

use alloc::vec::Vec;
use core::net::SocketAddrV4;

use super::{Access, ControlledNode};
use crate::nmt::State;
use crate::od::profile;
use crate::sdo::{DatagramServer, parse_datagram, timeout_ns};

impl ControlledNode {
    /// Serves SDO over UDP, before the node is turned on: its host is on the IP network of the bus, and passes the
    /// datagrams of [`UDP_PORT`](crate::sdo::UDP_PORT).
    pub fn serve_datagrams(&mut self) {
        profile::add_feature(&mut self.od, profile::SDO_BY_UDP);
        self.datagrams = Some(DatagramServer::new(timeout_ns(&self.od)));
    }

    /// Handles a datagram of a peer.
    pub fn handle_datagram(&mut self, now_ns: u64, from: SocketAddrV4, datagram: &[u8]) {
        if !self.state.communicates() || self.state == State::NotActive {
            return;
        }
        let ControlledNode { od, events, datagrams, store, .. } = self;
        let (Some(datagrams), Some(sdo)) = (datagrams, parse_datagram(datagram)) else { return };
        let mut access = Access { od, events, store: store.as_mut() };
        datagrams.receive(now_ns, from, &sdo, &mut access);
        self.commanded_itself(now_ns, None);
    }

    /// Returns the next datagram to send. Call it after each call of the node.
    pub fn poll_datagram(&mut self) -> Option<(SocketAddrV4, Vec<u8>)> {
        self.datagrams.as_mut()?.poll()
    }
}

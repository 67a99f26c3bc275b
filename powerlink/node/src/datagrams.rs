//! The UDP sockets of a node's SDO server, at its address on the virtual Ethernet.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use onbeat_netdev::{Namespace, udp_socket};
use onbeat_powerlink::sdo::UDP_PORT;

use crate::Station;
use crate::error::StartError;

/// Maximum number of datagrams that are served in succession by each socket. A flood waits in the socket's buffer,
/// whose excess the kernel drops, while the node serves its bus.
const DATAGRAMS: usize = 4;

/// Octets of a datagram. Longer ones are truncated, and so no SDO frames.
const LONGEST: usize = 1500;

/// The sockets of a server.
#[derive(Debug)]
pub(crate) struct Datagrams {
    address: Ipv4Addr,
    /// Of the virtual Ethernet.
    bus: UdpSocket,
    /// Of the host's own programs, whose datagrams to its own address do not leave it. Other interfaces have no
    /// socket: the server is not reachable from other networks of the host.
    host: UdpSocket,
    buffer: Vec<u8>,
}

impl Datagrams {
    /// Opens the sockets of a node with this address on this interface.
    pub(crate) fn open(
        namespace: &Namespace,
        interface: &str,
        address: Ipv4Addr,
    ) -> Result<Self, StartError> {
        let local = SocketAddrV4::new(address, UDP_PORT);
        Ok(Datagrams {
            address,
            bus: udp_socket(namespace, interface, local)?,
            host: udp_socket(namespace, "lo", local)?,
            buffer: vec![0; LONGEST],
        })
    }

    /// Passes datagrams to the station and sends its own; returns whether there were any.
    pub(crate) fn serve(&mut self, now_ns: u64, station: &mut impl Station) -> bool {
        let mut served = false;
        for socket in [&self.bus, &self.host] {
            for _ in 0..DATAGRAMS {
                // An interface that is down receives nothing.
                let Ok((len, from)) = socket.recv_from(&mut self.buffer) else { break };
                if let SocketAddr::V4(from) = from {
                    station.handle_datagram(now_ns, from, &self.buffer[..len]);
                }
                served = true;
            }
        }
        while let Some((to, datagram)) = station.poll_datagram() {
            let socket = if *to.ip() == self.address { &self.host } else { &self.bus };
            // A datagram without room is sent again, as if it was lost.
            let _ = socket.send_to(&datagram, to);
            served = true;
        }
        served
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_netdev::{Handle, VethEnd};
    use onbeat_powerlink::Node;
    use onbeat_powerlink::cn::{Config, ControlledNode};
    use onbeat_powerlink::od::profile::{self, Identity};
    use onbeat_testing::{Feature, require_all};
    use onbeat_wire::MacAddress;
    use onbeat_wire::powerlink::NodeId;

    /// A node in BASIC_ETHERNET.
    fn node() -> ControlledNode {
        let objects = profile::controlled_node(&Identity::default(), 1).unwrap();
        let config = Config { node: NodeId(1), mac: MacAddress::default(), objects };
        let mut node = ControlledNode::new(config).unwrap();
        node.serve_datagrams();
        node.start(0);
        node.handle_deadline(node.next_deadline_ns().unwrap());
        node
    }

    /// However many datagrams wait, a turn handles a few of them, so that the node returns to its bus.
    #[test]
    fn a_turn_serves_a_bounded_number_of_datagrams() {
        if !require_all(&[Feature::Root, Feature::Veth]) {
            return;
        }
        let address = Ipv4Addr::new(192, 168, 100, 1);
        let namespace = Namespace::with_loopback().unwrap();
        let handle = Handle::in_namespace(&namespace).unwrap();
        handle.create_veth(&VethEnd::new("plk0"), &VethEnd::new("far")).unwrap();
        handle.add_address("plk0", address.into(), 24).unwrap();
        handle.set_up("plk0").unwrap();
        let mut datagrams = Datagrams::open(&namespace, "plk0", address).unwrap();
        let open = [6, 0, 0, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let bound = || (0..20).map(|_| UdpSocket::bind((address, 0)).unwrap()).collect();
        let peers: Vec<UdpSocket> = namespace.run(bound).unwrap();
        for peer in &peers {
            peer.set_nonblocking(true).unwrap();
            peer.send_to(&open, (address, UDP_PORT)).unwrap();
        }
        let mut node = node();
        for turn in 1..=peers.len().div_ceil(DATAGRAMS) {
            assert!(datagrams.serve(0, &mut node), "turn {turn}");
            let answers = peers.iter().filter(|peer| peer.peek(&mut [0; 64]).is_ok());
            assert_eq!(answers.count(), peers.len().min(turn.saturating_mul(4)), "turn {turn}");
        }
        assert!(!datagrams.serve(0, &mut node), "every datagram was served");
    }
}

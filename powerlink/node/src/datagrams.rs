//! The UDP sockets of a node's SDO server, at its address on the virtual Ethernet.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use onbeat_netdev::{Namespace, udp_socket};
use onbeat_powerlink::sdo::UDP_PORT;

use crate::Station;
use crate::error::StartError;

/// Maximum number of datagrams that are served in succession by each socket. A flood waits in the socket's buffer,
/// whose excess the kernel drops, while the node serves its bus. Their handling takes different times: none is taken
/// shortly before the node's next deadline.
const DATAGRAMS: usize = 4;

/// Time before the node's next deadline, in nanoseconds, during which no datagram is taken: more than the handling of
/// one takes.
const MARGIN_NS: u64 = 20_000;

/// Octets of a datagram: more than an SDO frame has. The rest of longer ones is ignored.
const LONGEST: usize = 1500;

/// Maximum number of addresses of the host that are known.
const ADDRESSES: usize = 64;

/// The sockets of a server.
#[derive(Debug)]
pub(crate) struct Datagrams {
    /// Addresses of the host: that of the node, and those from which its programs have sent.
    addresses: BTreeSet<Ipv4Addr>,
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
            addresses: BTreeSet::from([address]),
            bus: udp_socket(namespace, interface, local)?,
            host: udp_socket(namespace, "lo", local)?,
            buffer: vec![0; LONGEST],
        })
    }

    /// Its sockets.
    pub(crate) fn sockets(&self) -> [BorrowedFd<'_>; 2] {
        [self.bus.as_fd(), self.host.as_fd()]
    }

    /// Passes datagrams to the station and sends its own; returns whether there were any.
    pub(crate) fn serve(&mut self, now_ns: u64, station: &mut impl Station) -> bool {
        let mut served = false;
        let begun = Instant::now();
        let now_ns = || {
            let spent_ns = begun.elapsed().as_nanos();
            now_ns.saturating_add(u64::try_from(spent_ns).unwrap_or(u64::MAX))
        };
        for (socket, is_host) in [(&self.bus, false), (&self.host, true)] {
            for _ in 0..DATAGRAMS {
                let latest_ns = now_ns().saturating_add(MARGIN_NS);
                if station.next_deadline_ns().is_some_and(|deadline| deadline <= latest_ns) {
                    break;
                }
                // An interface that is down receives nothing.
                let Ok((len, from)) = socket.recv_from(&mut self.buffer) else { break };
                if let SocketAddr::V4(from) = from {
                    if is_host && self.addresses.len() < ADDRESSES {
                        self.addresses.insert(*from.ip());
                    }
                    station.handle_datagram(now_ns(), from, &self.buffer[..len]);
                }
                served = true;
            }
        }
        while let Some((to, datagram)) = station.poll_datagram() {
            let socket = if self.addresses.contains(to.ip()) { &self.host } else { &self.bus };
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

    const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 168, 100, 1);
    /// Another one of its host.
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 7);
    /// A request to open a connection.
    const OPEN: [u8; 16] = [6, 0, 0, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

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

    /// A node's interface with its address and another one of the host, and the sockets.
    fn open() -> (Namespace, Datagrams) {
        let namespace = Namespace::with_loopback().unwrap();
        let handle = Handle::in_namespace(&namespace).unwrap();
        handle.create_veth(&VethEnd::new("plk0"), &VethEnd::new("far")).unwrap();
        for address in [ADDRESS, OTHER] {
            handle.add_address("plk0", address.into(), 24).unwrap();
        }
        handle.set_up("plk0").unwrap();
        let datagrams = Datagrams::open(&namespace, "plk0", ADDRESS).unwrap();
        (namespace, datagrams)
    }

    /// Programs of the host that request a connection.
    fn peers(namespace: &Namespace, from: Ipv4Addr, count: usize) -> Vec<UdpSocket> {
        let bound = || (0..count).map(|_| UdpSocket::bind((from, 0)).unwrap()).collect();
        let peers: Vec<UdpSocket> = namespace.run(bound).unwrap();
        for peer in &peers {
            peer.set_nonblocking(true).unwrap();
            peer.send_to(&OPEN, (ADDRESS, UDP_PORT)).unwrap();
        }
        peers
    }

    fn answers(peers: &[UdpSocket]) -> usize {
        peers.iter().filter(|peer| peer.peek(&mut [0; 64]).is_ok()).count()
    }

    /// The answer leaves by the socket that received its request.
    #[test]
    fn a_program_with_another_address_of_the_host_is_answered() {
        if !require_all(&[Feature::Root, Feature::Veth]) {
            return;
        }
        let (namespace, mut datagrams) = open();
        let peers = peers(&namespace, OTHER, 1);
        assert!(datagrams.serve(0, &mut node()));
        assert_eq!(answers(&peers), 1);
    }

    #[test]
    fn no_datagram_is_taken_shortly_before_a_deadline() {
        if !require_all(&[Feature::Root, Feature::Veth]) {
            return;
        }
        let (namespace, mut datagrams) = open();
        let mut node = node();
        let first = peers(&namespace, ADDRESS, 1);
        assert!(datagrams.serve(0, &mut node));
        assert_eq!(answers(&first), 1);
        let deadline_ns = node.next_deadline_ns().expect("that of the connection");
        let second = peers(&namespace, ADDRESS, 1);
        assert!(!datagrams.serve(deadline_ns - MARGIN_NS, &mut node));
        assert_eq!(answers(&second), 0);
        assert!(datagrams.serve(0, &mut node));
        assert_eq!(answers(&second), 1);
    }

    /// However many datagrams wait, a turn handles a few of them, so that the node returns to its bus.
    #[test]
    fn a_turn_serves_a_bounded_number_of_datagrams() {
        if !require_all(&[Feature::Root, Feature::Veth]) {
            return;
        }
        let (namespace, mut datagrams) = open();
        let peers = peers(&namespace, ADDRESS, 20);
        let mut node = node();
        for turn in 1..=peers.len().div_ceil(DATAGRAMS) {
            assert!(datagrams.serve(0, &mut node), "turn {turn}");
            assert_eq!(answers(&peers), peers.len().min(turn.saturating_mul(4)), "turn {turn}");
        }
        assert!(!datagrams.serve(0, &mut node), "every datagram was served");
    }
}

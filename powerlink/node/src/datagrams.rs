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

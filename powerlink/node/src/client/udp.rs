//! A client over UDP.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use onbeat_powerlink::od::Abort;
use onbeat_powerlink::sdo::{
    Client, CompletedRequest, OutgoingFrame, Request, datagram, parse_datagram,
};
use onbeat_realtime::clock::now_ns;
use onbeat_wire::powerlink::NodeId;

use super::{ClientError, Transport};

/// Octets of a datagram.
const LONGEST: usize = 1500;

/// A client of a node at an address.
#[derive(Debug)]
pub(super) struct UdpClient {
    node: NodeId,
    address: SocketAddrV4,
    timeout_ns: u64,
    socket: UdpSocket,
    client: Client,
    out: VecDeque<OutgoingFrame>,
}

impl UdpClient {
    pub(super) fn open(
        node: NodeId,
        address: SocketAddrV4,
        timeout_ns: u64,
    ) -> Result<Self, ClientError> {
        let connect = || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect(address)?;
            Ok(socket)
        };
        let socket =
            connect().map_err(|source| ClientError::Unreachable { node, address, source })?;
        let (client, out) = (Client::new(timeout_ns), VecDeque::new());
        Ok(UdpClient { node, address, timeout_ns, socket, client, out })
    }

    fn send(&mut self) -> io::Result<()> {
        while let Some(frame) = self.out.pop_front() {
            self.socket.send(&datagram(&frame))?;
        }
        Ok(())
    }

    /// The next datagram, unless the client's deadline is before it.
    fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        let deadline_ns = self.client.next_deadline_ns().unwrap_or_default();
        let left_ns = deadline_ns.saturating_sub(now_ns());
        if left_ns == 0 {
            return Ok(None);
        }
        self.socket.set_read_timeout(Some(Duration::from_nanos(left_ns.max(1000))))?;
        let mut buffer = vec![0; LONGEST];
        match self.socket.recv(&mut buffer) {
            Ok(len) => {
                buffer.truncate(len);
                Ok(Some(buffer))
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            },
        }
    }

    fn failure(&self, source: io::Error) -> ClientError {
        let (node, address) = (self.node, self.address);
        match source.kind() {
            ErrorKind::ConnectionRefused => ClientError::NoServer { node, address },
            _ => ClientError::Unreachable { node, address, source },
        }
    }
}

impl Transport for UdpClient {
    fn execute(&mut self, request: Request) -> Result<CompletedRequest, ClientError> {
        self.client.request(now_ns(), request, &mut self.out);
        loop {
            self.send().map_err(|error| self.failure(error))?;
            let done = match self.receive().map_err(|error| self.failure(error))? {
                Some(datagram) => parse_datagram(&datagram)
                    .and_then(|sdo| self.client.receive(now_ns(), &sdo, &mut self.out)),
                None => self.client.handle_deadline(now_ns(), &mut self.out),
            };
            match done {
                None => {}
                // The peer aborts on its open connection.
                Some(done)
                    if done.result == Err(Abort::TIME_OUT) && !self.client.is_connected() =>
                {
                    if self.client.is_closed_by_peer() {
                        return Err(ClientError::Closed { node: self.node });
                    }
                    let (node, address) = (self.node, self.address);
                    let timeout_s = self.timeout_ns as f64 / 1e9;
                    return Err(ClientError::Silent { node, address, timeout_s });
                }
                Some(done) => {
                    self.send().map_err(|error| self.failure(error))?;
                    return Ok(done);
                }
            }
        }
    }

    fn close(&mut self) {
        self.client.close(&mut self.out);
        let _ = self.send();
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::thread::{self, JoinHandle};

    use onbeat_powerlink::Node;
    use onbeat_powerlink::cn::{Config, ControlledNode};
    use onbeat_powerlink::od::profile::{
        CONTROLLED_NODE_FEATURES, FEATURES, Identity, NMT_STATE, controlled_node,
    };
    use onbeat_wire::MacAddress;
    use onbeat_wire::powerlink::{CommandId, Connection, Segmentation};

    use super::super::ObjectClient;
    use super::*;

    /// The message of a server that closes a connection.
    const CLOSE: [u8; 16] = [6, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    /// A server in BASIC_ETHERNET that closes its connection instead of executing the first command of this kind.
    /// It ends when its client closes; the result is the kinds of the commands.
    fn server(
        closes: Option<CommandId>,
    ) -> (SocketAddrV4, JoinHandle<Vec<(CommandId, Segmentation)>>) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let SocketAddr::V4(address) = socket.local_addr().unwrap() else { unreachable!() };
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let identity = Identity { features: CONTROLLED_NODE_FEATURES, ..Identity::default() };
        let objects = controlled_node(&identity, 1).unwrap();
        let config = Config { node: NodeId(1), mac: MacAddress::default(), objects };
        let mut node = ControlledNode::new(config).unwrap();
        node.serve_datagrams();
        node.start(0);
        let now_ns = node.next_deadline_ns().unwrap();
        node.handle_deadline(now_ns);
        let serve = move || {
            let (mut closes, mut commands, mut buffer) = (closes, Vec::new(), [0; LONGEST]);
            loop {
                let (len, from) = socket.recv_from(&mut buffer).expect("the client closes");
                let SocketAddr::V4(peer) = from else { unreachable!() };
                let sdo = parse_datagram(&buffer[..len]).expect("a client sends SDO frames");
                if sdo.sequence.send.connection == Connection::None {
                    return commands;
                }
                if let Some(command) = sdo.command {
                    commands.push((command.command, command.segmentation));
                    if closes.take_if(|closes| *closes == command.command).is_some() {
                        socket.send_to(&CLOSE, from).unwrap();
                        continue;
                    }
                }
                node.handle_datagram(now_ns, peer, &buffer[..len]);
                while let Some((to, datagram)) = node.poll_datagram() {
                    socket.send_to(&datagram, to).unwrap();
                }
            }
        };
        (address, thread::spawn(serve))
    }

    fn client(address: SocketAddrV4) -> ObjectClient {
        let client = UdpClient::open(NodeId(1), address, 60_000_000_000).unwrap();
        ObjectClient(Box::new(client))
    }

    #[test]
    fn a_read_is_repeated_on_another_connection() {
        let (address, server) = server(Some(CommandId::READ_BY_INDEX));
        let mut client = client(address);
        let read = client.read(&[NMT_STATE]).unwrap();
        assert!(matches!(&read[..], [Ok(state)] if state.len() == 1), "{read:?}");
        drop(client);
        let read = (CommandId::READ_BY_INDEX, Segmentation::Expedited);
        assert_eq!(server.join().unwrap(), [read, read]);
    }

    #[test]
    fn a_write_on_a_closed_connection_is_not_repeated() {
        let (address, server) = server(Some(CommandId::WRITE_BY_INDEX));
        let mut client = client(address);
        let written = client.write(NMT_STATE, &[0]);
        assert!(matches!(written, Err(ClientError::Closed { node: NodeId(1) })), "{written:?}");
        assert!(client.read(&[NMT_STATE]).is_ok(), "the next request opens a connection");
        drop(client);
        assert_eq!(server.join().unwrap().len(), 2);
    }

    #[test]
    fn the_host_of_another_node_is_refused() {
        let (address, server) = server(None);
        let mut client = client(address);
        client.check_node(NodeId(1), Ipv4Addr::LOCALHOST).unwrap();
        let other = client.check_node(NodeId(2), Ipv4Addr::LOCALHOST).unwrap_err();
        let text = "node 2 was addressed, but the host at 127.0.0.1 answers as node 1; use this id, or the address of node 2";
        assert_eq!(other.to_string(), text);
        drop(client);
        assert_eq!(server.join().unwrap().len(), 2);
    }

    /// The reference stack does not answer requests of several segments.
    #[test]
    fn many_objects_are_read_by_requests_of_one_segment() {
        let (address, server) = server(None);
        let mut client = client(address);
        let objects = [NMT_STATE, FEATURES].repeat(65);
        let read = client.read(&objects).unwrap();
        assert_eq!(read.len(), 130);
        for values in read.chunks(2) {
            assert!(
                matches!(values, [Ok(state), Ok(features)] if (state.len(), features.len()) == (1, 4))
            );
        }
        drop(client);
        let multiple = (CommandId::READ_MULTIPLE_BY_INDEX, Segmentation::Expedited);
        let commands = server.join().unwrap();
        assert_eq!(commands.iter().filter(|command| **command == multiple).count(), 3);
        assert!(commands.iter().all(|(_, kind)| *kind == Segmentation::Expedited), "{commands:?}");
    }
}

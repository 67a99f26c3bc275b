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

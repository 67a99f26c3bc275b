//! SDO over UDP (EPSG DS 301, 6.3.2.2): a datagram is the ASnd message of an SDO frame, without Ethernet header
//! and node ids. A peer is known by its address and port.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddrV4;

use onbeat_wire::powerlink::{Body, Message, NodeId, Sdo, Service};

use super::{Objects, OutgoingFrame, Server};

/// The UDP port of SDO servers.
pub const UDP_PORT: u16 = 3819;

/// The octets of a frame of a connection.
pub fn datagram(frame: &OutgoingFrame) -> Vec<u8> {
    let body = Body::Asnd(Service::Sdo(frame.sdo()));
    let message = Message { destination: NodeId::NONE, source: NodeId::NONE, body };
    let mut octets = alloc::vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("the buffer has the length of the message");
    octets
}

/// The SDO frame of a datagram; `None` if it is another message, or truncated.
pub fn parse_datagram(octets: &[u8]) -> Option<Sdo<'_>> {
    match Message::parse(octets).ok()?.body {
        Body::Asnd(Service::Sdo(sdo)) => Some(sdo),
        _ => None,
    }
}

/// A server for peers on the IP network. Its connections are its own, so that none is taken from nodes on the
/// bus. With all of them in use, a new peer replaces a silent one; of those that are not open yet, one of the host with
/// the most.
#[derive(Debug)]
pub(crate) struct DatagramServer {
    server: Server<SocketAddrV4>,
    out: VecDeque<(SocketAddrV4, Vec<u8>)>,
}

impl DatagramServer {
    /// As [`Server::new`].
    pub(crate) fn new(timeout_ns: u64) -> Self {
        DatagramServer { server: Server::new(timeout_ns), out: VecDeque::new() }
    }

    /// Removes all connections. Queued datagrams remain: the answer to the command that reset the node is among
    /// them, and precedes those of other connections.
    pub(crate) fn reset(&mut self, timeout_ns: u64) {
        self.server = Server::new(timeout_ns);
    }

    pub(crate) fn next_deadline_ns(&self) -> Option<u64> {
        self.server.next_deadline_ns()
    }

    /// Handles a datagram of a peer.
    pub(crate) fn receive(
        &mut self,
        now_ns: u64,
        from: SocketAddrV4,
        sdo: &Sdo<'_>,
        objects: &mut impl Objects,
    ) {
        let mut frames = VecDeque::new();
        self.server.receive(now_ns, from, sdo, objects, &mut frames);
        self.send(frames);
    }

    /// As [`Server::handle_deadline`].
    pub(crate) fn handle_deadline(&mut self, now_ns: u64) {
        if self.next_deadline_ns().is_some_and(|deadline| deadline <= now_ns) {
            let mut frames = VecDeque::new();
            self.server.handle_deadline(now_ns, &mut frames);
            self.send(frames);
        }
    }

    /// As [`Server::finish`].
    pub(crate) fn finish(&mut self, now_ns: u64, answer: Result<(), crate::od::Abort>) {
        let mut frames = VecDeque::new();
        self.server.finish(now_ns, answer, &mut frames);
        self.send(frames);
    }

    /// Whether a datagram to a peer is queued.
    pub(crate) fn has_queued(&self, peer: SocketAddrV4) -> bool {
        self.out.iter().any(|(to, _)| *to == peer)
    }

    /// Returns the next datagram to send.
    pub(crate) fn poll(&mut self) -> Option<(SocketAddrV4, Vec<u8>)> {
        self.out.pop_front()
    }

    fn send(&mut self, frames: VecDeque<(SocketAddrV4, OutgoingFrame)>) {
        self.out.extend(frames.iter().map(|(to, frame)| (*to, datagram(frame))));
    }
}

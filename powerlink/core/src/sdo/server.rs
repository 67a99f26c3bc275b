//! The server: peers read and write this node's objects (EPSG DS 301, 6.3.2.4).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use onbeat_wire::powerlink::{Command, CommandId, NodeId, Sdo};

use super::pdu::{Assembly, AssemblyStep, assemble};
use super::sequence::{Endpoint, Received};
use super::{OutgoingFrame, Pdu};
use crate::od::{Abort, ObjectId, id};

/// Maximum number of connections.
const CONNECTIONS: usize = 8;

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The object has the value.
    Done,
    /// [`Server::finish`] reports the result later: another operation must complete first.
    Later,
}

/// Access to objects for peers.
pub trait Objects {
    /// Reads an object.
    ///
    /// # Errors
    /// The object is not readable.
    fn read(&mut self, id: ObjectId) -> Result<Vec<u8>, Abort>;

    /// Writes an object.
    ///
    /// # Errors
    /// The object is not writable, or refuses the value.
    fn write(&mut self, id: ObjectId, value: &[u8]) -> Result<WriteOutcome, Abort>;
}

#[derive(Debug)]
struct Peer {
    endpoint: Endpoint,
    transfer: Option<Assembly>,
    /// The command with a deferred response, and its transaction.
    later: Option<(u8, CommandId)>,
}

/// Connections with peers.
#[derive(Debug)]
pub struct Server {
    peers: BTreeMap<NodeId, Peer>,
    timeout_ns: u64,
}

impl Server {
    /// A server without connections; `timeout_ns` is the time-out of new ones (0x1300).
    pub fn new(timeout_ns: u64) -> Self {
        Server { peers: BTreeMap::new(), timeout_ns }
    }

    /// The time of the next [`handle_deadline`](Self::handle_deadline).
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.peers.values().filter_map(|peer| peer.endpoint.next_deadline_ns()).min()
    }

    /// Handles a frame of a peer; responses are added to `out`.
    pub fn receive(
        &mut self,
        now_ns: u64,
        from: NodeId,
        sdo: &Sdo<'_>,
        objects: &mut impl Objects,
        out: &mut VecDeque<OutgoingFrame>,
    ) {
        if !self.peers.contains_key(&from) && self.peers.len() >= CONNECTIONS {
            return;
        }
        let timeout_ns = self.timeout_ns;
        let new = || Peer { endpoint: Endpoint::new(timeout_ns), transfer: None, later: None };
        let peer = self.peers.entry(from).or_insert_with(new);
        match peer.endpoint.receive(now_ns, sdo, out) {
            Received::Command(command) => peer.command(now_ns, &command, objects, out),
            Received::Opened => (peer.transfer, peer.later) = (None, None),
            Received::Nothing | Received::Closed => {}
        }
        if peer.endpoint.is_closed() {
            self.peers.remove(&from);
        }
    }

    /// Reports the result of a deferred operation. A peer that has closed its connection receives no answer.
    pub fn finish(
        &mut self,
        now_ns: u64,
        answer: Result<(), Abort>,
        out: &mut VecDeque<(NodeId, OutgoingFrame)>,
    ) {
        let mut frames = VecDeque::new();
        for (node, peer) in &mut self.peers {
            if let Some((transaction, id)) = peer.later.take() {
                let answer = answer.map(|()| Vec::new());
                peer.answer(now_ns, transaction, id, answer, &mut frames);
                out.extend(frames.drain(..).map(|frame| (*node, frame)));
            }
        }
    }

    /// Handles the deadline: repeats frames, and closes connections to silent peers.
    pub fn handle_deadline(&mut self, now_ns: u64, out: &mut VecDeque<(NodeId, OutgoingFrame)>) {
        let mut frames = VecDeque::new();
        self.peers.retain(|node, peer| {
            let _ = peer.endpoint.handle_deadline(now_ns, &mut frames);
            out.extend(frames.drain(..).map(|frame| (*node, frame)));
            !peer.endpoint.is_closed()
        });
    }
}

impl Peer {
    fn command(
        &mut self,
        now_ns: u64,
        command: &Command<'_>,
        objects: &mut impl Objects,
        out: &mut VecDeque<OutgoingFrame>,
    ) {
        if command.response {
            return;
        }
        if command.abort {
            (self.transfer, self.later) = (None, None);
            return self.endpoint.acknowledge(out);
        }
        let (transaction, id) = (command.transaction, command.command);
        let answer = match assemble(&mut self.transfer, command) {
            AssemblyStep::More => return self.endpoint.acknowledge(out),
            AssemblyStep::Whole(payload) => run(id, &payload, objects),
            AssemblyStep::Refused(abort) => Err(abort),
        };
        match answer {
            Ok(None) => {
                self.later = Some((transaction, id));
                self.endpoint.acknowledge(out);
            }
            Ok(Some(payload)) => self.answer(now_ns, transaction, id, Ok(payload), out),
            Err(abort) => self.answer(now_ns, transaction, id, Err(abort), out),
        }
    }

    fn answer(
        &mut self,
        now_ns: u64,
        transaction: u8,
        id: CommandId,
        answer: Result<Vec<u8>, Abort>,
        out: &mut VecDeque<OutgoingFrame>,
    ) {
        let responses = match answer {
            Ok(payload) => Pdu::segments(transaction, true, id, &payload),
            Err(abort) => Vec::from([Pdu::aborted(transaction, true, id, abort)]),
        };
        for response in responses {
            // The queue has room for a transfer.
            let taken = self.endpoint.send(now_ns, response, out);
            debug_assert!(taken || self.endpoint.is_closed());
        }
    }
}

/// Executes a command; returns the payload of its response, unless that is deferred.
fn run(
    command: CommandId,
    payload: &[u8],
    objects: &mut impl Objects,
) -> Result<Option<Vec<u8>>, Abort> {
    let [low, high, sub, _, value @ ..] = payload else { return Err(Abort::UNKNOWN_COMMAND) };
    let object = id(u16::from_le_bytes([*low, *high]), *sub);
    match command {
        CommandId::WRITE_BY_INDEX => Ok(match objects.write(object, value)? {
            WriteOutcome::Done => Some(Vec::new()),
            WriteOutcome::Later => None,
        }),
        CommandId::READ_BY_INDEX => objects.read(object).map(Some),
        _ => Err(Abort::UNKNOWN_COMMAND),
    }
}

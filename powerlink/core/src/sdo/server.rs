//! The server: peers read and write this node's objects (EPSG DS 301, 6.3.2.4).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::{Ipv4Addr, SocketAddrV4};

use onbeat_wire::powerlink::{Abort, Command, CommandId, Connection, NodeId, Sdo, Segmentation};

use super::OutgoingFrame;
use super::assembly::{AssembledCommand, Assembly, AssemblyStep, MAX_TRANSFER, assemble};
use super::multiple;
use super::sequence::{Endpoint, SequenceEvent};
use super::transfer::{MAX_SEGMENT, Transfer};
use crate::od::{ObjectId, id};

/// Maximum number of connections.
const CONNECTIONS: usize = 8;
/// Maximum octets of responses that wait for acknowledgements when a command is executed. More of them are from
/// commands that a peer sends without fetching the responses.
const MAX_BACKLOG: usize = 8 * MAX_SEGMENT;
/// How long an open connection without a transfer does not advance before a new peer can replace it.
const IDLE_NS: u64 = 1_000_000_000;
/// The same for one with a transfer.
const STALLED_NS: u64 = 5 * IDLE_NS;

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
    /// The object is not writable, or the value is invalid.
    fn write(&mut self, id: ObjectId, value: &[u8]) -> Result<WriteOutcome, Abort>;

    /// Checks whether a value of `len` octets can be written, before its octets arrive.
    ///
    /// # Errors
    /// The object is not writable, or refuses the length.
    fn check_write(&self, id: ObjectId, len: usize) -> Result<(), Abort>;
}

/// A command with a deferred response.
#[derive(Debug)]
struct DeferredCommand {
    transaction: u8,
    command: CommandId,
    /// The objects whose result is unknown.
    objects: Vec<ObjectId>,
    /// Of several objects, those that were not written.
    failures: Vec<(ObjectId, Abort)>,
}

/// The result of a command.
enum CommandOutcome {
    /// The payload of the response.
    Payload(Vec<u8>),
    /// Objects whose result is unknown, and those that were not written.
    Later(Vec<ObjectId>, Vec<(ObjectId, Abort)>),
}

#[derive(Debug)]
struct ConnectedPeer {
    endpoint: Endpoint,
    /// Time of the last frame that advanced it: opened it, was a command, or acknowledged a response.
    advanced_ns: u64,
    transfer: Option<Assembly>,
    /// The transfer that was refused, of which segments may follow.
    refused: Option<u8>,
    later: Option<DeferredCommand>,
}

/// The identification of a server's peer.
pub trait ServedPeer: Ord + Copy {
    /// The machine of the peer, which may be several peers.
    type Host: Eq;

    /// Returns the machine.
    fn host(self) -> Self::Host;
}

/// A node on the bus.
impl ServedPeer for NodeId {
    type Host = NodeId;

    fn host(self) -> NodeId {
        self
    }
}

/// A UDP socket.
impl ServedPeer for SocketAddrV4 {
    type Host = Ipv4Addr;

    fn host(self) -> Ipv4Addr {
        *self.ip()
    }
}

/// Connections with peers, each known by a `Peer`: the node id on the bus.
#[derive(Debug)]
pub struct Server<Peer = NodeId> {
    peers: BTreeMap<Peer, ConnectedPeer>,
    timeout_ns: u64,
}

impl<Peer: ServedPeer> Server<Peer> {
    /// A server without connections; `timeout_ns` is the timeout of new ones (0x1300).
    pub fn new(timeout_ns: u64) -> Self {
        Server { peers: BTreeMap::new(), timeout_ns }
    }

    /// The time of the next [`handle_deadline`](Self::handle_deadline).
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.peers.values().filter_map(|peer| peer.endpoint.next_deadline_ns()).min()
    }

    /// With all connections in use, closes one before a new peer opens its own: of those that did not open yet, one
    /// of the host with the most of them, so that a flood of one host replaces its own; else of those that
    /// have not advanced for a second, or for five within a transfer. Of several, the one that did not advance for the
    /// longest time. If there is none, the new peer is not served.
    fn make_room(
        &mut self,
        now_ns: u64,
        from: Peer,
        sdo: &Sdo<'_>,
        out: &mut VecDeque<(Peer, OutgoingFrame)>,
    ) {
        let opens = sdo.sequence.receive.connection == Connection::None
            && sdo.sequence.send.connection == Connection::Initialise;
        if !opens || self.peers.len() < CONNECTIONS || self.peers.contains_key(&from) {
            return;
        }
        let half_open = || self.peers.iter().filter(|(_, peer)| !peer.endpoint.is_open());
        let of_host =
            |key: &Peer| half_open().filter(|(other, _)| other.host() == key.host()).count();
        let replaceable = self.peers.iter().filter(|(_, peer)| peer.is_replaceable(now_ns));
        let replaced = replaceable.min_by_key(|(key, peer)| {
            let is_open = peer.endpoint.is_open();
            let others = if is_open { 0 } else { of_host(key) };
            (is_open, Reverse(others), peer.advanced_ns)
        });
        let Some(key) = replaced.map(|(key, _)| *key) else { return };
        if let Some(mut peer) = self.peers.remove(&key) {
            let mut frames = VecDeque::new();
            peer.endpoint.close(&mut frames);
            out.extend(frames.into_iter().map(|frame| (key, frame)));
        }
    }

    /// Handles a frame of a peer; responses, and what closes the connection of another one in its favor, are added to
    /// `out`.
    pub fn receive(
        &mut self,
        now_ns: u64,
        from: Peer,
        sdo: &Sdo<'_>,
        objects: &mut impl Objects,
        out: &mut VecDeque<(Peer, OutgoingFrame)>,
    ) {
        self.make_room(now_ns, from, sdo, out);
        if !self.peers.contains_key(&from) && self.peers.len() >= CONNECTIONS {
            return;
        }
        let endpoint = || Endpoint::new(self.timeout_ns);
        let new = || ConnectedPeer {
            endpoint: endpoint(),
            advanced_ns: now_ns,
            transfer: None,
            refused: None,
            later: None,
        };
        let peer = self.peers.entry(from).or_insert_with(new);
        let (unfinished, is_open) = (peer.endpoint.unfinished(), peer.endpoint.is_open());
        let mut frames = VecDeque::new();
        match peer.endpoint.receive(now_ns, sdo, &mut frames) {
            SequenceEvent::Command(command) => {
                peer.advanced_ns = now_ns;
                peer.command(now_ns, &command, objects, &mut frames);
            }
            SequenceEvent::Opened => (peer.transfer, peer.refused, peer.later) = (None, None, None),
            SequenceEvent::Nothing | SequenceEvent::Closed => {}
        }
        if peer.endpoint.unfinished() < unfinished || peer.endpoint.is_open() != is_open {
            peer.advanced_ns = now_ns;
        }
        if peer.endpoint.is_closed() {
            self.peers.remove(&from);
        }
        out.extend(frames.into_iter().map(|frame| (from, frame)));
    }

    /// Reports the result of deferred operations. A peer that has closed its connection receives no answer.
    pub fn finish(
        &mut self,
        now_ns: u64,
        answer: Result<(), Abort>,
        out: &mut VecDeque<(Peer, OutgoingFrame)>,
    ) {
        let mut frames = VecDeque::new();
        for (key, peer) in &mut self.peers {
            let Some(deferred) = peer.later.take() else { continue };
            let DeferredCommand { transaction, command, objects, mut failures } = deferred;
            let answer = match answer {
                Err(abort) if command == CommandId::WRITE_BY_INDEX => Err(abort),
                Err(abort) => {
                    failures.extend(objects.into_iter().map(|object| (object, abort)));
                    Ok(multiple::failures(&failures))
                }
                Ok(()) => Ok(multiple::failures(&failures)),
            };
            peer.answer(now_ns, transaction, command, answer, &mut frames);
            out.extend(frames.drain(..).map(|frame| (*key, frame)));
        }
    }

    /// Handles the deadline: repeats frames, and closes connections to silent peers.
    pub fn handle_deadline(&mut self, now_ns: u64, out: &mut VecDeque<(Peer, OutgoingFrame)>) {
        let mut frames = VecDeque::new();
        self.peers.retain(|key, peer| {
            let _ = peer.endpoint.handle_deadline(now_ns, &mut frames);
            out.extend(frames.drain(..).map(|frame| (*key, frame)));
            !peer.endpoint.is_closed()
        });
    }
}

impl ConnectedPeer {
    /// Whether another peer can have its connection.
    fn is_replaceable(&self, now_ns: u64) -> bool {
        let is_idle = self.transfer.is_none() && self.later.is_none() && self.endpoint.is_idle();
        let quiet_ns = now_ns.saturating_sub(self.advanced_ns);
        let has_stalled = self.later.is_none() && quiet_ns >= STALLED_NS;
        !self.endpoint.is_open() || is_idle && quiet_ns >= IDLE_NS || has_stalled
    }

    fn command(
        &mut self,
        now_ns: u64,
        command: &Command<'_>,
        objects: &mut impl Objects,
        out: &mut VecDeque<OutgoingFrame>,
    ) {
        let transaction = command.transaction;
        let further =
            matches!(command.segmentation, Segmentation::Segment | Segmentation::Complete);
        if command.response || further && self.refused == Some(transaction) {
            return self.endpoint.acknowledge_if_due(out);
        }
        if command.abort {
            self.aborted(transaction, out);
            return self.endpoint.acknowledge(out);
        }
        if command.command == CommandId::NIL {
            return self.endpoint.acknowledge_if_due(out);
        }
        self.refused = None;
        let answer = match self.assemble(command, objects) {
            AssemblyStep::More => return self.endpoint.acknowledge_if_due(out),
            AssemblyStep::Refused(abort) => {
                self.refused = Some(transaction);
                Err(abort)
            }
            AssemblyStep::Whole(_) if self.endpoint.backlog() > MAX_BACKLOG => {
                Err(Abort::OUT_OF_MEMORY)
            }
            AssemblyStep::Whole(whole) => run(command.command, &whole, objects),
        };
        match answer {
            Ok(CommandOutcome::Later(objects, failures)) => {
                let command = command.command;
                self.later = Some(DeferredCommand { transaction, command, objects, failures });
                self.endpoint.acknowledge(out);
            }
            Ok(CommandOutcome::Payload(payload)) => {
                self.answer(now_ns, transaction, command.command, Ok(payload), out);
            }
            Err(abort) => self.answer(now_ns, transaction, command.command, Err(abort), out),
        }
    }

    /// Adds a segment. The object of a long write is checked with the first one.
    fn assemble(&mut self, command: &Command<'_>, objects: &impl Objects) -> AssemblyStep {
        let step = assemble(&mut self.transfer, command);
        let written = command.object().filter(|_| command.command == CommandId::WRITE_BY_INDEX);
        if let (AssemblyStep::More, Some((index, sub)), Some(transfer)) =
            (&step, written, &self.transfer)
        {
            let len = transfer.total() - 4;
            if let Err(abort) = objects.check_write(id(index, sub), len) {
                self.transfer = None;
                return AssemblyStep::Refused(abort);
            }
        }
        step
    }

    /// Handles an abort by the peer.
    fn aborted(&mut self, transaction: u8, out: &mut VecDeque<OutgoingFrame>) {
        self.transfer.take_if(|transfer| transfer.is(transaction));
        self.later.take_if(|later| later.transaction == transaction);
        self.endpoint.cancel(transaction, out);
    }

    fn answer(
        &mut self,
        now_ns: u64,
        transaction: u8,
        id: CommandId,
        answer: Result<Vec<u8>, Abort>,
        out: &mut VecDeque<OutgoingFrame>,
    ) {
        let response = match answer {
            Ok(payload) => Transfer::response(transaction, id, payload),
            Err(abort) => Transfer::aborted(transaction, true, id, abort),
        };
        if !self.endpoint.send(now_ns, response, out) {
            // The peer sent many commands without an acknowledgement of responses.
            self.endpoint.close(out);
        }
    }
}

/// Executes a command.
fn run(
    command: CommandId,
    whole: &AssembledCommand,
    objects: &mut impl Objects,
) -> Result<CommandOutcome, Abort> {
    let payload = &whole.payload[..];
    match command {
        CommandId::WRITE_BY_INDEX => {
            let (object, value) = object(payload)?;
            Ok(match objects.write(object, value)? {
                WriteOutcome::Done => CommandOutcome::Payload(Vec::new()),
                WriteOutcome::Later => CommandOutcome::Later(Vec::from([object]), Vec::new()),
            })
        }
        CommandId::READ_BY_INDEX => objects.read(object(payload)?.0).map(CommandOutcome::Payload),
        CommandId::WRITE_MULTIPLE_BY_INDEX => write_multiple(whole, objects),
        CommandId::READ_MULTIPLE_BY_INDEX => read_multiple(whole, objects),
        _ => Err(Abort::UNKNOWN_COMMAND),
    }
}

/// The object of a request, and the octets after it.
fn object(payload: &[u8]) -> Result<(ObjectId, &[u8]), Abort> {
    let [low, high, sub, _, value @ ..] = payload else { return Err(Abort::TYPE) };
    Ok((id(u16::from_le_bytes([*low, *high]), *sub), value))
}

/// The objects of a request, which are not too many to be accessed in one turn of the node.
fn entries(
    command: CommandId,
    whole: &AssembledCommand,
) -> Result<Vec<multiple::Entry<'_>>, Abort> {
    let limit = multiple::MAX_OBJECTS;
    let entries = multiple::read(command, false, whole, limit + 1).ok_or(Abort::TYPE)?;
    if entries.len() > limit { Err(Abort::OUT_OF_MEMORY) } else { Ok(entries) }
}

fn write_multiple(
    whole: &AssembledCommand,
    objects: &mut impl Objects,
) -> Result<CommandOutcome, Abort> {
    let entries = entries(CommandId::WRITE_MULTIPLE_BY_INDEX, whole)?;
    let (mut later, mut failures) = (Vec::new(), Vec::new());
    for (object, value) in entries {
        match value.and_then(|value| objects.write(object, value)) {
            Ok(WriteOutcome::Done) => {}
            Ok(WriteOutcome::Later) => later.push(object),
            Err(abort) => failures.push((object, abort)),
        }
    }
    Ok(if later.is_empty() {
        CommandOutcome::Payload(multiple::failures(&failures))
    } else {
        CommandOutcome::Later(later, failures)
    })
}

fn read_multiple(
    whole: &AssembledCommand,
    objects: &mut impl Objects,
) -> Result<CommandOutcome, Abort> {
    // `None`: an earlier value had no room.
    let (mut room, mut values) = (Some(MAX_TRANSFER), Vec::new());
    for (object, _) in entries(CommandId::READ_MULTIPLE_BY_INDEX, whole)? {
        let value = room.ok_or(Abort::OUT_OF_MEMORY).and_then(|left| {
            let value = objects.read(object)?;
            room = left.checked_sub(value.len() + multiple::OVERHEAD);
            room.map(|_| value).ok_or(Abort::OUT_OF_MEMORY)
        });
        values.push((object, value));
    }
    let entries = values.iter().map(|(object, value)| {
        (*object, value.as_ref().map(Vec::as_slice).map_err(|abort| *abort))
    });
    Ok(CommandOutcome::Payload(multiple::values(true, entries)))
}

//! A client and a server, and a medium between them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use onbeat_powerlink::od::{Abort, ObjectId};
use onbeat_powerlink::sdo::{
    Client, CompletedRequest, Objects, OutgoingFrame, Request, Server, WriteOutcome,
};
use onbeat_wire::powerlink::{Body, Message, NodeId, Sdo, Service};

pub(super) const TIMEOUT_NS: u64 = 15_000_000_000;
pub(super) const CLIENT: NodeId = NodeId::MN;
pub(super) const SERVER: NodeId = NodeId(1);
/// An object whose new value takes effect later.
pub(super) const LATER: u16 = 0x1010;
/// An object that refuses every write, when it has all octets.
pub(super) const REFUSED: u16 = 0x1011;
/// An object that refuses every write before its octets arrive.
pub(super) const READ_ONLY: u16 = 0x1008;
/// Transfer time of a frame, and poll delay until the invite.
pub(super) const DELAY_NS: u64 = 1_000_000;

/// Objects with octets, which count their writes.
#[derive(Default)]
pub(super) struct ObjectStore {
    pub(super) values: BTreeMap<ObjectId, Vec<u8>>,
    pub(super) writes: Vec<(ObjectId, Vec<u8>)>,
}

impl Objects for ObjectStore {
    fn read(&mut self, id: ObjectId) -> Result<Vec<u8>, Abort> {
        self.values.get(&id).cloned().ok_or(Abort::NO_OBJECT)
    }

    fn write(&mut self, id: ObjectId, value: &[u8]) -> Result<WriteOutcome, Abort> {
        if id.index == REFUSED {
            return Err(Abort::NO_OBJECT);
        }
        self.writes.push((id, value.to_vec()));
        self.values.insert(id, value.to_vec());
        Ok(if id.index == LATER { WriteOutcome::Later } else { WriteOutcome::Done })
    }

    fn check_write(&self, id: ObjectId, _: usize) -> Result<(), Abort> {
        if id.index == READ_ONLY { Err(Abort::READ_ONLY) } else { Ok(()) }
    }
}

/// A frame on the medium, by time of arrival.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Transit {
    at_ns: u64,
    order: usize,
    to_server: bool,
    octets: Vec<u8>,
}

/// Delays of the received copies of a frame.
pub(super) type Fate = Vec<u64>;

/// Every frame arrives once.
pub(super) fn clean(_: usize) -> Fate {
    vec![DELAY_NS]
}

pub(super) struct Pair {
    pub(super) client: Client,
    pub(super) server: Server,
    pub(super) store: ObjectStore,
    pub(super) now_ns: u64,
    transit: BinaryHeap<Reverse<Transit>>,
    pub(super) done: Vec<CompletedRequest>,
    /// All frames, including lost ones; true for those to the server.
    pub(super) sent: Vec<(bool, Vec<u8>)>,
}

impl Pair {
    pub(super) fn new() -> Self {
        Pair {
            client: Client::new(TIMEOUT_NS),
            server: Server::new(TIMEOUT_NS),
            store: ObjectStore::default(),
            now_ns: 1,
            transit: BinaryHeap::new(),
            done: Vec::new(),
            sent: Vec::new(),
        }
    }

    pub(super) fn request(&mut self, request: Request) {
        let mut out = VecDeque::new();
        self.client.request(self.now_ns, request, &mut out);
        self.transmit(true, out, &mut clean);
    }

    /// Aborts the request in progress.
    pub(super) fn abort(&mut self, why: Abort) {
        let mut out = VecDeque::new();
        self.done.extend(self.client.abort(self.now_ns, why, &mut out));
        self.transmit(true, out, &mut clean);
    }

    /// Reports the result of deferred operations.
    pub(super) fn finish(&mut self, answer: Result<(), Abort>) {
        let mut out = VecDeque::new();
        self.server.finish(self.now_ns, answer, &mut out);
        let frames = out.into_iter().map(|(_, frame)| frame).collect();
        self.transmit(false, frames, &mut clean);
    }

    fn transmit(
        &mut self,
        to_server: bool,
        frames: VecDeque<OutgoingFrame>,
        fate: &mut dyn FnMut(usize) -> Fate,
    ) {
        for frame in frames {
            let octets = octets(to_server, frame.sdo());
            self.sent.push((to_server, octets.clone()));
            for (copy, delay_ns) in fate(self.sent.len()).into_iter().enumerate() {
                let (at_ns, order) = (self.now_ns + delay_ns, 2 * self.sent.len() + copy);
                let octets = octets.clone();
                self.transit.push(Reverse(Transit { at_ns, order, to_server, octets }));
            }
        }
    }

    /// Loses the frames in transit.
    pub(super) fn lose(&mut self) {
        self.transit.clear();
    }

    /// Runs until no request is pending and no frame is in transit, or for `limit_ns`.
    pub(super) fn run(&mut self, limit_ns: u64, fate: impl FnMut(usize) -> Fate) {
        let end_ns = self.now_ns + limit_ns;
        self.run_while(fate, |pair| {
            pair.now_ns < end_ns && !(pair.client.pending() == 0 && pair.transit.is_empty())
        });
    }

    /// Runs until no frame is in transit.
    pub(super) fn settle(&mut self) {
        self.run_while(clean, |pair| !pair.transit.is_empty());
    }

    /// Runs until `count` frames were sent.
    pub(super) fn run_to_frame(&mut self, count: usize) {
        self.run_while(clean, |pair| pair.sent.len() < count);
    }

    fn run_while(&mut self, mut fate: impl FnMut(usize) -> Fate, goes_on: impl Fn(&Pair) -> bool) {
        while goes_on(self) {
            let arrival = self.transit.peek().map(|Reverse(transit)| transit.at_ns);
            let deadlines = [self.client.next_deadline_ns(), self.server.next_deadline_ns()];
            let Some(next) = deadlines.into_iter().chain([arrival]).flatten().min() else { return };
            self.now_ns = self.now_ns.max(next);
            let (mut from_client, mut frames) = (VecDeque::new(), VecDeque::new());
            if arrival == Some(next) {
                let Reverse(Transit { to_server, octets, .. }) = self.transit.pop().unwrap();
                let sdo = sdo(&octets);
                if to_server {
                    let (server, store) = (&mut self.server, &mut self.store);
                    server.receive(self.now_ns, CLIENT, &sdo, store, &mut frames);
                } else {
                    self.done.extend(self.client.receive(self.now_ns, &sdo, &mut from_client));
                }
            } else {
                self.done.extend(self.client.handle_deadline(self.now_ns, &mut from_client));
                self.server.handle_deadline(self.now_ns, &mut frames);
            }
            let from_server = frames.into_iter().map(|(_, frame)| frame).collect();
            self.transmit(true, from_client, &mut fate);
            self.transmit(false, from_server, &mut fate);
        }
    }

    /// The results of all completed requests, and the number of opened connections.
    pub(super) fn results(&self) -> (Vec<Result<Vec<u8>, Abort>>, usize) {
        let opens = self.sent.iter().filter(|(to_server, octets)| {
            use onbeat_wire::powerlink::Connection::{Initialise, None};
            let sequence = sdo(octets).sequence;
            let opens = (sequence.receive.connection, sequence.send.connection);
            *to_server && opens == (None, Initialise)
        });
        (self.done.iter().map(|done| done.result.clone()).collect(), opens.count())
    }
}

/// The octets of a message.
fn octets(to_server: bool, sdo: Sdo<'_>) -> Vec<u8> {
    let (source, destination) = if to_server { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
    let message = Message { destination, source, body: Body::Asnd(Service::Sdo(sdo)) };
    let mut octets = vec![0xa5; message.buffer_len()];
    message.emit(&mut octets).unwrap();
    octets
}

/// The SDO frame of a message.
pub(super) fn sdo(octets: &[u8]) -> Sdo<'_> {
    match Message::parse(octets).unwrap().body {
        Body::Asnd(Service::Sdo(sdo)) => sdo,
        other => panic!("{other:?}"),
    }
}

/// A value of a length.
pub(super) fn value(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

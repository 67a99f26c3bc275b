//! SDO between a client and a server over a medium that loses, repeats and delays frames.

use std::collections::{BTreeMap, VecDeque};

use onbeat_powerlink::od::{Abort, ObjectId, id};
use onbeat_powerlink::sdo::{
    Client, CompletedRequest, Objects, OutgoingFrame, Request, Server, WriteOutcome,
};
use onbeat_wire::powerlink::NodeId;
use proptest::prelude::*;

const TIMEOUT_NS: u64 = 15_000_000_000;
const CLIENT: NodeId = NodeId::MN;
/// An object whose new value takes effect later.
const LATER: u16 = 0x1010;
/// Transfer time of a frame, and poll delay until the invite.
const DELAY_NS: u64 = 1_000_000;

/// Objects with octets, which count their writes.
#[derive(Default)]
struct ObjectStore {
    values: BTreeMap<ObjectId, Vec<u8>>,
    writes: Vec<(ObjectId, Vec<u8>)>,
}

impl Objects for ObjectStore {
    fn read(&mut self, id: ObjectId) -> Result<Vec<u8>, Abort> {
        self.values.get(&id).cloned().ok_or(Abort::NO_OBJECT)
    }

    fn write(&mut self, id: ObjectId, value: &[u8]) -> Result<WriteOutcome, Abort> {
        if id.index == 0x1011 {
            return Err(Abort::NO_OBJECT);
        }
        self.writes.push((id, value.to_vec()));
        self.values.insert(id, value.to_vec());
        Ok(if id.index == LATER { WriteOutcome::Later } else { WriteOutcome::Done })
    }
}

struct Pair {
    client: Client,
    server: Server,
    store: ObjectStore,
    now_ns: u64,
    /// Time of arrival; true for the server.
    under_way: VecDeque<(u64, bool, OutgoingFrame)>,
    done: Vec<CompletedRequest>,
    frames: usize,
}

impl Pair {
    fn new() -> Self {
        Pair {
            client: Client::new(TIMEOUT_NS),
            server: Server::new(TIMEOUT_NS),
            store: ObjectStore::default(),
            now_ns: 1,
            under_way: VecDeque::new(),
            done: Vec::new(),
            frames: 0,
        }
    }

    fn request(&mut self, request: Request) {
        let mut out = VecDeque::new();
        self.client.request(self.now_ns, request, &mut out);
        self.transmit(true, out, &mut |_| 1);
    }

    /// Transmits frames; `copies` is the number of received copies of each.
    fn transmit(
        &mut self,
        to_server: bool,
        frames: VecDeque<OutgoingFrame>,
        copies: &mut dyn FnMut(usize) -> usize,
    ) {
        for frame in frames {
            self.frames += 1;
            for _ in 0..copies(self.frames) {
                self.under_way.push_back((self.now_ns + DELAY_NS, to_server, frame.clone()));
            }
        }
    }

    /// Runs until no frame is in transit and no deadline is set, or for `limit_ns`.
    fn run(&mut self, limit_ns: u64, mut copies: impl FnMut(usize) -> usize) {
        let end = self.now_ns + limit_ns;
        while self.now_ns < end {
            let arrival = self.under_way.front().map(|(at, ..)| *at);
            let deadlines = [self.client.next_deadline_ns(), self.server.next_deadline_ns()];
            let Some(next) = deadlines.into_iter().chain([arrival]).flatten().min() else { return };
            self.now_ns = self.now_ns.max(next);
            let (mut from_client, mut from_server) = (VecDeque::new(), VecDeque::new());
            if arrival == Some(next) {
                let (_, to_server, frame) = self.under_way.pop_front().unwrap();
                let sdo = frame.sdo();
                if to_server {
                    let (server, store) = (&mut self.server, &mut self.store);
                    server.receive(self.now_ns, CLIENT, &sdo, store, &mut from_server);
                } else {
                    self.done.extend(self.client.receive(self.now_ns, &sdo, &mut from_client));
                }
            } else {
                self.done.extend(self.client.handle_deadline(self.now_ns, &mut from_client));
                let mut frames = VecDeque::new();
                self.server.handle_deadline(self.now_ns, &mut frames);
                from_server.extend(frames.into_iter().map(|(_, frame)| frame));
            }
            self.transmit(true, from_client, &mut copies);
            self.transmit(false, from_server, &mut copies);
            if self.client.pending() == 0 && self.under_way.is_empty() {
                return;
            }
        }
    }
}

impl Pair {
    /// Runs until no frame is in transit.
    fn settle(&mut self) {
        while !self.under_way.is_empty() {
            self.run(1, |_| 1);
        }
    }
}

fn value(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

#[test]
fn objects_of_every_length_are_written_and_read() {
    for len in [0, 1, 4, 252, 253, 256, 257, 1000, 5000, 100_000] {
        let (mut pair, object) = (Pair::new(), id(0x1f22, 1));
        pair.request(Request::Write(object, value(len)));
        pair.request(Request::Read(object));
        pair.run(60_000_000_000, |_| 1);
        assert_eq!(pair.done.len(), 2, "{len}");
        assert_eq!(pair.done[0].result, Ok(Vec::new()));
        assert_eq!(pair.done[1].result, Ok(value(len)), "{len}");
    }
}

#[test]
fn an_abort_has_its_code_and_ends_only_its_request() {
    let mut pair = Pair::new();
    let missing = id(0x1011, 1);
    pair.request(Request::Write(missing, b"load".to_vec()));
    pair.request(Request::Read(id(0x7000, 0)));
    pair.request(Request::Write(id(0x1006, 0), vec![1, 2, 3, 4]));
    pair.run(60_000_000_000, |_| 1);
    let results: Vec<_> = pair.done.iter().map(|done| done.result.clone()).collect();
    assert_eq!(results, [Err(Abort::NO_OBJECT), Err(Abort::NO_OBJECT), Ok(vec![])]);
    assert_eq!(pair.store.writes, [(id(0x1006, 0), vec![1, 2, 3, 4])]);
}

/// A slow command is acknowledged at once and answered when it is done; other commands of the connection do not
/// wait for it.
#[test]
fn a_response_can_be_deferred() {
    for answer in [Ok(()), Err(Abort::HARDWARE)] {
        let mut pair = Pair::new();
        pair.request(Request::Write(id(LATER, 1), b"save".to_vec()));
        pair.settle();
        assert_eq!((pair.done.len(), pair.store.writes.len()), (0, 1));
        let mut out = VecDeque::new();
        pair.server.finish(pair.now_ns, answer, &mut out);
        let frames = out.into_iter().map(|(_, frame)| frame).collect();
        pair.transmit(false, frames, &mut |_| 1);
        pair.settle();
        assert_eq!(pair.done.len(), 1, "{answer:?}");
        assert_eq!(pair.done[0].result, answer.map(|()| vec![]));
        let mut again = VecDeque::new();
        pair.server.finish(pair.now_ns, answer, &mut again);
        assert!(again.is_empty(), "answered once");
    }
}

#[test]
fn a_silent_peer_times_out() {
    let mut pair = Pair::new();
    pair.request(Request::Read(id(0x1000, 0)));
    pair.under_way.clear();
    let start = pair.now_ns;
    pair.run(10 * TIMEOUT_NS, |_| 0);
    assert_eq!(pair.done.len(), 1);
    assert_eq!(pair.done[0].result, Err(Abort::TIME_OUT));
    assert_eq!(pair.now_ns - start, TIMEOUT_NS);
}

#[test]
fn a_server_closes_the_connection_of_a_silent_peer() {
    let mut pair = Pair::new();
    pair.store.values.insert(id(0x1000, 0), value(2000));
    pair.request(Request::Read(id(0x1000, 0)));
    // Nothing from the client arrives after its request.
    pair.run(TIMEOUT_NS / 100, |_| 1);
    pair.under_way.clear();
    for _ in 0..10 {
        if let Some(deadline) = pair.server.next_deadline_ns() {
            pair.server.handle_deadline(deadline, &mut VecDeque::new());
        }
    }
    assert_eq!(pair.server.next_deadline_ns(), None, "no deadline is left");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Up to a third of all frames are lost or duplicated: each command is executed once and in order, and the
    /// client receives the actual result.
    #[test]
    fn lost_and_repeated_frames(
        fates in prop::collection::vec(0..9usize, 1..300),
        lens in prop::collection::vec(0..2000usize, 1..6),
    ) {
        let mut pair = Pair::new();
        for (sub, len) in lens.iter().enumerate() {
            let object = id(0x2000, sub as u8);
            pair.request(Request::Write(object, value(*len)));
            pair.request(Request::Read(object));
        }
        pair.run(3_600_000_000_000, |frame| match fates.get(frame) {
            Some(0..=1) => 0,
            Some(2) => 2,
            _ => 1,
        });
        // Lost frames are repeated, without growing numbers.
        let segments: usize = lens.iter().map(|len| 2 * len.div_ceil(256) + 2).sum();
        prop_assert!(pair.frames <= 30 * (segments + 4), "{} frames", pair.frames);
        let failed = pair.done.iter().position(|done| done.result.is_err());
        if failed.is_none() {
            prop_assert_eq!(pair.done.len(), 2 * lens.len());
        }
        for done in &pair.done[..failed.unwrap_or(pair.done.len())] {
            match &done.request {
                Request::Write(..) => prop_assert_eq!(&done.result, &Ok(Vec::new())),
                Request::Read(object) => {
                    let expected = value(lens[usize::from(object.sub)]);
                    prop_assert_eq!(&done.result, &Ok(expected));
                }
            }
        }
        let written: Vec<u8> = pair.store.writes.iter().map(|(object, _)| object.sub).collect();
        let in_order: Vec<u8> = (0..written.len() as u8).collect();
        prop_assert_eq!(written, in_order, "each object once, in order");
    }
}

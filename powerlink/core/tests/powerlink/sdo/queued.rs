//! Aborts of a client whose frames wait for their transmission: on the bus each needs an asynchronous phase.

use std::collections::VecDeque;

use onbeat_powerlink::od::{Abort, id};
use onbeat_powerlink::sdo::{Client, OutgoingFrame, Request, Server};

use super::pair::{CLIENT, ObjectStore, TIMEOUT_NS, value};

/// A client whose frames wait in a queue, and a server that answers at once.
struct Bus {
    client: Client,
    queue: VecDeque<OutgoingFrame>,
    server: Server,
    store: ObjectStore,
    results: Vec<Result<Vec<u8>, Abort>>,
}

impl Bus {
    fn new() -> Self {
        Bus {
            client: Client::new(TIMEOUT_NS),
            queue: VecDeque::new(),
            server: Server::new(TIMEOUT_NS),
            store: ObjectStore::default(),
            results: Vec::new(),
        }
    }

    fn request(&mut self, request: Request) {
        self.client.request(1, request, &mut self.queue);
    }

    fn abort(&mut self) {
        let done = self.client.abort(1, Abort::LOCAL, &mut self.queue);
        self.results.extend(done.map(|done| done.result));
    }

    /// Transmits a frame; returns the answers of the server.
    fn transmit(&mut self) -> VecDeque<OutgoingFrame> {
        let mut answers = VecDeque::new();
        if let Some(frame) = self.queue.pop_front() {
            self.server.receive(1, CLIENT, &frame.sdo(), &mut self.store, &mut answers);
        }
        answers.into_iter().map(|(_, frame)| frame).collect()
    }

    fn deliver(&mut self, answers: VecDeque<OutgoingFrame>) {
        for answer in answers {
            let done = self.client.receive(1, &answer.sdo(), &mut self.queue);
            self.results.extend(done.map(|done| done.result));
        }
    }

    /// Transmits frames until none is left, or `until` holds.
    fn run(&mut self, until: impl Fn(&Bus) -> bool) {
        for _ in 0..1000 {
            if self.queue.is_empty() || until(self) {
                return;
            }
            let answers = self.transmit();
            self.deliver(answers);
        }
        panic!("frames without end");
    }

    /// Queued segments of the first request, and queued aborts of it.
    fn queued(&self) -> (usize, usize) {
        let of_first = |abort: bool| {
            let commands = self.queue.iter().filter_map(|frame| frame.sdo().command);
            commands.filter(|command| command.transaction == 0 && command.abort == abort).count()
        };
        (of_first(false), of_first(true))
    }
}

#[test]
fn queued_segments_are_not_sent_after_an_abort() {
    for transmitted in 0..=4 {
        let mut bus = Bus::new();
        bus.request(Request::Write(id(0x2000, 0), value(5_000).into()));
        bus.run(|bus| bus.queued().0 == 4);
        // The window is full; some of it leaves, and its acknowledgements arrive later.
        let answers: Vec<_> = (0..transmitted).map(|_| bus.transmit()).collect();
        bus.abort();
        // With a full window it waits for an acknowledgement.
        let aborts = usize::from((1..4).contains(&transmitted));
        assert_eq!(bus.queued(), (0, aborts), "{transmitted}");
        bus.request(Request::Write(id(0x2100, 0), value(3_000).into()));
        answers.into_iter().for_each(|answers| bus.deliver(answers));
        bus.request(Request::Read(id(0x2100, 0)));
        bus.run(|_| false);
        assert_eq!(bus.results, [Err(Abort::LOCAL), Ok(vec![]), Ok(value(3_000))], "{transmitted}");
        assert_eq!(bus.store.writes, [(id(0x2100, 0), value(3_000))], "{transmitted}");
    }
}

/// A repeated frame may have left before: the peer knows its number.
#[test]
fn repeated_segments_are_aborted_at_the_peer() {
    let mut bus = Bus::new();
    bus.request(Request::Write(id(0x2000, 0), value(5_000).into()));
    bus.run(|bus| bus.queued().0 == 4);
    // All are lost.
    bus.queue.clear();
    let deadline_ns = bus.client.next_deadline_ns().unwrap();
    assert_eq!(bus.client.handle_deadline(deadline_ns, &mut bus.queue), None);
    assert_eq!(bus.queued(), (1, 0), "the first one is repeated");
    bus.abort();
    assert_eq!(bus.queued().0, 1);
    bus.request(Request::Write(id(0x2100, 0), value(3_000).into()));
    bus.run(|_| false);
    assert_eq!(bus.store.writes, [(id(0x2100, 0), value(3_000))]);
}

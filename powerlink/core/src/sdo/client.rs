//! The client: reads and writes a peer's objects in sequence (EPSG DS 301, 6.3.2.4).

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use onbeat_wire::powerlink::{Abort, Command, CommandId, Sdo, Segmentation};

use super::OutgoingFrame;
use super::assembly::{AssembledCommand, Assembly, AssemblyStep, assemble};
use super::multiple;
use super::sequence::{Endpoint, SequenceEvent};
use super::transfer::Transfer;
use crate::od::ObjectId;

/// An operation on objects of the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Reads an object.
    Read(ObjectId),
    /// Writes an object.
    Write(ObjectId, Arc<[u8]>),
    /// Reads several objects by one command, if the node has it (0x1F82, bit 15).
    ReadMultiple(Vec<ObjectId>),
    /// Writes several objects by one command, as before. The reference stack does not answer requests of more than
    /// one segment, 256 octets.
    WriteMultiple(Vec<(ObjectId, Arc<[u8]>)>),
}

impl Request {
    fn command(&self) -> CommandId {
        match self {
            Request::Read(_) => CommandId::READ_BY_INDEX,
            Request::Write(..) => CommandId::WRITE_BY_INDEX,
            Request::ReadMultiple(_) => CommandId::READ_MULTIPLE_BY_INDEX,
            Request::WriteMultiple(_) => CommandId::WRITE_MULTIPLE_BY_INDEX,
        }
    }

    /// The payload in two parts.
    fn payload(&self) -> (Vec<u8>, Arc<[u8]>) {
        match self {
            Request::Read(object) => (multiple::objects(&[*object]), Arc::default()),
            Request::Write(object, value) => (multiple::objects(&[*object]), Arc::clone(value)),
            Request::ReadMultiple(objects) => (multiple::objects(objects), Arc::default()),
            Request::WriteMultiple(values) => {
                let entries = values.iter().map(|(object, value)| (*object, Ok(&value[..])));
                (multiple::values(false, entries), Arc::default())
            }
        }
    }

    /// The results of several objects; `None`: the response is invalid.
    fn results(&self, response: &AssembledCommand) -> Option<Vec<Result<Vec<u8>, Abort>>> {
        let entries = multiple::read(self.command(), true, response, usize::MAX)?;
        match self {
            Request::Read(_) | Request::Write(..) => Some(Vec::new()),
            Request::ReadMultiple(objects) => {
                let same = entries.iter().map(|(object, _)| object).eq(objects);
                let values = entries.into_iter().map(|(_, result)| result.map(<[u8]>::to_vec));
                same.then(|| values.collect())
            }
            Request::WriteMultiple(values) => {
                let result = |object: &ObjectId| {
                    let failure = entries.iter().find(|(failed, _)| failed == object);
                    failure.map_or(Ok(&[][..]), |(_, failure)| *failure).map(<[u8]>::to_vec)
                };
                Some(values.iter().map(|(object, _)| result(object)).collect())
            }
        }
    }
}

/// A completed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedRequest {
    /// The request.
    pub request: Request,
    /// The value read; empty after a write, and for several objects.
    pub result: Result<Vec<u8>, Abort>,
    /// The results of several objects, in the order of the request.
    pub results: Vec<Result<Vec<u8>, Abort>>,
}

impl CompletedRequest {
    /// A request that failed.
    pub(crate) fn failed(request: Request, why: Abort) -> Self {
        CompletedRequest { request, result: Err(why), results: Vec::new() }
    }
}

/// Timeouts after which a request without progress fails, even though the peer sends frames: it may be busy for longer
/// than one.
const PATIENCE: u64 = 4;

/// How far the connection and the request in progress are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Progress {
    open: bool,
    /// What is left to send.
    unfinished: usize,
    /// Octets of the response.
    received: usize,
}

impl Progress {
    fn exceeds(self, former: Progress) -> bool {
        self.open && !former.open
            || self.unfinished < former.unfinished
            || self.received > former.received
    }
}

/// A connection to a peer.
#[derive(Debug)]
pub struct Client {
    endpoint: Endpoint,
    timeout_ns: u64,
    /// When the request in progress fails, unless it progresses.
    limit_ns: u64,
    /// The first one is in progress if `under_way` is set.
    requests: VecDeque<Request>,
    under_way: bool,
    transaction: u8,
    transfer: Option<Assembly>,
    closed_by_peer: bool,
}

impl Client {
    /// A client without a connection; `timeout_ns` is the timeout of the peer (0x1300).
    pub fn new(timeout_ns: u64) -> Self {
        Client {
            endpoint: Endpoint::new(timeout_ns),
            timeout_ns,
            limit_ns: u64::MAX,
            requests: VecDeque::new(),
            under_way: false,
            transaction: 0,
            transfer: None,
            closed_by_peer: false,
        }
    }

    /// Whether the connection is open, or requested.
    pub fn is_connected(&self) -> bool {
        !self.endpoint.is_closed()
    }

    /// Whether the peer closed the last connection, so that its request failed without a timeout.
    pub fn is_closed_by_peer(&self) -> bool {
        self.closed_by_peer
    }

    /// The number of requests that are not completed.
    pub fn pending(&self) -> usize {
        self.requests.len()
    }

    /// The time of the next [`handle_deadline`](Self::handle_deadline).
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let deadline = self.endpoint.next_deadline_ns()?;
        Some(if self.requests.is_empty() { deadline } else { deadline.min(self.limit_ns) })
    }

    fn progress(&self) -> Progress {
        Progress {
            open: self.endpoint.is_open(),
            unfinished: self.endpoint.unfinished(),
            received: self.transfer.as_ref().map_or(0, Assembly::received),
        }
    }

    /// Extends the time for the request in progress.
    fn extend(&mut self, now_ns: u64) {
        self.limit_ns = now_ns.saturating_add(self.timeout_ns.saturating_mul(PATIENCE));
    }

    /// Adds a request; opens the connection if there is none.
    pub fn request(&mut self, now_ns: u64, request: Request, out: &mut VecDeque<OutgoingFrame>) {
        if self.requests.is_empty() {
            self.extend(now_ns);
        }
        self.requests.push_back(request);
        if self.endpoint.is_closed() {
            self.under_way = false;
            self.transfer = None;
            self.transaction = 0;
            self.closed_by_peer = false;
            self.endpoint.open(now_ns, out);
        } else {
            self.start(now_ns, out);
        }
    }

    /// Aborts the request in progress, at the peer as well, and starts the next one. Frames of the request that are
    /// still in `out` are removed.
    pub fn abort(
        &mut self,
        now_ns: u64,
        why: Abort,
        out: &mut VecDeque<OutgoingFrame>,
    ) -> Option<CompletedRequest> {
        if self.under_way {
            self.abort_peer(now_ns, why, out);
        }
        let request = self.requests.pop_front()?;
        self.proceed(now_ns, out);
        Some(CompletedRequest::failed(request, why))
    }

    /// Removes the requests that are not completed.
    pub fn take_pending(&mut self) -> impl Iterator<Item = Request> + '_ {
        self.under_way = false;
        self.transfer = None;
        self.requests.drain(..)
    }

    /// Closes the connection and removes all requests.
    pub fn close(&mut self, out: &mut VecDeque<OutgoingFrame>) {
        self.endpoint.close(out);
        self.requests.clear();
        self.under_way = false;
    }

    /// Handles a frame of the peer; returns the request that it completes.
    pub fn receive(
        &mut self,
        now_ns: u64,
        sdo: &Sdo<'_>,
        out: &mut VecDeque<OutgoingFrame>,
    ) -> Option<CompletedRequest> {
        let former = self.progress();
        let completed = match self.endpoint.receive(now_ns, sdo, out) {
            SequenceEvent::Opened => {
                self.start(now_ns, out);
                None
            }
            SequenceEvent::Nothing => None,
            SequenceEvent::Closed => {
                self.closed_by_peer = true;
                self.fail(Abort::TIME_OUT)
            }
            SequenceEvent::Command(command) => self.response(now_ns, &command, out),
        };
        if completed.is_some() || self.progress().exceeds(former) {
            self.extend(now_ns);
        }
        completed
    }

    fn response(
        &mut self,
        now_ns: u64,
        command: &Command<'_>,
        out: &mut VecDeque<OutgoingFrame>,
    ) -> Option<CompletedRequest> {
        match command.segmentation {
            Segmentation::Expedited | Segmentation::Complete => self.endpoint.acknowledge(out),
            Segmentation::Initiate { .. } | Segmentation::Segment => {
                self.endpoint.acknowledge_if_due(out);
            }
        }
        let mine = command.response
            && command.transaction == self.transaction
            && (command.abort || command.command != CommandId::NIL);
        if !mine || !self.under_way {
            return None;
        }
        let requested = self.requests.front()?.command();
        let response = match command.abort_code() {
            Some(abort) => {
                self.endpoint.cancel(self.transaction, out);
                Err(abort)
            }
            // A response to another command has another meaning.
            None if command.command != requested => {
                self.abort_peer(now_ns, Abort::UNKNOWN_COMMAND, out);
                Err(Abort::UNKNOWN_COMMAND)
            }
            None => match assemble(&mut self.transfer, command) {
                AssemblyStep::More => return None,
                AssemblyStep::Whole(response) => Ok(response),
                AssemblyStep::Refused(abort) => {
                    self.abort_peer(now_ns, abort, out);
                    Err(abort)
                }
            },
        };
        let request = self.requests.pop_front()?;
        self.proceed(now_ns, out);
        Some(match response {
            Ok(response) => match (request.results(&response), &request) {
                (None, _) => CompletedRequest::failed(request, Abort::TYPE),
                (Some(results), Request::Read(_)) => {
                    CompletedRequest { request, result: Ok(response.payload), results }
                }
                (Some(results), _) => CompletedRequest { request, result: Ok(Vec::new()), results },
            },
            Err(abort) => CompletedRequest::failed(request, abort),
        })
    }

    /// Handles the deadline; aborts a request to a silent peer, or to one whose frames do not advance it.
    pub fn handle_deadline(
        &mut self,
        now_ns: u64,
        out: &mut VecDeque<OutgoingFrame>,
    ) -> Option<CompletedRequest> {
        if !self.requests.is_empty() && !self.endpoint.is_closed() && now_ns >= self.limit_ns {
            self.abort_peer(now_ns, Abort::TIME_OUT, out);
            self.endpoint.close(out);
            return self.fail(Abort::TIME_OUT);
        }
        match self.endpoint.handle_deadline(now_ns, out) {
            SequenceEvent::Closed => self.fail(Abort::TIME_OUT),
            _ => None,
        }
    }

    fn fail(&mut self, abort: Abort) -> Option<CompletedRequest> {
        self.under_way = false;
        self.transfer = None;
        let request = self.requests.pop_front()?;
        Some(CompletedRequest::failed(request, abort))
    }

    /// Stops the transfer of the request in progress, in both directions.
    fn abort_peer(&mut self, now_ns: u64, why: Abort, out: &mut VecDeque<OutgoingFrame>) {
        let Some(request) = self.requests.front() else { return };
        if !self.endpoint.cancel(self.transaction, out) {
            return;
        }
        let aborted = Transfer::aborted(self.transaction, false, request.command(), why);
        // A queue without room is that of a silent peer, whose connection is closed soon.
        let _ = self.endpoint.send(now_ns, aborted, out);
    }

    /// Starts the next request after one is complete.
    fn proceed(&mut self, now_ns: u64, out: &mut VecDeque<OutgoingFrame>) {
        if core::mem::take(&mut self.under_way) {
            self.transaction = self.transaction.wrapping_add(1);
        }
        self.transfer = None;
        self.start(now_ns, out);
    }

    /// Sends the next request, unless one is in progress, or the connection is not open yet.
    fn start(&mut self, now_ns: u64, out: &mut VecDeque<OutgoingFrame>) {
        if self.under_way || self.endpoint.is_closed() {
            return;
        }
        let Some(request) = self.requests.front() else { return };
        let (head, data) = request.payload();
        let transfer = Transfer::request(self.transaction, request.command(), head, data);
        self.under_way = true;
        // See `abort_peer`.
        let _ = self.endpoint.send(now_ns, transfer, out);
    }
}

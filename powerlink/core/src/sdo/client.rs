//! The client: reads and writes a peer's objects in sequence (EPSG DS 301, 6.3.2.4).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use onbeat_wire::powerlink::{CommandId, Sdo};

use super::pdu::{Assembly, AssemblyStep, assemble};
use super::sequence::{Endpoint, Received};
use super::{OutgoingFrame, Pdu};
use crate::od::{Abort, ObjectId};

/// An operation on an object of the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Read it.
    Read(ObjectId),
    /// Write it.
    Write(ObjectId, Vec<u8>),
}

/// A completed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedRequest {
    /// The request.
    pub request: Request,
    /// The value read; empty after a write.
    pub result: Result<Vec<u8>, Abort>,
}

/// A connection to a peer.
#[derive(Debug)]
pub struct Client {
    endpoint: Endpoint,
    /// The first one is in progress if `under_way` is set.
    requests: VecDeque<Request>,
    under_way: bool,
    transaction: u8,
    transfer: Option<Assembly>,
}

impl Client {
    /// A client without a connection; `timeout_ns` is the time-out of the peer (0x1300).
    pub fn new(timeout_ns: u64) -> Self {
        Client {
            endpoint: Endpoint::new(timeout_ns),
            requests: VecDeque::new(),
            under_way: false,
            transaction: 0,
            transfer: None,
        }
    }

    /// The number of requests that are not completed.
    pub fn pending(&self) -> usize {
        self.requests.len()
    }

    /// The time of the next [`handle_deadline`](Self::handle_deadline).
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.endpoint.next_deadline_ns()
    }

    /// Adds a request; opens the connection if there is none.
    pub fn request(&mut self, now_ns: u64, request: Request, out: &mut VecDeque<OutgoingFrame>) {
        self.requests.push_back(request);
        if self.endpoint.is_closed() {
            self.under_way = false;
            self.transfer = None;
            self.transaction = 0;
            self.endpoint.open(now_ns, out);
        } else {
            self.start(now_ns, out);
        }
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
        match self.endpoint.receive(now_ns, sdo, out) {
            Received::Opened => {
                self.start(now_ns, out);
                None
            }
            Received::Nothing => None,
            Received::Closed => self.fail(Abort::TIME_OUT),
            Received::Command(command) => {
                self.endpoint.acknowledge(out);
                let mine = command.response && command.transaction == self.transaction;
                if !mine || !self.under_way {
                    return None;
                }
                let result = match command.abort_code() {
                    Some(code) => Err(Abort(code)),
                    None => match assemble(&mut self.transfer, &command) {
                        AssemblyStep::More => return None,
                        AssemblyStep::Whole(payload) => Ok(payload),
                        AssemblyStep::Refused(abort) => Err(abort),
                    },
                };
                let request = self.requests.pop_front()?;
                self.under_way = false;
                self.transaction = self.transaction.wrapping_add(1);
                self.start(now_ns, out);
                Some(CompletedRequest { request, result })
            }
        }
    }

    /// Handles the deadline; aborts a request to a silent peer.
    pub fn handle_deadline(
        &mut self,
        now_ns: u64,
        out: &mut VecDeque<OutgoingFrame>,
    ) -> Option<CompletedRequest> {
        match self.endpoint.handle_deadline(now_ns, out) {
            Received::Closed => self.fail(Abort::TIME_OUT),
            _ => None,
        }
    }

    fn fail(&mut self, abort: Abort) -> Option<CompletedRequest> {
        self.under_way = false;
        self.transfer = None;
        let request = self.requests.pop_front()?;
        Some(CompletedRequest { request, result: Err(abort) })
    }

    /// Sends the next request, unless one is in progress.
    fn start(&mut self, now_ns: u64, out: &mut VecDeque<OutgoingFrame>) {
        if self.under_way {
            return;
        }
        let (id, value, command) = match self.requests.front() {
            Some(Request::Read(id)) => (*id, &[][..], CommandId::READ_BY_INDEX),
            Some(Request::Write(id, value)) => (*id, &value[..], CommandId::WRITE_BY_INDEX),
            None => return,
        };
        let [low, high] = id.index.to_le_bytes();
        let payload = [&[low, high, id.sub, 0], value].concat();
        self.under_way = true;
        for pdu in Pdu::segments(self.transaction, false, command, &payload) {
            let taken = self.endpoint.send(now_ns, pdu, out);
            debug_assert!(taken, "the queue has room for a transfer, and the connection is open");
        }
    }
}

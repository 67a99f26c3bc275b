//! The client: reads and writes a peer's objects, one after the other (EPSG DS 301, 6.3.2.4).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use onbeat_wire::powerlink::{CommandId, Sdo};

use super::pdu::{Assembled, Assembly, assemble};
use super::sequence::{Endpoint, Received};
use super::{Outgoing, Pdu};
use crate::od::{Abort, ObjectId};

/// What is to be done with an object of the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Read it.
    Read(ObjectId),
    /// Write it.
    Write(ObjectId, Vec<u8>),
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The request.
    pub request: Request,
    /// The value read; nothing where it was written.
    pub result: Result<Vec<u8>, Abort>,
}

/// A connection to a peer.
#[derive(Debug)]
pub struct Client {
    endpoint: Endpoint,
    /// The first of them is under way where `under_way` says so.
    requests: VecDeque<Request>,
    under_way: bool,
    transaction: u8,
    transfer: Option<Assembly>,
}

impl Client {
    /// A client without a connection; the peer is given `timeout_ns` (0x1300).
    pub fn new(timeout_ns: u64) -> Self {
        Client {
            endpoint: Endpoint::new(timeout_ns),
            requests: VecDeque::new(),
            under_way: false,
            transaction: 0,
            transfer: None,
        }
    }

    /// Requests that are not done.
    pub fn pending(&self) -> usize {
        self.requests.len()
    }

    /// When [`handle_deadline`](Self::handle_deadline) has something to do.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.endpoint.next_deadline_ns()
    }

    /// Adds a request; opens the connection where there is none.
    pub fn request(&mut self, now_ns: u64, request: Request, out: &mut VecDeque<Outgoing>) {
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

    /// Takes away the requests that are not done.
    pub fn take_pending(&mut self) -> impl Iterator<Item = Request> + '_ {
        self.under_way = false;
        self.transfer = None;
        self.requests.drain(..)
    }

    /// Closes the connection and forgets all requests.
    pub fn close(&mut self, out: &mut VecDeque<Outgoing>) {
        self.endpoint.close(out);
        self.requests.clear();
        self.under_way = false;
    }

    /// A frame of the peer; a request that it ends is returned.
    pub fn receive(
        &mut self,
        now_ns: u64,
        sdo: &Sdo<'_>,
        out: &mut VecDeque<Outgoing>,
    ) -> Option<Done> {
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
                        Assembled::More => return None,
                        Assembled::Whole(payload) => Ok(payload),
                        Assembled::Refused(abort) => Err(abort),
                    },
                };
                let request = self.requests.pop_front()?;
                self.under_way = false;
                self.transaction = self.transaction.wrapping_add(1);
                self.start(now_ns, out);
                Some(Done { request, result })
            }
        }
    }

    /// The time has come; a request of a peer that is silent is given up.
    pub fn handle_deadline(&mut self, now_ns: u64, out: &mut VecDeque<Outgoing>) -> Option<Done> {
        match self.endpoint.handle_deadline(now_ns, out) {
            Received::Closed => self.fail(Abort::TIME_OUT),
            _ => None,
        }
    }

    fn fail(&mut self, abort: Abort) -> Option<Done> {
        self.under_way = false;
        self.transfer = None;
        let request = self.requests.pop_front()?;
        Some(Done { request, result: Err(abort) })
    }

    /// Sends the next request, unless one is under way.
    fn start(&mut self, now_ns: u64, out: &mut VecDeque<Outgoing>) {
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
            debug_assert!(taken, "a transfer fits what may wait, and the connection is open");
        }
    }
}

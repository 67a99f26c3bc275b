//! The sequence layer: commands in order, each once, over frames that may be lost (EPSG DS 301,
//! 6.3.2.3).

use alloc::collections::VecDeque;

use onbeat_wire::powerlink::{Command, Connection, MAX_SEQUENCE, Sdo, Sequence, SequenceCount};

use super::{Outgoing, Pdu};

/// Frames under way without an acknowledgement.
const WINDOW: usize = 4;
/// How often an acknowledgement is asked for before the peer is given up.
const PROBES: u8 = 2;
/// Commands that wait for the window; a transfer in all its segments.
const WAITING: usize = super::MAX_TRANSFER / super::MAX_SEGMENT + 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    /// Client: asked to open.
    Asking,
    /// Server: was asked, and answered.
    Answered,
    /// Client: the server answered, and was told that its answer came.
    Acknowledged,
    Open,
}

/// What a frame means to who uses the connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// Nothing to do.
    Nothing,
    /// A command, the next in order.
    Command(Command<'a>),
    /// The connection is open from now on.
    Opened,
    /// The peer closed.
    Closed,
}

/// One end of a connection.
#[derive(Debug, Clone)]
pub struct Endpoint {
    state: State,
    /// Number of the last command sent.
    sent: u8,
    /// Number of the last command received in order.
    received: u8,
    /// Sent, oldest first.
    unacknowledged: VecDeque<(u8, Pdu)>,
    /// Not sent yet.
    waiting: VecDeque<Pdu>,
    timeout_ns: u64,
    /// When to ask again for what was not answered, or to forget a peer that is silent.
    deadline_ns: Option<u64>,
    probes: u8,
    /// The peer was told that frames are missing. It is told once: each frame behind a gap would
    /// have it repeat all the others, and so on.
    complained: bool,
}

impl Endpoint {
    /// An end without a connection. What is not answered is sent again after a third of
    /// `timeout_ns`; after all of it, a peer that says nothing is forgotten (0x1300).
    pub fn new(timeout_ns: u64) -> Self {
        Endpoint {
            state: State::Closed,
            sent: 0,
            received: 0,
            unacknowledged: VecDeque::new(),
            waiting: VecDeque::new(),
            timeout_ns,
            deadline_ns: None,
            probes: 0,
            complained: false,
        }
    }

    /// Whether there is no connection.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether everything sent was acknowledged.
    pub fn is_idle(&self) -> bool {
        self.unacknowledged.is_empty() && self.waiting.is_empty()
    }

    /// When [`handle_deadline`](Self::handle_deadline) has something to do.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.deadline_ns
    }

    /// Asks the peer for a connection.
    pub fn open(&mut self, now_ns: u64, out: &mut VecDeque<Outgoing>) {
        *self = Endpoint { state: State::Asking, ..Endpoint::new(self.timeout_ns) };
        out.push_back(self.frame(Connection::None, Connection::Initialise, None));
        self.arm(now_ns);
    }

    /// Ends the connection.
    pub fn close(&mut self, out: &mut VecDeque<Outgoing>) {
        if !self.is_closed() {
            out.push_back(self.frame(Connection::None, Connection::None, None));
        }
        *self = Endpoint::new(self.timeout_ns);
    }

    /// Sends a command, at once or when the peer has acknowledged others; whether it was taken,
    /// which takes a connection and room.
    pub fn send(&mut self, now_ns: u64, pdu: Pdu, out: &mut VecDeque<Outgoing>) -> bool {
        if self.is_closed() || self.waiting.len() >= WAITING {
            return false;
        }
        self.waiting.push_back(pdu);
        self.flush(now_ns, out);
        true
    }

    /// Says that commands came, where no response says so.
    pub fn acknowledge(&mut self, out: &mut VecDeque<Outgoing>) {
        out.push_back(self.frame(Connection::Valid, Connection::Valid, None));
    }

    /// A frame of the peer.
    pub fn receive<'a>(
        &mut self,
        now_ns: u64,
        sdo: &Sdo<'a>,
        out: &mut VecDeque<Outgoing>,
    ) -> Received<'a> {
        use Connection::{Initialise, None, Valid, ValidAcknowledge};
        let Sequence { receive, send } = sdo.sequence;
        match (self.state, receive.connection, send.connection) {
            // A server is asked, whatever was before.
            (_, None, Initialise) => {
                *self = Endpoint {
                    state: State::Answered,
                    received: send.number,
                    ..Endpoint::new(self.timeout_ns)
                };
                out.push_back(self.frame(Initialise, Initialise, Option::None));
                self.arm(now_ns);
                Received::Nothing
            }
            (State::Closed, ..) => Received::Nothing,
            (_, None, None) => {
                *self = Endpoint::new(self.timeout_ns);
                Received::Closed
            }
            // A client is answered; if what it says to that is lost, once more.
            (State::Asking | State::Acknowledged, Initialise, Initialise) => {
                self.state = State::Acknowledged;
                self.received = send.number;
                self.probes = 0;
                out.push_back(self.frame(Initialise, Valid, Option::None));
                self.arm(now_ns);
                Received::Nothing
            }
            (State::Answered | State::Open, Initialise, Valid) => {
                let opened = self.state == State::Answered;
                self.state = State::Open;
                self.probes = 0;
                out.push_back(self.frame(Valid, Valid, Option::None));
                self.arm(now_ns);
                if opened { Received::Opened } else { Received::Nothing }
            }
            (State::Acknowledged, Valid, Valid) => {
                self.state = State::Open;
                self.probes = 0;
                self.arm(now_ns);
                self.flush(now_ns, out);
                Received::Opened
            }
            (State::Open, Valid | ValidAcknowledge, Valid | ValidAcknowledge) => {
                self.receive_open(now_ns, sdo, out)
            }
            _ => Received::Nothing,
        }
    }

    fn receive_open<'a>(
        &mut self,
        now_ns: u64,
        sdo: &Sdo<'a>,
        out: &mut VecDeque<Outgoing>,
    ) -> Received<'a> {
        use Connection::{Valid, ValidAcknowledge};
        let Sequence { receive, send } = sdo.sequence;
        let before = self.unacknowledged.len();
        self.unacknowledged.retain(|(number, _)| !is_up_to(*number, receive.number));
        self.probes = 0;
        self.arm(now_ns);
        let said = out.len();
        if receive.connection == ValidAcknowledge {
            self.repeat(out);
        } else if self.unacknowledged.len() < before {
            self.flush(now_ns, out);
        }
        let received = match sdo.command {
            Some(command) if send.number == after(self.received) => {
                self.received = send.number;
                self.complained = false;
                Received::Command(command)
            }
            // Once more what came already: its acknowledgement was lost, or is under way.
            Some(_) if is_up_to(send.number, self.received) => {
                if out.len() == said {
                    self.acknowledge(out);
                }
                Received::Nothing
            }
            None if is_up_to(send.number, self.received) => Received::Nothing,
            // What is in between was lost.
            _ => {
                if !self.complained {
                    self.complained = true;
                    out.push_back(self.frame(ValidAcknowledge, Valid, None));
                }
                Received::Nothing
            }
        };
        let asked = send.connection == ValidAcknowledge;
        if asked && received == Received::Nothing && out.len() == said {
            self.acknowledge(out);
        }
        received
    }

    /// The time has come.
    pub fn handle_deadline(
        &mut self,
        now_ns: u64,
        out: &mut VecDeque<Outgoing>,
    ) -> Received<'static> {
        if self.deadline_ns.is_none_or(|deadline| now_ns < deadline) {
            return Received::Nothing;
        }
        let expects = self.state != State::Open || !self.unacknowledged.is_empty();
        if self.is_closed() || !expects || self.probes == PROBES {
            if expects {
                self.close(out);
            }
            *self = Endpoint::new(self.timeout_ns);
            return Received::Closed;
        }
        self.probes += 1;
        self.arm(now_ns);
        let frame = match (self.state, self.unacknowledged.front()) {
            (State::Open, Some((number, pdu))) => {
                let (number, pdu) = (*number, pdu.clone());
                self.numbered(number, Connection::Valid, Connection::ValidAcknowledge, Some(pdu))
            }
            (State::Acknowledged, _) => self.frame(Connection::Initialise, Connection::Valid, None),
            (State::Asking, _) => self.frame(Connection::None, Connection::Initialise, None),
            // A server waits for its client.
            _ => return Received::Nothing,
        };
        out.push_back(frame);
        Received::Nothing
    }

    /// Sends what waits, as far as the window goes.
    fn flush(&mut self, now_ns: u64, out: &mut VecDeque<Outgoing>) {
        while self.state == State::Open && self.unacknowledged.len() < WINDOW {
            let Some(pdu) = self.waiting.pop_front() else { break };
            self.sent = after(self.sent);
            // The last one of the window asks, so that the rest can follow.
            let last = self.unacknowledged.len() + 1 == WINDOW && !self.waiting.is_empty();
            let send = if last { Connection::ValidAcknowledge } else { Connection::Valid };
            out.push_back(self.numbered(self.sent, Connection::Valid, send, Some(pdu.clone())));
            self.unacknowledged.push_back((self.sent, pdu));
        }
        self.arm(now_ns);
    }

    /// Sends everything again that was not acknowledged.
    fn repeat(&mut self, out: &mut VecDeque<Outgoing>) {
        for (number, pdu) in &self.unacknowledged {
            let pdu = Some(pdu.clone());
            out.push_back(self.numbered(*number, Connection::Valid, Connection::Valid, pdu));
        }
    }

    fn arm(&mut self, now_ns: u64) {
        let answer = self.state != State::Open || !self.unacknowledged.is_empty();
        let after = if answer { self.timeout_ns / 3 } else { self.timeout_ns };
        self.deadline_ns = Some(now_ns.saturating_add(after));
    }

    fn frame(&self, receive: Connection, send: Connection, pdu: Option<Pdu>) -> Outgoing {
        self.numbered(self.sent, receive, send, pdu)
    }

    fn numbered(
        &self,
        number: u8,
        receive: Connection,
        send: Connection,
        pdu: Option<Pdu>,
    ) -> Outgoing {
        let receive = SequenceCount { number: self.received, connection: receive };
        let send = SequenceCount { number, connection: send };
        Outgoing { sequence: Sequence { receive, send }, pdu }
    }
}

/// The number after another.
const fn after(number: u8) -> u8 {
    number.wrapping_add(1) & MAX_SEQUENCE
}

/// Whether a number is at most another, of those that can be under way.
const fn is_up_to(number: u8, other: u8) -> bool {
    other.wrapping_sub(number) & MAX_SEQUENCE < 32
}

//! The sequence layer: transfers commands in order, each once, over a lossy medium (EPSG DS 301, 6.3.2.3).

use alloc::collections::VecDeque;

use onbeat_wire::powerlink::{Command, Connection, MAX_SEQUENCE, Sdo, Sequence, SequenceCount};

use super::{OutgoingFrame, Pdu};

/// Maximum number of unacknowledged frames.
const WINDOW: usize = 4;
/// Requests for an acknowledgement before the connection is closed.
const PROBES: u8 = 2;
/// Maximum number of queued commands: a transfer in all its segments.
const WAITING: usize = super::MAX_TRANSFER / super::MAX_SEGMENT + 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    /// Client: sent a request to open.
    Asking,
    /// Server: received a request, and answered.
    Answered,
    /// Client: acknowledged the server's answer.
    Acknowledged,
    Open,
}

/// The meaning of a frame for the command layer.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// No action.
    Nothing,
    /// A command, the next in order.
    Command(Command<'a>),
    /// The connection is now open.
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
    /// When to repeat an unanswered frame, or to close the connection to a silent peer.
    deadline_ns: Option<u64>,
    probes: u8,
    /// The peer was notified of a gap. This happens once: each frame after a gap would make it repeat all
    /// others.
    complained: bool,
}

impl Endpoint {
    /// An endpoint without a connection. Unanswered frames are repeated after a third of `timeout_ns`; after
    /// all of it, the connection to a silent peer is closed (0x1300).
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

    /// Whether all sent frames are acknowledged.
    pub fn is_idle(&self) -> bool {
        self.unacknowledged.is_empty() && self.waiting.is_empty()
    }

    /// The time of the next [`handle_deadline`](Self::handle_deadline).
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.deadline_ns
    }

    /// Requests a connection.
    pub fn open(&mut self, now_ns: u64, out: &mut VecDeque<OutgoingFrame>) {
        *self = Endpoint { state: State::Asking, ..Endpoint::new(self.timeout_ns) };
        out.push_back(self.frame(Connection::None, Connection::Initialise, None));
        self.arm(now_ns);
    }

    /// Closes the connection.
    pub fn close(&mut self, out: &mut VecDeque<OutgoingFrame>) {
        if !self.is_closed() {
            out.push_back(self.frame(Connection::None, Connection::None, None));
        }
        *self = Endpoint::new(self.timeout_ns);
    }

    /// Sends a command, at once or after acknowledgements of earlier ones; returns false without a connection
    /// or room.
    pub fn send(&mut self, now_ns: u64, pdu: Pdu, out: &mut VecDeque<OutgoingFrame>) -> bool {
        if self.is_closed() || self.waiting.len() >= WAITING {
            return false;
        }
        self.waiting.push_back(pdu);
        self.flush(now_ns, out);
        true
    }

    /// Acknowledges commands, if no response does.
    pub fn acknowledge(&mut self, out: &mut VecDeque<OutgoingFrame>) {
        out.push_back(self.frame(Connection::Valid, Connection::Valid, None));
    }

    /// Handles a frame of the peer.
    pub fn receive<'a>(
        &mut self,
        now_ns: u64,
        sdo: &Sdo<'a>,
        out: &mut VecDeque<OutgoingFrame>,
    ) -> Received<'a> {
        use Connection::{Initialise, None, Valid, ValidAcknowledge};
        let Sequence { receive, send } = sdo.sequence;
        match (self.state, receive.connection, send.connection) {
            // A request to open restarts the server's connection.
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
            // The client received the answer; if its acknowledgement is lost, it repeats it.
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
        out: &mut VecDeque<OutgoingFrame>,
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
            // A repeated frame: its acknowledgement was lost, or is on its way.
            Some(_) if is_up_to(send.number, self.received) => {
                if out.len() == said {
                    self.acknowledge(out);
                }
                Received::Nothing
            }
            None if is_up_to(send.number, self.received) => Received::Nothing,
            // The frames in between were lost.
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

    /// Handles the deadline.
    pub fn handle_deadline(
        &mut self,
        now_ns: u64,
        out: &mut VecDeque<OutgoingFrame>,
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

    /// Sends queued commands within the window.
    fn flush(&mut self, now_ns: u64, out: &mut VecDeque<OutgoingFrame>) {
        while self.state == State::Open && self.unacknowledged.len() < WINDOW {
            let Some(pdu) = self.waiting.pop_front() else { break };
            self.sent = after(self.sent);
            // The last one of the window requests an acknowledgement, so that the rest can follow.
            let last = self.unacknowledged.len() + 1 == WINDOW && !self.waiting.is_empty();
            let send = if last { Connection::ValidAcknowledge } else { Connection::Valid };
            out.push_back(self.numbered(self.sent, Connection::Valid, send, Some(pdu.clone())));
            self.unacknowledged.push_back((self.sent, pdu));
        }
        self.arm(now_ns);
    }

    /// Repeats all unacknowledged frames.
    fn repeat(&mut self, out: &mut VecDeque<OutgoingFrame>) {
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

    fn frame(&self, receive: Connection, send: Connection, pdu: Option<Pdu>) -> OutgoingFrame {
        self.numbered(self.sent, receive, send, pdu)
    }

    fn numbered(
        &self,
        number: u8,
        receive: Connection,
        send: Connection,
        pdu: Option<Pdu>,
    ) -> OutgoingFrame {
        let receive = SequenceCount { number: self.received, connection: receive };
        let send = SequenceCount { number, connection: send };
        OutgoingFrame { sequence: Sequence { receive, send }, pdu }
    }
}

/// The successor of a number.
const fn after(number: u8) -> u8 {
    number.wrapping_add(1) & MAX_SEQUENCE
}

/// Whether a number is at most another one, within the window.
const fn is_up_to(number: u8, other: u8) -> bool {
    other.wrapping_sub(number) & MAX_SEQUENCE < 32
}

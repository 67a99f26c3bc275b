//! The sequence layer: transfers commands in order, each once, over a lossy medium (EPSG DS 301, 6.3.2.3).

use alloc::collections::VecDeque;

use onbeat_wire::powerlink::{
    Command, Connection, MAX_SEQUENCE, Sdo, Segmentation, Sequence, SequenceCount,
};

use super::transfer::Transfer;
use super::{OutgoingFrame, Pdu};

/// Maximum number of unacknowledged frames, as of the reference stack. Neither end sends more before an
/// acknowledgement, which therefore follows this many frames. One for each frame would be out of date on arrival,
/// and the reference stack repeats its oldest frame for each such one.
const WINDOW: usize = 4;
/// Requests for an acknowledgement before the connection is closed.
const PROBES: u8 = 2;
/// Maximum number of queued transfers.
const QUEUED: usize = 64;

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
pub(super) enum SequenceEvent<'a> {
    /// No action.
    Nothing,
    /// A command, the next in order.
    Command(Command<'a>),
    /// The connection is now open.
    Opened,
    /// The peer closed.
    Closed,
}

/// A command that the peer has not acknowledged.
#[derive(Debug, Clone)]
struct UnacknowledgedCommand {
    number: u8,
    pdu: Pdu,
    /// Frames with it: the first one, and repeated ones.
    frames: usize,
}

/// One end of a connection.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    state: State,
    /// Number of the last command sent.
    sent: u8,
    /// Number of the last command received in order.
    received: u8,
    /// Commands received since the last frame sent, which acknowledged those before.
    owed: usize,
    /// The peer requested an acknowledgement since then.
    requested: bool,
    /// Sent, oldest first.
    unacknowledged: VecDeque<UnacknowledgedCommand>,
    /// Not sent yet, or not all segments.
    waiting: VecDeque<Transfer>,
    timeout_ns: u64,
    /// When to repeat an unanswered frame, or to close the connection to a silent peer.
    deadline_ns: Option<u64>,
    probes: u8,
    /// Number of the last command received after a gap. The peer is notified of a gap once, and again when it
    /// has repeated its frames and the same one is missing: each notification makes it repeat all.
    gap: Option<u8>,
}

impl Endpoint {
    /// An endpoint without a connection. Unanswered frames are repeated after a third of `timeout_ns`; after
    /// all of it, the connection to a silent peer is closed (0x1300).
    pub(super) fn new(timeout_ns: u64) -> Self {
        Endpoint {
            state: State::Closed,
            sent: 0,
            received: 0,
            owed: 0,
            requested: false,
            unacknowledged: VecDeque::new(),
            waiting: VecDeque::new(),
            timeout_ns,
            deadline_ns: None,
            probes: 0,
            gap: None,
        }
    }

    /// Whether there is no connection.
    pub(super) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether both ends have opened the connection.
    pub(super) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Whether the peer has acknowledged every command.
    pub(super) fn is_idle(&self) -> bool {
        self.unacknowledged.is_empty() && self.waiting.is_empty()
    }

    /// Octets of payload that are not sent yet.
    pub(super) fn backlog(&self) -> usize {
        self.waiting.iter().map(Transfer::remaining).sum()
    }

    /// What is left to send: the payload that is not sent yet, and the frames that are not acknowledged.
    pub(super) fn unfinished(&self) -> usize {
        self.backlog() + self.unacknowledged.len()
    }

    /// The time of the next [`handle_deadline`](Self::handle_deadline).
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        self.deadline_ns
    }

    /// Requests a connection.
    pub(super) fn open(&mut self, now_ns: u64, out: &mut VecDeque<OutgoingFrame>) {
        *self = Endpoint { state: State::Asking, ..Endpoint::new(self.timeout_ns) };
        self.push(Connection::None, Connection::Initialise, out);
        self.arm(now_ns);
    }

    /// Closes the connection.
    pub(super) fn close(&mut self, out: &mut VecDeque<OutgoingFrame>) {
        if !self.is_closed() {
            self.push(Connection::None, Connection::None, out);
        }
        *self = Endpoint::new(self.timeout_ns);
    }

    /// Sends a command, at once or after acknowledgements of earlier ones; returns false without a connection
    /// or room.
    pub(super) fn send(
        &mut self,
        now_ns: u64,
        transfer: Transfer,
        out: &mut VecDeque<OutgoingFrame>,
    ) -> bool {
        if self.is_closed() || self.waiting.len() >= QUEUED {
            return false;
        }
        self.waiting.push_back(transfer);
        self.flush(now_ns, out);
        true
    }

    /// Removes the segments of a transfer that are not sent yet, and those that wait in `out` for their transmission;
    /// returns whether any was sent.
    pub(super) fn cancel(&mut self, transaction: u8, out: &mut VecDeque<OutgoingFrame>) -> bool {
        let is_it = |transfer: &Transfer| transfer.transaction == transaction;
        let mut unsent =
            self.waiting.iter().any(|transfer| is_it(transfer) && transfer.is_unsent());
        self.waiting.retain(|transfer| !is_it(transfer));
        let before = self.sent;
        // The last one first: numbers have no gap.
        while let Some(last) = self.unacknowledged.back() {
            let has_it = |frame: &OutgoingFrame| {
                frame.sequence.send.number == last.number && frame.pdu.as_ref() == Some(&last.pdu)
            };
            let queued = out.iter().filter(|frame| has_it(frame)).count();
            if last.pdu.transaction != transaction || queued < last.frames {
                break;
            }
            out.retain(|frame| !has_it(frame));
            unsent |= matches!(
                last.pdu.segmentation,
                Segmentation::Expedited | Segmentation::Initiate { .. }
            );
            self.sent = last.number.wrapping_sub(1) & MAX_SEQUENCE;
            self.unacknowledged.pop_back();
        }
        if self.sent != before {
            // Frames without a command have the number of the last one.
            for frame in out.iter_mut().filter(|frame| frame.pdu.is_none()) {
                let send = &mut frame.sequence.send;
                if !is_up_to(send.number, self.sent) {
                    send.number = self.sent;
                }
            }
            // The removed frames acknowledged what was received.
            self.requested = true;
        }
        !unsent
    }

    /// Acknowledges the received commands.
    pub(super) fn acknowledge(&mut self, out: &mut VecDeque<OutgoingFrame>) {
        self.push(Connection::Valid, Connection::Valid, out);
    }

    /// The same, if no frame did that was sent since, and the peer requests it or cannot send more without.
    pub(super) fn acknowledge_if_due(&mut self, out: &mut VecDeque<OutgoingFrame>) {
        if self.requested || self.owed >= WINDOW {
            self.acknowledge(out);
        }
    }

    /// Handles a frame of the peer.
    pub(super) fn receive<'a>(
        &mut self,
        now_ns: u64,
        sdo: &Sdo<'a>,
        out: &mut VecDeque<OutgoingFrame>,
    ) -> SequenceEvent<'a> {
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
                self.push(Initialise, Initialise, out);
                self.arm(now_ns);
                SequenceEvent::Nothing
            }
            (State::Closed, ..) => SequenceEvent::Nothing,
            (_, None, None) => {
                *self = Endpoint::new(self.timeout_ns);
                SequenceEvent::Closed
            }
            // The client received the answer; if its acknowledgement is lost, it repeats it.
            (State::Asking | State::Acknowledged, Initialise, Initialise) => {
                self.state = State::Acknowledged;
                self.received = send.number;
                self.probes = 0;
                self.push(Initialise, Valid, out);
                self.arm(now_ns);
                SequenceEvent::Nothing
            }
            (State::Answered | State::Open, Initialise, Valid) => {
                let opened = self.state == State::Answered;
                self.state = State::Open;
                self.probes = 0;
                self.acknowledge(out);
                self.arm(now_ns);
                if opened { SequenceEvent::Opened } else { SequenceEvent::Nothing }
            }
            (State::Acknowledged, Valid, Valid) => {
                self.state = State::Open;
                self.probes = 0;
                self.arm(now_ns);
                self.flush(now_ns, out);
                SequenceEvent::Opened
            }
            (State::Open, Valid | ValidAcknowledge, Valid | ValidAcknowledge) => {
                self.receive_open(now_ns, sdo, out)
            }
            _ => SequenceEvent::Nothing,
        }
    }

    fn receive_open<'a>(
        &mut self,
        now_ns: u64,
        sdo: &Sdo<'a>,
        out: &mut VecDeque<OutgoingFrame>,
    ) -> SequenceEvent<'a> {
        use Connection::ValidAcknowledge;
        let Sequence { receive, send } = sdo.sequence;
        let before = self.unacknowledged.len();
        if is_up_to(receive.number, self.sent) {
            self.unacknowledged.retain(|sent| !is_up_to(sent.number, receive.number));
        }
        // Behind a timeout, frames that its answer does not acknowledge are lost.
        let probed = core::mem::take(&mut self.probes) > 0;
        self.arm(now_ns);
        if receive.connection == ValidAcknowledge || probed {
            self.repeat(out);
        }
        if self.unacknowledged.len() < before {
            self.flush(now_ns, out);
        }
        self.requested |= send.connection == ValidAcknowledge;
        let is_new = !is_up_to(send.number, self.received);
        if let Some(command) = sdo.command.filter(|_| send.number == after(self.received)) {
            self.received = send.number;
            self.gap = None;
            self.owed += 1;
            return SequenceEvent::Command(command);
        }
        if is_new {
            self.missing(sdo.command.is_some(), send.number, out);
        }
        self.acknowledge_if_due(out);
        SequenceEvent::Nothing
    }

    /// Handles a number whose frame, or one before, was lost.
    fn missing(&mut self, is_command: bool, number: u8, out: &mut VecDeque<OutgoingFrame>) {
        let repeated = |gap| is_command && is_up_to(number, gap);
        if self.gap.is_none_or(repeated) {
            self.push(Connection::ValidAcknowledge, Connection::Valid, out);
        }
        self.gap = Some(number);
    }

    /// Handles the deadline.
    pub(super) fn handle_deadline(
        &mut self,
        now_ns: u64,
        out: &mut VecDeque<OutgoingFrame>,
    ) -> SequenceEvent<'static> {
        if self.deadline_ns.is_none_or(|deadline| now_ns < deadline) {
            return SequenceEvent::Nothing;
        }
        let expects = self.state != State::Open || !self.unacknowledged.is_empty();
        if self.is_closed() || !expects || self.probes == PROBES {
            if expects {
                self.close(out);
            }
            *self = Endpoint::new(self.timeout_ns);
            return SequenceEvent::Closed;
        }
        self.probes += 1;
        self.arm(now_ns);
        match self.state {
            State::Open => self.push_unacknowledged(0, Connection::ValidAcknowledge, out),
            State::Acknowledged => self.push(Connection::Initialise, Connection::Valid, out),
            State::Asking => self.push(Connection::None, Connection::Initialise, out),
            // A server waits for its client.
            State::Answered | State::Closed => {}
        }
        SequenceEvent::Nothing
    }

    /// Sends queued commands within the window.
    fn flush(&mut self, now_ns: u64, out: &mut VecDeque<OutgoingFrame>) {
        while self.state == State::Open && self.unacknowledged.len() < WINDOW {
            let Some(transfer) = self.waiting.front_mut() else { break };
            let (pdu, last) = transfer.next_segment();
            if last {
                self.waiting.pop_front();
            }
            self.sent = after(self.sent);
            let command = UnacknowledgedCommand { number: self.sent, pdu, frames: 0 };
            self.unacknowledged.push_back(command);
            // The last one of the window requests an acknowledgement, so that the rest can follow.
            let full = self.unacknowledged.len() == WINDOW && !self.waiting.is_empty();
            let send = if full { Connection::ValidAcknowledge } else { Connection::Valid };
            self.push_unacknowledged(self.unacknowledged.len() - 1, send, out);
        }
        self.arm(now_ns);
    }

    /// Repeats all unacknowledged frames; the last requests an acknowledgement.
    fn repeat(&mut self, out: &mut VecDeque<OutgoingFrame>) {
        let count = self.unacknowledged.len();
        for place in 0..count {
            let last = place + 1 == count;
            let send = if last { Connection::ValidAcknowledge } else { Connection::Valid };
            self.push_unacknowledged(place, send, out);
        }
    }

    /// Sends an unacknowledged frame.
    fn push_unacknowledged(
        &mut self,
        place: usize,
        send: Connection,
        out: &mut VecDeque<OutgoingFrame>,
    ) {
        if let Some(command) = self.unacknowledged.get_mut(place) {
            command.frames += 1;
            let (number, pdu) = (command.number, command.pdu.clone());
            self.push_numbered(number, Connection::Valid, send, Some(pdu), out);
        }
    }

    fn arm(&mut self, now_ns: u64) {
        let answer = self.state != State::Open || !self.unacknowledged.is_empty();
        let after = if answer { self.timeout_ns / 3 } else { self.timeout_ns };
        self.deadline_ns = Some(now_ns.saturating_add(after));
    }

    /// Sends a frame without a command.
    fn push(&mut self, receive: Connection, send: Connection, out: &mut VecDeque<OutgoingFrame>) {
        self.push_numbered(self.sent, receive, send, None, out);
    }

    fn push_numbered(
        &mut self,
        number: u8,
        receive: Connection,
        send: Connection,
        pdu: Option<Pdu>,
        out: &mut VecDeque<OutgoingFrame>,
    ) {
        let receive = SequenceCount { number: self.received, connection: receive };
        let send = SequenceCount { number, connection: send };
        out.push_back(OutgoingFrame { sequence: Sequence { receive, send }, pdu });
        (self.owed, self.requested) = (0, false);
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

//! Frames of transfers with the reference stack, as observed.

use std::collections::VecDeque;

use onbeat_powerlink::od::{Abort, id};
use onbeat_powerlink::sdo::{Client, OutgoingFrame, Request, Server};
use onbeat_wire::powerlink::{
    Command, CommandId, Connection, Sdo, Segmentation, Sequence, SequenceCount,
};

use super::pair::{CLIENT, ObjectStore, TIMEOUT_NS, value};

use Connection::{Initialise, None as Closed, Valid, ValidAcknowledge};

/// A frame of the reference stack.
pub(super) fn frame<'a>(
    (receive, receive_con): (u8, Connection),
    (send, send_con): (u8, Connection),
    command: Option<Command<'a>>,
) -> Sdo<'a> {
    let receive = SequenceCount { number: receive, connection: receive_con };
    let send = SequenceCount { number: send, connection: send_con };
    Sdo { sequence: Sequence { receive, send }, command }
}

fn command(
    response: bool,
    command: CommandId,
    segmentation: Segmentation,
    payload: &[u8],
) -> Command<'_> {
    Command { transaction: 0, response, abort: false, segmentation, command, payload }
}

/// Numbers and states of a frame that was sent: acknowledged, request for an acknowledgement.
fn numbers(frame: &OutgoingFrame) -> (u8, Connection, u8, Connection) {
    let Sequence { receive, send } = frame.sequence;
    (receive.number, receive.connection, send.number, send.connection)
}

/// Segment size and DataSize of the frames with a command.
fn sizes(frames: &VecDeque<OutgoingFrame>) -> Vec<(usize, Option<u32>)> {
    let size = |frame: &OutgoingFrame| {
        let command = frame.sdo().command?;
        let data_size = match command.segmentation {
            Segmentation::Initiate { data_size } => Some(data_size),
            _ => None,
        };
        Some((command.segment_size(), data_size))
    };
    frames.iter().filter_map(size).collect()
}

/// A client with an open connection and a request; its frames.
pub(super) fn client(request: Request) -> (Client, VecDeque<OutgoingFrame>) {
    let (mut client, mut out) = (Client::new(TIMEOUT_NS), VecDeque::new());
    client.request(1, request, &mut out);
    for (receive, send) in [(Initialise, Initialise), (Valid, Valid)] {
        out.clear();
        client.receive(1, &frame((0, receive), (0, send), None), &mut out);
    }
    (client, out)
}

/// A server with an open connection.
pub(super) struct ServerNode {
    server: Server,
    pub(super) store: ObjectStore,
}

impl ServerNode {
    pub(super) fn new() -> Self {
        let mut new = ServerNode { server: Server::new(TIMEOUT_NS), store: ObjectStore::default() };
        new.receive(&frame((0, Closed), (0, Initialise), None));
        new.receive(&frame((0, Initialise), (0, Valid), None));
        new
    }

    pub(super) fn receive(&mut self, sdo: &Sdo<'_>) -> VecDeque<OutgoingFrame> {
        let mut out = VecDeque::new();
        self.server.receive(1, CLIENT, sdo, &mut self.store, &mut out);
        out.into_iter().map(|(_, frame)| frame).collect()
    }
}

#[test]
fn a_read_of_700_octets() {
    let mut serving = ServerNode::new();
    serving.store.values.insert(id(0x1f22, 1), value(700));
    let request =
        command(false, CommandId::READ_BY_INDEX, Segmentation::Expedited, &[0x22, 0x1f, 1, 0]);
    let out = serving.receive(&frame((0, Valid), (1, Valid), Some(request)));
    assert_eq!(sizes(&out), [(256, Some(704)), (256, None), (192, None)]);
}

#[test]
fn a_write_of_400_octets() {
    let (_, out) = client(Request::Write(id(0x1f22, 1), value(400).into()));
    assert_eq!(sizes(&out), [(256, Some(408)), (152, None)]);
}

/// The reference server repeats its unacknowledged frames with each new one, requests no acknowledgement until its
/// timeout, and sends four frames until then: an acknowledgement of each frame would make it repeat more, and
/// without one its window remains closed for 5 s.
#[test]
fn a_client_acknowledges_a_full_window_once() {
    let (mut client, _) = client(Request::Read(id(0x1f22, 1)));
    let octets = [1; 256];
    let segment = |n: u8| match n {
        1 => command(
            true,
            CommandId::READ_BY_INDEX,
            Segmentation::Initiate { data_size: 1536 },
            &octets[4..],
        ),
        6 => command(true, CommandId::READ_BY_INDEX, Segmentation::Complete, &octets),
        _ => command(true, CommandId::READ_BY_INDEX, Segmentation::Segment, &octets),
    };
    let (mut out, mut done) = (VecDeque::new(), None);
    for n in [1, 1, 2, 1, 2, 3, 1, 2, 3, 4, 5, 5, 6] {
        done = client.receive(1, &frame((1, Valid), (n, Valid), Some(segment(n))), &mut out);
    }
    let sent: Vec<_> = out.iter().map(numbers).collect();
    assert_eq!(sent, [(4, Valid, 1, Valid), (6, Valid, 1, Valid)]);
    assert_eq!(done.map(|done| done.result.map(|value| value.len())), Some(Ok(1532)));
}

/// The same in the other direction.
#[test]
fn a_server_acknowledges_a_full_window_once() {
    let mut serving = ServerNode::new();
    let payload = [&[0x22, 0x1f, 1, 0][..], &value(1016)].concat();
    let segment = |n: usize| {
        let (segmentation, octets) = match n {
            1 => (Segmentation::Initiate { data_size: 1024 }, &payload[..252]),
            n => (Segmentation::Segment, &payload[n * 256 - 260..(n * 256 - 4).min(1020)]),
        };
        command(false, CommandId::WRITE_BY_INDEX, segmentation, octets)
    };
    let mut sent = Vec::new();
    for n in [1, 2, 2, 3, 4] {
        let out = serving.receive(&frame((0, Valid), (n, Valid), Some(segment(n.into()))));
        sent.extend(out.iter().map(numbers));
    }
    assert_eq!(sent, [(4, Valid, 0, Valid)]);
    let last = command(false, CommandId::WRITE_BY_INDEX, Segmentation::Complete, &[]);
    let out = serving.receive(&frame((0, Valid), (5, Valid), Some(last)));
    assert_eq!(out.iter().map(numbers).collect::<Vec<_>>(), [(5, Valid, 1, Valid)]);
    assert_eq!(serving.store.writes, [(id(0x1f22, 1), value(1016))]);
}

/// The oldest frame again, with a request for an acknowledgement.
#[test]
fn a_repeated_frame_is_acknowledged_on_request() {
    let mut serving = ServerNode::new();
    let request =
        command(false, CommandId::READ_BY_INDEX, Segmentation::Expedited, &[0, 0x70, 0, 0]);
    let out = serving.receive(&frame((0, Valid), (1, Valid), Some(request)));
    assert_eq!(out[0].sdo().command.unwrap().abort_code(), Some(Abort::NO_OBJECT));
    assert!(serving.receive(&frame((0, Valid), (1, Valid), Some(request))).is_empty());
    let out = serving.receive(&frame((0, Valid), (1, ValidAcknowledge), Some(request)));
    assert_eq!(out.iter().map(numbers).collect::<Vec<_>>(), [(1, Valid, 1, Valid)]);
}

/// A gap is reported once, and the frames behind it are sent again.
#[test]
fn a_gap_is_reported_once() {
    let mut serving = ServerNode::new();
    let request =
        command(false, CommandId::READ_BY_INDEX, Segmentation::Expedited, &[0, 0x70, 0, 0]);
    let mut receive = |n| {
        let out = serving.receive(&frame((0, Valid), (n, Valid), Some(request)));
        out.iter().map(numbers).collect::<Vec<_>>()
    };
    assert_eq!(receive(2), [(0, ValidAcknowledge, 0, Valid)]);
    assert_eq!(receive(3), []);
    // The repeated frames: the first one is missing again.
    assert_eq!(receive(2), [(0, ValidAcknowledge, 0, Valid)]);
    assert_eq!(receive(3), []);
    assert_eq!(receive(1), [(1, Valid, 1, Valid)]);
    assert_eq!(receive(2), [(2, Valid, 2, Valid)]);
}

/// A request for a connection, on one that is open, aborts the transfer.
#[test]
fn a_new_connection_aborts_a_transfer() {
    let mut serving = ServerNode::new();
    let first = Segmentation::Initiate { data_size: 1024 };
    let payload = [&[0x22, 0x1f, 1, 0][..], &[0; 248]].concat();
    let part = |segmentation| command(false, CommandId::WRITE_BY_INDEX, segmentation, &payload);
    serving.receive(&frame((0, Valid), (1, Valid), Some(part(first))));
    serving.receive(&frame((0, Closed), (0, Initialise), None));
    serving.receive(&frame((0, Initialise), (0, Valid), None));
    let out = serving.receive(&frame((0, Valid), (1, Valid), Some(part(Segmentation::Segment))));
    assert_eq!(out[0].sdo().command.unwrap().abort_code(), Some(Abort::SEQUENCE));
}

#[test]
fn other_commands_are_refused() {
    let mut serving = ServerNode::new();
    for (n, id) in (1..).zip([3, 4, 5, 6, 0x20, 0x21, 0x70, 0x71, 0x80]) {
        let request = command(false, CommandId(id), Segmentation::Expedited, &[0, 0x10, 0, 0]);
        let out = serving.receive(&frame((n - 1, Valid), (n, Valid), Some(request)));
        let response = out[0].sdo().command.unwrap();
        assert_eq!(response.abort_code(), Some(Abort::UNKNOWN_COMMAND), "{id}");
        assert_eq!(response.command, CommandId(id));
    }
    let nil =
        Command { transaction: 1, ..command(false, CommandId::NIL, Segmentation::Expedited, &[]) };
    assert!(serving.receive(&frame((9, Valid), (10, Valid), Some(nil))).is_empty(), "no command");
}

/// Requests of long values in a row, without an acknowledgement of responses: memory is bounded.
#[test]
fn a_flood_of_requests_is_closed() {
    let mut serving = ServerNode::new();
    serving.store.values.insert(id(0x1f22, 1), value(1 << 20));
    let request =
        command(false, CommandId::READ_BY_INDEX, Segmentation::Expedited, &[0x22, 0x1f, 1, 0]);
    let mut sent = 0;
    for n in 1..=200 {
        let out = serving.receive(&frame((0, Valid), (n % 64, Valid), Some(request)));
        sent += out.iter().filter(|frame| frame.pdu.is_some()).count();
    }
    assert_eq!((sent, serving.server.next_deadline_ns()), (4, None));
}

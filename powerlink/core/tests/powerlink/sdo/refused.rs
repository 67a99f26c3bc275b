//! Responses that are not those of the request.

use std::collections::VecDeque;

use onbeat_powerlink::od::{Abort, id};
use onbeat_powerlink::sdo::{Client, CompletedRequest, OutgoingFrame, Request};
use onbeat_wire::powerlink::{
    Command, CommandId, Connection, Sdo, Segmentation, Sequence, SequenceCount,
};

use super::pair::TIMEOUT_NS;

/// A client with an open connection, and the frames that it sends.
struct Requester {
    client: Client,
    out: VecDeque<OutgoingFrame>,
    /// Of the last command of the server.
    number: u8,
}

impl Requester {
    fn new(request: Request) -> Self {
        use Connection::{Initialise, Valid};
        let (client, out) = (Client::new(TIMEOUT_NS), VecDeque::new());
        let mut requester = Requester { client, out, number: 0 };
        requester.client.request(0, request, &mut requester.out);
        for connection in [Initialise, Valid] {
            assert_eq!(requester.receive(connection, None), None);
        }
        requester
    }

    fn receive(
        &mut self,
        of: Connection,
        command: Option<Command<'_>>,
    ) -> Option<CompletedRequest> {
        let count = |number| SequenceCount { number, connection: of };
        let sequence = Sequence { receive: count(1), send: count(self.number) };
        self.client.receive(0, &Sdo { sequence, command }, &mut self.out)
    }

    /// A response to the first request.
    fn respond(&mut self, command: Command<'_>) -> Option<CompletedRequest> {
        self.number += 1;
        self.receive(Connection::Valid, Some(command))
    }

    /// Codes of the aborts that it sent, and the commands that they abort.
    fn aborts(&self) -> Vec<(CommandId, Option<Abort>)> {
        let commands = self.out.iter().filter_map(|frame| frame.sdo().command);
        let aborts = commands.filter(|command| command.abort && command.transaction == 0);
        aborts.map(|command| (command.command, command.abort_code())).collect()
    }
}

fn response(command: CommandId, payload: &[u8]) -> Command<'_> {
    let segmentation = Segmentation::Expedited;
    Command { transaction: 0, response: true, abort: false, segmentation, command, payload }
}

#[test]
fn a_response_to_another_command_is_refused() {
    use CommandId as Id;
    let object = id(0x2000, 0);
    let write = Request::Write(object, [1, 2].into());
    let read_several = Request::ReadMultiple(vec![object]);
    for (request, own, other) in [
        (write.clone(), Id::WRITE_BY_INDEX, Id::READ_BY_INDEX),
        (write, Id::WRITE_BY_INDEX, Id::WRITE_MULTIPLE_BY_INDEX),
        (Request::Read(object), Id::READ_BY_INDEX, Id::WRITE_BY_INDEX),
        (Request::Read(object), Id::READ_BY_INDEX, CommandId(0x7f)),
        (read_several, Id::READ_MULTIPLE_BY_INDEX, Id::READ_BY_INDEX),
    ] {
        for segmentation in [Segmentation::Expedited, Segmentation::Initiate { data_size: 100 }] {
            let mut requester = Requester::new(request.clone());
            let other = Command { segmentation, ..response(other, &[3, 4]) };
            let done = requester.respond(other).expect("a result");
            assert_eq!(done.result, Err(Abort::UNKNOWN_COMMAND), "{request:?}");
            assert_eq!(requester.aborts(), [(own, Some(Abort::UNKNOWN_COMMAND))]);
        }
    }
}

/// Only the next segment differs.
#[test]
fn a_segment_of_another_command_is_refused() {
    let mut requester = Requester::new(Request::Read(id(0x2000, 0)));
    let first = response(CommandId::READ_BY_INDEX, &[1, 2]);
    let initiate = Segmentation::Initiate { data_size: 8 };
    assert_eq!(requester.respond(Command { segmentation: initiate, ..first }), None);
    let last = response(CommandId::WRITE_BY_INDEX, &[3, 4]);
    let done = requester.respond(Command { segmentation: Segmentation::Complete, ..last });
    assert_eq!(done.expect("a result").result, Err(Abort::UNKNOWN_COMMAND));
}

/// The next request of the connection has its own result, and a late second response no effect.
#[test]
fn the_next_request_follows_a_refused_response() {
    let mut requester = Requester::new(Request::Write(id(0x2000, 0), [1, 2].into()));
    requester.client.request(0, Request::Read(id(0x2001, 0)), &mut requester.out);
    let other = response(CommandId::READ_BY_INDEX, &[3, 4]);
    assert!(requester.respond(other).is_some());
    assert_eq!(requester.respond(response(CommandId::WRITE_BY_INDEX, &[])), None);
    let next = Command { transaction: 1, ..response(CommandId::READ_BY_INDEX, &[5]) };
    assert_eq!(requester.respond(next).expect("a result").result, Ok(vec![5]));
}

/// As of a server that receives one.
#[test]
fn a_frame_without_a_command_is_no_response() {
    let mut requester = Requester::new(Request::Read(id(0x2000, 0)));
    assert_eq!(requester.respond(response(CommandId::NIL, &[])), None);
    let read = response(CommandId::READ_BY_INDEX, &[7]);
    assert_eq!(requester.respond(read).expect("a result").result, Ok(vec![7]));
}

/// The abort of a server that does not know the command need not repeat it.
#[test]
fn an_abort_of_any_command_ends_the_request() {
    for command in [CommandId::NIL, CommandId::READ_BY_INDEX, CommandId::WRITE_BY_INDEX] {
        let mut requester = Requester::new(Request::Read(id(0x2000, 0)));
        let code = Abort::UNKNOWN_COMMAND.0.to_le_bytes();
        let abort = Command { abort: true, ..response(command, &code) };
        let done = requester.respond(abort).expect("a result");
        assert_eq!(done.result, Err(Abort::UNKNOWN_COMMAND));
    }
}

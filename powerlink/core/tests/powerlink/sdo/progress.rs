//! Requests to a server that sends frames, and never a response.

use std::collections::VecDeque;

use onbeat_powerlink::od::{Abort, profile};
use onbeat_powerlink::sdo::{Client, Request};
use onbeat_wire::powerlink::{
    Command, CommandId, Connection, Sdo, Segmentation, Sequence, SequenceCount,
};

const TIMEOUT_NS: u64 = 1_000_000_000;
/// The server sends a frame in each of these intervals, in which a silent one is not noticed.
const INTERVAL_NS: u64 = 100_000_000;

fn frame(number: u8, receive: Connection, send: Connection) -> Sdo<'static> {
    let receive = SequenceCount { number: 1, connection: receive };
    let send = SequenceCount { number, connection: send };
    Sdo { sequence: Sequence { receive, send }, command: None }
}

/// A segment without octets of a response that never ends.
fn empty(number: u8, transaction: u8) -> Sdo<'static> {
    let first = number == 1;
    let segmentation =
        if first { Segmentation::Initiate { data_size: 100 } } else { Segmentation::Segment };
    let command = Command {
        transaction,
        response: true,
        abort: false,
        segmentation,
        command: CommandId::READ_BY_INDEX,
        payload: &[],
    };
    Sdo { command: Some(command), ..frame(number, Connection::Valid, Connection::Valid) }
}

#[test]
fn a_request_without_progress_ends() {
    use Connection::{Initialise, Valid, ValidAcknowledge};
    type Server = fn(u8) -> Sdo<'static>;
    let servers: [(&str, Server); 5] = [
        ("acknowledgements", |_| frame(0, Valid, Valid)),
        ("requests of acknowledgements", |_| frame(0, Valid, ValidAcknowledge)),
        ("opening", |_| frame(0, Initialise, Initialise)),
        ("empty segments", |number| empty(number, 0)),
        ("segments of another request", |number| empty(number, 77)),
    ];
    for (name, server) in servers {
        let (mut client, mut out) = (Client::new(TIMEOUT_NS), VecDeque::new());
        client.request(0, Request::Read(profile::HOST_NAME), &mut out);
        if name != "opening" {
            for receive in [Initialise, Valid] {
                let send = if receive == Valid { Valid } else { Initialise };
                assert_eq!(client.receive(0, &frame(0, receive, send), &mut out), None);
            }
        }
        let (mut now_ns, mut number, mut done) = (0, 0_u8, None);
        while done.is_none() {
            now_ns += INTERVAL_NS;
            number = if number == 63 { 2 } else { number + 1 };
            assert!(now_ns <= 5 * TIMEOUT_NS, "{name}: the request does not end");
            done = client.receive(now_ns, &server(number), &mut out);
            if client.next_deadline_ns().is_some_and(|deadline| deadline <= now_ns) {
                done = done.or(client.handle_deadline(now_ns, &mut out));
            }
        }
        assert_eq!(done.unwrap().result, Err(Abort::TIME_OUT), "{name}");
        assert!(!client.is_connected(), "{name}");
    }
}

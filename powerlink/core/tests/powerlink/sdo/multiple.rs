//! Several objects in one command.

use std::collections::VecDeque;

use onbeat_powerlink::od::{Abort, ObjectId, id};
use onbeat_powerlink::sdo::{Client, CompletedRequest, Request};
use onbeat_testing::vectors;
use onbeat_wire::powerlink::{Command, CommandId, Connection, Segmentation};
use toml::Table;

use super::pair::{LATER, Pair, REFUSED, clean, sdo, value};
use super::reference::{ServerNode, client, frame};

const HOUR_NS: u64 = 3_600_000_000_000;

fn write(objects: &[(ObjectId, &[u8])]) -> Request {
    Request::WriteMultiple(
        objects.iter().map(|(object, value)| (*object, (*value).into())).collect(),
    )
}

/// The requests of several objects, and whether they were segmented.
fn requests(pair: &Pair) -> Vec<(CommandId, bool)> {
    let commands = pair.sent.iter().filter_map(|(_, octets)| sdo(octets).command);
    let firsts = commands.filter(|command| {
        !command.response
            && !matches!(command.segmentation, Segmentation::Segment | Segmentation::Complete)
    });
    let segmented = firsts.map(|c| (c.command, c.segmentation != Segmentation::Expedited));
    segmented.collect()
}

#[test]
fn each_object_has_its_own_result() {
    let mut pair = Pair::new();
    let (first, second, missing) = (id(0x1006, 0), id(0x1008, 0), id(REFUSED, 1));
    pair.request(write(&[(first, &[1, 2, 3, 4]), (missing, b"load"), (second, b"drive")]));
    pair.request(Request::ReadMultiple(vec![second, id(0x7000, 0), first]));
    pair.run(HOUR_NS, clean);
    let [written, read] = &pair.done[..] else { panic!("{:?}", pair.done) };
    assert_eq!(written.result, Ok(vec![]));
    assert_eq!(written.results, [Ok(vec![]), Err(Abort::NO_OBJECT), Ok(vec![])]);
    assert_eq!(read.result, Ok(vec![]));
    let expected = [Ok(b"drive".to_vec()), Err(Abort::NO_OBJECT), Ok(vec![1, 2, 3, 4])];
    assert_eq!(read.results, expected);
    let commands = [CommandId::WRITE_MULTIPLE_BY_INDEX, CommandId::READ_MULTIPLE_BY_INDEX];
    assert_eq!(requests(&pair), commands.map(|command| (command, false)));
}

#[test]
fn objects_may_need_several_segments() {
    let mut pair = Pair::new();
    let objects: Vec<ObjectId> = (0..80).map(|sub| id(0x2100, sub)).collect();
    let values: Vec<Vec<u8>> = (0..80).map(|n| value(13 * n)).collect();
    let entries = objects.iter().zip(&values).map(|(object, value)| (*object, &value[..]));
    pair.request(write(&entries.collect::<Vec<_>>()));
    pair.request(Request::ReadMultiple(objects));
    pair.run(HOUR_NS, clean);
    let [written, read] = &pair.done[..] else { panic!("{:?}", pair.done) };
    assert_eq!(written.results, vec![Ok(vec![]); 80]);
    assert!(read.results.iter().eq(values.iter().cloned().map(Ok).collect::<Vec<_>>().iter()));
    assert!(requests(&pair).iter().all(|(_, segmented)| *segmented));
}

#[test]
fn a_deferred_object_delays_the_response() {
    for (answer, expected) in [(Ok(()), Ok(vec![])), (Err(Abort::HARDWARE), Err(Abort::HARDWARE))] {
        let mut pair = Pair::new();
        let (now, later) = (id(0x1006, 0), id(LATER, 1));
        pair.request(write(&[(later, b"save"), (id(REFUSED, 1), b"load"), (now, &[1])]));
        pair.settle();
        assert_eq!((pair.done.len(), pair.store.writes.len()), (0, 2));
        pair.finish(answer);
        pair.settle();
        assert_eq!(pair.done[0].results, [expected, Err(Abort::NO_OBJECT), Ok(vec![])]);
    }
}

/// More than a transfer may have, by reading one object many times.
#[test]
fn a_response_is_bounded() {
    let mut pair = Pair::new();
    pair.store.values.insert(id(0x2100, 0), value(500_000));
    pair.request(Request::ReadMultiple(vec![id(0x2100, 0); 3]));
    pair.run(HOUR_NS, clean);
    let results = &pair.done[0].results;
    assert_eq!(results.len(), 3, "{:?}", pair.done[0].result);
    assert_eq!(results[2], Err(Abort::OUT_OF_MEMORY));
    assert!(results[..2].iter().all(|result| *result == Ok(value(500_000))));
}

/// A message of the vectors, of which tshark reads the objects that are named here.
fn message(name: &str) -> Vec<u8> {
    let file: Table = vectors::read("powerlink/messages.toml");
    let mut cases = file["case"].as_array().unwrap().iter();
    let case = cases.find(|case| case["name"].as_str() == Some(name)).unwrap();
    vectors::octets(case["octets"].as_str().unwrap())
}

/// The payload of the request that a client sends.
fn sent(request: Request) -> Vec<u8> {
    let (_, out) = client(request);
    out.iter().find_map(|frame| Some(frame.pdu.as_ref()?.payload.clone())).unwrap()
}

/// A client's result of a request, with this response.
fn completed(request: Request, response: Command<'_>) -> CompletedRequest {
    let (mut client, _): (Client, _) = client(request);
    let response = Command { transaction: 0, ..response };
    let valid = Connection::Valid;
    let frame = frame((1, valid), (1, valid), Some(response));
    client.receive(1, &frame, &mut VecDeque::new()).unwrap()
}

/// Both ends read and write the objects that tshark reads.
#[test]
fn objects_are_those_that_tshark_reads() {
    const VALUES: [(ObjectId, &[u8]); 3] =
        [(id(0x1006, 0), &[0x50, 0xc3, 0, 0]), (id(0x1600, 0), &[1]), (id(0x1400, 1), b"abc")];
    let written = message("SDO: WriteMultipleByIndex");
    let command = sdo(&written).command.unwrap();
    assert_eq!(sent(write(&VALUES)), command.payload);
    let mut serving = ServerNode::new();
    let valid = Connection::Valid;
    serving.receive(&frame((0, valid), (1, valid), Some(command)));
    let writes = serving.store.writes.iter().map(|(object, value)| (*object, &value[..]));
    assert!(writes.eq(VALUES));

    let failed = message("SDO: WriteMultipleByIndex, an object is not written");
    let results = completed(write(&VALUES), sdo(&failed).command.unwrap()).results;
    assert_eq!(results, [Ok(vec![]), Err(Abort::NO_OBJECT), Ok(vec![])]);

    let first = message("SDO: WriteMultipleByIndex, first segment");
    let values = [(id(0x2100, 1), &[0x11; 96][..]), (id(0x2100, 2), &[0x22; 148])];
    assert_eq!(sent(write(&values)), sdo(&first).command.unwrap().payload);

    let read = message("SDO: ReadMultipleByIndex");
    let command = sdo(&read).command.unwrap();
    let request = Request::ReadMultiple(vec![VALUES[0].0, VALUES[2].0]);
    assert_eq!(sent(request.clone()), command.payload);
    let both = message("SDO: ReadMultipleByIndex, a value and an abort");
    let response = sdo(&both).command.unwrap();
    let expected = [Ok(VALUES[0].1.to_vec()), Err(Abort::NO_OBJECT)];
    assert_eq!(completed(request, response).results, expected);
    let mut serving = ServerNode::new();
    serving.store.values.insert(VALUES[0].0, VALUES[0].1.to_vec());
    let out = serving.receive(&frame((0, valid), (1, valid), Some(command)));
    assert_eq!(out[0].pdu.as_ref().unwrap().payload, response.payload);
}

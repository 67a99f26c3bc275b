//! SDO between a client and a server over a medium that loses, repeats and delays frames.

mod multiple;
mod pair;
mod progress;
mod queued;
mod reference;
mod refused;
mod transfers;

use std::collections::VecDeque;

use onbeat_powerlink::od::{Abort, id};
use onbeat_powerlink::sdo::Request;
use pair::{DELAY_NS, LATER, Pair, REFUSED, TIMEOUT_NS, clean, value};
use proptest::prelude::*;

#[test]
fn an_abort_has_its_code_and_ends_only_its_request() {
    let mut pair = Pair::new();
    let missing = id(REFUSED, 1);
    pair.request(Request::Write(missing, (*b"load").into()));
    pair.request(Request::Read(id(0x7000, 0)));
    pair.request(Request::Write(id(0x1006, 0), [1, 2, 3, 4].into()));
    pair.run(60_000_000_000, clean);
    let (results, _) = pair.results();
    assert_eq!(results, [Err(Abort::NO_OBJECT), Err(Abort::NO_OBJECT), Ok(vec![])]);
    assert_eq!(pair.store.writes, [(id(0x1006, 0), vec![1, 2, 3, 4])]);
}

/// A slow command is acknowledged at once and answered when it is done; other commands of the connection do not
/// wait for it.
#[test]
fn a_response_can_be_deferred() {
    for answer in [Ok(()), Err(Abort::HARDWARE)] {
        let mut pair = Pair::new();
        pair.request(Request::Write(id(LATER, 1), (*b"save").into()));
        pair.settle();
        assert_eq!((pair.done.len(), pair.store.writes.len()), (0, 1));
        pair.finish(answer);
        pair.settle();
        assert_eq!(pair.done.len(), 1, "{answer:?}");
        assert_eq!(pair.done[0].result, answer.map(|()| vec![]));
        let mut again = VecDeque::new();
        pair.server.finish(pair.now_ns, answer, &mut again);
        assert!(again.is_empty(), "answered once");
    }
}

#[test]
fn a_silent_peer_times_out() {
    let mut pair = Pair::new();
    pair.request(Request::Read(id(0x1000, 0)));
    pair.lose();
    let start = pair.now_ns;
    pair.run(10 * TIMEOUT_NS, |_| vec![]);
    assert_eq!(pair.done.len(), 1);
    assert_eq!(pair.done[0].result, Err(Abort::TIME_OUT));
    assert_eq!(pair.now_ns - start, TIMEOUT_NS);
}

#[test]
fn a_server_closes_the_connection_of_a_silent_peer() {
    let mut pair = Pair::new();
    pair.store.values.insert(id(0x1000, 0), value(2000));
    pair.request(Request::Read(id(0x1000, 0)));
    // Nothing from the client arrives after its request.
    pair.run_to_frame(9);
    pair.lose();
    for _ in 0..10 {
        if let Some(deadline) = pair.server.next_deadline_ns() {
            pair.server.handle_deadline(deadline, &mut VecDeque::new());
        }
    }
    assert_eq!(pair.server.next_deadline_ns(), None, "no deadline is left");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Up to a third of all frames are lost, duplicated or overtaken: each command is executed once and in order,
    /// and the client receives the actual result.
    #[test]
    fn lost_repeated_and_reordered_frames(
        fates in prop::collection::vec(0..12usize, 1..300),
        lens in prop::collection::vec(0..2000usize, 1..6),
    ) {
        let mut pair = Pair::new();
        for (sub, len) in lens.iter().enumerate() {
            let object = id(0x2000, sub as u8);
            pair.request(Request::Write(object, value(*len).into()));
            pair.request(Request::Read(object));
        }
        pair.run(3_600_000_000_000, |frame| match fates.get(frame) {
            Some(0..=1) => vec![],
            Some(2) => vec![DELAY_NS, 3 * DELAY_NS],
            Some(3) => vec![3 * DELAY_NS + 1],
            _ => vec![DELAY_NS],
        });
        // Lost frames are repeated, without growing numbers.
        let segments: usize = lens.iter().map(|len| 2 * len.div_ceil(256) + 2).sum();
        prop_assert!(pair.sent.len() <= 30 * (segments + 4), "{} frames", pair.sent.len());
        let failed = pair.done.iter().position(|done| done.result.is_err());
        if failed.is_none() {
            prop_assert_eq!(pair.done.len(), 2 * lens.len());
        }
        for done in &pair.done[..failed.unwrap_or(pair.done.len())] {
            match &done.request {
                Request::Read(object) => {
                    let expected = value(lens[usize::from(object.sub)]);
                    prop_assert_eq!(&done.result, &Ok(expected));
                }
                _ => prop_assert_eq!(&done.result, &Ok(Vec::new())),
            }
        }
        let written: Vec<u8> = pair.store.writes.iter().map(|(object, _)| object.sub).collect();
        let in_order: Vec<u8> = (0..written.len() as u8).collect();
        prop_assert_eq!(written, in_order, "each object once, in order");
    }
}

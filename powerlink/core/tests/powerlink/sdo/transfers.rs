//! Values of every length, over every medium, and aborted.

use onbeat_powerlink::od::{Abort, ObjectId, id};
use onbeat_powerlink::sdo::{MAX_TRANSFER, Request};
use onbeat_wire::random::Random;
use proptest::prelude::*;

use super::pair::{DELAY_NS, Fate, Pair, READ_ONLY, TIMEOUT_NS, clean, sdo, value};

/// Around every boundary of one segment, and long ones.
const LENGTHS: [usize; 15] =
    [0, 1, 4, 5, 248, 249, 252, 253, 256, 257, 600, 700, 5_000, 65_536, MAX_TRANSFER];
const OBJECT: ObjectId = id(0x2100, 0);
const HOUR_NS: u64 = 3_600_000_000_000;

/// Writes and reads values of all lengths; returns the number of frames.
fn transfer(mut fate: impl FnMut(usize) -> Fate) -> usize {
    let mut frames = 0;
    for len in LENGTHS {
        let mut pair = Pair::new();
        pair.request(Request::Write(OBJECT, value(len).into()));
        pair.request(Request::Read(OBJECT));
        pair.run(HOUR_NS, &mut fate);
        let (results, connections) = pair.results();
        assert_eq!(results.len(), 2, "{len}");
        assert_eq!(results[0], Ok(vec![]), "{len}");
        assert!(results[1] == Ok(value(len)), "{len}: the value read is another");
        assert_eq!(pair.store.writes.len(), 1, "{len}");
        assert_eq!(connections, 1, "{len}");
        frames += pair.sent.len();
    }
    frames
}

/// The first of several segments has 252 octets of payload, the others 256.
fn segments(payload: usize, one: usize) -> usize {
    if payload <= one { 1 } else { 1 + (payload - 252).div_ceil(256) }
}

/// Frames without losses: those that open the connection, each segment, an acknowledgement of each full window,
/// and that of a response.
fn expected() -> usize {
    let window = |segments: usize| segments + (segments - 1) / 4;
    let of = |len: usize| window(segments(len + 4, 256)) + 2 + 1 + window(segments(len, 252)) + 1;
    LENGTHS.into_iter().map(|len| 4 + of(len)).sum()
}

#[test]
fn without_loss_each_frame_is_sent_once() {
    assert_eq!(transfer(clean), expected());
}

#[test]
fn under_loss() {
    let mut random = Random::new(7);
    let frames = transfer(|_| if random.below(100) == 0 { vec![] } else { vec![DELAY_NS] });
    assert!(frames < expected() * 12 / 10, "{frames} frames instead of {}", expected());
}

#[test]
fn under_reordering() {
    let mut random = Random::new(8);
    let frames = transfer(|_| match random.below(100) {
        0..=4 => vec![DELAY_NS + random.below(3 * DELAY_NS)],
        _ => vec![DELAY_NS],
    });
    assert!(frames < expected() * 2, "{frames} frames instead of {}", expected());
}

#[test]
fn under_loss_reordering_and_repetition() {
    let mut random = Random::new(9);
    let frames = transfer(|_| match random.below(100) {
        0 => vec![],
        1 => vec![DELAY_NS, DELAY_NS + random.below(3 * DELAY_NS)],
        2..=4 => vec![DELAY_NS + random.below(3 * DELAY_NS)],
        _ => vec![DELAY_NS],
    });
    assert!(frames < expected() * 2, "{frames} frames instead of {}", expected());
}

/// The next request on the same connection is executed.
fn assert_usable(pair: &mut Pair) {
    let other = id(0x2200, 0);
    pair.request(Request::Write(other, value(3_000).into()));
    pair.request(Request::Read(other));
    pair.run(HOUR_NS, clean);
    let (results, connections) = pair.results();
    assert_eq!(results[results.len() - 2], Ok(vec![]));
    assert_eq!(results[results.len() - 1], Ok(value(3_000)));
    assert_eq!(connections, 1);
}

#[test]
fn a_client_aborts_within_a_transfer() {
    for frames in 4..40 {
        let mut pair = Pair::new();
        pair.request(Request::Write(OBJECT, value(65_536).into()));
        pair.run_to_frame(frames);
        pair.abort(Abort::LOCAL);
        assert_eq!(pair.results().0, [Err(Abort::LOCAL)]);
        pair.settle();
        assert!(pair.sent.len() <= frames + 8, "{} frames after {frames}", pair.sent.len());
        assert!(pair.store.writes.is_empty());
        assert_usable(&mut pair);

        let mut pair = Pair::new();
        pair.store.values.insert(OBJECT, value(65_536));
        pair.request(Request::Read(OBJECT));
        pair.run_to_frame(frames);
        pair.abort(Abort::LOCAL);
        pair.settle();
        assert!(pair.sent.len() <= frames + 12, "{} frames after {frames}", pair.sent.len());
        assert_usable(&mut pair);
    }
}

#[test]
fn a_server_aborts_within_a_transfer() {
    // At the first segment; the others of its window are under way.
    let mut pair = Pair::new();
    pair.request(Request::Write(id(READ_ONLY, 0), value(65_536).into()));
    pair.run(HOUR_NS, clean);
    assert_eq!(pair.results().0, [Err(Abort::READ_ONLY)]);
    pair.settle();
    let aborts = pair.sent.iter().filter_map(|(_, octets)| sdo(octets).command?.abort_code());
    assert_eq!(aborts.collect::<Vec<_>>(), [Abort::READ_ONLY], "once");
    assert!(pair.sent.len() <= 14, "{} frames", pair.sent.len());
    assert_usable(&mut pair);

    // At an announced length without room for it.
    let mut pair = Pair::new();
    pair.request(Request::Write(OBJECT, value(MAX_TRANSFER + 1).into()));
    pair.run(HOUR_NS, clean);
    assert_eq!(pair.results().0, [Err(Abort::OUT_OF_MEMORY)]);
    assert_usable(&mut pair);
}

/// A value without room for it in the client: the server stops sending.
#[test]
fn a_client_refuses_a_response() {
    let mut pair = Pair::new();
    pair.store.values.insert(OBJECT, value(MAX_TRANSFER + 5));
    pair.request(Request::Read(OBJECT));
    pair.run(HOUR_NS, clean);
    assert_eq!(pair.results().0, [Err(Abort::OUT_OF_MEMORY)]);
    assert!(pair.sent.len() <= 16, "{} frames", pair.sent.len());
    assert_usable(&mut pair);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// At any time and under loss: the write is executed as a whole or not at all, and later requests have their
    /// own results.
    #[test]
    fn aborted_under_loss(frames in 4..300usize, seed: u64, reads: bool) {
        let mut random = Random::new(seed);
        let mut lossy = |_: usize| if random.below(20) == 0 { vec![] } else { vec![DELAY_NS] };
        let mut pair = Pair::new();
        pair.store.values.insert(OBJECT, value(30_000));
        pair.request(if reads {
            Request::Read(OBJECT)
        } else {
            Request::Write(OBJECT, value(40_000).into())
        });
        while pair.sent.len() < frames && pair.client.pending() > 0 {
            pair.run(1, &mut lossy);
        }
        pair.abort(Abort::LOCAL);
        let other = id(0x2200, 0);
        pair.request(Request::Write(other, value(3_000).into()));
        pair.request(Request::Read(other));
        pair.run(100 * TIMEOUT_NS, &mut lossy);
        let stored = pair.store.values[&OBJECT].len();
        prop_assert!(stored == 30_000 || !reads && stored == 40_000);
        let (results, _) = pair.results();
        let timed_out = results.contains(&Err(Abort::TIME_OUT));
        prop_assert!(timed_out || results.ends_with(&[Ok(vec![]), Ok(value(3_000))]));
    }
}

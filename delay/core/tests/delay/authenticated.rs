//! Authenticated STAMP: vectors/stamp/authenticated.toml, whose packets and HMACs Python made; and a
//! session whose path forges.

use onbeat_delay::probe::{
    Key, Profile, ProfileSegment, RejectedDatagram, ReplyFields, Sender, Session, StrayDatagram,
    admit, is_reflected, reflect,
};
use onbeat_testing::vectors::{octets, read};
use onbeat_wire::stamp::{
    AUTHENTICATED_LEN, AuthenticatedView, ErrorEstimate, Format, PACKET_LEN, Reflected, Test,
    Timestamp,
};
use serde::Deserialize;

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_767_323_045 * SECOND;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    packet: Vec<Packet>,
    refused: Vec<RejectedCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Packet {
    number: u32,
    name: String,
    kind: String,
    key: String,
    sequence: u32,
    timestamp: String,
    error_estimate: [u8; 4],
    session: u16,
    received: Option<String>,
    test_sequence: Option<u32>,
    test_timestamp: Option<String>,
    test_error_estimate: Option<[u8; 4]>,
    test_ttl: Option<u8>,
    /// Where emitting gives other octets, since what must be zero was not.
    emits: Option<String>,
    octets: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RejectedCase {
    number: u32,
    name: String,
    key: String,
    octets: String,
    reason: String,
}

fn vectors() -> Vectors {
    read("stamp/authenticated.toml")
}

fn stamp(hex: &str) -> Timestamp {
    Timestamp(octets(hex).try_into().unwrap())
}

fn estimate([synchronized, ptp, scale, multiplier]: [u8; 4]) -> ErrorEstimate {
    let format = if ptp == 1 { Format::Ptp } else { Format::Ntp };
    ErrorEstimate { synchronized: synchronized == 1, format, scale, multiplier }
}

fn key(hex: &str) -> Key {
    Key::new(&octets(hex)).unwrap()
}

#[test]
fn packets_are_as_another_implementation_makes_them() {
    let vectors = vectors();
    assert!(vectors.packet.len() >= 13 && vectors.refused.len() >= 21);
    for packet in &vectors.packet {
        let what = format!("{}: {}", packet.number, packet.name);
        let (key, octets_there) = (key(&packet.key), octets(&packet.octets));
        let view = AuthenticatedView::new_checked(&octets_there).unwrap();
        assert!(key.verifies(&view), "{what}");
        let own = Test {
            sequence: packet.sequence,
            timestamp: stamp(&packet.timestamp),
            error_estimate: estimate(packet.error_estimate),
            session: packet.session,
        };
        let mut buffer = [0xa5; AUTHENTICATED_LEN];
        let written = match packet.kind.as_str() {
            "test" => {
                assert_eq!(admit(&octets_there, Some(&key)), Ok(own), "{what}");
                own.emit_authenticated(&mut buffer, |covered| key.hmac(covered))
            }
            "reflected" => {
                let reflected = Reflected {
                    sequence: own.sequence,
                    timestamp: own.timestamp,
                    error_estimate: own.error_estimate,
                    received: stamp(packet.received.as_deref().unwrap()),
                    test: Test {
                        sequence: packet.test_sequence.unwrap(),
                        timestamp: stamp(packet.test_timestamp.as_deref().unwrap()),
                        error_estimate: estimate(packet.test_error_estimate.unwrap()),
                        session: own.session,
                    },
                    test_ttl: packet.test_ttl.unwrap(),
                };
                assert_eq!(view.reflected(), reflected, "{what}");
                reflected.emit_authenticated(&mut buffer, |covered| key.hmac(covered))
            }
            other => panic!("{what}: kind {other}"),
        };
        assert_eq!(written, Ok(AUTHENTICATED_LEN), "{what}");
        let expected = packet.emits.as_deref().map_or(octets_there, octets);
        assert_eq!(buffer[..], expected[..AUTHENTICATED_LEN], "{what}");
    }
}

#[test]
fn unverified_packets_are_refused() {
    for refused in &vectors().refused {
        let what = format!("{}: {}", refused.number, refused.name);
        let found = admit(&octets(&refused.octets), Some(&key(&refused.key)));
        match refused.reason.as_str() {
            "hmac" => assert_eq!(found, Err(RejectedDatagram::Hmac), "{what}"),
            "short" => assert!(
                matches!(found, Err(RejectedDatagram::NotATestPacket(_))),
                "{what}: {found:?}"
            ),
            other => panic!("{what}: reason {other}"),
        }
    }
}

fn session(key: Option<Key>) -> Session {
    Session {
        profile: Profile::new(vec![ProfileSegment::constant(10.0, SECOND)]),
        count: None,
        start_ns: START,
        timeout_ns: SECOND,
        id: 77,
        error_estimate: ErrorEstimate::of(1000, false, Format::Ntp),
        key,
    }
}

const ANSWER: ReplyFields = ReplyFields {
    sequence: None,
    received_ns: START + 20_000,
    ttl: 63,
    sent_ns: START + 25_000,
    error_estimate: ErrorEstimate {
        synchronized: true,
        format: Format::Ptp,
        scale: 10,
        multiplier: 9,
    },
};

fn answered(datagram: &[u8], key: Option<&Key>) -> Vec<u8> {
    let mut answer = datagram.to_vec();
    let test = admit(&answer, key).unwrap();
    assert_eq!(reflect(&mut answer, datagram.len(), &test, &ANSWER, key), Ok(datagram.len()));
    answer
}

#[test]
fn four_times_of_an_authenticated_probe() {
    let key = Key::new(&[7; 32]).unwrap();
    let mut sender = Sender::new(session(Some(key.clone())));
    let mut datagram = vec![0x5a; 200];
    assert_eq!(sender.send(START, &mut datagram), Some(Ok(AUTHENTICATED_LEN)));
    let answer = answered(&datagram, Some(&key));
    assert!(!is_reflected(&datagram, Some(&key), START));
    assert!(is_reflected(&answer, Some(&key), START));
    assert_eq!(answer[AUTHENTICATED_LEN..], [0x5a; 200 - AUTHENTICATED_LEN], "padding comes back");
    assert_eq!(sender.receive(&answer, START + 60_000), Ok(()));
    let sample = sender.expire(START + 60_000).unwrap();
    assert_eq!(sample.round_trip_ns(), Some(55_000));
    assert_eq!((sample.there_ns(), sample.back_ns()), (Some(20_000), Some(35_000)));
    assert_eq!(sample.answer.unwrap().ttl, 63);
    let none = sender.send(START + SECOND / 10, &mut [0; AUTHENTICATED_LEN - 1]).unwrap();
    assert!(none.is_err(), "no room for the HMAC: nothing was sent");
    assert_eq!(sender.counts().sent, 1);
}

/// Every octet of an answer, changed, makes it none; so do answers that others made.
#[test]
fn a_sender_with_a_key_accepts_only_authenticated_replies() {
    let (key, other) = (Key::new(&[7; 32]).unwrap(), Key::new(&[8; 32]).unwrap());
    let mut sender = Sender::new(session(Some(key.clone())));
    let mut datagram = [0; AUTHENTICATED_LEN];
    sender.send(START, &mut datagram).unwrap().unwrap();
    let right = answered(&datagram, Some(&key));
    for at in 0..AUTHENTICATED_LEN {
        for bit in 0..8 {
            let mut changed = right.clone();
            changed[at] ^= 1 << bit;
            assert_eq!(
                sender.receive(&changed, START),
                Err(StrayDatagram::Hmac),
                "bit {bit} of {at}"
            );
        }
    }
    // A reflector with another key never took the probe; nor did it say so.
    assert_eq!(admit(&datagram, Some(&other)), Err(RejectedDatagram::Hmac));
    // One without a key answers, and leaves the probe's own HMAC where it was.
    assert_eq!(sender.receive(&answered(&datagram, None), START), Err(StrayDatagram::Hmac));
    assert!(matches!(sender.receive(&right[..111], START), Err(StrayDatagram::Truncated(_))));
    // The probe itself, back from whoever it met: it verifies.
    let quoted = StrayDatagram::Quote(Timestamp([0; 8]));
    assert_eq!(sender.receive(&datagram, START + 60_000), Err(quoted));
    // Of another session with the same key and number.
    let mut earlier = Sender::new(session(Some(key.clone())));
    let mut datagram = [0; AUTHENTICATED_LEN];
    earlier.send(START + 1, &mut datagram).unwrap().unwrap();
    let replayed = answered(&datagram, Some(&key));
    assert!(matches!(sender.receive(&replayed, START + 60_000), Err(StrayDatagram::Quote(_))));

    assert_eq!(sender.receive(&right, START + 60_000), Ok(()));
    let again = sender.receive(&right, START + 60_000);
    assert_eq!(again, Err(StrayDatagram::Sequence(0)), "repeated, it verifies, and is a duplicate");
    let counts = sender.counts();
    assert_eq!((counts.unverified, counts.stray), (8 * AUTHENTICATED_LEN as u64 + 1, 3));
    assert_eq!((counts.answered, counts.duplicate_or_late), (1, 1));
}

/// A receiver without a key decodes an authenticated packet as an unauthenticated one with other fields.
#[test]
fn without_a_key_nothing_is_verified() {
    let mut sender = Sender::new(session(None));
    let mut datagram = [0; PACKET_LEN];
    sender.send(START, &mut datagram).unwrap().unwrap();
    assert_eq!(sender.receive(&answered(&datagram, None), START + 60_000), Ok(()));
    let key = Key::new(b"k").unwrap();
    assert!(matches!(admit(&datagram, Some(&key)), Err(RejectedDatagram::NotATestPacket(_))));
    assert_eq!(sender.counts().unverified, 0);
}

//! POWERLINK codecs compared with `vectors/powerlink/messages.toml`, the interpretation of tshark, and with
//! random octets.

use std::collections::BTreeSet;

use onbeat_testing::powerlink::Case;
use onbeat_testing::vectors::{self, octets};
use onbeat_wire::powerlink::{Abort, Message, MessageError};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    abort_codes: Vec<u32>,
    case: Vec<Case>,
}

fn cases() -> Vec<Case> {
    vectors::read::<File>("powerlink/messages.toml").case
}

#[test]
fn every_abort_code_has_a_text() {
    for code in vectors::read::<File>("powerlink/messages.toml").abort_codes {
        let text = Abort(code).to_string();
        assert!(!text.ends_with(&Abort(1).to_string()["0x00000001".len()..]), "{text}");
    }
}

/// Returns the octets that `emit` writes, independent of the former content of the buffer.
fn emitted(message: &Message<'_>) -> Vec<u8> {
    let len = message.buffer_len();
    let [first, second] = [0xa5, 0x5a].map(|fill| {
        let mut buffer = vec![fill; len + 4];
        assert_eq!(message.emit(&mut buffer), Ok(len), "parsed values fit");
        assert!(buffer[len..].iter().all(|octet| *octet == fill), "written past the end");
        buffer.truncate(len);
        buffer
    });
    assert_eq!(first, second, "an octet was left unwritten");
    assert!(message.emit(&mut vec![0; len - 1]).is_err());
    first
}

#[test]
fn every_field_agrees_with_tshark() {
    cases().iter().for_each(Case::check);
}

#[test]
fn every_message_is_emitted_as_parsed() {
    for case in cases() {
        let octets = octets(&case.octets);
        let message = Message::parse(&octets).unwrap();
        let (emitted, padding) = (emitted(&message), octets.len() - message.buffer_len());
        assert_eq!([emitted, vec![0; padding]].concat(), octets, "{}", case.name);
    }
}

#[test]
fn every_truncated_message_is_refused_or_shorter() {
    for case in cases() {
        let octets = octets(&case.octets);
        let whole = Message::parse(&octets).unwrap();
        for len in 0..octets.len() {
            match Message::parse(&octets[..len]) {
                Ok(part) => assert!(part.buffer_len() <= whole.buffer_len().min(len.max(16))),
                Err(MessageError::Truncated(error)) => assert!(error.len < error.needed),
                Err(other) => panic!("{}: {other}", case.name),
            }
        }
    }
}

#[test]
fn the_vectors_have_every_kind() {
    let kinds: BTreeSet<String> = cases().into_iter().map(|case| case.kind).collect();
    let all = [
        "amni",
        "ident",
        "nmt_command",
        "nmt_request",
        "pres",
        "preq",
        "sdo",
        "soa",
        "soc",
        "status",
    ];
    assert_eq!(kinds, all.map(str::to_owned).into_iter().collect());
}

proptest! {
    #[test]
    fn any_octets(
        head in (0..=9u8, any::<u8>(), any::<u8>(), 0..=7u8),
        mut octets in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let head = [head.0, head.1, head.2, head.3];
        octets.splice(..0, head);
        let Ok(message) = Message::parse(&octets) else { return Ok(()) };
        let again = emitted(&message);
        prop_assert_eq!(Message::parse(&again), Ok(message));
        prop_assert!(!message.to_string().is_empty());
    }
}

//! Clients that break the protocol: a clear error, and the session ends.

use std::time::Instant;

use proptest::prelude::*;

use super::{HELLO, MemoryNode, SID, open, replies};
use crate::{BASE, Document, LONGEST, Session, XmlError, encode};

/// The end of a session after these octets: its failure, and its last reply.
fn end(octets: &[u8]) -> (String, String) {
    let mut session = open(MemoryNode::default());
    session.receive(octets);
    session.end();
    assert!(session.is_closed());
    let failure = session.failure().unwrap_or_default().to_owned();
    (failure, replies(&mut session).pop().unwrap_or_default())
}

#[test]
fn octets_that_are_no_frame_end_the_session() {
    for (octets, cause) in [
        (&b"\n#4\n<rp"[..], "closed the connection within a message"),
        (b"\n#04\n<rpc", "do not start a chunk"),
        (b"\n#0\n", "do not start a chunk"),
        (b"\n##\n", "do not start a chunk"),
        (b"\n#99999999999\n", "do not start a chunk"),
        (b"\n#4294967296\n", "do not start a chunk"),
        (b"\n#-1\n", "do not start a chunk"),
        (b"\n#3\n<a/>\n##\n", "do not start a chunk"),
        (b"<rpc/>]]>]]>", "do not start a chunk"),
        (b"\0\xff\xfe", "do not start a chunk"),
        (b"\n#4294967295\n", "longer than 1048576 octets"),
        (b"\n#2\n\xff\xff\n##\n", "not UTF-8"),
        (b"\n#4\n<a b\n##\n", "not XML"),
        (b"\n#4\n<a/>\n##\n", "not rpc"),
    ] {
        let (failure, reply) = end(octets);
        assert!(failure.contains(cause), "{octets:?}: {failure}");
        // However many octets have arrived.
        let mut session = open(MemoryNode::default());
        octets.iter().for_each(|octet| session.receive(&[*octet]));
        session.end();
        assert_eq!(session.failure().unwrap_or_default(), failure, "{octets:?}");
        assert!(reply.contains("<rpc-error>") || cause.contains("closed"), "{octets:?}: {reply}");
    }
}

#[test]
fn long_deep_and_explosive_messages_are_refused_at_once() {
    let start = Instant::now();
    // More than 64 MiB, in many chunks.
    let chunk = format!("\n#65536\n{}", "x".repeat(65536));
    assert!(end(chunk.repeat(1025).as_bytes()).0.contains("longer than"));

    let bomb = "<!DOCTYPE a [<!ENTITY b \"bbbb\"><!ENTITY c \"&b;&b;&b;\">]><a>&c;</a>";
    assert!(end(&encode(bomb, true)).0.contains("declares a document type"));
    assert!(end(&encode("<a>&b;</a>", true)).0.contains("not XML"));
    // They are no rpc with a number, to which a reply could refer.
    let deep = |levels: usize| format!("{}{}", "<a>".repeat(levels), "</a>".repeat(levels));
    assert!(end(&encode(&deep(33), true)).0.contains("more than 32 levels"));
    assert!(end(&encode(&deep(100_000), true)).0.contains("more than 32 levels"));
    assert!(Document::parse(deep(32).as_bytes()).is_ok());
    let attributes: String = (0..100_000).map(|n| format!(" a{n}=''")).collect();
    assert!(end(&encode(&format!("<a{attributes}/>"), true)).0.contains("more than 16 attributes"));
    // Marks in text, comments and attributes are none.
    let text = "<a b='>'><!-- <c><d> --><![CDATA[<e><f>]]><?g <h>?></a>";
    assert!(Document::parse(text.as_bytes()).is_ok());
    assert_eq!(Document::parse(b"<!DOCTYPE a><a/>").unwrap_err(), XmlError::DocumentType);
    assert!(start.elapsed().as_secs() < 60);
}

/// The reply to a message that exceeds a limit, in an open session.
fn reply_of_open(octets: &[u8], is_chunked: bool) -> String {
    let version = if is_chunked { "base:1.1" } else { "base:1.0" };
    let mut session = Session::new(MemoryNode::default(), 5);
    session.receive(&encode(&HELLO.replace("base:1.1", version), false));
    session.output();
    // Client and session take turns of any length.
    octets.chunks(4001).for_each(|octets| session.receive(octets));
    assert!(!session.is_closed(), "{:?}", session.failure());
    let reply = session.output();
    // The next request is received as a whole.
    let next = format!("<rpc xmlns=\"{BASE}\" message-id=\"next\"><close-session/></rpc>");
    session.receive(&encode(&next, is_chunked));
    let done = format!("<rpc-reply xmlns=\"{BASE}\" message-id=\"next\"><ok/></rpc-reply>");
    assert_eq!(session.output(), encode(&done, is_chunked));
    String::from_utf8(reply).unwrap()
}

#[test]
fn a_request_beyond_a_limit_is_refused_by_its_number_and_the_session_goes_on() {
    let rpc = |content: &str| {
        format!(
            "<?xml version=\"1.0\"?> <!-- <a> -->\n<nc:rpc xmlns:nc=\"{BASE}\" a=\"/&gt;\" message-id='é&quot;7'>\
             {content}</nc:rpc>"
        )
    };
    let start =
        format!("<rpc-reply xmlns=\"{BASE}\" a=\"/&gt;\" message-id=\"é&quot;7\"><rpc-error>");
    let attributes: String = (0..17).map(|n| format!(" a{n}=''")).collect();
    // 10 MiB, and one octet more than a message has.
    let long = rpc(&"<a/>".repeat(10 << 18));
    let longer = |by: usize| rpc(&"é".repeat((LONGEST - rpc("").len()) / 2 + by));
    for (message, cause) in [
        (long.as_str(), "longer than 1048576 octets"),
        (longer(1).as_str(), "longer than 1048576 octets"),
        (rpc(&"<a>".repeat(33)).as_str(), "more than 32 levels"),
        (rpc(&format!("<a{attributes}/>")).as_str(), "more than 16 attributes"),
    ] {
        for is_chunked in [true, false] {
            let reply = reply_of_open(&encode(message, is_chunked), is_chunked);
            assert!(reply.contains(&start), "{reply}");
            assert!(reply.contains("<error-tag>too-big</error-tag>"), "{reply}");
            assert!(reply.contains(cause), "{reply}");
        }
    }
    assert!(reply_of_open(&encode(&longer(0), true), true).contains("missing-element"));
    // In chunks that divide the tag, and whose last one exceeds the limit.
    let (first, rest) = long.split_at(60);
    let chunks = format!("\n#60\n{first}\n#{}\n{rest}\n##\n", rest.len());
    assert!(reply_of_open(chunks.as_bytes(), true).contains(&start));

    // Without a number that can be read, the session ends.
    let nameless = "x".repeat(LONGEST + 1);
    let start = format!("<rpc xmlns=\"{BASE}\" message-id=\"1\"");
    for message in [&nameless, &(start + &nameless), &format!("<a>{nameless}</a>")] {
        let (failure, reply) = end(&encode(message, true));
        assert!(failure.contains("longer than") && reply.contains("too-big"), "{failure}");
        assert!(!reply.contains("message-id"), "{reply}");
    }
}

#[test]
fn a_session_without_a_fitting_hello_ends() {
    for (first, cause) in [
        (format!("<rpc xmlns=\"{BASE}\" message-id=\"1\"><get/></rpc>"), "send hello first"),
        (HELLO.replace("base:1.1", "base:2.0"), "neither capability base:1.0 nor base:1.1"),
        (HELLO.replace("</hello>", "<session-id>1</session-id></hello>"), "has a session-id"),
        ("x".to_owned(), "not XML"),
    ] {
        let mut session = Session::new(MemoryNode::default(), 5);
        session.output();
        session.receive(&encode(&first, false));
        assert!(session.failure().unwrap_or_default().contains(cause), "{first}");
        assert_eq!(session.output(), b"", "{first}");
    }
    let mut session = Session::new(MemoryNode::default(), 5);
    session.receive(&encode(&"<".repeat(LONGEST + 1), false));
    assert!(session.failure().unwrap_or_default().contains("longer than"));
    // A request without an id is an error of its own.
    let mut session = open(MemoryNode::default());
    session.receive(&encode(&format!("<rpc xmlns=\"{BASE}\"><get/></rpc>"), true));
    assert!(replies(&mut session)[0].contains("<error-tag>missing-attribute</error-tag>"));
    assert!(!session.is_closed());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_octets_panic(octets in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..400usize) {
        let rpc = format!(
            "<rpc xmlns=\"{BASE}\" message-id=\"1\"><edit-config><target><running/></target><config>\
             <stream-identity xmlns=\"{SID}\"><index>1</index></stream-identity></config></edit-config></rpc>"
        );
        let mut whole = encode(&rpc, true);
        whole.truncate(cut);
        whole.extend(octets);
        let mut session = open(MemoryNode::default());
        session.receive(&whole);
        session.end();
        prop_assert!(session.is_closed());
    }
}

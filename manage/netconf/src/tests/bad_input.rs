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
        assert!(reply.contains("<rpc-error>") || cause.contains("closed"), "{octets:?}: {reply}");
    }
}

#[test]
fn long_deep_and_explosive_messages_are_refused_at_once() {
    let start = Instant::now();
    // 10 MiB, as one chunk and as many.
    let edit = format!("<rpc xmlns=\"{BASE}\" message-id=\"1\">{}</rpc>", "<a/>".repeat(10 << 18));
    let (failure, reply) = end(&encode(&edit, true));
    assert!(failure.contains("longer than") && reply.contains("too-big"), "{failure}: {reply}");
    let chunk = format!("\n#65536\n{}", "x".repeat(65536));
    assert!(end(chunk.repeat(160).as_bytes()).0.contains("longer than"));

    let bomb = "<!DOCTYPE a [<!ENTITY b \"bbbb\"><!ENTITY c \"&b;&b;&b;\">]><a>&c;</a>";
    assert!(end(&encode(bomb, true)).0.contains("declares a document type"));
    assert!(end(&encode("<a>&b;</a>", true)).0.contains("not XML"));
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
    session.receive(&vec![b'<'; LONGEST + 1]);
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

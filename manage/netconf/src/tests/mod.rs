//! Sessions with a node in memory.

mod bad_input;

use onbeat_yang::schema::{NodeKind, ROOT, SchemaNode};
use serde_json::{Value, json};

use crate::framing::{Decoder, encode};
use crate::{
    BASE, Datastore, Document, ErrorTag, LockError, Node, RpcError, Session, edit, to_xml,
};

/// A node that keeps any document.
#[derive(Debug, Default)]
pub(super) struct MemoryNode {
    pub(super) running: Value,
    startup: Value,
    refuses: bool,
    is_locked_by_other: bool,
}

impl Node for MemoryNode {
    fn read(&mut self, datastore: Datastore, _: bool) -> Result<Value, RpcError> {
        Ok(match datastore {
            Datastore::Running => self.running.clone(),
            Datastore::Startup => self.startup.clone(),
        })
    }

    fn write(&mut self, configuration: &Value) -> Result<(), Vec<RpcError>> {
        if self.is_locked_by_other {
            return Err(vec![RpcError::new(ErrorTag::InUse, "process 7 has the lock")]);
        }
        if self.refuses {
            let path = "/ieee802-dot1cb-frer:frer/sequence-recovery[index='7']/history-length";
            return Err(vec![RpcError::at(ErrorTag::InvalidValue, path, "it is 1; write 2")]);
        }
        self.running = configuration.clone();
        Ok(())
    }

    fn store(&mut self, remove: bool) -> Result<(), RpcError> {
        self.startup = if remove { json!({}) } else { self.running.clone() };
        Ok(())
    }

    fn lock(&mut self, _: Datastore) -> Result<(), LockError> {
        match self.is_locked_by_other {
            true => Err(LockError::Held(7, "process 7".into())),
            false => Ok(()),
        }
    }

    fn unlock(&mut self, _: Datastore) {}

    fn kill(&mut self, session: u32) -> Result<(), RpcError> {
        let message = format!("no session {session}");
        Err(RpcError::element(ErrorTag::InvalidValue, "session-id", message))
    }

    fn module(&mut self, name: &str, _: Option<&str>) -> Option<String> {
        (name == "ietf-interfaces").then(|| "module ietf-interfaces { a < b }".to_owned())
    }
}

pub(super) const HELLO: &str = "<hello xmlns=\"urn:ietf:params:xml:ns:netconf:base:1.0\"><capabilities>\
    <capability>urn:ietf:params:netconf:base:1.1</capability></capabilities></hello>";

pub(super) const SID: &str = "urn:ieee:std:802.1Q:yang:ieee802-dot1cb-stream-identification";

fn document() -> Value {
    json!({
        "ietf-interfaces:interfaces": { "interface": [
            { "name": "eth0", "type": "iana-if-type:ethernetCsmacd" },
            { "name": "eth1", "type": "iana-if-type:ethernetCsmacd" },
        ] },
        "ieee802-dot1cb-stream-identification:stream-identity": [
            entry(1, 100),
            entry(2, 200),
        ],
    })
}

fn entry(handle: u32, vlan: u32) -> Value {
    json!({
        "index": handle,
        "handle": handle,
        "out-facing": { "input-port": ["eth0"], "output-port": ["eth1"] },
        "null-stream-identification":
            { "destination-mac": "01-00-5E-00-00-01", "tagged": "tagged", "vlan": vlan },
    })
}

/// A session after hello.
pub(super) fn open(node: MemoryNode) -> Session<MemoryNode> {
    let mut session = Session::new(node, 5);
    session.receive(&encode(HELLO, false));
    session.output();
    session
}

/// The replies of a session, without frames.
pub(super) fn replies(session: &mut Session<MemoryNode>) -> Vec<String> {
    let mut decoder = Decoder::default();
    decoder.use_chunks();
    decoder.push(&session.output());
    std::iter::from_fn(|| decoder.next_message().unwrap())
        .map(|message| String::from_utf8(message).unwrap())
        .collect()
}

/// The reply to an operation.
fn ask(session: &mut Session<MemoryNode>, operation: &str) -> String {
    // Clients use prefixes.
    let rpc = format!(
        "<nc:rpc xmlns:nc=\"{BASE}\" xmlns=\"{BASE}\" message-id=\"9\">{operation}</nc:rpc>"
    );
    session.receive(&encode(&rpc, true));
    let mut replies = replies(session);
    assert_eq!(replies.len(), 1, "{operation}: {replies:?}");
    let reply = replies.remove(0);
    assert!(
        reply.starts_with(&format!("<rpc-reply xmlns=\"{BASE}\" message-id=\"9\">")),
        "{reply}"
    );
    reply
}

fn edit_running(session: &mut Session<MemoryNode>, options: &str, data: &str) -> String {
    let target = "<target><running/></target>";
    ask(
        session,
        &format!(
            "<edit-config>{target}{options}<config xmlns:nc=\"{BASE}\">{data}</config></edit-config>"
        ),
    )
}

#[test]
fn hello_ends_by_the_mark_and_replies_are_chunks() {
    let mut session = Session::new(MemoryNode::default(), 5);
    let hello = String::from_utf8(session.output()).unwrap();
    assert!(hello.ends_with("<session-id>5</session-id></hello>]]>]]>"), "{hello}");
    for capability in ["base:1.1<", "startup:1.0", "ieee802-dot1cb-frer&amp;revision=2025-11-12"] {
        assert!(hello.contains(capability), "{capability}");
    }
    session.receive(&encode(HELLO, false));
    let rpc = format!("<rpc xmlns=\"{BASE}\" message-id=\"1\" a=\"&lt;\"><close-session/></rpc>");
    // Octet by octet, in chunks of any size.
    for octet in format!("\n#3\n{}\n#{}\n{}\n##\n", &rpc[..3], rpc.len() - 3, &rpc[3..]).bytes() {
        session.receive(&[octet]);
    }
    assert_eq!(
        replies(&mut session),
        [format!("<rpc-reply xmlns=\"{BASE}\" message-id=\"1\" a=\"&lt;\"><ok/></rpc-reply>")]
    );
    assert!(session.is_closed() && session.failure().is_none());

    // A client of 1.0 has no chunks.
    let mut session = Session::new(MemoryNode::default(), 5);
    session.output();
    session.receive(&encode(&HELLO.replace("base:1.1", "base:1.0"), false));
    session.receive(&encode(&rpc, false));
    assert!(session.output().ends_with(b"</rpc-reply>]]>]]>"));
}

#[test]
fn data_are_written_by_namespace_with_keys_first() {
    let mut session = open(MemoryNode { running: document(), ..MemoryNode::default() });
    let reply = ask(&mut session, "<get-config><source><running/></source></get-config>");
    let interface = "<interface><name>eth0</name><type xmlns:iana-if-type=\"urn:ietf:params:xml:ns:yang:iana-if-type\">\
                     iana-if-type:ethernetCsmacd</type></interface>";
    assert!(reply.contains(interface), "{reply}");
    assert!(
        reply.contains(&format!("<stream-identity xmlns=\"{SID}\"><index>1</index>")),
        "{reply}"
    );
    assert!(!reply.contains("yang-library"));
    let reply = ask(&mut session, "<get/>");
    assert!(
        reply.contains("<yang-library xmlns=\"urn:ietf:params:xml:ns:yang:ietf-yang-library\">")
    );
}

#[test]
fn a_filter_selects_by_containment_and_by_value() {
    let mut session = open(MemoryNode { running: document(), ..MemoryNode::default() });
    let mut get = |filter: &str| {
        let filter = format!("<filter type=\"subtree\">{filter}</filter>");
        let reply = ask(
            &mut session,
            &format!("<get-config><source><running/></source>{filter}</get-config>"),
        );
        let (_, data) = reply.split_once("<data>").unwrap();
        data.split_once("</data>").unwrap().0.to_owned()
    };
    let in_list =
        |inner: &str| format!("<stream-identity xmlns=\"{SID}\">{inner}</stream-identity>");
    assert_eq!(get(""), "");
    assert_eq!(get("<other xmlns=\"urn:x\"/>"), "");
    // All of an entry, by its key; one leaf of it, with its key; a leaf of all entries.
    let all = get(&in_list("<index>2</index>"));
    assert!(all.contains("<vlan>200</vlan>") && !all.contains("<vlan>100</vlan>"), "{all}");
    assert_eq!(
        get(&in_list("<index>2</index><handle/>")),
        in_list("<index>2</index><handle>2</handle>")
    );
    let both = |first: u32| in_list(&format!("<index>{first}</index><handle>{first}</handle>"));
    assert_eq!(get(&in_list("<handle/>")), both(1) + &both(2));
    let by_vlan = "<null-stream-identification><vlan>200</vlan></null-stream-identification>";
    let selected = get(&in_list(by_vlan));
    assert!(
        selected.contains("<index>2</index>") && !selected.contains("<index>1</index>"),
        "{selected}"
    );
    // Entries that two elements select are one.
    let twice =
        get(&(in_list("<index>1</index><handle/>") + &in_list("<index>2</index><handle/>")));
    assert_eq!(twice, both(1) + &both(2));
    let refused = ask(&mut session, "<get><filter type=\"xpath\" select=\"/\"/></get>");
    assert!(refused.contains("<error-tag>bad-attribute</error-tag>"), "{refused}");
}

#[test]
fn edits_merge_replace_create_delete_and_remove() {
    let key = "<index>2</index>";
    let entry_with = |operation: &str, inner: &str| {
        format!(
            "<stream-identity xmlns=\"{SID}\" nc:operation=\"{operation}\">{inner}</stream-identity>"
        )
    };
    let vlan = "<null-stream-identification><vlan>7</vlan></null-stream-identification>";
    let list = |value: &Value| {
        value["ieee802-dot1cb-stream-identification:stream-identity"].as_array().unwrap().clone()
    };
    let after = |options: &str, data: &str| {
        let mut session = open(MemoryNode { running: document(), ..MemoryNode::default() });
        let reply = edit_running(&mut session, options, data);
        assert!(reply.contains("<ok/>"), "{reply}");
        session.node.running
    };
    let merged = after("", &entry_with("merge", &format!("{key}{vlan}")));
    let mut expected = entry(2, 7);
    assert_eq!(list(&merged), [entry(1, 100), expected.clone()]);
    let case = "<smac-vlan-stream-identification><source-mac>02-00-00-00-00-01</source-mac></smac-vlan-stream-identification>";
    expected.as_object_mut().unwrap().remove("null-stream-identification");
    expected["smac-vlan-stream-identification"] = json!({ "source-mac": "02-00-00-00-00-01" });
    assert_eq!(list(&after("", &entry_with("merge", &format!("{key}{case}"))))[1], expected);
    let replaced = after("", &entry_with("replace", &format!("{key}<handle>3</handle>")));
    assert_eq!(list(&replaced)[1], json!({ "index": 2, "handle": 3 }));
    let created = after("", &entry_with("create", "<index>4</index><handle>4</handle>"));
    assert_eq!(list(&created)[2], json!({ "index": 4, "handle": 4 }));
    for operation in ["delete", "remove"] {
        assert_eq!(list(&after("", &entry_with(operation, key))), [entry(1, 100)]);
    }
    assert_eq!(after("", &entry_with("remove", "<index>9</index>")), document());
    let port = "<out-facing><output-port nc:operation=\"delete\">eth1</output-port>\
                <output-port>eth0</output-port></out-facing>";
    let ports =
        list(&after("", &entry_with("merge", &format!("{key}{port}"))))[1]["out-facing"].clone();
    assert_eq!(ports["output-port"], json!(["eth0"]));
    let none =
        "<default-operation>none</default-operation><error-option>rollback-on-error</error-option>";
    let nested = format!(
        "<stream-identity xmlns=\"{SID}\">{key}<handle nc:operation=\"merge\">8</handle></stream-identity>"
    );
    assert_eq!(list(&after(none, &nested))[1]["handle"], 8);
    let replace = "<default-operation>replace</default-operation>";
    let all = after(replace, &format!("<stream-identity xmlns=\"{SID}\">{key}</stream-identity>"));
    assert_eq!(
        all,
        json!({ "ieee802-dot1cb-stream-identification:stream-identity": [{ "index": 2 }] })
    );
}

#[test]
fn an_edit_that_fails_changes_nothing_and_names_the_place() {
    let path = "/ieee802-dot1cb-stream-identification:stream-identity\
                [ieee802-dot1cb-stream-identification:index='2']";
    let in_entry = |inner: &str| {
        format!(
            "<stream-identity xmlns=\"{SID}\"><index>1</index><handle>9</handle></stream-identity>\
                 <stream-identity xmlns=\"{SID}\">{inner}</stream-identity>"
        )
    };
    let operation = |operation: &str, key: u32| {
        format!(
            "<stream-identity xmlns=\"{SID}\"><index>1</index><handle>9</handle></stream-identity>\
                 <stream-identity xmlns=\"{SID}\" nc:operation=\"{operation}\"><index>{key}</index></stream-identity>"
        )
    };
    let key = "<index>2</index>";
    for (data, tag, at) in [
        (operation("create", 2), "data-exists", path.to_owned()),
        (operation("delete", 3), "data-missing", path.replace("'2'", "'3'")),
        (operation("none", 2), "bad-attribute", String::new()),
        (
            in_entry(&format!("{key}<handle>x</handle>")),
            "invalid-value",
            format!("{path}/ieee802-dot1cb-stream-identification:handle<"),
        ),
        (in_entry(&format!("{key}<handel>1</handel>")), "unknown-element", format!("{path}<")),
        (in_entry("<handle>1</handle>"), "missing-element", String::new()),
        ("<frer xmlns=\"urn:x\"/>".to_owned(), "unknown-namespace", String::new()),
    ] {
        let mut session = open(MemoryNode { running: document(), ..MemoryNode::default() });
        let reply = edit_running(&mut session, "", &data);
        assert!(reply.contains(&format!("<error-tag>{tag}</error-tag>")), "{data}: {reply}");
        assert!(reply.contains(&at), "{at}: {reply}");
        assert_eq!(session.node.running, document());
        assert!(!session.is_closed());
    }
    let mut session =
        open(MemoryNode { running: document(), refuses: true, ..MemoryNode::default() });
    let reply = edit_running(&mut session, "", "");
    assert!(
        reply.contains(
            "<error-path xmlns:ieee802-dot1cb-frer=\"urn:ieee:std:802.1Q:yang:ieee802-dot1cb-frer\">\
             /ieee802-dot1cb-frer:frer/ieee802-dot1cb-frer:sequence-recovery[ieee802-dot1cb-frer:index='7']\
             /ieee802-dot1cb-frer:history-length</error-path>"
        ),
        "{reply}"
    );
}

#[test]
fn datastores_are_copied_locked_and_deleted() {
    let mut session = open(MemoryNode { running: document(), ..MemoryNode::default() });
    let copy = |source: &str, target: &str| {
        format!("<copy-config><target>{target}</target><source>{source}</source></copy-config>")
    };
    assert!(ask(&mut session, &copy("<running/>", "<startup/>")).contains("<ok/>"));
    assert_eq!(session.node.startup, document());
    let config = format!(
        "<config><stream-identity xmlns=\"{SID}\"><index>3</index></stream-identity></config>"
    );
    assert!(ask(&mut session, &copy(&config, "<running/>")).contains("<ok/>"));
    assert_eq!(
        session.node.running["ieee802-dot1cb-stream-identification:stream-identity"],
        json!([{ "index": 3 }])
    );
    assert!(ask(&mut session, &copy("<startup/>", "<running/>")).contains("<ok/>"));
    assert_eq!(session.node.running, document());
    assert!(
        ask(&mut session, "<delete-config><target><startup/></target></delete-config>")
            .contains("<ok/>")
    );
    assert_eq!(session.node.startup, json!({}));

    let (lock, unlock) = (
        "<lock><target><running/></target></lock>",
        "<unlock><target><running/></target></unlock>",
    );
    assert!(ask(&mut session, unlock).contains("operation-failed"));
    assert!(ask(&mut session, lock).contains("<ok/>"));
    let again = ask(&mut session, lock);
    assert!(
        again.contains("lock-denied") && again.contains("<session-id>5</session-id>"),
        "{again}"
    );
    assert!(edit_running(&mut session, "", "").contains("<ok/>"));
    assert!(ask(&mut session, unlock).contains("<ok/>"));
    session.node.is_locked_by_other = true;
    let denied = ask(&mut session, lock);
    assert!(
        denied.contains("lock-denied") && denied.contains("<session-id>7</session-id>"),
        "{denied}"
    );
    assert!(edit_running(&mut session, "", "").contains("<error-tag>in-use</error-tag>"));

    for (operation, tag) in [
        ("<validate/>", "operation-not-supported"),
        ("<get-config><source><candidate/></source></get-config>", "operation-not-supported"),
        ("<get-config/>", "missing-element"),
        ("<kill-session><session-id>5</session-id></kill-session>", "invalid-value"),
        ("<kill-session><session-id>6</session-id></kill-session>", "invalid-value"),
        (
            "<edit-config><target><startup/></target><config/></edit-config>",
            "operation-not-supported",
        ),
        (
            "<edit-config><target><running/></target><test-option>set</test-option><config/></edit-config>",
            "unknown-element",
        ),
        (
            "<edit-config><target><running/></target><error-option>continue-on-error</error-option><config/></edit-config>",
            "operation-not-supported",
        ),
        ("<delete-config><target><running/></target></delete-config>", "operation-not-supported"),
    ] {
        let reply = ask(&mut session, operation);
        assert!(reply.contains(&format!("<error-tag>{tag}</error-tag>")), "{operation}: {reply}");
    }
}

#[test]
fn a_module_is_returned_if_it_is_known_here() {
    let mut session = open(MemoryNode::default());
    let get = |name: &str| {
        format!(
            "<get-schema xmlns=\"{}\"><identifier>{name}</identifier></get-schema>",
            crate::MONITORING
        )
    };
    assert!(ask(&mut session, &get("ietf-interfaces")).contains("{ a &lt; b }</data>"));
    let absent = ask(&mut session, &get("ieee802-dot1cb-frer"));
    assert!(absent.contains("licence permits no copy"), "{absent}");
}

/// A document with all nodes of a schema.
fn whole(schema: &'static [SchemaNode], parent: &'static str, cases: bool) -> Value {
    let mut members = serde_json::Map::new();
    for node in schema.iter().filter(|node| cases || !matches!(node.kind, NodeKind::Case(_))) {
        use onbeat_yang::schema::LeafType::{Flag, Identity, Number, Text};
        let leaf = |kind| match kind {
            Text => json!("a & <b>"),
            Number => json!(7),
            Flag => json!(true),
            Identity => json!("iana-if-type:ethernetCsmacd"),
        };
        let value = match node.kind {
            NodeKind::Leaf(kind) => leaf(kind),
            NodeKind::LeafList(kind) => json!([leaf(kind)]),
            NodeKind::List(_, inner) => json!([whole(inner, node.module_in(parent), cases)]),
            NodeKind::Container(inner) | NodeKind::Case(inner) => {
                whole(inner, node.module_in(parent), cases)
            }
        };
        members.insert(node.member_name(parent), value);
    }
    Value::Object(members)
}

#[test]
fn every_node_of_the_schema_is_the_same_after_xml() {
    let before = whole(ROOT, "", false);
    let text = format!("<config>{}</config>", to_xml(&before));
    let document = Document::parse(text.as_bytes()).unwrap();
    let mut after = json!({});
    edit::apply(document.root(), edit::Operation::Merge, &mut after).unwrap();
    assert_eq!(after, before);
}

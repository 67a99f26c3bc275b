//! Documents that no node can run: each fault has the path of its leaf.

use std::collections::BTreeMap;

use onbeat_frer::spec::*;
use onbeat_wire::MacAddress;
use onbeat_yang::{Interface, KeptHandles, configuration, streams};
use serde_json::{Value, json};

/// A relay: `there` is numbered and replicated (handles 1 to 3), `back` recovered (handles 4 to 6).
fn relay() -> Value {
    let interfaces =
        ["eth0", "eth1", "eth2"].map(|name| Interface { name: name.to_owned(), longest_mask: 64 });
    let member = |port, octet, vlan| Member {
        port: PortId(port),
        identification: Identification::Null {
            destination: MacAddress([1, 0, 0x5e, 0, 0, octet]),
            vlan: VlanMatch { tagged: TagMatch::Tagged, vlan },
        },
        individual: None,
    };
    let egress = |port, tag, vlan| Egress {
        port: PortId(port),
        tag,
        rewrite: Rewrite { vlan: VlanAction::Set(vlan), ..Rewrite::default() },
    };
    let there = Stream {
        name: "there".into(),
        members: vec![member(0, 1, 100)],
        generate: true,
        recover: None,
        egress: vec![egress(1, SequenceTag::RTag, 101), egress(2, SequenceTag::RTag, 102)],
    };
    let back = Stream {
        name: "back".into(),
        members: vec![member(1, 2, 101), member(2, 2, 102)],
        generate: false,
        recover: Some(Recovery::vector(64)),
        egress: vec![egress(0, SequenceTag::Remove, 100)],
    };
    configuration(&interfaces, &[there, back], &KeptHandles::new()).0
}

const FRER: &str = "/ieee802-dot1cb-frer:frer";
const IDENTITY: &str = "/ieee802-dot1cb-stream-identification:stream-identity";

/// Reads the document with a member set (removed: null); returns all faults.
fn faults(container: &str, name: &str, value: Value) -> Vec<(String, String)> {
    let mut document = relay();
    assert_eq!(streams(&document, None, &BTreeMap::new()).map(|read| read.streams.len()), Ok(2));
    let object = document.pointer_mut(container).unwrap().as_object_mut().unwrap();
    match value {
        Value::Null => object.remove(name),
        value => object.insert(name.to_owned(), value),
    };
    let read = streams(&document, None, &BTreeMap::new());
    let faults = read.expect_err(&format!("{container}/{name}")).0;
    faults.into_iter().map(|fault| (fault.path, fault.message)).collect()
}

#[test]
fn each_fault_has_the_path_of_its_leaf() {
    let recovery = format!("{FRER}/sequence-recovery/0");
    let first = format!("{IDENTITY}/0");
    let at_eth1 = format!("{FRER}/sequence-identification/0");
    for (container, name, value, path, message) in [
        (
            &recovery,
            "history-length",
            json!(1),
            "/sequence-recovery[index='7']/history-length",
            "1 is not",
        ),
        (&recovery, "reset", json!(true), "/sequence-recovery[index='7']/reset", "a reset is not"),
        (&recovery, "reset-timeout", json!("9"), "/reset-timeout", "\"9\" is not a number"),
        (
            &recovery,
            "direction-out-facing",
            json!(true),
            "/direction-out-facing",
            "not possible here",
        ),
        (
            &recovery,
            "port",
            json!(["eth0", "eth1"]),
            "/port[.='eth1']",
            "does not leave by this port",
        ),
        (&recovery, "port", json!(["eth9"]), "/port[.='eth9']", "no interface is named \"eth9\""),
        (
            &recovery,
            "stream",
            json!([4, 77]),
            "/stream[.='77']",
            "no stream-identity has handle 77",
        ),
        (&recovery, "stream", json!([4, 6]), "/stream[.='6']", "is that of an output"),
        (&recovery, "stream", json!([4, 1]), "/stream[.='1']", "another sequence function"),
        (&recovery, "latent-error-detection", json!(true), "[index='7']", "requires parameters"),
        (&recovery, "colour", json!(1), "/sequence-recovery[index='7']/colour", "cannot set"),
        (&first, "handle", json!(null), "[index='1']/handle", "missing"),
        (&first, "index", json!(2), "[index='2']/index", "another entry has this index"),
        (
            &first,
            "in-facing",
            json!({"input-port": ["eth0"]}),
            "/in-facing/input-port",
            "no in-facing",
        ),
        (
            &first,
            "ieee802-dot1cb-frer:lan-path-id",
            json!(0),
            "/ieee802-dot1cb-frer:lan-path-id",
            "autoconf",
        ),
        (&first, "ip-stream-identification", json!({}), "/ip-stream-identification", "two types"),
        (&at_eth1, "active", json!(false), "/stream[.='2']", "a passive entry only decodes"),
        (
            &at_eth1,
            "encapsulation",
            json!({"hsr-sequence-tag": {}}),
            "/hsr-sequence-tag",
            "R-TAGs only",
        ),
        (
            &format!("{first}/null-stream-identification"),
            "vlan",
            json!(4095),
            "/vlan",
            "4095 is not",
        ),
        (
            &format!("{first}/null-stream-identification"),
            "destination-mac",
            json!("01:00:5E:00:00:01"),
            "/destination-mac",
            "is not octets separated by hyphens",
        ),
        (
            &FRER.to_owned(),
            "autoconfiguration",
            json!({}),
            "/autoconfiguration",
            "no autoconfiguration",
        ),
        (&String::new(), "ietf-system:system", json!({}), "/ietf-system:system", "cannot set"),
    ] {
        let found = faults(container, name, value);
        let matches = |(at, text): &(String, String)| at.ends_with(path) && text.contains(message);
        assert!(found.iter().any(matches), "{container}/{name}: {found:?}");
    }
}

#[test]
fn streams_that_share_frames_are_refused() {
    let mut document = relay();
    let second = document.pointer(&format!("{IDENTITY}/3/out-facing")).unwrap().clone();
    document.pointer_mut(&format!("{IDENTITY}/0")).unwrap()["out-facing"] = second;
    let first =
        document.pointer(&format!("{IDENTITY}/3/null-stream-identification")).unwrap().clone();
    document.pointer_mut(&format!("{IDENTITY}/0")).unwrap()["null-stream-identification"] = first;
    document.pointer_mut(&format!("{FRER}/stream-split/0")).unwrap()["port"] = json!("eth1");
    let faults = streams(&document, None, &BTreeMap::new()).unwrap_err().0;
    let [fault] = &faults[..] else { panic!("{faults:?}") };
    assert!(fault.path.ends_with("[index='4']/out-facing/input-port[.='eth1']"), "{fault}");
    assert!(fault.message.contains("the same frames"), "{fault}");
}

#[test]
fn a_document_that_is_no_object_or_deep_has_one_fault() {
    for document in [json!([]), json!(null), json!("x"), json!(1)] {
        let faults = streams(&document, None, &BTreeMap::new()).unwrap_err().0;
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].to_string().starts_with("/: "), "{}", faults[0]);
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Any member of a document, replaced by any small value: it is read or refused, without a panic.
    #[test]
    fn no_document_panics(place in 0..400usize, value in 0..8usize) {
        let mut document = relay();
        let values = [
            json!(null), json!({}), json!([]), json!(-1), json!(4_294_967_296_u64), json!(""), json!(true), json!([{}]),
        ];
        let mut pointers = Vec::new();
        collect(&document, String::new(), &mut pointers);
        let pointer = &pointers[place % pointers.len()];
        *document.pointer_mut(pointer).unwrap() = values[value].clone();
        if let Err(faults) = streams(&document, None, &BTreeMap::new()) {
            proptest::prop_assert!(!faults.0.is_empty());
        }
    }
}

fn collect(value: &Value, pointer: String, into: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                collect(value, format!("{pointer}/{name}"), into);
            }
        }
        Value::Array(values) => {
            for (place, value) in values.iter().enumerate() {
                collect(value, format!("{pointer}/{place}"), into);
            }
        }
        _ => {}
    }
    into.push(pointer);
}

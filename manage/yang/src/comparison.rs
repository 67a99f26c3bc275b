//! That a node keeps all leaves of a document: what is set can be read again.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::{Map, Value};

use crate::document::{FaultList, Faults};
use crate::handles::{StreamHandles, identity_path};
use crate::model::Interface;
use crate::read::Document;
use crate::schema::{NodeKind, ROOT, SchemaNode};
use crate::write::configuration;

/// Checks that the configuration of a node with the streams of this document has all of its leaves, with their values.
///
/// # Errors
/// Each leaf that reads otherwise afterwards, such as an index that is not derived from the handle.
pub fn check_kept(
    document: &Value,
    interfaces: &[Interface],
    streams: &Document,
) -> Result<(), Faults> {
    let own = streams.kept_handles();
    let (after, _) = configuration(interfaces, &streams.streams, &own);
    let faults = FaultList::default();
    let mut known = HashSet::new();
    for handle in streams.handles.iter().flat_map(StreamHandles::iter) {
        if !known.insert(handle) {
            let help = "give each its own, or join the members by a sequence function";
            faults.note(
                &identity_path(handle),
                format!("two members or outputs have handle {handle}"),
                help,
            );
        }
    }
    // These would read otherwise in any case.
    if faults.count() > 0 {
        return Err(Faults(faults.into_faults()));
    }
    if let (Value::Object(document), Value::Object(after)) = (document, &after) {
        compare_members(document, after, ROOT, ("", ""), &faults);
    }
    match faults.into_faults() {
        faults if faults.is_empty() => Ok(()),
        faults => Err(Faults(faults)),
    }
}

/// Compares the members of an object with this path. A missing leaf is not compared: the reader permits only its default.
fn compare_members(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    schema: &'static [SchemaNode],
    (path, module): (&str, &'static str),
    faults: &FaultList,
) {
    for (name, value) in before {
        let Some(node) = SchemaNode::of_member(schema, name, module) else { continue };
        let of = node.module_in(module);
        let path = format!("{path}/{}", node.member_name(module));
        let after = node.value_in(after, module);
        match (&node.kind, value, after) {
            (
                NodeKind::Container(inner) | NodeKind::Case(inner),
                Value::Object(value),
                Some(Value::Object(after)),
            ) => {
                compare_members(value, after, inner, (&path, of), faults);
            }
            (NodeKind::List(keys, inner), Value::Array(entries), after) => {
                let after = after.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                for entry in entries {
                    let path = format!("{path}{}", predicate(entry, keys));
                    let same = after.iter().find(|other| {
                        keys.iter().all(|key| is_same(entry.get(key), other.get(key)))
                    });
                    match (entry, same) {
                        (Value::Object(entry), Some(Value::Object(same))) => {
                            compare_members(entry, same, inner, (&path, of), faults);
                        }
                        _ => faults.note(
                            &path,
                            "the node would not keep this entry with these keys",
                            "derive keys from handles as in the output of onbeat yang get",
                        ),
                    }
                }
            }
            (NodeKind::LeafList(_), Value::Array(values), Some(Value::Array(after))) => {
                for value in values.iter().filter(|value| !after.contains(value)) {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    faults.note(
                        &format!("{path}[.='{text}']"),
                        "the node would not keep this value",
                        "give each port of a handle an entry and a handle of its own",
                    );
                }
            }
            (NodeKind::Leaf(_), value, Some(after)) if !is_same(Some(value), Some(after)) => {
                let message = format!("the node would not keep {value}: it would read as {after}");
                faults.note(&path, message, format!("write {after}"));
            }
            _ => {}
        }
    }
}

/// The keys of an entry, as in its path.
fn predicate(entry: &Value, keys: &[&str]) -> String {
    let text = |key: &&str| {
        let value = entry.get(key).map(|value| match value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        });
        format!("[{key}='{}']", value.unwrap_or_default())
    };
    keys.iter().map(text).collect()
}

/// Whether two values are the same, in canonical form or not.
fn is_same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a.and_then(Value::as_str), b.and_then(Value::as_str)) {
        (Some(a), Some(b)) => {
            let address = |text: &str| text.parse::<IpAddr>().ok();
            a.eq_ignore_ascii_case(b) || (address(a).is_some() && address(a) == address(b))
        }
        _ => a == b,
    }
}

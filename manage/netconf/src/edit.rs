//! `edit-config`: the edits of XML elements, applied to the JSON of a configuration.

use onbeat_yang::schema::{Module, NodeKind, ROOT, SchemaNode};
use roxmltree::Node;
use serde_json::{Map, Value};

use crate::BASE;
use crate::error::{ErrorTag, RpcError};
use crate::xml::{elements, schema_node, value};

/// An operation on data (RFC 6241, 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Merge,
    Replace,
    Create,
    Delete,
    Remove,
    /// Neither: data below have operations of their own.
    None,
}

impl Operation {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "merge" => Self::Merge,
            "replace" => Self::Replace,
            "create" => Self::Create,
            "delete" => Self::Delete,
            "remove" => Self::Remove,
            "none" => Self::None,
            _ => return None,
        })
    }

    fn is_removal(self) -> bool {
        matches!(self, Self::Delete | Self::Remove)
    }
}

/// Applies the children of `config` to a configuration.
pub(crate) fn apply(
    config: Node<'_, '_>,
    default: Operation,
    data: &mut Value,
) -> Result<(), RpcError> {
    let Value::Object(members) = data else { return Ok(()) };
    edit_members(config, default, members, ROOT, ("", ""))
}

fn edit_members(
    parent: Node<'_, '_>,
    inherited: Operation,
    members: &mut Map<String, Value>,
    schema: &'static [SchemaNode],
    (path, module): (&str, &'static str),
) -> Result<(), RpcError> {
    for element in elements(parent) {
        let name = element.tag_name().name();
        let node = schema_node(schema, element, module).ok_or_else(|| unknown(element, path))?;
        let operation = match element.attribute((BASE, "operation")) {
            Some(name) => Operation::named(name).filter(|operation| *operation != Operation::None),
            None => Some(inherited),
        };
        let operation = operation.ok_or_else(|| {
            RpcError::at(
                ErrorTag::BadAttribute,
                &format!("{path}/{}", node.member_name(module)),
                format!(
                    "unknown operation of {name:?}; use merge, replace, create, delete, remove"
                ),
            )
        })?;
        edit(element, operation, members, schema, node, (path, module))?;
    }
    Ok(())
}

fn unknown(element: Node<'_, '_>, path: &str) -> RpcError {
    let namespace = element.tag_name().namespace().unwrap_or_default();
    let name = element.tag_name().name();
    let (tag, message) = match Module::of_namespace(namespace) {
        Some(module) => (
            ErrorTag::UnknownElement,
            format!("the node does not set {:?} of module {} here; remove it", name, module.name),
        ),
        None => (
            ErrorTag::UnknownNamespace,
            format!(
                "element {name:?} has unknown namespace {namespace:?}; use that of a module in hello"
            ),
        ),
    };
    let info = Some(("bad-element", name.to_owned()));
    RpcError { info, ..RpcError::at(tag, path, message) }
}

fn edit(
    element: Node<'_, '_>,
    operation: Operation,
    members: &mut Map<String, Value>,
    siblings: &'static [SchemaNode],
    node: &'static SchemaNode,
    (path, parent): (&str, &'static str),
) -> Result<(), RpcError> {
    let member = node.member_name(parent);
    let path = format!("{path}/{member}");
    let module = node.module_in(parent);
    match node.kind {
        NodeKind::Leaf(kind) => {
            check_presence(operation, members.contains_key(&member), &path)?;
            if operation.is_removal() {
                members.remove(&member);
            } else if operation != Operation::None {
                members.insert(member, value(kind, element).ok_or_else(|| bad(element, &path))?);
            }
        }
        NodeKind::LeafList(kind) => {
            let value = value(kind, element).ok_or_else(|| bad(element, &path))?;
            let entry = members.entry(member.clone()).or_insert_with(|| Value::Array(Vec::new()));
            let Value::Array(values) = entry else { return Err(bad(element, &path)) };
            let at = values.iter().position(|other| *other == value);
            check_presence(operation, at.is_some(), &path)?;
            match at {
                Some(at) if operation.is_removal() => _ = values.remove(at),
                None if !operation.is_removal() && operation != Operation::None => {
                    values.push(value)
                }
                _ => {}
            }
            drop_empty(members, &member);
        }
        NodeKind::Container(schema) | NodeKind::Case(schema) => {
            check_presence(operation, members.contains_key(&member), &path)?;
            if operation.is_removal() {
                members.remove(&member);
                return Ok(());
            }
            if matches!(node.kind, NodeKind::Case(_)) && operation != Operation::None {
                // One case of a choice excludes the others.
                for other in siblings.iter().filter(|other| matches!(other.kind, NodeKind::Case(_)))
                {
                    if other.name != node.name {
                        members.remove(&other.member_name(parent));
                    }
                }
            }
            let entry = members.entry(member).or_insert_with(|| Value::Object(Map::new()));
            edit_object(element, operation, entry, schema, (&path, module))?;
        }
        NodeKind::List(keys, schema) => {
            let wanted = keys_of(element, keys, schema, (&path, module))?;
            let text =
                |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let predicate: String =
                wanted.iter().map(|(key, value)| format!("[{key}='{}']", text(value))).collect();
            let path = format!("{path}{predicate}");
            let entry = members.entry(member.clone()).or_insert_with(|| Value::Array(Vec::new()));
            let Value::Array(entries) = entry else { return Err(bad(element, &path)) };
            let at = entries
                .iter()
                .position(|entry| wanted.iter().all(|(key, value)| entry.get(key) == Some(value)));
            check_presence(operation, at.is_some(), &path)?;
            match at {
                Some(at) if operation.is_removal() => _ = entries.remove(at),
                None if operation.is_removal() => {}
                None if operation == Operation::None => {
                    let message = "the entry does not exist; create it";
                    return Err(RpcError::at(ErrorTag::DataMissing, &path, message));
                }
                at => {
                    let at = at.unwrap_or_else(|| {
                        entries.push(Value::Object(wanted.iter().cloned().collect()));
                        entries.len() - 1
                    });
                    edit_object(element, operation, &mut entries[at], schema, (&path, module))?;
                }
            }
            drop_empty(members, &member);
        }
    }
    Ok(())
}

/// Edits a container or an entry that is not removed.
fn edit_object(
    element: Node<'_, '_>,
    operation: Operation,
    object: &mut Value,
    schema: &'static [SchemaNode],
    at: (&str, &'static str),
) -> Result<(), RpcError> {
    let operation = match operation {
        // What is new has no data that could be there.
        Operation::Replace | Operation::Create => {
            *object = Value::Object(Map::new());
            Operation::Merge
        }
        other => other,
    };
    let Value::Object(members) = object else { return Err(bad(element, at.0)) };
    edit_members(element, operation, members, schema, at)
}

/// The keys of an entry.
fn keys_of(
    element: Node<'_, '_>,
    keys: &[&str],
    schema: &'static [SchemaNode],
    (path, module): (&str, &'static str),
) -> Result<Vec<(String, Value)>, RpcError> {
    keys.iter()
        .map(|key| {
            let found = elements(element).find_map(|element| {
                let node = schema_node(schema, element, module)?;
                (node.name == *key).then_some((element, node))
            });
            let Some((element, node)) = found else {
                let message = format!("key {key:?} of the entry is missing; add it");
                let error = RpcError::at(ErrorTag::MissingElement, path, message);
                return Err(RpcError { info: Some(("bad-element", (*key).to_owned())), ..error });
            };
            let NodeKind::Leaf(kind) = node.kind else { return Err(bad(element, path)) };
            let value =
                value(kind, element).ok_or_else(|| bad(element, &format!("{path}/{key}")))?;
            Ok(((*key).to_owned(), value))
        })
        .collect()
}

fn check_presence(operation: Operation, exists: bool, path: &str) -> Result<(), RpcError> {
    let (tag, message) = match (operation, exists) {
        (Operation::Create, true) => (ErrorTag::DataExists, "it exists; use merge or replace"),
        (Operation::Delete, false) => (ErrorTag::DataMissing, "it does not exist; use remove"),
        _ => return Ok(()),
    };
    Err(RpcError::at(tag, path, message))
}

fn bad(element: Node<'_, '_>, path: &str) -> RpcError {
    let name = element.tag_name().name();
    let message = format!("{:?} is not a value of {name}; correct it", crate::xml::text(element));
    let info = Some(("bad-element", name.to_owned()));
    RpcError { info, ..RpcError::at(ErrorTag::InvalidValue, path, message) }
}

/// A list without entries does not exist.
fn drop_empty(members: &mut Map<String, Value>, name: &str) {
    if members.get(name).and_then(Value::as_array).is_some_and(Vec::is_empty) {
        members.remove(name);
    }
}

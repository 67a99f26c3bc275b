//! Subtree filters (RFC 6241, 6).

use onbeat_yang::schema::{Module, NodeKind, ROOT, SchemaNode};
use roxmltree::Node;
use serde_json::{Map, Value};

use crate::xml::{elements, text, value};

/// The selected data.
pub(crate) fn select(filter: Node<'_, '_>, data: &Value) -> Value {
    let mut selected = Map::new();
    if let Value::Object(data) = data {
        add_selected(filter, data, ROOT, "", &mut selected);
    }
    Value::Object(selected)
}

/// Adds what the children of a filter node select.
fn add_selected(
    filter: Node<'_, '_>,
    data: &Map<String, Value>,
    schema: &'static [SchemaNode],
    module: &'static str,
    selected: &mut Map<String, Value>,
) {
    for element in elements(filter) {
        for node in schema.iter().filter(|node| is_named(element, node, module)) {
            let Some(found) = node.value_in(data, module) else { continue };
            let inner = (node, node.module_in(module));
            let part = match (&node.kind, found) {
                (NodeKind::List(..), Value::Array(entries)) => {
                    let entries = entries.iter().filter_map(|entry| part(element, entry, inner));
                    Some(Value::Array(entries.collect()))
                        .filter(|part| *part != Value::Array(Vec::new()))
                }
                (_, found) => part(element, found, inner),
            };
            if let Some(part) = part {
                let known = selected.entry(node.member_name(module)).or_insert(Value::Null);
                merge(known, part, node);
            }
        }
    }
}

/// Whether a filter element selects a node of the schema. Without namespace it selects by its name.
fn is_named(element: Node<'_, '_>, node: &SchemaNode, parent: &'static str) -> bool {
    let namespace = element.tag_name().namespace();
    let module =
        namespace.map(|namespace| Module::of_namespace(namespace).map(|module| module.name));
    element.tag_name().name() == node.name
        && module.is_none_or(|module| module == Some(node.module_in(parent)))
}

/// The part of a value that a filter element selects.
fn part(
    element: Node<'_, '_>,
    found: &Value,
    (node, module): (&'static SchemaNode, &'static str),
) -> Option<Value> {
    let Value::Object(members) = found else {
        return match node.kind {
            NodeKind::Leaf(_) | NodeKind::LeafList(_) if !text(element).is_empty() => {
                is_match(element, node, found).then(|| found.clone())
            }
            _ => Some(found.clone()),
        };
    };
    if elements(element).next().is_none() {
        return Some(found.clone());
    }
    let schema = node.nodes();
    let leaf_of = |element: &Node<'_, '_>| {
        let is_leaf =
            |node: &&SchemaNode| matches!(node.kind, NodeKind::Leaf(_) | NodeKind::LeafList(_));
        schema.iter().filter(is_leaf).find(|node| is_named(*element, node, module))
    };
    // Leaves with a value must all match.
    let (conditions, others): (Vec<_>, Vec<_>) = elements(element)
        .partition(|element| elements(*element).next().is_none() && !text(*element).is_empty());
    for condition in &conditions {
        let leaf = leaf_of(condition)?;
        let value = leaf.value_in(members, module)?;
        if !is_match(*condition, leaf, value) {
            return None;
        }
    }
    if others.is_empty() {
        return Some(found.clone());
    }
    let mut selected = Map::new();
    add_selected(element, members, schema, module, &mut selected);
    if let NodeKind::List(keys, _) = node.kind {
        if selected.is_empty() {
            return None;
        }
        for key in keys {
            let value = members.get(*key).cloned();
            selected.extend(value.map(|value| ((*key).to_owned(), value)));
        }
    }
    (!selected.is_empty()).then_some(Value::Object(selected))
}

fn is_match(element: Node<'_, '_>, node: &SchemaNode, found: &Value) -> bool {
    let (NodeKind::Leaf(kind) | NodeKind::LeafList(kind)) = node.kind else { return false };
    let wanted = value(kind, element);
    match found {
        Value::Array(values) => wanted.is_some_and(|wanted| values.contains(&wanted)),
        found => wanted.as_ref() == Some(found),
    }
}

/// Adds data that two elements of a filter select of one node.
fn merge(known: &mut Value, part: Value, node: &'static SchemaNode) {
    match (known, part) {
        (Value::Object(known), Value::Object(part)) => {
            for (name, value) in part {
                let inner =
                    SchemaNode::of_member(node.nodes(), &name, node.module.unwrap_or_default());
                match (known.get_mut(&name), inner) {
                    (Some(known), Some(inner)) => merge(known, value, inner),
                    (None, _) | (_, None) => _ = known.insert(name, value),
                }
            }
        }
        (Value::Array(known), Value::Array(part)) => {
            let NodeKind::List(keys, _) = node.kind else { return };
            for entry in part {
                let same =
                    |other: &&mut Value| keys.iter().all(|key| other.get(key) == entry.get(key));
                match known.iter_mut().find(same) {
                    Some(known) => {
                        if let (Value::Object(known), Value::Object(entry)) = (known, entry) {
                            known.extend(entry);
                        }
                    }
                    None => known.push(entry),
                }
            }
        }
        (known, part) => *known = part,
    }
}

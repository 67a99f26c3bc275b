//! NetJSON NetworkGraph, and the node-link JSON of networkx, which topology collections use.

use serde_json::Value;

use super::{DELAYS, Draft, Fault, LinkValues, SPEEDS, fault, identifier, list, text};

/// Reads nodes, and links under `links` or `edges`.
pub(super) fn read(draft: &mut Draft, value: &Value) -> Result<(), Fault> {
    for (position, node) in list(value, "nodes").iter().enumerate() {
        let id = node.get("id").and_then(identifier).ok_or_else(|| {
            fault(format!("nodes[{position}]"), "the node has no id", "add \"id\"")
        })?;
        let label = text(node, "label").or_else(|| text(node, "name"));
        draft.labeled_node(&id, label.filter(|label| !label.is_empty()).unwrap_or(&id));
    }
    let key = if value.get("links").is_some() { "links" } else { "edges" };
    // Only in a multigraph without directions are a link and its opposite two cables. NetJSON can list both directions.
    let is = |key: &str| value.get(key).and_then(Value::as_bool);
    let has_opposite = (is("directed"), is("multigraph")) != (Some(false), Some(true));
    for (position, link) in list(value, key).iter().enumerate() {
        let place = format!("{key}[{position}]");
        let end = |name: &str| {
            let id = link.get(name).and_then(identifier).ok_or_else(|| {
                fault(&place, format!("the link has no {name}"), "write the id of a node")
            })?;
            draft.described(&id, || format!("{place}.{name}"))
        };
        let (a, b) = (end("source")?, end("target")?);
        if a == b {
            draft.remarks.push(format!("{place} leads from a node to itself, and is left out"));
            continue;
        }
        let properties = link.get("properties").unwrap_or(link);
        let attribute = |name: &str| properties.get(name).or_else(|| link.get(name));
        let values = LinkValues::read(SPEEDS, DELAYS, |name| identifier(attribute(name)?));
        draft.link((a, None), (b, None), has_opposite, values);
    }
    draft.index_labels();
    Ok(())
}

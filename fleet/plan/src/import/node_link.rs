//! NetJSON NetworkGraph, and the node-link JSON of networkx, which topology collections use.

use serde_json::Value;

use super::{Draft, Fault, fault, identifier, list, number, speed_and_delay, text};

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
    for (position, link) in list(value, key).iter().enumerate() {
        let place = format!("{key}[{position}]");
        let end = |name: &str| {
            let id = link.get(name).and_then(identifier).ok_or_else(|| {
                fault(&place, format!("the link has no {name}"), "write the id of a node")
            })?;
            draft.described(&id, format!("{place}.{name}"))
        };
        let (a, b) = (end("source")?, end("target")?);
        if a == b {
            draft.remarks.push(format!("{place} leads from a node to itself, and is left out"));
            continue;
        }
        let properties = link.get("properties").unwrap_or(link);
        let (speed, delay) =
            speed_and_delay(|name| number(properties.get(name).or_else(|| link.get(name))?));
        let [a, b] = [a, b].map(|node| draft.fresh_port(node, speed));
        draft.link(a, b, delay);
    }
    draft.index_labels();
    Ok(())
}

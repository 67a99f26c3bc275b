//! GraphML.

use std::collections::HashMap;

use roxmltree::{Document, Node, ParsingOptions};

use super::{DELAYS, Draft, Fault, LinkValues, SPEEDS, fault};

/// Most elements of a document.
const MOST_NODES: u32 = 5_000_000;

/// Reads the nodes and edges of the first graph. Directed edges in opposite directions can be one link.
pub(super) fn read(draft: &mut Draft, text: &str) -> Result<(), Fault> {
    let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let place = format!("line {}, column {}", error.pos().row, error.pos().col);
        fault(place, format!("not well-formed XML: {error}"), "export the file again as GraphML")
    })?;
    let place =
        |node: Node<'_, '_>| format!("line {}", document.text_pos_at(node.range().start).row);
    let named = |node: Node<'_, '_>, name: &str| node.tag_name().name() == name;
    let graph = document
        .descendants()
        .find(|node| named(*node, "graph"))
        .ok_or_else(|| fault("line 1", "the XML has no graph", "use GraphML"))?;
    for (name, remedy) in [
        (
            "graph",
            "only the first graph is read, without graphs in its nodes: write their nodes and links",
        ),
        (
            "hyperedge",
            "write its links, or a node with bridge = \"br0\" for the device that they meet in",
        ),
    ] {
        let mut others = document.descendants().filter(|node| named(*node, name) && *node != graph);
        if let Some(first) = others.next() {
            let count = 1 + others.count();
            draft
                .remarks
                .push(format!("{}: <{name}> is left out ({count} in all): {remedy}", place(first)));
        }
    }
    let keys: HashMap<&str, &str> = document
        .descendants()
        .filter(|node| named(*node, "key"))
        .filter_map(|key| Some((key.attribute("id")?, key.attribute("attr.name")?)))
        .collect();
    let data = |node: Node<'_, '_>| -> HashMap<String, String> {
        let data = node.children().filter(|child| named(*child, "data"));
        data.filter_map(|data| {
            let key = data.attribute("key")?;
            let name = keys.get(key).copied().unwrap_or(key);
            Some((name.to_lowercase(), data.text().unwrap_or_default().trim().to_owned()))
        })
        .collect()
    };
    for node in graph.children().filter(|node| named(*node, "node")) {
        let id = node
            .attribute("id")
            .ok_or_else(|| fault(place(node), "the node has no id", "add id"))?;
        let data = data(node);
        let label =
            data.get("label").or_else(|| data.get("name")).filter(|label| !label.is_empty());
        draft.labeled_node(id, label.map_or(id, String::as_str));
    }
    let default = graph.attribute("edgedefault");
    let mut loops = Vec::new();
    for edge in graph.children().filter(|edge| named(*edge, "edge")) {
        let end = |name: &str| {
            let id = edge.attribute(name).ok_or_else(|| {
                fault(place(edge), format!("the edge has no {name}"), "write the id of a node")
            })?;
            draft.described(id, || place(edge))
        };
        let (a, b) = (end("source")?, end("target")?);
        if a == b {
            loops.push(edge);
            continue;
        }
        let has_opposite = match edge.attribute("directed") {
            Some(directed) => directed == "true",
            None => default != Some("undirected"),
        };
        let data = data(edge);
        let values =
            LinkValues::read(SPEEDS, DELAYS, |name| data.get(&name.to_lowercase()).cloned());
        let [a, b] =
            [(a, "sourceport"), (b, "targetport")].map(|(node, name)| match edge.attribute(name) {
                Some(port) => draft.port(node, port),
                None => (node, None),
            });
        draft.link(a, b, has_opposite, values);
    }
    // Each line number requires a scan of the text.
    if let Some(first) = loops.first() {
        let (place, count) = (place(*first), loops.len());
        draft
            .remarks
            .push(format!("{place}: an edge from a node to itself is left out ({count} in all)"));
    }
    draft.index_labels();
    Ok(())
}

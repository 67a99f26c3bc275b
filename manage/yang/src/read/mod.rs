//! JSON -> streams of a node.

mod assemble;
mod functions;
mod identity;

use std::collections::{BTreeMap, HashMap};

use onbeat_frer::spec::{MAX_PORTS, PortId, Stream};
use serde_json::Value;

use crate::document::{FaultList, Faults, Node, Object};
use crate::handles::{KeptHandles, StreamHandles};
use crate::model::Interface;
use crate::{ETHERNET, FRER, INTERFACES, MASK_AND_MATCH, STREAM_IDENTIFICATION};

/// The streams of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its interfaces; a [`PortId`] is an index of those of the node, or else of these.
    pub interfaces: Vec<String>,
    /// Its streams, in the order of its Stream identity table.
    pub streams: Vec<Stream>,
    /// Their handles.
    pub handles: Vec<StreamHandles>,
}

impl Document {
    /// The handles by name of the stream.
    pub fn kept_handles(&self) -> KeptHandles {
        let named = self.streams.iter().map(|stream| stream.name.clone());
        named.zip(self.handles.iter().cloned()).collect()
    }
}

/// Reads the configuration of a document, for a node with these interfaces or for any. Names of streams are those of a
/// handle of one of their members, else `stream-HANDLE`.
///
/// # Errors
/// Each leaf that is wrong, or that the node cannot set.
pub fn streams(
    document: &Value,
    node: Option<&[Interface]>,
    names: &BTreeMap<u32, String>,
) -> Result<Document, Faults> {
    let faults = FaultList::default();
    let read = read(document, node, names, &faults);
    match (read, faults.into_faults()) {
        (Some(document), faults) if faults.is_empty() => Ok(document),
        (_, faults) => Err(Faults(faults)),
    }
}

/// The ports of a node by the names of their interfaces.
#[derive(Debug, Default)]
struct Ports {
    ids: HashMap<String, PortId>,
    longest_masks: Option<Vec<u16>>,
}

impl Ports {
    /// Reads the name of an interface.
    fn port(&self, leaf: &Node<'_>) -> Option<PortId> {
        let name = leaf.text()?;
        let found = self.ids.get(name).copied();
        if found.is_none() {
            let mut known: Vec<&str> = self.ids.keys().map(String::as_str).collect();
            known.sort_unstable();
            leaf.fault(
                format!("no interface is named {name:?}"),
                match known.as_slice() {
                    [] => "add it to /ietf-interfaces:interfaces".to_owned(),
                    _ => format!("interfaces here: {}", known.join(", ")),
                },
            );
        }
        found
    }
}

fn read(
    document: &Value,
    node: Option<&[Interface]>,
    names: &BTreeMap<u32, String>,
    faults: &FaultList,
) -> Option<Document> {
    let mut root = Node::root(document, faults).object()?;
    let interfaces = read_interfaces(&mut root);
    let ports = match node {
        Some(node) => {
            let ids = (0..).zip(node).map(|(id, port)| (port.name.clone(), PortId(id)));
            let longest = node.iter().map(|port| port.longest_mask).collect();
            Ports { ids: ids.collect(), longest_masks: Some(longest) }
        }
        None => {
            let ids = (0..).zip(&interfaces).map(|(id, (name, _))| (name.clone(), PortId(id)));
            Ports { ids: ids.collect(), longest_masks: None }
        }
    };
    if node.is_some() {
        for (_, leaf) in &interfaces {
            ports.port(leaf);
        }
    }
    // Its entries have the name of a port, and state.
    if let Some(list) = root.take_of(MASK_AND_MATCH, "per-port-msdu-mask-max-length") {
        for entry in list.list(&["port-name"]) {
            let Some(mut entry) = entry.object() else { continue };
            entry.require("port-name", "\"eth0\"").and_then(|leaf| ports.port(&leaf));
            entry.finish();
        }
    }
    let list = root.take_of(STREAM_IDENTIFICATION, "stream-identity");
    let identities = list.map(|list| identity::read_all(&list, &ports)).unwrap_or_default();
    let frer = root.take_of(FRER, "frer");
    let functions = frer.and_then(|frer| functions::read(&frer, &ports)).unwrap_or_default();
    root.finish();
    // Functions refer to identities: faults of these hide those of references.
    if faults.count() > 0 {
        return None;
    }
    let (streams, handles) =
        assemble::assemble(&identities, &functions, names, faults).into_iter().unzip();
    let interfaces = interfaces.into_iter().map(|(name, _)| name).collect();
    Some(Document { interfaces, streams, handles })
}

/// The names of the document's interfaces.
fn read_interfaces<'a>(root: &mut Object<'a>) -> Vec<(String, Node<'a>)> {
    let mut names: Vec<(String, Node<'a>)> = Vec::new();
    let Some(mut interfaces) =
        root.take_of(INTERFACES, "interfaces").and_then(|interfaces| interfaces.object())
    else {
        return names;
    };
    let list = interfaces.take("interface");
    interfaces.finish();
    let entries = list.as_ref().map(|list| list.list(&["name"])).unwrap_or_default();
    if let (Some(list), true) = (&list, entries.len() > MAX_PORTS) {
        list.fault(
            format!("{} interfaces, and a node has at most {MAX_PORTS} ports", entries.len()),
            "remove some",
        );
        return names;
    }
    for entry in entries {
        let Some(mut entry) = entry.object() else { continue };
        let name = entry.require("name", "\"eth0\"");
        let kind = entry.require("type", &format!("{ETHERNET:?}"));
        let _: Option<()> = kind.and_then(|kind| kind.choice(&[(ETHERNET, ())]));
        if let Some(enabled) = entry.take("enabled") {
            if enabled.flag() == Some(false) {
                enabled.fault("the node does not set interfaces down", "remove it");
            }
        }
        if let Some((text, name)) = name.and_then(|name| Some((name.text()?.to_owned(), name))) {
            if names.iter().any(|(known, _)| *known == text) {
                name.fault(format!("another interface is named {text:?}"), "remove one of them");
            } else {
                names.push((text, name));
            }
        }
        entry.finish();
    }
    names
}

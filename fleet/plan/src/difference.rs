//! Differences of two plans, by stream, node and file.

use std::collections::{BTreeMap, BTreeSet};

use crate::manifest::{Manifest, NodeEntry, StreamEntry};

/// Kind of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Only in the new plan.
    Addition,
    /// Only in the old plan.
    Removal,
    /// Other paths.
    Reroute,
    /// The same paths, with another state, delay or recovery.
    Parameters,
}

impl ChangeKind {
    /// As a word of tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Addition => "added",
            Self::Removal => "removed",
            Self::Reroute => "other paths",
            Self::Parameters => "other parameters",
        }
    }
}

/// A stream that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamChange {
    /// Its name.
    pub name: String,
    /// Kind of the difference.
    pub kind: ChangeKind,
    /// Nodes of the old and the new paths, in order.
    pub nodes: Vec<String>,
}

/// Returns the streams that differ, by name.
#[must_use]
pub fn between(old: &Manifest, new: &Manifest) -> Vec<StreamChange> {
    let (old, new) = (old.by_name(), new.by_name());
    let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    let change = |name: &str| {
        let (before, after) = (old.get(name), new.get(name));
        let kind = match (before, after) {
            (None, _) => ChangeKind::Addition,
            (_, None) => ChangeKind::Removal,
            (Some(before), Some(after)) if before == after => return None,
            (Some(before), Some(after)) => match paths(before) == paths(after) {
                true => ChangeKind::Parameters,
                false => ChangeKind::Reroute,
            },
        };
        let nodes: BTreeSet<String> =
            before.into_iter().chain(after).flat_map(|stream| nodes(stream)).collect();
        Some(StreamChange { name: name.into(), kind, nodes: nodes.into_iter().collect() })
    };
    names.into_iter().filter_map(change).collect()
}

/// Difference of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChange {
    /// Only in the new plan.
    Addition,
    /// Only in the old plan.
    Removal,
    /// Another content.
    Content,
    /// A manifest has no hash of it.
    Unknown,
}

impl FileChange {
    /// As a word of tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Addition => "added",
            Self::Removal => "removed",
            Self::Content => "differs",
            Self::Unknown => "unknown: a manifest has no hash",
        }
    }
}

/// Returns the nodes and foreign bridges whose files differ, by name.
#[must_use]
pub fn files<'a>(old: &'a Manifest, new: &'a Manifest) -> BTreeMap<&'a str, FileChange> {
    let [old, new] = [old, new].map(|manifest| {
        let entries = manifest.nodes.iter().chain(&manifest.bridges);
        entries.map(|entry| (&entry.name[..], entry)).collect::<BTreeMap<&str, &NodeEntry>>()
    });
    let change = |name: &&'a str| {
        let change = match (old.get(name), new.get(name)) {
            (None, _) => FileChange::Addition,
            (_, None) => FileChange::Removal,
            (Some(old), Some(new)) => match (&old.sha256, &new.sha256) {
                (Some(before), Some(after)) if (before, &old.file) == (after, &new.file) => {
                    return None;
                }
                (Some(_), Some(_)) => FileChange::Content,
                _ => FileChange::Unknown,
            },
        };
        Some((*name, change))
    };
    let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    names.iter().filter_map(change).collect()
}

fn paths(stream: &StreamEntry) -> Vec<(&str, &Vec<Vec<String>>)> {
    stream.listeners.iter().map(|listener| (listener.node.as_str(), &listener.paths)).collect()
}

/// Nodes with a part of a stream.
fn nodes(stream: &StreamEntry) -> BTreeSet<String> {
    let hops = stream.listeners.iter().flat_map(|listener| listener.paths.iter().flatten());
    let ends = hops.flat_map(|hop| hop.split('>'));
    ends.filter_map(|end| Some(end.split_once(':')?.0.to_owned())).collect()
}

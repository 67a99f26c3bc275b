//! net.toml: nodes, ports, links, groups and streams. All faults are reported together, each with its line, value and
//! remedy.

mod groups;
mod links;
mod nodes;
mod streams;

use std::collections::HashMap;
use std::path::Path;

pub(crate) use links::MAX_DELAY_NS;
pub(crate) use nodes::{HOST, SPEED_MBPS};
use onbeat_config::reader::{self, Faults, Table, Value};
use onbeat_config::text::{is_name, name_rule};
use onbeat_config::{ConfigError, LoadError, Source, file, suggestions};

use crate::network::Network;

/// Default of `load-percent`.
const LOAD_PERCENT: u8 = 75;

/// Largest number of names of which the nearest one to a misspelled name is searched.
const COMPARED_NAMES: usize = 2000;

/// Indices of named objects.
type Names = HashMap<String, u32>;

impl Network {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is longer than 32 MiB, or has faults.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let (text, name) = file::load(path)?;
        Ok(Self::parse(&text, &name)?)
    }

    /// Reads a text; faults name it `file`.
    ///
    /// # Errors
    /// All faults.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        let source = Source { file: file.into(), text: text.into() };
        let root = file::parse(text, &source)?;
        let (network, faults) = reader::read(&root, read);
        faults.into_result(&source)?;
        Ok(network)
    }
}

fn read(mut table: Table<'_>, faults: &Faults) -> Network {
    let mut network = Network { load_percent: LOAD_PERCENT, ..Network::default() };
    if let Some(mut limits) = table.take("network").and_then(|value| value.table()) {
        let percent = limits.take("load-percent").and_then(|value| value.number(1..=100));
        network.load_percent = percent.unwrap_or(LOAD_PERCENT);
        network.label_vlans = limits.take("label-vlans").and_then(|value| label_vlans(&value));
        limits.finish();
    }
    let (node_names, node_places) = nodes::read(table.items("node"), &mut network);
    if network.nodes.is_empty() && !table.has("node") {
        let help = "add [[node]] with name = \"a\" and port = [{ name = \"p1\" }]";
        table.fault("the network has no node", help);
    }
    let group_names = groups::read(table.items("group"), &node_names, &mut network);
    let before = faults.count();
    links::read(table.items("link"), &node_names, &group_names, &mut network);
    if faults.count() == before {
        nodes::check_connection(&network, &node_places);
    }
    streams::read(table.items("stream"), &node_names, &mut network);
    table.finish();
    network
}

/// Reads the first and the last VLAN of labels: two at least, one for each of two successive plans.
fn label_vlans(value: &Value<'_>) -> Option<[u16; 2]> {
    let ends: Vec<u16> =
        value.array()?.iter().map(|value| value.number(1..=4094)).collect::<Option<_>>()?;
    match ends[..] {
        [first, last] if first < last => Some([first, last]),
        _ => {
            value.fault(
                "the labels require two VLANs at least",
                "write the first and the last VLAN of a range, such as [101, 102]",
            );
            None
        }
    }
}

/// Reads a name.
fn name(value: &Value<'_>) -> Option<String> {
    let text = value.text()?;
    if is_name(text) {
        return Some(text.into());
    }
    value.fault(format!("{text:?} is not a valid name"), format!("use {}", name_rule()));
    None
}

/// Adds a name; reports a second object with it.
fn add(names: &mut Names, kind: &str, value: &Value<'_>, name: &str, index: usize) {
    if names.insert(name.to_owned(), index as u32).is_some() {
        let help = format!("give each {kind} its own name");
        value.fault(format!("another {kind} is named {name:?}"), help);
    }
}

/// Returns the index of a named object; reports a name that does not exist.
fn reference(names: &Names, kind: &str, value: &Value<'_>) -> Option<u32> {
    let written = value.text()?;
    resolve(names, kind, value, written)
}

fn resolve(names: &Names, kind: &str, value: &Value<'_>, written: &str) -> Option<u32> {
    let found = names.get(written).copied();
    if found.is_none() {
        // Of many names and many faults, no nearest ones are searched.
        let is_quick = names.len() <= COMPARED_NAMES && value.reports_faults();
        let nearest = || suggestions::nearest(written, names.keys().map(String::as_str));
        let help = match is_quick.then(nearest).flatten() {
            Some(meant) => format!("did you mean {meant:?}? Otherwise add [[{kind}]]"),
            None => format!("add [[{kind}]] with name = {written:?}"),
        };
        value.fault(format!("no {kind} is named {written:?}"), help);
    }
    found
}

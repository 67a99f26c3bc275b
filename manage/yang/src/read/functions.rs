//! Sequence generation, recovery and identification, and stream split (10.3 to 10.6).

use onbeat_frer::spec::{Adaptive, Algorithm, LatentErrorDetection, MAX_HISTORY, PortId, Recovery};

use super::Ports;
use crate::DEFAULT_RESET_TIMEOUT_MS;
use crate::document::{Node, Object};

/// The handles of a leaf-list, each with its leaf.
pub(super) type Handles<'a> = Vec<(u32, Node<'a>)>;

/// The tables of clause 10.
#[derive(Debug, Default)]
pub(super) struct Functions<'a> {
    pub(super) generations: Vec<Generation<'a>>,
    pub(super) recoveries: Vec<RecoveryEntry<'a>>,
    pub(super) encodings: Vec<EncodingEntry<'a>>,
    pub(super) splits: Vec<Split<'a>>,
}

#[derive(Debug)]
pub(super) struct Generation<'a> {
    pub(super) node: Node<'a>,
    pub(super) streams: Handles<'a>,
}

#[derive(Debug)]
pub(super) struct RecoveryEntry<'a> {
    pub(super) node: Node<'a>,
    pub(super) streams: Handles<'a>,
    pub(super) ports: Vec<(PortId, Node<'a>)>,
    pub(super) is_individual: bool,
    pub(super) recovery: Recovery,
}

#[derive(Debug)]
pub(super) struct EncodingEntry<'a> {
    pub(super) port: PortId,
    pub(super) streams: Handles<'a>,
    pub(super) is_active: bool,
}

#[derive(Debug)]
pub(super) struct Split<'a> {
    /// `None`: all ports.
    pub(super) port: Option<(PortId, Node<'a>)>,
    pub(super) inputs: Handles<'a>,
    pub(super) outputs: Handles<'a>,
}

pub(super) fn read<'a>(frer: &Node<'a>, ports: &Ports) -> Option<Functions<'a>> {
    let mut object = frer.object()?;
    let mut entries = |name, keys: &[&str]| {
        let list = object.take(name);
        let entries = list.map(|list| list.list(keys)).unwrap_or_default();
        let mut paths = std::collections::HashSet::new();
        for entry in entries.iter().filter(|entry| !paths.insert(entry.path.clone())) {
            entry.fault("another entry has these keys", "give each entry its own keys");
        }
        entries
    };
    let generations = entries("sequence-generation", &["index"]);
    let recoveries = entries("sequence-recovery", &["index"]);
    let encodings = entries("sequence-identification", &["port", "direction-out-facing"]);
    let splits = entries("stream-split", &["index"]);
    if let Some(leaf) = object.take("autoconfiguration") {
        leaf.fault("the node has no autoconfiguration", "remove it");
    }
    object.finish();
    let read = |entry: &Node<'a>| entry.object().map(|object| (entry.clone(), object));
    Some(Functions {
        generations: generations.iter().filter_map(read).filter_map(generation).collect(),
        recoveries: recoveries
            .iter()
            .filter_map(read)
            .filter_map(|entry| recovery(entry, ports))
            .collect(),
        encodings: encodings
            .iter()
            .filter_map(read)
            .filter_map(|entry| encoding(entry, ports))
            .collect(),
        splits: splits.iter().filter_map(read).filter_map(|entry| split(entry, ports)).collect(),
    })
}

type Entry<'a> = (Node<'a>, Object<'a>);

fn index(object: &mut Object<'_>) {
    object.require("index", "1").and_then(|leaf| leaf.number(0..=u32::MAX));
}

fn handles<'a>(object: &mut Object<'a>, name: &str) -> Option<Handles<'a>> {
    let leaf = object.require(name, "[1]")?;
    let handles = leaf.leaf_list(|leaf| leaf.number(0..=u32::MAX));
    if handles.is_empty() {
        leaf.fault("the list is empty", "add a handle, such as [1]");
    }
    Some(handles)
}

/// Refuses another direction than that of the node.
fn direction(object: &mut Object<'_>, required: bool, place: &str) {
    let leaf = object.require("direction-out-facing", &required.to_string());
    let Some(leaf) = leaf else { return };
    if leaf.flag() == Some(!required) {
        leaf.fault(
            format!("{} is not possible here: {place}", !required),
            format!("use {required}"),
        );
    }
}

/// A reset is an action, not configuration.
fn reset(object: &mut Object<'_>) {
    if let Some(leaf) = object.take("reset") {
        if leaf.flag() == Some(true) {
            leaf.fault("a reset is not configuration", "use onbeat reset STREAM, and remove it");
        }
    }
}

fn generation<'a>((node, mut object): Entry<'a>) -> Option<Generation<'a>> {
    index(&mut object);
    let streams = handles(&mut object, "stream");
    direction(&mut object, true, "the node numbers received frames");
    reset(&mut object);
    object.finish();
    Some(Generation { node, streams: streams? })
}

fn recovery<'a>((node, mut object): Entry<'a>, ports: &Ports) -> Option<RecoveryEntry<'a>> {
    index(&mut object);
    let streams = handles(&mut object, "stream");
    let ports = object
        .require("port", "[\"eth0\"]")
        .map(|leaf| leaf.leaf_list(|leaf| ports.port(leaf)))
        .unwrap_or_default();
    let flag = |object: &mut Object<'_>, name| object.take(name).and_then(|leaf| leaf.flag());
    let is_individual = flag(&mut object, "individual-recovery").unwrap_or(false);
    if is_individual {
        direction(&mut object, true, "individual recovery is at the port that receives");
    } else {
        direction(&mut object, false, "sequence recovery is at the ports that send");
    }
    reset(&mut object);
    let algorithm = object.take("algorithm").and_then(|algorithm| algorithm.object());
    let is_match = algorithm.is_some_and(|mut algorithm| {
        let vector = algorithm.take("vector");
        let matching = algorithm.take("match");
        for case in vector.iter().chain(&matching) {
            if let Some(case) = case.object() {
                case.finish();
            }
        }
        if let (Some(_), Some(leaf)) = (&vector, &matching) {
            leaf.fault("the entry has two algorithms", "remove one of them");
        }
        if let Some(leaf) = algorithm.take("organization-specific") {
            leaf.fault("the node has no other algorithm", "use vector or match");
        }
        algorithm.finish();
        matching.is_some()
    });
    // Not used by match recovery (10.4.1.6).
    let history = object.take("history-length");
    let history = history.map_or(Some(2), |leaf| leaf.number(2..=MAX_HISTORY));
    let reset_timeout = object.take("reset-timeout");
    let reset_timeout =
        reset_timeout.map_or(Some(DEFAULT_RESET_TIMEOUT_MS), |leaf| leaf.number(0..=u32::MAX));
    let take_no_sequence = flag(&mut object, "take-no-sequence").unwrap_or(false);
    let latent = latent(&mut object, is_individual);
    object.finish();
    let algorithm = match is_match {
        true => Algorithm::Match,
        false => Algorithm::Vector { history_length: history? },
    };
    let recovery = Recovery {
        algorithm,
        reset_timeout_ms: reset_timeout?,
        take_no_sequence,
        latent,
        adaptive: Adaptive::default(),
    };
    Some(RecoveryEntry { node, streams: streams?, ports, is_individual, recovery })
}

fn latent(object: &mut Object<'_>, is_individual: bool) -> Option<LatentErrorDetection> {
    let enabled = object.take("latent-error-detection");
    let is_enabled = enabled.as_ref().and_then(|leaf| leaf.flag()).unwrap_or(false);
    if let (Some(leaf), true, true) = (&enabled, is_enabled, is_individual) {
        leaf.fault(
            "individual recovery and latent error detection exclude each other (10.4.1.11)",
            "set it in the entry of sequence recovery",
        );
        return None;
    }
    let parameters = object.take("latent-error-detection-parameters");
    let mut parameters = match parameters {
        Some(parameters) => parameters.object()?,
        None if is_enabled => {
            object.fault(
                "latent error detection requires parameters",
                "add latent-error-detection-parameters with difference and paths",
            );
            return None;
        }
        None => return None,
    };
    let mut period = |name, default| {
        parameters.take(name).map_or(Some(default), |leaf| leaf.number(1..=u32::MAX))
    };
    let (period_ms, reset_period_ms) = (period("period", 2000), period("reset-period", 30_000));
    let mut required = |name, example, range: std::ops::RangeInclusive<u32>| {
        let leaf = match is_enabled {
            true => parameters.require(name, example),
            false => parameters.take(name),
        };
        leaf.and_then(|leaf| leaf.number(range))
    };
    let difference = required("difference", "10", 0..=i32::MAX as u32);
    let paths = required("paths", "2", if is_enabled { 2 } else { 0 }..=u32::from(u16::MAX));
    parameters.finish();
    let detection = LatentErrorDetection {
        difference: difference?,
        period_ms: period_ms?,
        paths: u16::try_from(paths?).ok()?,
        reset_period_ms: reset_period_ms?,
    };
    is_enabled.then_some(detection)
}

fn encoding<'a>((_, mut object): Entry<'a>, ports: &Ports) -> Option<EncodingEntry<'a>> {
    let port = object.require("port", "\"eth0\"").and_then(|leaf| ports.port(&leaf));
    direction(&mut object, true, "R-TAGs are read and written at ports toward the network");
    let streams = handles(&mut object, "stream");
    let active = object.take("active").map_or(Some(false), |leaf| leaf.flag());
    let encapsulation = object.require("encapsulation", "{ \"r-tag\": {} }");
    if let Some(mut encapsulation) = encapsulation.and_then(|leaf| leaf.object()) {
        for other in ["hsr-sequence-tag", "prp-sequence-tag", "organization-specific"] {
            if let Some(leaf) = encapsulation.take(other) {
                leaf.fault("streams of the node have R-TAGs only", "use r-tag");
            }
        }
        let r_tag = encapsulation.take("r-tag");
        if let Some(r_tag) = r_tag.and_then(|leaf| leaf.object()) {
            r_tag.finish();
        } else {
            encapsulation.fault("the entry has no encapsulation of the node", "add \"r-tag\": {}");
        }
        encapsulation.finish();
    }
    if let Some(leaf) = object.take("path-id-lan-id") {
        leaf.fault("R-TAGs have no path or LAN", "remove it");
    }
    object.finish();
    Some(EncodingEntry { port: port?, streams: streams?, is_active: active? })
}

fn split<'a>((_, mut object): Entry<'a>, ports: &Ports) -> Option<Split<'a>> {
    index(&mut object);
    let port = object.take("port").and_then(|leaf| Some((ports.port(&leaf)?, leaf)));
    direction(&mut object, true, "the node replicates received frames");
    let (inputs, outputs) = (handles(&mut object, "input-id"), handles(&mut object, "output-id"));
    object.finish();
    Some(Split { port, inputs: inputs?, outputs: outputs? })
}

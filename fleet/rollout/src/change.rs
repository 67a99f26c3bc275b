//! A change from one plan to another: affected nodes, hashes, D; or why it is refused before it starts.

use std::collections::{BTreeMap, BTreeSet};

use onbeat_plan::delay::DelayRange;
use onbeat_plan::manifest::{Manifest, NodeEntry, StreamEntry};
use onbeat_plan::window::Window;
use onbeat_report::format::count;

use crate::phase::Generation;
use crate::record::{Change, FileHash, NodeChange};
use crate::stage::{StageRefusal, Stages};

/// A plan with its files.
#[derive(Debug, Clone, Default)]
pub struct PlanFiles {
    /// Its number.
    pub generation: Generation,
    /// What `onbeat plan` wrote.
    pub streams: Vec<StreamEntry>,
    /// Foreign bridges with static entries.
    pub bridges: Vec<NodeEntry>,
    /// Text of each node's file.
    pub files: BTreeMap<String, String>,
}

/// What the operator decides about a change.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Time without a loss in the phase send, in milliseconds; 0: losses are no reason to return.
    pub soak_ms: u64,
    /// Time within which a phase must be acknowledged, in seconds.
    pub deadline_s: u32,
    /// Foreign bridges have the static entries of both plans.
    pub bridges_loaded: bool,
    /// Nodes that forward nothing, and never will with what they have: no roll-out waits for them.
    pub without: BTreeSet<String>,
}

/// A change that can start.
#[derive(Debug, Clone)]
pub struct PreparedChange {
    /// Its record.
    pub change: Change,
    /// The records of the affected nodes.
    pub nodes: Vec<NodeChange>,
}

impl PreparedChange {
    /// Gives the new plan another number: that under which it was stored.
    pub fn set_generation(&mut self, to: Generation) {
        self.change.to = to;
        self.nodes.iter_mut().for_each(|node| node.to = to);
    }
}

/// Why a change cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A node.
    #[error(transparent)]
    Stage(#[from] StageRefusal),
    /// The history of both plans does not cover the delays of both.
    #[error(
        "stream {stream:?}: copies over old and new paths are up to {} apart, more than its history of {history}; plan with \
         --keep MANIFEST of the plan that runs",
        count(*required, "frame")
    )]
    Window {
        /// The stream.
        stream: String,
        /// Frames during the delay difference.
        required: u64,
        /// The longer history of both plans.
        history: u16,
    },
    /// The reset timeout of both plans does not cover the delays of both.
    #[error(
        "stream {stream:?}: its reset timeout of {timeout_ms} ms is less than the {required_ms} ms that old and new paths \
         together require; plan with --keep MANIFEST of the plan that runs"
    )]
    Timeout {
        /// The stream.
        stream: String,
        /// Required.
        required_ms: u32,
        /// The longer timeout of both plans.
        timeout_ms: u32,
    },
    /// A node that is left out, and required.
    #[error(
        "node {node:?} cannot be left out: it is the talker of stream {stream:?}, or on its paths in the new plan; plan paths \
         without it"
    )]
    RequiredNode {
        /// The node.
        node: String,
        /// The stream.
        stream: String,
    },
    /// A node that is in neither plan.
    #[error("node {node:?} cannot be left out: neither plan has it; correct --without")]
    NoSuchNode {
        /// The node.
        node: String,
    },
    /// A manifest without intervals.
    #[error("stream {stream:?}: the manifest has no interval; plan again with this version")]
    NoInterval {
        /// The stream.
        stream: String,
    },
    /// Static entries are not rolled out.
    #[error(
        "foreign bridge {bridge:?} has other static entries; load those of both plans with `bridge -batch`, and roll out \
         with --bridges-loaded"
    )]
    Bridge {
        /// The bridge.
        bridge: String,
    },
}

impl PlanFiles {
    /// A plan from its manifest and files.
    #[must_use]
    pub fn new(
        generation: Generation,
        manifest: Manifest,
        files: BTreeMap<String, String>,
    ) -> Self {
        Self { generation, streams: manifest.streams, bridges: manifest.bridges, files }
    }

    /// A plan in which some streams are those of `to`, and the others those of this plan: a batch.
    #[must_use]
    pub fn with_streams(&self, to: &Self, names: &BTreeSet<&str>, generation: Generation) -> Self {
        let known: BTreeSet<&str> =
            self.streams.iter().chain(&to.streams).map(|stream| stream.name.as_str()).collect();
        let is_chosen = |stream: &StreamEntry| names.contains(stream.name.as_str());
        let kept = self.streams.iter().filter(|stream| !is_chosen(stream));
        let streams = kept.chain(to.streams.iter().filter(|stream| is_chosen(stream))).cloned();
        let nodes: BTreeSet<&String> = self.files.keys().chain(to.files.keys()).collect();
        let file = |node: &&String| {
            let (old, new) = (self.files.get(*node), to.files.get(*node));
            let is_new = |text: &str| names.contains(owner(text, &known));
            crate::stage::select(old.map(String::as_str), new.map(String::as_str), is_new)
        };
        Self {
            generation,
            streams: streams.collect(),
            bridges: self.bridges.clone(),
            files: nodes.iter().map(|node| ((*node).clone(), file(node))).collect(),
        }
    }

    /// The manifest of these files, as `onbeat plan` writes it.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        let node = |(name, text): (&String, &String)| NodeEntry {
            name: name.clone(),
            file: format!("{name}.toml"),
            streams: crate::stage::count_streams(text),
            sha256: Some(FileHash::of(text).to_string()),
        };
        Manifest {
            schema: onbeat_plan::manifest::SCHEMA.into(),
            nodes: self.files.iter().map(node).collect(),
            bridges: self.bridges.clone(),
            streams: self.streams.clone(),
        }
    }

    fn by_name(&self) -> BTreeMap<&str, &StreamEntry> {
        self.streams.iter().map(|stream| (stream.name.as_str(), stream)).collect()
    }
}

/// The stream of a node's part: `NAME`, `NAME.vLABEL`, or either with a number.
#[must_use]
pub fn owner<'n>(part: &'n str, known: &BTreeSet<&str>) -> &'n str {
    let mut name = part;
    while !known.contains(name) {
        match name.rsplit_once('.') {
            Some((shorter, _)) => name = shorter,
            None => return part,
        }
    }
    name
}

/// The streams that differ, in order.
#[must_use]
pub fn changed<'p>(from: &'p PlanFiles, to: &'p PlanFiles) -> Vec<&'p str> {
    let (old, new) = (from.by_name(), to.by_name());
    let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    names.into_iter().filter(|name| old.get(name) != new.get(name)).collect()
}

/// Whether a plan is a batch on the way from one to another: each stream is as in one of both.
#[must_use]
pub fn is_between(from: &[StreamEntry], plan: &[StreamEntry], to: &[StreamEntry]) -> bool {
    let by_name = |streams: &[StreamEntry]| -> BTreeMap<String, StreamEntry> {
        streams.iter().map(|stream| (stream.name.clone(), stream.clone())).collect()
    };
    let [from, plan, to] = [from, plan, to].map(by_name);
    let names: BTreeSet<&String> = from.keys().chain(plan.keys()).chain(to.keys()).collect();
    let is_either =
        |name: &String| [&from, &to].map(|side| side.get(name)).contains(&plan.get(name));
    names.into_iter().all(is_either) && plan != from
}

/// Prepares a change.
///
/// # Errors
/// All reasons for which it cannot start.
pub fn prepare(
    from: &PlanFiles,
    to: &PlanFiles,
    settings: &Settings,
) -> Result<PreparedChange, Vec<Refusal>> {
    let mut refusals = Vec::new();
    let (old, new) = (from.by_name(), to.by_name());
    let mut moved = BTreeSet::new();
    for (name, after) in &new {
        let Some(before) = old.get(name).filter(|before| *before != after) else { continue };
        if before.talker != after.talker {
            moved.insert(*name);
            refusals.push(StageRefusal::TalkerMoved { stream: (*name).into() }.into());
            continue;
        }
        refusals.extend(check_windows(before, after));
    }
    refusals.extend(needed(from, to, &settings.without));
    if !settings.bridges_loaded {
        refusals.extend(bridges(from, to).map(|bridge| Refusal::Bridge { bridge }));
    }
    let names: BTreeSet<&String> = from.files.keys().chain(to.files.keys()).collect();
    let mut nodes = Vec::new();
    for node in names {
        let text = |plan: &'_ PlanFiles| plan.files.get(node).cloned();
        let (before, after) = (text(from), text(to));
        if before == after {
            continue;
        }
        match Stages::new(node, before.as_deref(), after.as_deref()) {
            Ok(stages) if stages.is_affected() => nodes.push(NodeChange {
                from: from.generation,
                to: to.generation,
                node: node.clone(),
                hashes: stages.hashes(),
                new_members: stages.new_members.len() as u32,
                unproved: stages
                    .probes
                    .iter()
                    .filter(|(stream, _)| new.get(&stream[..]).is_some_and(has_no_recovery))
                    .map(|(stream, _)| stream.clone())
                    .collect(),
            }),
            Ok(_) => {}
            Err(StageRefusal::TalkerMoved { stream }) if moved.contains(stream.as_str()) => {}
            Err(refusal) => refusals.push(refusal.into()),
        }
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let streams = from.streams.iter().chain(&to.streams);
    let longest = streams.flat_map(delays).map(|delay| delay.latest_copy_ns).max();
    let change = Change {
        from: from.generation,
        to: to.generation,
        affected: nodes
            .iter()
            .map(|node| node.node.clone())
            .filter(|node| !settings.without.contains(node))
            .collect(),
        drain_ms: longest.unwrap_or_default().div_ceil(1_000_000).max(1000),
        soak_ms: settings.soak_ms,
        deadline_s: settings.deadline_s,
    };
    Ok(PreparedChange { change, nodes })
}

fn has_no_recovery(stream: &&StreamEntry) -> bool {
    stream.window.is_none() && stream.relays.is_empty()
}

fn delays(stream: &StreamEntry) -> impl Iterator<Item = &DelayRange> {
    let listeners = stream.listeners.iter().filter_map(|listener| listener.delay.as_ref());
    listeners.chain(stream.relays.iter().map(|relay| &relay.delay))
}

/// Both plans' copies arrive at listeners, and at relays that recover in either.
fn check_windows(before: &StreamEntry, after: &StreamEntry) -> Option<Refusal> {
    let stream = || after.name.clone();
    let check = |windows: [Option<Window>; 2], ranges: Vec<&DelayRange>| {
        let windows: Vec<Window> = windows.into_iter().flatten().collect();
        let history = windows.iter().map(|window| window.history_length).max()?;
        let timeout_ms = windows.iter().map(|window| window.reset_timeout_ms).max()?;
        if after.interval_ns == 0 {
            return Some(Refusal::NoInterval { stream: stream() });
        }
        let interval = before.interval_ns.clamp(1, after.interval_ns);
        match Window::new(interval, ranges) {
            Ok(required) if required.history_length > history => Some(Refusal::Window {
                stream: stream(),
                required: u64::from(required.history_length),
                history,
            }),
            Ok(Window { reset_timeout_ms: required_ms, .. }) if required_ms > timeout_ms => {
                Some(Refusal::Timeout { stream: stream(), required_ms, timeout_ms })
            }
            Ok(_) => None,
            Err(error) => {
                Some(Refusal::Window { stream: stream(), required: error.required, history })
            }
        }
    };
    let listeners = before.listeners.iter().chain(&after.listeners);
    let ranges = listeners.filter_map(|listener| listener.delay.as_ref()).collect();
    let refusal = check([before.window, after.window], ranges);
    refusal.or_else(|| {
        before.relays.iter().find_map(|old| {
            let new = after.relays.iter().find(|new| new.node == old.node)?;
            check([Some(old.window), Some(new.window)], vec![&old.delay, &new.delay])
        })
    })
}

/// Nodes that are left out, each with a stream that requires it.
fn needed(from: &PlanFiles, to: &PlanFiles, without: &BTreeSet<String>) -> Vec<Refusal> {
    let is_on_path = |stream: &StreamEntry, node: &str| {
        let hops = stream.listeners.iter().flat_map(|listener| listener.paths.iter().flatten());
        hops.flat_map(|hop| hop.split('>')).any(|end| end.split(':').next() == Some(node))
    };
    let refusal = |node: &String| {
        if !from.files.contains_key(node) && !to.files.contains_key(node) {
            return Some(Refusal::NoSuchNode { node: node.clone() });
        }
        let old = from.streams.iter().find(|stream| stream.talker == *node);
        let new =
            to.streams.iter().find(|stream| stream.talker == *node || is_on_path(stream, node));
        let stream = old.or(new)?.name.clone();
        Some(Refusal::RequiredNode { node: node.clone(), stream })
    };
    without.iter().filter_map(refusal).collect()
}

/// Foreign bridges whose static entries differ.
fn bridges<'p>(from: &'p PlanFiles, to: &'p PlanFiles) -> impl Iterator<Item = String> + use<'p> {
    let differs = |entry: &&NodeEntry, other: &[NodeEntry]| !other.contains(*entry);
    let added = to.bridges.iter().filter(move |entry| differs(entry, &from.bridges));
    let removed = from.bridges.iter().filter(move |entry| differs(entry, &to.bridges));
    let names: BTreeSet<&String> = added.chain(removed).map(|entry| &entry.name).collect();
    names.into_iter().cloned()
}

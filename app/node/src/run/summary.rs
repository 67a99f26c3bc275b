//! The summary of a node: one pass over all streams, whose sums are kept and whose states are not.

use std::collections::{BTreeMap, HashSet};

use onbeat_frer::spec::Stream;

use super::assembly::Node;
use super::error::{Error, Result};
use super::guard::GuardState;
use super::port_counters::{shares, totals};
use super::status;
use crate::control::{DetailedStream, LinkState, NodeSummary, StreamTrouble, is_match};

/// Maximum number of detailed streams of a summary.
const MOST_DETAILED: usize = 10_000;

/// Maximum length of all patterns: matching 65,536 names takes at most about a second of any reader's request.
const PATTERNS_LENGTH: usize = 256;

/// Reads the summary of a node, with at most `limit` detailed streams: those whose names match one of the `patterns`, then
/// those in trouble.
pub(super) fn read(node: &Node, patterns: &[String], limit: u32) -> Result<NodeSummary> {
    if patterns.iter().map(String::len).sum::<usize>() > PATTERNS_LENGTH {
        return Err(Error::Patterns { most: PATTERNS_LENGTH });
    }
    let setup = &node.setup;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(MOST_DETAILED);
    let mut sums = status::former_sums(node);
    let mut all_totals = node.former_counters.totals();
    let mut in_trouble = BTreeMap::from(StreamTrouble::ALL.map(|kind| (kind, 0)));
    for kind in node.watcher.all_troubles() {
        *in_trouble.entry(kind).or_default() += 1;
    }
    let matches = |stream: &&Stream| patterns.iter().any(|p| is_match(p, &stream.name));
    let matched = setup.streams.iter().filter(|_| !patterns.is_empty()).filter(matches);
    let matched = matched.map(|stream| stream.name.as_str());
    let mut chosen = HashSet::new();
    let mut order: Vec<&str> = Vec::new();
    for name in matched.chain(node.watcher.lately_troubled()) {
        if order.len() < limit && chosen.insert(name) {
            order.push(name);
        }
    }
    let away = away_ports(node);
    let is_away = |stream: &Stream| {
        stream.recover.is_some() && stream.members.iter().all(|m| away[usize::from(m.port.0)])
    };
    let mut detailed: BTreeMap<String, DetailedStream> = BTreeMap::new();
    node.read_all(|stream, reading| {
        shares(stream, reading).for_each(|(port, share)| sums[usize::from(port.0)] += share);
        all_totals += totals(reading);
        let has_no_path = away.contains(&true) && is_away(stream);
        if has_no_path {
            *in_trouble.entry(StreamTrouble::AllPathsLost).or_default() += 1;
        }
        let name = stream.name.as_str();
        if chosen.contains(name) || has_no_path && detailed.len() < limit {
            let lost = has_no_path.then_some(StreamTrouble::AllPathsLost);
            let troubles = node.watcher.troubles(name).iter().copied().chain(lost).collect();
            let status = status::of_stream(node, stream, reading);
            detailed.insert(name.to_owned(), DetailedStream { troubles, status });
        }
    })?;
    let mut listed: Vec<DetailedStream> =
        order.iter().filter_map(|name| detailed.remove(*name)).collect();
    listed.extend(detailed.into_values());
    listed.truncate(limit);
    Ok(NodeSummary {
        node: setup.node.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_s: node.started.elapsed().as_secs(),
        data_plane: setup.node.backend.to_string(),
        memory: status::memory(node)?,
        ports: status::ports(node, sums)?,
        totals: all_totals,
        streams: setup.streams.len() as u64,
        in_trouble,
        events: node.events.counts().clone(),
        detailed: listed,
        ptp: node.upkeep.ptp.status(),
        guard: node.guard.as_ref().map(GuardState::status),
    })
}

/// By port: whether no frame can go through its interface.
fn away_ports(node: &Node) -> Vec<bool> {
    let is_away = |interface: &str| {
        LinkState::of(node.devices.handle.link(interface).ok().as_ref()) != LinkState::Up
    };
    node.setup.ports.iter().map(|port| is_away(&port.attached_interface())).collect()
}

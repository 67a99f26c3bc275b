//! Labels: the VLANs of streams between talker and listeners.
//!
//! Nodes forward a frame by its destination address and VLAN. A stream whose paths change gets another VLAN than before,
//! so that each frame follows the old or the new paths entirely while the nodes change one after another. Two VLANs that
//! take turns do for streams with an address of their own. Streams with a common address have different VLANs where they
//! enter a node by the same port, or pass the same foreign bridge: a graph is colored for each address.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;

use onbeat_wire::MacAddress;

use crate::color_graph::ColorGraph;
use crate::network::{End, Network};
use crate::plan::{PreviousRoutes, PreviousStream};
use crate::route::Route;

/// Where frames of one address must differ by their VLANs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LabelScope {
    /// A port by which frames enter a node.
    Port(End),
    /// A foreign bridge.
    Bridge(u32),
}

impl LabelScope {
    /// The scope of frames that enter a node.
    #[must_use]
    pub fn at(network: &Network, end: End) -> Self {
        match network.is_bridge(end.node) {
            true => Self::Bridge(end.node),
            false => Self::Port(end),
        }
    }
}

/// A path of a stream, or all of them, that gets one VLAN.
struct Member<'a> {
    stream: usize,
    scopes: BTreeSet<(u32, u32)>,
    previous: Option<&'a PreviousStream>,
    /// The VLAN of the previous plan, if the paths are the same.
    kept: Option<u16>,
}

/// The VLANs of each stream's paths, one for all paths or one for each; empty without a route or without label VLANs.
/// `Err`: the streams for which no VLAN is left.
pub(crate) fn assign(
    network: &Network,
    routes: &[Option<Route>],
    previous: &PreviousRoutes,
) -> Result<Vec<Vec<u16>>, Vec<usize>> {
    let mut labels = vec![Vec::new(); routes.len()];
    let Some([first, last]) = network.label_vlans else { return Ok(labels) };
    let has_bridges = network.has_bridges();
    let mut classes: BTreeMap<MacAddress, Vec<Member<'_>>> = BTreeMap::new();
    for (stream, route) in routes.iter().enumerate() {
        let Some(route) = route else { continue };
        let class = classes.entry(network.streams[stream].address).or_default();
        class.extend(members(network, stream, route, previous, has_bridges));
    }
    let mut old: HashMap<MacAddress, Vec<&PreviousStream>> = HashMap::new();
    for stream in previous.values().filter(|stream| !stream.labels.is_empty()) {
        old.entry(stream.address).or_default().push(stream);
    }
    let mut refused = Vec::new();
    for (address, members) in &classes {
        let old = old.get(address).map_or(&[][..], |old| &old[..]);
        let chosen = color(first..=last, members, old);
        for (member, vlan) in members.iter().zip(chosen) {
            match vlan {
                Some(vlan) => labels[member.stream].push(vlan),
                None => refused.push(member.stream),
            }
        }
    }
    refused.sort_unstable();
    refused.dedup();
    if refused.is_empty() { Ok(labels) } else { Err(refused) }
}

/// One member for all paths, or one for each where a foreign bridge would mix them up.
fn members<'a>(
    network: &Network,
    stream: usize,
    route: &Route,
    previous: &'a PreviousRoutes,
    has_bridges: bool,
) -> Vec<Member<'a>> {
    let described = &network.streams[stream];
    let bridges = has_bridges && {
        let mut seen = BTreeSet::new();
        let parts = route.parts(network, described);
        parts.iter().any(|part| network.is_bridge(part.node) && !seen.insert(part.node))
    };
    let previous = previous.get(&described.name);
    let is_same = previous.is_some_and(|old| old.route.as_ref() == Some(route));
    let member = |path: Option<usize>| {
        let listeners = route.listeners.iter();
        let all = listeners.flat_map(|listener| listener.paths.iter().enumerate());
        let own = all.filter(|(number, _)| path.is_none_or(|path| path == *number));
        let arcs = own.flat_map(|(_, arcs)| arcs);
        let scope =
            |arc: &crate::network::Arc| key(LabelScope::at(network, network.link_ends(*arc)[1]));
        let scopes = arcs.map(scope).collect();
        let path = path.unwrap_or(0);
        let count = if bridges { usize::from(described.paths) } else { 1 };
        let kept = previous
            .filter(|old| is_same && old.labels.len() == count)
            .and_then(|old| old.labels.get(path).copied());
        Member { stream, scopes, previous, kept }
    };
    match bridges {
        true => (0..usize::from(described.paths)).map(|path| member(Some(path))).collect(),
        false => vec![member(None)],
    }
}

/// A scope as numbers; those of bridges have no port.
fn key(scope: LabelScope) -> (u32, u32) {
    match scope {
        LabelScope::Port(end) => (end.node, end.port),
        LabelScope::Bridge(node) => (node, u32::MAX),
    }
}

fn color(
    vlans: RangeInclusive<u16>,
    members: &[Member<'_>],
    old: &[&PreviousStream],
) -> Vec<Option<u16>> {
    if let ([_], []) = (members, old) {
        return vec![Some(*vlans.start())];
    }
    let mut by_scope: HashMap<(u32, u32), Vec<usize>> = HashMap::new();
    // A scope has no more streams than VLANs: further ones stay without. Those that keep their VLAN come first.
    let mut is_excess = vec![false; members.len()];
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|number| members[*number].kept.is_none());
    for number in order {
        let member = &members[number];
        let is_full = |scope: &(u32, u32)| {
            let Some(users) = by_scope.get(scope).filter(|users| users.len() >= vlans.len()) else {
                return false;
            };
            let is_bridge = scope.1 == u32::MAX;
            let streams: BTreeSet<usize> = users.iter().map(|user| members[*user].stream).collect();
            is_bridge || !streams.contains(&member.stream) && streams.len() >= vlans.len()
        };
        if member.scopes.iter().any(is_full) {
            is_excess[number] = true;
            continue;
        }
        for scope in &member.scopes {
            by_scope.entry(*scope).or_default().push(number);
        }
    }
    let mut neighbors = vec![BTreeSet::new(); members.len()];
    for ((_, port), users) in &by_scope {
        let is_bridge = *port == u32::MAX;
        for &a in users {
            // Members of a stream share ports where a node eliminates copies.
            let others = users.iter().copied().filter(|b| a != *b);
            neighbors[a]
                .extend(others.filter(|b| is_bridge || members[a].stream != members[*b].stream));
        }
    }
    let mut banned: Vec<BTreeSet<u16>> = vec![BTreeSet::new(); members.len()];
    for stream in old {
        let scopes = stream.scopes.iter().map(|scope| key(*scope));
        let touched = scopes.filter_map(|scope| by_scope.get(&scope)).flatten();
        for &number in touched {
            let is_own = members[number].previous.is_some_and(|own| std::ptr::eq(own, *stream));
            if !is_own {
                banned[number].extend(&stream.labels);
            }
        }
    }
    for (banned, member) in banned.iter_mut().zip(members) {
        let is_kept = member.kept.is_some_and(|vlan| !banned.contains(&vlan));
        if let (false, Some(previous)) = (is_kept, member.previous) {
            banned.extend(&previous.labels);
        }
    }
    for (banned, is_excess) in banned.iter_mut().zip(&is_excess) {
        if *is_excess {
            banned.extend(vlans.clone());
        }
    }
    let neighbors = neighbors.into_iter().map(|set| set.into_iter().collect()).collect();
    let mut coloring = ColorGraph::new(vlans, neighbors, banned);
    for (number, member) in members.iter().enumerate() {
        if let Some(vlan) = member.kept.filter(|vlan| coloring.is_free(number, *vlan)) {
            coloring.fix(number, vlan);
        }
    }
    coloring.solve()
}

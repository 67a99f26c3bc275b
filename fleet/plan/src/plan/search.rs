//! The search of routes.

use super::planner::Planner;
use super::{Refusal, StreamPlan, StreamResult};
use crate::blocks::BlockPassage;
use crate::graph::{Availability, Graph};
use crate::ladder::{self, RecoverAt};
use crate::network::{Arc, Stream};
use crate::route::{ListenerPaths, Route};
use crate::{groups, trees};

impl Planner<'_> {
    /// Finds and admits the route of a stream.
    pub(super) fn route(&mut self, stream: &Stream) -> StreamResult {
        let (result, route) = match stream.listeners[..] {
            [listener] => self.route_one(stream, listener),
            _ => self.route_trees(stream),
        };
        let Some(route) = route else { return (result, None) };
        if result == StreamPlan::Protected && stream.recover_at != RecoverAt::Listeners {
            if let Some(whole) = self.ladder(stream, &route) {
                return whole;
            }
        }
        let is_disjoint = self.marks.is_disjoint(&route);
        if let Some(refusal) = self.limit(stream, &route, is_disjoint) {
            return (StreamPlan::Refused(refusal), None);
        }
        self.admit(stream, &route);
        (result, Some(route))
    }

    /// The pair with rungs, if the stream requires them or they fit.
    fn ladder(&mut self, stream: &Stream, pair: &Route) -> Option<StreamResult> {
        let (network, rate) = (self.network, stream.rate());
        let recovers = |arc: Arc| !network.is_bridge(network.ends(arc).1);
        let permits =
            |arc: Arc| self.room[arc.index()] >= rate && recovers(arc) && recovers(arc.reverse());
        let is_required = stream.recover_at == RecoverAt::Relays;
        let Some(route) = ladder::with_rungs(network, &self.leaving, pair, permits) else {
            return is_required.then_some((StreamPlan::Refused(Refusal::NoRung), None));
        };
        if let Some(refusal) = self.limit(stream, &route, false) {
            return is_required.then_some((StreamPlan::Refused(refusal), None));
        }
        self.admit(stream, &route);
        Some((StreamPlan::Protected, Some(route)))
    }

    fn route_one(&mut self, stream: &Stream, listener: u32) -> StreamResult {
        let (from, count) = (stream.talker, usize::from(stream.paths));
        let rate = stream.rate();
        if count > 1 && !self.blocks.has_pair(from, listener) {
            return self.route_shared(stream, listener);
        }
        let available = Availability { room: &self.room, rate, transit: &self.transit };
        let is_grouped = !self.network.groups.is_empty();
        let paths = match count {
            2 if !is_grouped => self.graph.pair(from, listener, available, &self.idle_costs),
            _ => self.graph.paths(from, listener, count, available),
        };
        if paths.len() < count {
            return self.route_shared(stream, listener);
        }
        let sum = paths.iter().flatten().map(|arc| self.graph.cost(*arc)).sum();
        let of = |paths| Route { listeners: vec![ListenerPaths { listener, paths }] };
        let mut route = of(paths);
        let elements = match is_grouped {
            true => route.shared(self.network),
            false => Vec::new(),
        };
        if elements.is_empty() {
            if is_grouped && count == 2 {
                let pair = of(self.graph.pair(from, listener, available, &self.idle_costs));
                if pair.shared(self.network).is_empty() {
                    route = pair;
                }
            }
            return (StreamPlan::Protected, Some(route));
        }
        let mut is_proven = false;
        if count == 2 {
            let search = groups::pair(self.network, &self.graph, [from, listener], available, sum);
            if let Some(pair) = search.pair {
                let paths = ListenerPaths { listener, paths: pair.into() };
                return (StreamPlan::Protected, Some(Route { listeners: vec![paths] }));
            }
            is_proven = search.is_proven;
        }
        (StreamPlan::Shared { elements, is_proven }, Some(route))
    }

    /// The paths with the fewest common elements, where no disjoint ones exist.
    fn route_shared(&mut self, stream: &Stream, listener: u32) -> StreamResult {
        let (from, count) = (stream.talker, usize::from(stream.paths));
        if let Some(refusal) = self.missing_capacity(stream, listener) {
            return (StreamPlan::Refused(refusal), None);
        }
        if let Some(paths) = self.pairs_of_blocks(stream, listener) {
            let route = Route { listeners: vec![ListenerPaths { listener, paths }] };
            let elements = route.shared(self.network);
            return (StreamPlan::Shared { elements, is_proven: true }, Some(route));
        }
        let graph = self.sharing.get_or_insert_with(|| {
            let mut graph = Graph::new(self.network, true);
            self.network.arcs().for_each(|arc| graph.set_cost(arc, self.idle_costs[arc.index()]));
            graph.set_landmarks();
            self.network.arcs().for_each(|arc| graph.set_cost(arc, self.graph.cost(arc)));
            graph
        });
        let rate = stream.rate();
        let available = Availability { room: &self.room, rate, transit: &self.transit };
        let paths = graph.paths(from, listener, count, available);
        if paths.len() < count {
            // A full relay is no relay for further streams.
            let relays: Vec<bool> = self.network.nodes.iter().map(|node| node.relay).collect();
            let available = Availability { transit: &relays, ..available };
            let path = graph.paths(from, listener, 1, available).concat();
            let mut inner = path.iter().skip(1).map(|arc| self.network.ends(*arc).0);
            let full = inner.find(|node| !self.transit[*node as usize]);
            let refusal =
                full.map_or(Refusal::Unreachable { listener }, |node| Refusal::NodeFull { node });
            return (StreamPlan::Refused(refusal), None);
        }
        let route = Route { listeners: vec![ListenerPaths { listener, paths }] };
        let elements = route.shared(self.network);
        (StreamPlan::Shared { elements, is_proven: true }, Some(route))
    }

    /// The two paths that share the fewest elements, if they are the pairs of several blocks one after another.
    fn pairs_of_blocks(&mut self, stream: &Stream, listener: u32) -> Option<Vec<Vec<Arc>>> {
        if self.blocks.has_pair(stream.talker, listener) {
            return None;
        }
        let passages = self.blocks.between(stream.talker, listener)?;
        let relays = passages.iter().skip(1).map(|passage| passage.from as usize);
        if stream.paths != 2 || !relays.into_iter().all(|relay| self.transit[relay]) {
            return None;
        }
        let rate = stream.rate();
        let available = Availability { room: &self.room, rate, transit: &self.transit };
        let mut paths = vec![Vec::new(), Vec::new()];
        let mut delays = [0, 0];
        for BlockPassage { from, to, is_bridge } in passages {
            let mut found = self.graph.paths(from, to, if is_bridge { 1 } else { 2 }, available);
            if is_bridge {
                found.push(found.first()?.clone());
            }
            let delay = |path: &Vec<Arc>| -> u64 {
                path.iter().map(|arc| self.idle_costs[arc.index()]).sum()
            };
            // The slower path continues on the faster one.
            found.sort_by_key(delay);
            let [fast, slow] = &found[..] else { return None };
            let slower = usize::from(delays[1] > delays[0]);
            for (path, own) in [(slower, fast), (1 - slower, slow)] {
                delays[path] += delay(own);
                paths[path].extend_from_slice(own);
            }
        }
        Some(paths)
    }

    /// Returns the full arcs, if the stream would have its paths in the idle network.
    fn missing_capacity(&mut self, stream: &Stream, listener: u32) -> Option<Refusal> {
        let count = usize::from(stream.paths);
        let rate = stream.rate();
        if self.room.iter().all(|room| *room >= rate) {
            return None;
        }
        let idle = Availability { room: &self.unlimited, rate, transit: &self.transit };
        let mut paths = self.graph.paths(stream.talker, listener, count, idle);
        let loaded = Availability { room: &self.room, rate, transit: &self.transit };
        if paths.len() < count {
            let reached = self.graph.paths(stream.talker, listener, paths.len(), loaded);
            // Load is not the cause of a missing path that the idle network lacks, too.
            if reached.len() == paths.len() {
                return None;
            }
            paths.retain(|path| path.iter().any(|arc| self.room[arc.index()] < rate));
        }
        let is_full = |arc: &Arc| self.room[arc.index()] < rate;
        let arcs: Vec<Arc> = paths.into_iter().flatten().filter(is_full).collect();
        (!arcs.is_empty()).then_some(Refusal::Capacity { arcs })
    }

    fn route_trees(&mut self, stream: &Stream) -> StreamResult {
        let count = usize::from(stream.paths);
        let listeners = &stream.listeners;
        let available = self.available(stream);
        let found = trees::find(self.network, &self.graph, stream.talker, listeners, available);
        let mut route = Route::default();
        for (paths, &listener) in found.into_iter().zip(listeners) {
            if paths.len() < 2 {
                let (result, shared) = self.route_one(stream, listener);
                let refusal = match (result, shared) {
                    (StreamPlan::Refused(refusal), _) => refusal,
                    (StreamPlan::Shared { elements: cut, .. }, _) => {
                        Refusal::NoTrees { listener, cut }
                    }
                    (StreamPlan::Protected, _) => Refusal::NoTrees { listener, cut: Vec::new() },
                };
                return (StreamPlan::Refused(refusal), None);
            }
            route.listeners.push(ListenerPaths { listener, paths });
        }
        if count == 1 {
            for paths in &mut route.listeners {
                paths.paths.truncate(1);
            }
        }
        let elements = route.shared(self.network);
        let result = match elements.is_empty() {
            true => StreamPlan::Protected,
            false => StreamPlan::Shared { elements, is_proven: false },
        };
        (result, Some(route))
    }
}

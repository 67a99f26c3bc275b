//! Planning: routes within capacities, then delays and windows, without those that break a limit.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::delay::{self, DelayBounds, DelayRange};
use crate::graph::{Availability, Graph};
use crate::network::{Arc, Network, Stream};
use crate::route::{Element, ListenerPaths, Route};
use crate::window::{Window, WindowError};
use crate::{groups, trees};

/// Streams of a node: the index range of its tables.
pub const MAX_STREAMS: u32 = 65_536;

/// Egress ports of a stream at a node.
pub const MAX_EGRESS: usize = onbeat_frer::spec::MAX_EGRESS;

/// Why a stream is not in the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No path leads to a listener.
    Unreachable {
        /// Its node.
        listener: u32,
    },
    /// A stream with several listeners has no two disjoint trees.
    NoTrees {
        /// The listener without two paths.
        listener: u32,
        /// What separates it from the talker.
        cut: Vec<Element>,
    },
    /// The paths that would protect it have too little free capacity.
    Capacity {
        /// The arcs that are too full.
        arcs: Vec<Arc>,
    },
    /// A node would have more streams or egress ports than it supports.
    NodeFull {
        /// The node.
        node: u32,
    },
    /// The delay exceeds the permitted one.
    Delay {
        /// The listener.
        listener: u32,
        /// The bound; none: no bound exists.
        bound_ns: Option<u64>,
    },
    /// The delay difference of the paths requires too long a history.
    Window(WindowError),
}

/// The result of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamPlan {
    /// It has disjoint paths, or the single path that it requests.
    Protected,
    /// Its paths share elements: no better ones exist.
    Shared {
        /// Nodes, links and groups whose failure can interrupt it.
        elements: Vec<Element>,
        /// Whether every alternative shares something.
        is_proven: bool,
    },
    /// It has no paths.
    Refused(Refusal),
}

/// A plan of all streams of a network.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Results, in the order of the streams.
    pub streams: Vec<StreamPlan>,
    /// Routes; none of refused streams.
    pub routes: Vec<Option<Route>>,
    /// Delays to each listener.
    pub delays: Vec<Vec<DelayRange>>,
    /// Recovery of each stream; none of streams with one path.
    pub windows: Vec<Option<Window>>,
    /// Rate of streams on each arc, in bit/s.
    pub load: Vec<u64>,
    /// Bounds of all queues.
    pub bounds: DelayBounds,
    /// Number of routes that equal those of the previous plan.
    pub kept: usize,
}

/// Routes and delays of a previous plan, by the name of the stream.
pub type PreviousRoutes = HashMap<String, (Route, Vec<DelayRange>)>;

impl Plan {
    /// Plans all streams. A route of the previous plan that still protects its stream is kept. If streams lack capacity,
    /// further orders are tried: the plan that protects the most streams is returned.
    #[must_use]
    pub fn new(network: &Network, previous: &PreviousRoutes) -> Self {
        let mut best: Option<Admission<'_>> = None;
        for order in Order::ALL {
            let admission = Admission::new(network, previous, order);
            let is_better = best.as_ref().is_none_or(|best| admission.count() > best.count());
            let lacks_capacity = admission.lacks_capacity();
            if is_better {
                best = Some(admission);
            }
            if !lacks_capacity {
                break;
            }
        }
        let Admission { planner, results, kept } = best.expect("there is an order");
        let (streams, routes): (Vec<_>, Vec<_>) = results.into_iter().unzip();
        planner.finish(streams, routes, previous, kept)
    }

    /// Whether each stream is protected as its line requests.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.streams.iter().all(|stream| *stream == StreamPlan::Protected)
    }

    /// The streams with a route, by index.
    pub fn routed(&self) -> impl Iterator<Item = (usize, &Route)> {
        self.routes.iter().enumerate().filter_map(|(index, route)| Some((index, route.as_ref()?)))
    }
}

type StreamResult = (StreamPlan, Option<Route>);

/// The order in which streams are routed.
#[derive(Debug, Clone, Copy)]
enum Order {
    LargestRate,
    SmallestRate,
    /// By rate times the number of links of the least pair in the idle network.
    LeastUse,
}

impl Order {
    const ALL: [Self; 3] = [Self::LargestRate, Self::LeastUse, Self::SmallestRate];

    fn of(self, planner: &mut Planner<'_>) -> Vec<usize> {
        let streams = &planner.network.streams;
        let mut order: Vec<usize> = (0..streams.len()).collect();
        let keys: Vec<u64> = streams
            .iter()
            .map(|stream| match self {
                Self::LargestRate => u64::MAX - stream.rate(),
                Self::SmallestRate => stream.rate(),
                Self::LeastUse => stream.rate() * planner.idle_links(stream),
            })
            .collect();
        order.sort_by(|a, b| (keys[*a], &streams[*a].name).cmp(&(keys[*b], &streams[*b].name)));
        order
    }
}

/// Routes of all streams within the capacities.
struct Admission<'a> {
    planner: Planner<'a>,
    results: Vec<StreamResult>,
    kept: usize,
}

impl<'a> Admission<'a> {
    fn new(network: &'a Network, previous: &PreviousRoutes, order: Order) -> Self {
        let mut planner = Planner::new(network);
        let order = order.of(&mut planner);
        let streams = &network.streams;
        let mut results = vec![None; streams.len()];
        let mut kept = 0;
        for &index in &order {
            let Some((route, _)) = previous.get(&streams[index].name) else { continue };
            if planner.holds(&streams[index], route) {
                planner.admit(&streams[index], route);
                results[index] = Some((StreamPlan::Protected, Some(route.clone())));
                kept += 1;
            }
        }
        for &index in &order {
            if results[index].is_none() {
                results[index] = Some(planner.route(&streams[index]));
            }
        }
        planner.retry(&order, &mut results);
        Self { planner, results: results.into_iter().flatten().collect(), kept }
    }

    /// The protected streams.
    fn count(&self) -> usize {
        self.results.iter().filter(|(stream, _)| *stream == StreamPlan::Protected).count()
    }

    fn lacks_capacity(&self) -> bool {
        self.results
            .iter()
            .any(|(stream, _)| matches!(stream, StreamPlan::Refused(Refusal::Capacity { .. })))
    }
}

/// The state of planning.
struct Planner<'a> {
    network: &'a Network,
    graph: Graph,
    sharing: Option<Graph>,
    capacity: Vec<u64>,
    room: Vec<u64>,
    unlimited: Vec<u64>,
    transit: Vec<bool>,
    /// Streams of each node.
    slots: Vec<u32>,
}

impl<'a> Planner<'a> {
    fn new(network: &'a Network) -> Self {
        let mut graph = Graph::new(network, false);
        network.arcs().for_each(|arc| graph.set_cost(arc, network.idle_cost(arc)));
        let capacity: Vec<u64> = network.arcs().map(|arc| network.capacity(arc)).collect();
        Self {
            network,
            graph,
            sharing: None,
            room: capacity.clone(),
            unlimited: vec![u64::MAX; capacity.len()],
            capacity,
            transit: network.nodes.iter().map(|node| node.relay).collect(),
            slots: vec![0; network.nodes.len()],
        }
    }

    fn available(&self, stream: &Stream) -> Availability<'_> {
        Availability { room: &self.room, rate: stream.rate(), transit: &self.transit }
    }

    /// Links of the least paths in the idle network.
    fn idle_links(&mut self, stream: &Stream) -> u64 {
        let rate = stream.rate();
        let idle = Availability { room: &self.unlimited, rate, transit: &self.transit };
        let each = stream.listeners.iter().map(|listener| {
            let paths = self.graph.paths(stream.talker, *listener, stream.paths.into(), idle);
            paths.iter().map(Vec::len).sum::<usize>()
        });
        each.sum::<usize>() as u64
    }

    /// Whether a route of a previous plan protects the stream in this network.
    fn holds(&self, stream: &Stream, route: &Route) -> bool {
        let listeners = route.listeners.iter().map(|paths| paths.listener);
        let relays = route.paths().all(|path| {
            let inner = path.iter().skip(1).map(|arc| self.network.ends(*arc).0);
            let mut inner = inner;
            inner.all(|node| self.transit[node as usize])
        });
        listeners.eq(stream.listeners.iter().copied())
            && route.listeners.iter().all(|paths| paths.paths.len() == usize::from(stream.paths))
            && relays
            && route.shared(self.network).is_empty()
            && self.limit(stream, route).is_none()
    }

    /// The limit that a route would break.
    fn limit(&self, stream: &Stream, route: &Route) -> Option<Refusal> {
        let rate = stream.rate();
        let full = |arc: &Arc| self.room[arc.index()] < rate;
        let arcs: Vec<Arc> = route.arcs().into_iter().filter(full).collect();
        if !arcs.is_empty() {
            return Some(Refusal::Capacity { arcs });
        }
        let parts = route.parts(self.network, stream);
        let full = parts.iter().find(|part| {
            let ports = part.egress.len() + usize::from(part.delivers);
            ports > MAX_EGRESS || self.slots[part.node as usize] >= MAX_STREAMS
        });
        full.map(|part| Refusal::NodeFull { node: part.node })
    }

    fn admit(&mut self, stream: &Stream, route: &Route) {
        self.change(stream, route, |room, rate| *room -= rate, |slots| *slots += 1);
    }

    fn release(&mut self, stream: &Stream, route: &Route) {
        self.change(stream, route, |room, rate| *room += rate, |slots| *slots -= 1);
    }

    fn change(
        &mut self,
        stream: &Stream,
        route: &Route,
        rate: impl Fn(&mut u64, u64),
        slot: impl Fn(&mut u32),
    ) {
        for arc in route.arcs() {
            rate(&mut self.room[arc.index()], stream.rate());
            let cost = self.loaded_cost(arc);
            self.graph.set_cost(arc, cost);
        }
        if route.listeners.len() == 1 && route.shared(self.network).is_empty() {
            for path in route.paths() {
                for arc in path {
                    slot(&mut self.slots[self.network.ends(*arc).1 as usize]);
                }
            }
            slot(&mut self.slots[stream.talker as usize]);
        } else {
            let parts = route.parts(self.network, stream);
            parts.iter().for_each(|part| slot(&mut self.slots[part.node as usize]));
        }
        for arc in route.arcs() {
            let node = self.network.ends(arc).1 as usize;
            self.transit[node] =
                self.network.nodes[node].relay && self.slots[node] + 2 <= MAX_STREAMS;
        }
    }

    /// The cost of an arc rises to five times that of the idle arc, with the square of its load.
    fn loaded_cost(&self, arc: Arc) -> u64 {
        let capacity = self.capacity[arc.index()].max(1);
        let load = ((capacity - self.room[arc.index()]) * 64 / capacity).min(64);
        self.network.idle_cost(arc) * (1024 + load * load) / 1024
    }

    /// Finds and admits the route of a stream.
    fn route(&mut self, stream: &Stream) -> StreamResult {
        let (result, route) = match stream.listeners[..] {
            [listener] => self.route_one(stream, listener),
            _ => self.route_trees(stream),
        };
        let Some(route) = route else { return (result, None) };
        if let Some(refusal) = self.limit(stream, &route) {
            return (StreamPlan::Refused(refusal), None);
        }
        self.admit(stream, &route);
        (result, Some(route))
    }

    fn route_one(&mut self, stream: &Stream, listener: u32) -> StreamResult {
        let (from, count) = (stream.talker, usize::from(stream.paths));
        let rate = stream.rate();
        let available = Availability { room: &self.room, rate, transit: &self.transit };
        let paths = self.graph.paths(from, listener, count, available);
        if paths.len() < count {
            return self.route_shared(stream, listener);
        }
        let sum = paths.iter().flatten().map(|arc| self.graph.cost(*arc)).sum();
        let route = Route { listeners: vec![ListenerPaths { listener, paths }] };
        let elements = match self.network.groups.is_empty() {
            true => Vec::new(),
            false => route.shared(self.network),
        };
        if elements.is_empty() {
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
        let graph = self.sharing.get_or_insert_with(|| Graph::new(self.network, true));
        self.network.arcs().for_each(|arc| graph.set_cost(arc, self.graph.cost(arc)));
        let rate = stream.rate();
        let available = Availability { room: &self.room, rate, transit: &self.transit };
        let paths = graph.paths(from, listener, count, available);
        if paths.len() < count {
            return (StreamPlan::Refused(Refusal::Unreachable { listener }), None);
        }
        let route = Route { listeners: vec![ListenerPaths { listener, paths }] };
        let elements = route.shared(self.network);
        (StreamPlan::Shared { elements, is_proven: true }, Some(route))
    }

    /// Returns the full arcs, if the stream would have its paths in the idle network.
    fn missing_capacity(&mut self, stream: &Stream, listener: u32) -> Option<Refusal> {
        let count = usize::from(stream.paths);
        let rate = stream.rate();
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

    /// Routes streams that lack capacity again, after moving one stream away from their full arcs.
    fn retry(&mut self, order: &[usize], results: &mut [Option<StreamResult>]) {
        let network = self.network;
        for &refused in order {
            let Some((StreamPlan::Refused(Refusal::Capacity { arcs }), _)) = &results[refused]
            else {
                continue;
            };
            let full = arcs.clone();
            let uses_full = |route: &Route| route.arcs().iter().any(|arc| full.contains(arc));
            let candidates: Vec<usize> = order
                .iter()
                .rev()
                .copied()
                .filter(|index| {
                    matches!(&results[*index], Some((StreamPlan::Protected, Some(route))) if uses_full(route))
                })
                .take(MOVES)
                .collect();
            for moved in candidates {
                let Some((_, Some(route))) = results[moved].clone() else { continue };
                let (stream, other) = (&network.streams[refused], &network.streams[moved]);
                self.release(other, &route);
                let first = self.route(stream);
                if first.0 == StreamPlan::Protected {
                    let second = self.route(other);
                    if second.0 == StreamPlan::Protected {
                        results[refused] = Some(first);
                        results[moved] = Some(second);
                        break;
                    }
                    if let Some(route) = &second.1 {
                        self.release(other, route);
                    }
                }
                if let Some(route) = &first.1 {
                    self.release(stream, route);
                }
                self.admit(other, &route);
            }
        }
    }

    /// Streams to refuse so that delays become bounded: of those on the arc with the longest queue, the ones with the
    /// largest rate.
    fn unbounded(&self, bounds: &DelayBounds, routes: &[Option<Route>]) -> Vec<(usize, Refusal)> {
        let worst = self.network.arcs().max_by_key(|arc| bounds.queue_ns[arc.index()]);
        let uses = |index: &usize| {
            let arcs = routes[*index].iter().flat_map(Route::paths).flatten();
            arcs.copied().any(|arc| Some(arc) == worst)
        };
        let mut users: Vec<usize> = (0..routes.len()).filter(uses).collect();
        let streams = &self.network.streams;
        users.sort_by_key(|index| Reverse(streams[*index].rate()));
        users.truncate(1 + users.len() / 32);
        let refusal = |index: usize| {
            (index, Refusal::Delay { listener: streams[index].listeners[0], bound_ns: None })
        };
        users.into_iter().map(refusal).collect()
    }

    /// Computes delays and windows; refuses the streams that exceed their limits.
    fn finish(
        self,
        mut streams: Vec<StreamPlan>,
        mut routes: Vec<Option<Route>>,
        previous: &PreviousRoutes,
        kept: usize,
    ) -> Plan {
        let network = self.network;
        loop {
            let routed: Vec<(&Stream, &Route)> = network
                .streams
                .iter()
                .zip(&routes)
                .filter_map(|(stream, route)| Some((stream, route.as_ref()?)))
                .collect();
            let bounds = delay::bounds(network, &routed);
            let mut delays = vec![Vec::new(); routes.len()];
            let mut windows = vec![None; routes.len()];
            let mut refusals = match bounds.is_bounded {
                true => Vec::new(),
                false => self.unbounded(&bounds, &routes),
            };
            let late = if bounds.is_bounded { &routes[..] } else { &[] };
            for (index, route) in late.iter().enumerate() {
                let Some(route) = route else { continue };
                let stream = &network.streams[index];
                let listeners = route.listeners.iter();
                let ranges: Vec<DelayRange> =
                    listeners.map(|paths| bounds.listener(network, stream, route, paths)).collect();
                let refusal = exceeded(stream, &ranges);
                let old = previous.get(&stream.name).map_or(&[][..], |(_, ranges)| ranges);
                let all = [&ranges[..], old].concat();
                delays[index] = ranges;
                if let Some(refusal) = refusal {
                    refusals.push((index, refusal));
                } else if stream.paths > 1 {
                    match Window::new(stream.interval_ns, &all) {
                        Ok(window) => windows[index] = Some(window),
                        Err(error) => refusals.push((index, Refusal::Window(error))),
                    }
                }
            }
            if refusals.is_empty() {
                let mut load = vec![0; self.capacity.len()];
                for (stream, route) in routed {
                    route.arcs().iter().for_each(|arc| load[arc.index()] += stream.rate());
                }
                return Plan { streams, routes, delays, windows, load, bounds, kept };
            }
            for (index, refusal) in refusals {
                streams[index] = StreamPlan::Refused(refusal);
                routes[index] = None;
            }
        }
    }
}

/// Streams that are moved, one at a time, for one that lacks capacity.
const MOVES: usize = 8;

/// The limit of delay that a stream exceeds.
fn exceeded(stream: &Stream, ranges: &[DelayRange]) -> Option<Refusal> {
    let limit = stream.max_delay_ns?;
    let position = ranges.iter().position(|range| range.longest_ns > limit)?;
    let (listener, bound_ns) = (stream.listeners[position], Some(ranges[position].longest_ns));
    Some(Refusal::Delay { listener, bound_ns })
}

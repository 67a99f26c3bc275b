//! The state of planning: capacity, costs, and the streams of each node.

use super::{MAX_EGRESS, MAX_STREAMS, Refusal};
use crate::blocks::Blocks;
use crate::bridge;
use crate::graph::{Availability, Graph};
use crate::ladder::{self, RecoverAt};
use crate::network::{Arc, Network, Stream};
use crate::route::{Element, NodeMarks, Route};

/// The state of planning.
pub(super) struct Planner<'a> {
    pub(super) network: &'a Network,
    pub(super) graph: Graph,
    pub(super) sharing: Option<Graph>,
    pub(super) blocks: Blocks,
    pub(super) marks: NodeMarks,
    pub(super) idle_costs: Vec<u64>,
    pub(super) capacity: Vec<u64>,
    pub(super) room: Vec<u64>,
    pub(super) unlimited: Vec<u64>,
    pub(super) transit: Vec<bool>,
    /// Streams of each node.
    pub(super) slots: Vec<u32>,
    pub(super) has_bridges: bool,
    /// Arcs by the node that they leave; empty unless a stream recovers in relays.
    pub(super) leaving: Vec<Vec<Arc>>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(network: &'a Network) -> Self {
        let mut graph = Graph::new(network, false);
        network.arcs().for_each(|arc| graph.set_cost(arc, network.idle_cost(arc)));
        graph.set_landmarks();
        let capacity: Vec<u64> = network.arcs().map(|arc| network.capacity(arc)).collect();
        Self {
            network,
            graph,
            sharing: None,
            blocks: Blocks::new(network),
            marks: NodeMarks::new(network),
            idle_costs: network.arcs().map(|arc| network.idle_cost(arc)).collect(),
            room: capacity.clone(),
            unlimited: vec![u64::MAX; capacity.len()],
            capacity,
            transit: network.nodes.iter().map(|node| node.relay).collect(),
            slots: vec![0; network.nodes.len()],
            has_bridges: network.has_bridges(),
            leaving: leaving(network),
        }
    }

    pub(super) fn available(&self, stream: &Stream) -> Availability<'_> {
        Availability { room: &self.room, rate: stream.rate(), transit: &self.transit }
    }

    /// Links of the least paths in the idle network.
    pub(super) fn idle_links(&mut self, stream: &Stream) -> u64 {
        let rate = stream.rate();
        let idle = Availability { room: &self.unlimited, rate, transit: &self.transit };
        let each = stream.listeners.iter().map(|listener| {
            let paths = self.graph.paths(stream.talker, *listener, stream.paths.into(), idle);
            paths.iter().map(Vec::len).sum::<usize>()
        });
        each.sum::<usize>() as u64
    }

    /// Admits the route of a previous plan if it protects the stream in this network. The costs stay.
    pub(super) fn keep(&mut self, stream: &Stream, route: &Route) -> bool {
        let listeners = route.listeners.iter().map(|paths| paths.listener);
        let has_rungs = ladder::has_rungs(stream, route);
        let base = has_rungs.then(|| ladder::without_rungs(stream, route));
        let base = base.as_ref().unwrap_or(route);
        let is_pair_disjoint = self.marks.is_disjoint(base);
        let is_disjoint = is_pair_disjoint && !has_rungs;
        let is_wanted = match stream.recover_at {
            RecoverAt::Listeners => !has_rungs,
            RecoverAt::Relays => has_rungs,
            RecoverAt::Auto => true,
        };
        let is_relay = |arc: &Arc| self.transit[self.marks.head(*arc)];
        let mut inner = route.paths().flat_map(|path| &path[..path.len().max(1) - 1]);
        let holds = is_wanted
            && listeners.eq(stream.listeners.iter().copied())
            && base.listeners.iter().all(|paths| paths.paths.len() == usize::from(stream.paths))
            && inner.all(is_relay)
            && self.shared(base, is_pair_disjoint).is_empty()
            && self.limit(stream, route, is_disjoint).is_none();
        if holds {
            self.occupy(stream, route, is_disjoint);
        }
        holds
    }

    /// The elements that paths of a route share.
    pub(super) fn shared(&self, route: &Route, is_disjoint: bool) -> Vec<Element> {
        let network = self.network;
        let mut links = route.paths().flatten().map(|arc| &network.links[arc.link()]);
        let is_grouped = !network.groups.is_empty() && links.any(|link| !link.groups.is_empty());
        match !is_grouped && is_disjoint {
            true => Vec::new(),
            false => route.shared(network),
        }
    }

    /// The limit that a route would break.
    pub(super) fn limit(
        &self,
        stream: &Stream,
        route: &Route,
        is_disjoint: bool,
    ) -> Option<Refusal> {
        let rate = stream.rate();
        let full = |arc: &Arc| self.room[arc.index()] < rate;
        if route.paths().flatten().any(full) {
            let arcs = route.arcs().into_iter().filter(full).collect();
            return Some(Refusal::Capacity { arcs });
        }
        if self.has_bridges {
            if let Some(node) = bridge::unable(self.network, stream, route) {
                return Some(Refusal::Bridge { node });
            }
        }
        let is_full = |node: u32| self.slots[node as usize] >= MAX_STREAMS;
        // Disjoint paths leave a node by one port each, all others by its ports and the host's at most.
        let ports = |node: u32| match is_disjoint {
            true => route.paths().count(),
            false => self.network.nodes[node as usize].ports.len() + 1,
        };
        let may_be_full = |node: u32| is_full(node) || ports(node) > MAX_EGRESS;
        let mut heads = route.paths().flatten().map(|arc| self.marks.head(*arc) as u32);
        if !may_be_full(stream.talker) && !heads.any(may_be_full) {
            return None;
        }
        let parts = route.parts(self.network, stream);
        let full = parts.iter().find(|part| {
            let ports = part.egress.len() + usize::from(part.delivers);
            ports > MAX_EGRESS || is_full(part.node)
        });
        full.map(|part| Refusal::NodeFull { node: part.node })
    }

    pub(super) fn admit(&mut self, stream: &Stream, route: &Route) {
        let is_disjoint = self.marks.is_disjoint(route);
        self.occupy(stream, route, is_disjoint);
        self.set_costs_of(route);
    }

    pub(super) fn release(&mut self, stream: &Stream, route: &Route) {
        let is_disjoint = self.marks.is_disjoint(route);
        self.change(stream, route, is_disjoint, |room, rate| *room += rate, |slots| *slots -= 1);
        self.set_costs_of(route);
    }

    /// Takes the capacity of a route; the costs stay.
    pub(super) fn occupy(&mut self, stream: &Stream, route: &Route, is_disjoint: bool) {
        self.change(stream, route, is_disjoint, |room, rate| *room -= rate, |slots| *slots += 1);
    }

    pub(super) fn change(
        &mut self,
        stream: &Stream,
        route: &Route,
        is_disjoint: bool,
        change_room: impl Fn(&mut u64, u64),
        change_slots: impl Fn(&mut u32),
    ) {
        let network = self.network;
        let rate = stream.rate();
        if is_disjoint {
            change_slots(&mut self.slots[stream.talker as usize]);
            for (number, path) in route.paths().enumerate() {
                for (position, arc) in path.iter().enumerate() {
                    change_room(&mut self.room[arc.index()], rate);
                    // All paths end at the listener.
                    if number == 0 || position + 1 < path.len() {
                        change_slots(&mut self.slots[self.marks.head(*arc)]);
                    }
                }
            }
        } else {
            let nodes = route.part_nodes(network, stream);
            nodes.iter().for_each(|node| change_slots(&mut self.slots[*node as usize]));
            route.arcs().iter().for_each(|arc| change_room(&mut self.room[arc.index()], rate));
        }
        for arc in route.paths().flatten() {
            let node = self.marks.head(*arc);
            self.transit[node] = network.nodes[node].relay && self.slots[node] + 2 <= MAX_STREAMS;
        }
    }

    pub(super) fn set_costs_of(&mut self, route: &Route) {
        route.paths().flatten().for_each(|arc| self.set_cost(*arc));
    }

    pub(super) fn set_costs(&mut self) {
        self.network.arcs().for_each(|arc| self.set_cost(arc));
    }

    fn set_cost(&mut self, arc: Arc) {
        let cost = self.loaded_cost(arc);
        self.graph.set_cost(arc, cost);
        if let Some(sharing) = &mut self.sharing {
            sharing.set_cost(arc, cost);
        }
    }

    /// The cost of an arc rises to five times that of the idle arc, with the square of its load.
    pub(super) fn loaded_cost(&self, arc: Arc) -> u64 {
        let capacity = self.capacity[arc.index()].max(1);
        let load = ((capacity - self.room[arc.index()]) * 64 / capacity).min(64);
        self.idle_costs[arc.index()] * (1024 + load * load) / 1024
    }
}

fn leaving(network: &Network) -> Vec<Vec<Arc>> {
    let is_default = |stream: &Stream| stream.recover_at == RecoverAt::Listeners;
    if network.streams.iter().all(is_default) {
        return Vec::new();
    }
    let mut leaving = vec![Vec::new(); network.nodes.len()];
    network.arcs().for_each(|arc| leaving[network.ends(arc).0 as usize].push(arc));
    leaving
}

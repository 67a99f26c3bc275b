//! Pairs of paths without a common shared-risk group. The problem is NP-hard; the search is exact within a budget.
//!
//! Candidates of the shorter path are enumerated in order of cost (Yen 1971, partitioned after Lawler 1972), each with the
//! shortest second path that avoids its nodes, links and groups. The search ends when twice the cost of the next candidate
//! reaches the best sum, or when the best sum reaches that of the least pair without groups.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::graph::{Availability, Graph};
use crate::network::{Arc, Network};

/// Candidates of the shorter path that a search examines.
pub const BUDGET: usize = 2000;

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSearch {
    /// The pair, the shorter path first.
    pub pair: Option<[Vec<Arc>; 2]>,
    /// Whether no pair of smaller sum exists, or none at all.
    pub is_proven: bool,
}

/// A candidate of the shorter path.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    cost: u64,
    path: Vec<Arc>,
    /// Length of the prefix that its alternatives share.
    prefix: usize,
    /// Arcs that do not follow the prefix.
    excluded: Vec<Arc>,
}

/// Finds the pair of least sum without a common group; `least` is the sum of the least pair without groups.
#[must_use]
pub fn pair(
    network: &Network,
    graph: &Graph,
    [from, to]: [u32; 2],
    available: Availability<'_>,
    least: u64,
) -> GroupSearch {
    let mut search = Dijkstra::new(network, graph, available);
    let mut open = BinaryHeap::new();
    if let Some(path) = search.path(from, to, [from, to]) {
        open.push(Reverse(Candidate {
            cost: search.cost(&path),
            path,
            prefix: 0,
            excluded: Vec::new(),
        }));
    }
    let mut best: Option<(u64, [Vec<Arc>; 2])> = None;
    let mut examined = 0;
    while let Some(Reverse(candidate)) = open.pop() {
        let bound = best.as_ref().map_or(u64::MAX, |(sum, _)| *sum);
        if bound <= least || 2 * candidate.cost >= bound {
            open.clear();
            break;
        }
        if examined == BUDGET {
            open.push(Reverse(candidate));
            break;
        }
        examined += 1;
        search.avoid(&candidate.path);
        if let Some(second) = search.path(from, to, [from, to]) {
            let sum = candidate.cost + search.cost(&second);
            if sum < bound {
                best = Some((sum, [candidate.path.clone(), second]));
            }
        }
        search.allow_all();
        // Each alternative shares a longer prefix, and leaves the path behind it.
        for kept in candidate.prefix..candidate.path.len() {
            let mut excluded = vec![candidate.path[kept]];
            if kept == candidate.prefix {
                excluded.extend_from_slice(&candidate.excluded);
            }
            let start = network.ends(candidate.path[kept]).0;
            for &arc in &candidate.path[..kept] {
                search.ban_node(network.ends(arc).0);
            }
            excluded.iter().for_each(|arc| search.ban_arc(*arc));
            let rest = search.path(start, to, [start, to]);
            search.allow_all();
            let Some(rest) = rest else { continue };
            let path = [&candidate.path[..kept], &rest].concat();
            let cost = search.cost(&path);
            open.push(Reverse(Candidate { cost, path, prefix: kept, excluded }));
        }
    }
    let is_proven = open.is_empty();
    GroupSearch { pair: best.map(|(_, pair)| pair), is_proven }
}

/// Shortest paths without some nodes and arcs.
struct Dijkstra<'a> {
    network: &'a Network,
    graph: &'a Graph,
    available: Availability<'a>,
    leaving: Vec<Vec<Arc>>,
    banned_nodes: Vec<bool>,
    banned_arcs: Vec<bool>,
}

impl<'a> Dijkstra<'a> {
    fn new(network: &'a Network, graph: &'a Graph, available: Availability<'a>) -> Self {
        let mut leaving = vec![Vec::new(); network.nodes.len()];
        for arc in network.arcs() {
            leaving[network.ends(arc).0 as usize].push(arc);
        }
        let (nodes, arcs) = (network.nodes.len(), 2 * network.links.len());
        let (banned_nodes, banned_arcs) = (vec![false; nodes], vec![false; arcs]);
        Self { network, graph, available, leaving, banned_nodes, banned_arcs }
    }

    fn cost(&self, path: &[Arc]) -> u64 {
        path.iter().map(|arc| self.graph.cost(*arc)).sum()
    }

    fn ban_node(&mut self, node: u32) {
        self.banned_nodes[node as usize] = true;
    }

    fn ban_arc(&mut self, arc: Arc) {
        self.banned_arcs[arc.index()] = true;
    }

    fn ban_link(&mut self, link: usize) {
        self.banned_arcs[2 * link..2 * link + 2].fill(true);
    }

    /// Excludes inner nodes, links and groups of a path.
    fn avoid(&mut self, path: &[Arc]) {
        let network = self.network;
        for (position, arc) in path.iter().enumerate() {
            if position > 0 {
                self.ban_node(network.ends(*arc).0);
            }
            self.ban_link(arc.link());
            for &group in &network.links[arc.link()].groups {
                network.groups[group as usize]
                    .links
                    .iter()
                    .for_each(|l| self.ban_link(*l as usize));
            }
        }
    }

    fn allow_all(&mut self) {
        self.banned_nodes.fill(false);
        self.banned_arcs.fill(false);
    }

    /// The shortest path; inner nodes are relays.
    fn path(&self, from: u32, to: u32, ends: [u32; 2]) -> Option<Vec<Arc>> {
        let mut distance = vec![u64::MAX; self.leaving.len()];
        let mut parent = vec![None; self.leaving.len()];
        let mut heap = BinaryHeap::from([Reverse((0, from))]);
        distance[from as usize] = 0;
        while let Some(Reverse((so_far, node))) = heap.pop() {
            if so_far > distance[node as usize] {
                continue;
            }
            if node == to {
                break;
            }
            for &arc in &self.leaving[node as usize] {
                let head = self.network.ends(arc).1;
                let passes = self.available.transit[head as usize] || ends.contains(&head);
                let is_open = !self.banned_arcs[arc.index()]
                    && !self.banned_nodes[head as usize]
                    && self.available.room[arc.index()] >= self.available.rate;
                let through = so_far + self.graph.cost(arc);
                if passes && is_open && through < distance[head as usize] {
                    distance[head as usize] = through;
                    parent[head as usize] = Some(arc);
                    heap.push(Reverse((through, head)));
                }
            }
        }
        let mut path = Vec::new();
        let mut node = to;
        while node != from {
            let arc = parent[node as usize]?;
            path.push(arc);
            node = self.network.ends(arc).0;
        }
        path.reverse();
        Some(path)
    }
}

//! Disjoint paths of least sum: successive shortest paths on split nodes (Suurballe 1974, Bhandari 1999).
//!
//! A node is two vertices joined by an edge of capacity 1, so that paths that share no edge share no node either.
//! Potentials keep the costs of the residual graph at 0 or more, so that each path is one run of Dijkstra's algorithm.
//! All arrays are reused: a search resets the vertices and edges that the search before it changed.

mod balance;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub use balance::BUDGET;

use crate::network::{Arc, Network};

/// Cost of a node or link that a second path uses, above every sum of delays.
pub const SHARED: u64 = 1 << 40;

const NONE: u32 = u32::MAX;

/// The elements that a search may use.
#[derive(Debug, Clone, Copy)]
pub struct Availability<'a> {
    /// Free rate of each arc, in bit/s.
    pub room: &'a [u64],
    /// Rate of one copy of the stream, in bit/s.
    pub rate: u64,
    /// Nodes that other streams' paths may pass through.
    pub transit: &'a [bool],
}

/// Number of landmarks.
const LANDMARKS: usize = 8;

/// Nodes from which on landmarks pay.
const LEAST_NODES: usize = 16;

/// A distance that counts as infinite: 2.1 s.
const UNREACHED: u32 = u32::MAX / 2;

/// Lower bounds of distances by the triangle inequality (Goldberg and Harrelson 2005): the distance from a landmark to the
/// target is at most that to a node plus that from the node to the target, likewise for distances to the landmark.
#[derive(Debug, Clone, Default)]
struct Landmarks {
    /// Of each node, the distances from and to the landmarks.
    distances: Vec<[[u32; LANDMARKS]; 2]>,
    target: usize,
    /// The target for which an estimate is, and the estimate.
    estimates: Vec<(u32, u32)>,
}

impl Landmarks {
    fn add(&mut self, index: usize, from: &[u32], to: &[u32]) {
        self.distances.resize(from.len(), [[0; LANDMARKS]; 2]);
        self.estimates.resize(from.len(), (NONE, 0));
        for (node, distances) in self.distances.iter_mut().enumerate() {
            distances[0][index] = from[node];
            distances[1][index] = to[node];
        }
    }

    fn set_target(&mut self, target: u32) {
        self.target = target as usize;
    }

    /// A lower bound of the distance from a node to the target; 0 without landmarks.
    fn estimate(&mut self, node: u32) -> i64 {
        let Some((target, known)) = self.estimates.get_mut(node as usize) else { return 0 };
        if *target != self.target as u32 {
            let ([from, to], [end_from, end_to]) =
                (&self.distances[node as usize], &self.distances[self.target]);
            let mut least = 0;
            for index in 0..LANDMARKS {
                least = least
                    .max(end_from[index].saturating_sub(from[index]))
                    .max(to[index].saturating_sub(end_to[index]));
            }
            (*target, *known) = (self.target as u32, least);
        }
        i64::from(*known)
    }
}

/// A network as a residual graph.
#[derive(Debug, Clone)]
pub struct Graph {
    nodes: usize,
    arcs: usize,
    /// Whether a second, dear edge lies beside each edge.
    sharing: bool,
    /// First edge of each vertex in `edges`.
    starts: Vec<u32>,
    /// Edges by the vertex that they leave.
    edges: Vec<u32>,
    heads: Vec<u32>,
    /// Edges come in pairs: an even one, and its reverse.
    costs: Vec<i64>,
    flow: Vec<bool>,
    used: Vec<u32>,
    potential: Vec<i64>,
    distance: Vec<u64>,
    done: Vec<bool>,
    parent: Vec<u32>,
    touched: Vec<u32>,
    moved: Vec<u32>,
    /// The number of each node in the search of a pair.
    rank: Vec<u32>,
    side: Vec<u8>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    near: Vec<u32>,
    landmarks: Landmarks,
}

impl Graph {
    /// Creates the graph of a network; with `sharing`, nodes and links can be used again at the cost [`SHARED`].
    #[must_use]
    pub fn new(network: &Network, sharing: bool) -> Self {
        let (nodes, arcs) = (network.nodes.len(), 2 * network.links.len());
        let single = nodes + arcs;
        let pairs = if sharing { 2 * single } else { single };
        let ends = |pair: usize| {
            let element = pair % single;
            if element < nodes {
                return (2 * element, 2 * element + 1);
            }
            let (from, to) = network.ends(Arc((element - nodes) as u32));
            (2 * from as usize + 1, 2 * to as usize)
        };
        let mut starts = vec![0u32; 2 * nodes + 1];
        for pair in 0..pairs {
            let (from, to) = ends(pair);
            starts[from + 1] += 1;
            starts[to + 1] += 1;
        }
        for vertex in 0..2 * nodes {
            starts[vertex + 1] += starts[vertex];
        }
        let mut next = starts.clone();
        let mut edges = vec![0; 2 * pairs];
        let mut heads = vec![0; 2 * pairs];
        for pair in 0..pairs {
            let (from, to) = ends(pair);
            for (edge, leaves, enters) in [(2 * pair, from, to), (2 * pair + 1, to, from)] {
                edges[next[leaves] as usize] = edge as u32;
                next[leaves] += 1;
                heads[edge] = enters as u32;
            }
        }
        let mut graph = Self {
            nodes,
            arcs,
            sharing,
            starts,
            edges,
            heads,
            costs: vec![0; 2 * pairs],
            flow: vec![false; pairs],
            used: Vec::new(),
            potential: vec![0; 2 * nodes],
            distance: vec![u64::MAX; 2 * nodes],
            done: vec![false; 2 * nodes],
            parent: vec![NONE; 2 * nodes],
            touched: Vec::new(),
            moved: Vec::new(),
            rank: vec![NONE; nodes],
            side: vec![0; nodes],
            heap: BinaryHeap::new(),
            near: Vec::new(),
            landmarks: Landmarks::default(),
        };
        for element in 0..single {
            graph.set(element, 0);
        }
        graph
    }

    fn set(&mut self, element: usize, cost: u64) {
        let cost = cost as i64;
        self.costs[2 * element] = cost;
        self.costs[2 * element + 1] = -cost;
        if self.sharing {
            let dear = self.nodes + self.arcs + element;
            self.costs[2 * dear] = cost + SHARED as i64;
            self.costs[2 * dear + 1] = -cost - SHARED as i64;
        }
    }

    /// Sets the cost of an arc.
    pub fn set_cost(&mut self, arc: Arc, cost: u64) {
        self.set(self.nodes + arc.0 as usize, cost);
    }

    /// Returns the cost of an arc.
    #[must_use]
    pub fn cost(&self, arc: Arc) -> u64 {
        self.costs[2 * (self.nodes + arc.0 as usize)] as u64
    }

    /// Prepares estimates of distances, which direct searches to their targets. No cost may fall below that of now.
    pub fn set_landmarks(&mut self) {
        self.landmarks = Landmarks::default();
        if self.nodes < LEAST_NODES {
            return;
        }
        let mut nearest = vec![u32::MAX; self.nodes];
        let mut next = 0;
        for index in 0..LANDMARKS {
            let (from, to) = (self.distances(next, false), self.distances(next, true));
            // The next landmark is far from all others.
            for (nearest, distance) in nearest.iter_mut().zip(&from) {
                let distance = if *distance == UNREACHED { 0 } else { *distance };
                *nearest = distance.min(*nearest);
            }
            self.landmarks.add(index, &from, &to);
            next = (0..self.nodes).max_by_key(|node| nearest[*node]).unwrap_or(0);
        }
    }

    /// Distances of all nodes from a node, or to it.
    fn distances(&mut self, node: usize, backward: bool) -> Vec<u32> {
        let mut distances = vec![UNREACHED; self.nodes];
        distances[node] = 0;
        self.heap.push(Reverse((0, node as u32)));
        while let Some(Reverse((distance, node))) = self.heap.pop() {
            if distance > u64::from(distances[node as usize]) {
                continue;
            }
            let vertex = 2 * node as usize + usize::from(!backward);
            let span = self.starts[vertex] as usize..self.starts[vertex + 1] as usize;
            for &edge in &self.edges[span] {
                let is_arc = edge as usize / 2 % (self.nodes + self.arcs) >= self.nodes;
                if !is_arc || (edge % 2 == 1) != backward {
                    continue;
                }
                let head = self.heads[edge as usize] / 2;
                let through = distance + self.costs[edge as usize & !1] as u64;
                if through < u64::from(distances[head as usize]) {
                    distances[head as usize] = through as u32;
                    self.heap.push(Reverse((through, head)));
                }
            }
        }
        distances
    }

    /// Returns up to `count` disjoint paths of least sum; fewer where no more exist, but then still of least sum.
    pub fn paths(
        &mut self,
        from: u32,
        to: u32,
        count: usize,
        available: Availability<'_>,
    ) -> Vec<Vec<Arc>> {
        let paths = self.search(from, to, count, available);
        self.reset();
        paths
    }

    /// Returns the paths; the potentials are those of their sum.
    fn search(
        &mut self,
        from: u32,
        to: u32,
        count: usize,
        available: Availability<'_>,
    ) -> Vec<Vec<Arc>> {
        self.landmarks.set_target(to);
        let found = (0..count).take_while(|_| self.augment(from, to, available)).count();
        let paths = (0..found).map(|_| self.take_path(from, to)).collect();
        for pair in self.used.drain(..) {
            self.flow[pair as usize] = false;
        }
        paths
    }

    fn reset(&mut self) {
        for vertex in self.moved.drain(..) {
            self.potential[vertex as usize] = 0;
        }
    }

    /// Adds a shortest path of the residual graph to the flow.
    fn augment(&mut self, from: u32, to: u32, available: Availability<'_>) -> bool {
        let (source, target) = (2 * from + 1, 2 * to);
        self.distance[source as usize] = 0;
        self.touched.push(source);
        self.heap.push(Reverse((0, source)));
        let mut reached = false;
        let mut current = 0;
        loop {
            // Vertices at the distance of the last one do not enter the heap.
            let next = self.near.pop().map(|vertex| (current, vertex));
            let Some((distance, vertex)) = next.or_else(|| self.heap.pop().map(|next| next.0))
            else {
                break;
            };
            current = distance;
            if self.done[vertex as usize] {
                continue;
            }
            self.done[vertex as usize] = true;
            if vertex == target {
                reached = true;
                break;
            }
            let own = self.potential[vertex as usize] - self.landmarks.estimate(vertex / 2);
            let span = self.starts[vertex as usize]..self.starts[vertex as usize + 1];
            for &edge in &self.edges[span.start as usize..span.end as usize] {
                let head = self.heads[edge as usize] as usize;
                if self.done[head] || !self.is_open(edge, from, to, available) {
                    continue;
                }
                let next = self.potential[head] - self.landmarks.estimate(head as u32 / 2);
                let reduced = self.costs[edge as usize] + own - next;
                debug_assert!(reduced >= 0, "a reduced cost of {reduced}");
                let through = distance + reduced as u64;
                if through < self.distance[head] {
                    if self.distance[head] == u64::MAX {
                        self.touched.push(head as u32);
                    }
                    self.distance[head] = through;
                    self.parent[head] = edge;
                    match through == distance {
                        true => self.near.push(head as u32),
                        false => self.heap.push(Reverse((through, head as u32))),
                    }
                }
            }
        }
        if reached {
            self.send(source, target);
        }
        self.heap.clear();
        self.near.clear();
        for vertex in self.touched.drain(..) {
            self.distance[vertex as usize] = u64::MAX;
            self.done[vertex as usize] = false;
        }
        reached
    }

    fn send(&mut self, source: u32, target: u32) {
        let length = self.distance[target as usize] as i64;
        for &vertex in &self.touched {
            if self.done[vertex as usize] {
                self.potential[vertex as usize] += self.distance[vertex as usize] as i64 - length;
                self.moved.push(vertex);
            }
        }
        let mut vertex = target;
        while vertex != source {
            let edge = self.parent[vertex as usize];
            let is_forward = edge % 2 == 0;
            self.flow[edge as usize / 2] = is_forward;
            if is_forward {
                self.used.push(edge / 2);
            }
            vertex = self.heads[edge as usize ^ 1];
        }
    }

    /// The node or arc of a pair of edges.
    fn element(&self, pair: usize) -> usize {
        let single = self.nodes + self.arcs;
        if pair < single { pair } else { pair - single }
    }

    fn is_open(&self, edge: u32, from: u32, to: u32, available: Availability<'_>) -> bool {
        let pair = edge as usize / 2;
        if edge % 2 == 1 {
            return self.flow[pair];
        }
        if self.flow[pair] {
            return false;
        }
        let element = self.element(pair);
        match element.checked_sub(self.nodes) {
            Some(arc) => available.room[arc] >= available.rate,
            None => {
                let node = element as u32;
                node != from && node != to && available.transit[element]
            }
        }
    }

    /// Removes one path from the flow.
    fn take_path(&mut self, from: u32, to: u32) -> Vec<Arc> {
        let (mut vertex, target) = (2 * from + 1, 2 * to);
        let mut path = Vec::new();
        while vertex != target {
            let span = self.starts[vertex as usize]..self.starts[vertex as usize + 1];
            let leaving = &self.edges[span.start as usize..span.end as usize];
            let is_next = |edge: &&u32| **edge % 2 == 0 && self.flow[**edge as usize / 2];
            let Some(&edge) = leaving.iter().find(is_next) else { break };
            self.flow[edge as usize / 2] = false;
            let element = self.element(edge as usize / 2);
            if let Some(arc) = element.checked_sub(self.nodes) {
                path.push(Arc(arc as u32));
            }
            vertex = self.heads[edge as usize];
        }
        path
    }
}

//! Pairs of least sum whose delays differ least.
//!
//! By the potentials of a search, the pairs of least sum use tight arcs only: those whose reduced cost is 0 or less
//! (complementary slackness). Potentials grow along them, so that they form no cycle. The pairs are built from the talker
//! on: the path with the lower node is extended by one arc. So it meets the other path at that path's last node, or nowhere.
//! Of the partial pairs to the same two nodes, one of least cost is extended for each difference of delays.

use std::collections::BTreeMap;

use super::{Availability, Graph, NONE};
use crate::network::Arc;

/// Partial pairs that a search examines.
pub const BUDGET: usize = 4000;

/// Comparisons that it makes: at nodes with many links, a partial pair has many extensions.
const COMPARISONS: usize = 256 * BUDGET;

/// The side of a pair on which a node is: none, one of its paths, or both ends.
const OUTSIDE: u8 = 0;
const FIRST: u8 = 1;
const SECOND: u8 = 2;
const END: u8 = 3;

/// Two paths from the talker.
#[derive(Debug, Clone, Copy)]
struct PartialPair {
    /// The partial pair without the last arc.
    before: u32,
    /// The arc by which the lower path of that pair is extended.
    arc: Arc,
    /// Whether the other path is the lower one then.
    is_swapped: bool,
    /// Delay of the lower path less that of the other one.
    difference: i64,
}

/// The partial pairs of least cost to two nodes.
#[derive(Debug, Default)]
struct PairEnds {
    cost: u64,
    pairs: Vec<u32>,
}

/// The search of a pair.
struct PairSearch<'a> {
    graph: &'a Graph,
    delays: &'a [u64],
    pairs: Vec<PartialPair>,
    /// By the last nodes of both paths, the lower one first.
    ends: BTreeMap<(u32, u32), PairEnds>,
    comparisons: usize,
}

/// The tight arcs of pairs of least sum. Nodes have numbers in the order of their potentials.
struct TightArcs {
    /// By the node that they leave, each with the node that it enters.
    leaving: Vec<Vec<(Arc, u32)>>,
}

impl Graph {
    /// Returns a pair of least sum, fewer paths where none exists. If the delays of its paths differ, it is the pair of least
    /// sum with the least difference. That is exact within [`BUDGET`]; beyond it, the pair is any of least sum.
    pub fn pair(
        &mut self,
        from: u32,
        to: u32,
        available: Availability<'_>,
        delays: &[u64],
    ) -> Vec<Vec<Arc>> {
        let mut paths = self.search(from, to, 2, available);
        let delay = |path: &Vec<Arc>| path.iter().map(|arc| delays[arc.index()]).sum::<u64>();
        if let [first, second] = &paths[..] {
            if delay(first) != delay(second) {
                let own = first.len() + second.len();
                self.mark(&paths, true);
                let found = self.balance([from, to], available, delays, own);
                self.mark(&paths, false);
                paths = found.map_or(paths, Vec::from);
            }
        }
        self.reset();
        paths
    }

    /// Marks the arcs of a pair as those with a flow, and sets the sides of its nodes.
    fn mark(&mut self, paths: &[Vec<Arc>], is_used: bool) {
        for (path, side) in paths.iter().zip([FIRST, SECOND]) {
            for (position, arc) in path.iter().enumerate() {
                let pair = self.nodes + arc.index();
                self.flow[pair] = is_used;
                let side = match is_used {
                    true if position + 1 == path.len() => END,
                    true => side,
                    false => OUTSIDE,
                };
                self.side[self.heads[2 * pair] as usize / 2] = side;
                if position == 0 {
                    let tail = self.heads[2 * pair + 1] as usize / 2;
                    self.side[tail] = if is_used { END } else { OUTSIDE };
                }
            }
        }
    }

    /// The potential of a vertex, with the estimate of its distance.
    fn level(&mut self, vertex: u32) -> i64 {
        self.potential[vertex as usize] - self.landmarks.estimate(vertex / 2)
    }

    /// The arc of an edge.
    fn arc_of(&self, edge: u32) -> Option<Arc> {
        let arc = (edge as usize / 2).checked_sub(self.nodes)?;
        Some(Arc(arc as u32))
    }

    fn edges_of(&self, vertex: u32) -> std::ops::Range<usize> {
        self.starts[vertex as usize] as usize..self.starts[vertex as usize + 1] as usize
    }

    /// The tight arcs of paths between two nodes; `None` if they are only those of a pair, which has this number of arcs.
    fn tight_arcs(
        &mut self,
        from: u32,
        to: u32,
        available: Availability<'_>,
        own: usize,
    ) -> Option<TightArcs> {
        let mut nodes = vec![(i64::MAX, to)];
        let mut arcs: Vec<(u32, Arc, u32)> = Vec::with_capacity(own);
        let first = self.level(2 * from + 1);
        self.rank[to as usize] = 0;
        let mut next = 0;
        while let Some(&(_, node)) = nodes.get(next) {
            next += 1;
            if node == from {
                continue;
            }
            let level = self.level(2 * node);
            for position in self.edges_of(2 * node) {
                // The arcs that enter the node are those of the reverse edges that leave it.
                let edge = self.edges[position];
                let Some(arc) = self.arc_of(edge).filter(|_| edge % 2 == 1) else { continue };
                let tail = self.heads[edge as usize];
                let tail_level = self.level(tail);
                let is_tight = self.costs[edge as usize ^ 1] + tail_level <= level;
                if !is_tight || tail_level < first || available.room[arc.index()] < available.rate {
                    continue;
                }
                let tail_node = tail / 2;
                let mut entered = i64::MIN;
                if tail_node != from {
                    entered = self.level(tail - 1);
                    let is_tight = first < entered && entered <= tail_level;
                    if !is_tight || tail_node == to || !available.transit[tail_node as usize] {
                        continue;
                    }
                }
                arcs.push((tail_node, arc, node));
                if self.rank[tail_node as usize] == NONE {
                    self.rank[tail_node as usize] = 0;
                    nodes.push((entered, tail_node));
                }
            }
        }
        let has_alternative = arcs.len() > own && self.has_alternative(&arcs);
        let tight = has_alternative.then(|| self.in_order(&mut nodes, &arcs));
        nodes.iter().for_each(|(_, node)| self.rank[*node as usize] = NONE);
        tight
    }

    /// Whether further tight arcs can be of another pair. All of them leading from one path to the other cannot: no arc
    /// leads back.
    fn has_alternative(&self, arcs: &[(u32, Arc, u32)]) -> bool {
        let mut is_crossed = [false; 2];
        arcs.iter().filter(|(_, arc, _)| !self.flow[self.nodes + arc.index()]).any(|arc| {
            match [arc.0, arc.2].map(|node| self.side[node as usize]) {
                [OUTSIDE, _] => false,
                [FIRST, SECOND] => {
                    is_crossed[0] = true;
                    is_crossed[1]
                }
                [SECOND, FIRST] => {
                    is_crossed[1] = true;
                    is_crossed[0]
                }
                _ => true,
            }
        })
    }

    /// Arcs by nodes in the order of their potentials, without those to which no tight arcs lead.
    fn in_order(&mut self, nodes: &mut [(i64, u32)], arcs: &[(u32, Arc, u32)]) -> TightArcs {
        nodes.sort_unstable();
        for (rank, (_, node)) in (0..).zip(&*nodes) {
            self.rank[*node as usize] = rank;
        }
        let mut leaving = vec![Vec::new(); nodes.len()];
        for (tail, arc, head) in arcs {
            leaving[self.rank[*tail as usize] as usize].push((*arc, self.rank[*head as usize]));
        }
        let mut is_reached = vec![false; nodes.len()];
        is_reached[0] = true;
        for node in 0..nodes.len() {
            match is_reached[node] {
                true => {
                    leaving[node].iter().for_each(|(_, head)| is_reached[*head as usize] = true);
                }
                false => leaving[node].clear(),
            }
        }
        TightArcs { leaving }
    }

    /// The pair of least sum with the least difference; `None` if there is one only, which has `own` arcs, or beyond the budget.
    fn balance(
        &mut self,
        [from, to]: [u32; 2],
        available: Availability<'_>,
        delays: &[u64],
        own: usize,
    ) -> Option<[Vec<Arc>; 2]> {
        let tight = self.tight_arcs(from, to, available, own)?;
        let (pairs, ends) = (Vec::new(), BTreeMap::new());
        PairSearch { graph: self, delays, pairs, ends, comparisons: 0 }.run(&tight)
    }
}

impl PairSearch<'_> {
    fn run(mut self, tight: &TightArcs) -> Option<[Vec<Arc>; 2]> {
        let first = &tight.leaving[0];
        for (number, &(arc, head)) in first.iter().enumerate() {
            // The second path is still at the talker.
            let difference = -(self.delays[arc.index()] as i64);
            let before = self.pairs.len() as u32;
            self.pairs.push(PartialPair { before: NONE, arc, is_swapped: true, difference });
            for &(second, other) in &first[number + 1..] {
                self.extend(before, self.graph.cost(arc), (second, other), head, tight);
            }
        }
        while let Some(((low, high), ends)) = self.ends.pop_first() {
            let difference = |pair: &u32| self.pairs[*pair as usize].difference.abs();
            if low == high {
                let best = ends.pairs.iter().copied().min_by_key(difference)?;
                return Some(self.paths(best));
            }
            for pair in ends.pairs {
                if self.comparisons > COMPARISONS {
                    return None;
                }
                for &next in &tight.leaving[low as usize] {
                    self.extend(pair, ends.cost, next, high, tight);
                }
            }
            if self.pairs.len() > BUDGET {
                return None;
            }
        }
        None
    }

    /// Extends the lower path of a pair by an arc; `other` is the last node of the other path.
    fn extend(
        &mut self,
        before: u32,
        cost: u64,
        (arc, head): (Arc, u32),
        other: u32,
        tight: &TightArcs,
    ) {
        if head == other && head as usize != tight.leaving.len() - 1 {
            return;
        }
        let is_swapped = other < head;
        let own = self.pairs[before as usize].difference + self.delays[arc.index()] as i64;
        let difference = if is_swapped { -own } else { own };
        let cost = cost + self.graph.cost(arc);
        let ends = self.ends.entry((head.min(other), head.max(other))).or_default();
        self.comparisons += 1 + ends.pairs.len();
        let is_known = |pair: &u32| self.pairs[*pair as usize].difference == difference;
        if ends.pairs.is_empty() || cost < ends.cost {
            ends.pairs.clear();
            ends.cost = cost;
        } else if cost > ends.cost || ends.pairs.iter().any(is_known) {
            return;
        }
        ends.pairs.push(self.pairs.len() as u32);
        self.pairs.push(PartialPair { before, arc, is_swapped, difference });
    }

    /// The paths of a pair.
    fn paths(&self, pair: u32) -> [Vec<Arc>; 2] {
        let mut paths = [Vec::new(), Vec::new()];
        let (mut next, mut lower) = (pair, 0);
        while let Some(pair) = self.pairs.get(next as usize) {
            // The path that was extended was the lower one.
            lower ^= usize::from(pair.is_swapped);
            paths[lower].push(pair.arc);
            next = pair.before;
        }
        paths.iter_mut().for_each(|path| path.reverse());
        paths
    }
}

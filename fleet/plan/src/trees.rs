//! Two trees from a talker to many listeners: the paths to each listener share no node and no link.
//!
//! Itai and Rodeh (1988): in an st-numbering of a biconnected graph each node has a lower and a higher neighbor. One tree
//! ascends from the talker, the other starts at the last node and descends, so that their paths to a node use lower and
//! higher numbers. Listeners that are no relays are attached to two nodes in that order. Relays that one node separates from
//! the talker are reached through that node, by both trees.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::graph::{Availability, Graph};
use crate::network::{Arc, Network};

/// The paths to a listener: two disjoint ones, or fewer if no pair exists.
pub type ListenerTrees = Vec<Vec<Arc>>;

const NONE: u32 = u32::MAX;

/// Finds the paths to each listener, in their order.
#[must_use]
pub fn find(
    network: &Network,
    graph: &Graph,
    talker: u32,
    listeners: &[u32],
    available: Availability<'_>,
) -> Vec<ListenerTrees> {
    let mut trees = Trees::new(network, graph, talker, available);
    trees.search();
    trees.number();
    trees.ascend();
    trees.descend();
    trees.extend();
    listeners.iter().map(|listener| trees.paths(*listener)).collect()
}

struct Trees<'a> {
    network: &'a Network,
    graph: &'a Graph,
    talker: u32,
    available: Availability<'a>,
    leaving: Vec<Vec<Arc>>,
    preorder: Vec<u32>,
    number: Vec<u32>,
    /// Node of the smallest preorder number that a subtree reaches by one further link.
    low: Vec<u32>,
    parent: Vec<u32>,
    /// The child of the talker whose block contains the node.
    block: Vec<u32>,
    /// st-numbers, and nodes by them; blocks follow one another.
    order: Vec<u32>,
    sequence: Vec<u32>,
    /// The arc by which each tree enters a node, and the cost up to there.
    ascending: Vec<Option<(u64, Arc)>>,
    descending: Vec<Option<(u64, Arc)>>,
    /// The node of a block through which all paths to a node outside lead; the node itself in a block.
    anchor: Vec<u32>,
    /// The arc of the shortest path from the anchor, and the cost from there.
    beyond: Vec<Option<(u64, Arc)>>,
}

impl<'a> Trees<'a> {
    fn new(
        network: &'a Network,
        graph: &'a Graph,
        talker: u32,
        available: Availability<'a>,
    ) -> Self {
        let nodes = network.nodes.len();
        let mut leaving = vec![Vec::new(); nodes];
        for arc in network.arcs() {
            leaving[network.ends(arc).0 as usize].push(arc);
        }
        Self {
            network,
            graph,
            talker,
            available,
            leaving,
            preorder: Vec::new(),
            number: vec![NONE; nodes],
            low: vec![NONE; nodes],
            parent: vec![NONE; nodes],
            block: vec![NONE; nodes],
            order: vec![NONE; nodes],
            sequence: Vec::new(),
            ascending: vec![None; nodes],
            descending: vec![None; nodes],
            anchor: vec![NONE; nodes],
            beyond: vec![None; nodes],
        }
    }

    fn has_room(&self, arc: Arc) -> bool {
        self.available.room[arc.index()] >= self.available.rate
    }

    /// Whether a link joins nodes of the trees: relays, with room in both directions.
    fn joins(&self, arc: Arc) -> bool {
        let head = self.network.ends(arc).1;
        let inner = head == self.talker || self.available.transit[head as usize];
        inner && self.has_room(arc) && self.has_room(arc.reverse())
    }

    fn head(&self, arc: Arc) -> u32 {
        self.network.ends(arc).1
    }

    /// Depth-first search from the talker: preorder, low points and blocks.
    fn search(&mut self) {
        let root = self.talker;
        let mut stack = vec![(root, 0)];
        self.visit(root, NONE);
        while let Some((node, next)) = stack.pop() {
            let Some(&arc) = self.leaving[node as usize].get(next) else {
                let parent = self.parent[node as usize];
                if parent != NONE {
                    self.lower(parent, self.low[node as usize]);
                }
                continue;
            };
            stack.push((node, next + 1));
            if !self.joins(arc) {
                continue;
            }
            let head = self.head(arc);
            if self.number[head as usize] == NONE {
                self.visit(head, node);
                stack.push((head, 0));
            } else if head != self.parent[node as usize] {
                self.lower(node, head);
            }
        }
        for index in 1..self.preorder.len() {
            let node = self.preorder[index];
            let parent = self.parent[node as usize];
            let reaches_above =
                self.number[self.low[node as usize] as usize] < self.number[parent as usize];
            self.block[node as usize] = if parent == root {
                node
            } else if reaches_above {
                self.block[parent as usize]
            } else {
                NONE
            };
            let is_inside = self.block[node as usize] != NONE;
            self.anchor[node as usize] =
                if is_inside { node } else { self.anchor[parent as usize] };
        }
        self.anchor[root as usize] = root;
    }

    fn visit(&mut self, node: u32, parent: u32) {
        self.number[node as usize] = self.preorder.len() as u32;
        self.low[node as usize] = node;
        self.parent[node as usize] = parent;
        self.preorder.push(node);
    }

    fn lower(&mut self, node: u32, to: u32) {
        let low = &mut self.low[node as usize];
        if self.number[to as usize] < self.number[*low as usize] {
            *low = to;
        }
    }

    /// st-numbers of each block of the talker, from the talker to its child (Tarjan 1986).
    fn number(&mut self) {
        // Doubly linked lists, one for each block, each between the talker (NONE) and the child.
        let nodes = self.network.nodes.len();
        let (mut before, mut after) = (vec![NONE; nodes], vec![NONE; nodes]);
        let mut is_minus = vec![false; nodes];
        let mut first = vec![NONE; nodes];
        is_minus[self.talker as usize] = true;
        for index in 1..self.preorder.len() {
            let node = self.preorder[index];
            let block = self.block[node as usize];
            if block == NONE {
                continue;
            }
            if block == node {
                first[node as usize] = node;
                continue;
            }
            let parent = self.parent[node as usize];
            let goes_before = is_minus[self.low[node as usize] as usize];
            let (left, right) = match goes_before {
                true => (before[parent as usize], parent),
                false => (parent, after[parent as usize]),
            };
            is_minus[parent as usize] = !goes_before;
            before[node as usize] = left;
            after[node as usize] = right;
            match left {
                NONE => first[block as usize] = node,
                left => after[left as usize] = node,
            }
            if right != NONE {
                before[right as usize] = node;
            }
        }
        self.order[self.talker as usize] = 0;
        for start in first.into_iter().filter(|start| *start != NONE) {
            let mut node = start;
            while node != NONE {
                self.sequence.push(node);
                self.order[node as usize] = self.sequence.len() as u32;
                node = after[node as usize];
            }
        }
    }

    /// The cheapest of the arcs into a node from nodes that a tree has reached.
    fn entry(
        &self,
        node: u32,
        reached: impl Fn(u32) -> Option<u64>,
        excluded: Option<usize>,
    ) -> Option<(u64, Arc)> {
        let entering = self.leaving[node as usize].iter().map(|arc| arc.reverse());
        let costs = entering.filter_map(|arc| {
            let usable = Some(arc.link()) != excluded && self.joins(arc);
            let so_far = usable.then(|| reached(self.network.ends(arc).0)).flatten()?;
            Some((so_far + self.graph.cost(arc), arc))
        });
        costs.min()
    }

    fn same_block(&self, a: u32, b: u32) -> bool {
        self.block[a as usize] == self.block[b as usize]
    }

    /// The arc from the talker to the last node of its block, with which the descending tree starts.
    fn first_descent(&self, last: u32) -> Option<(u64, Arc)> {
        let talker = self.talker;
        self.entry(last, |node| (node == talker).then_some(0), None)
    }

    fn ascend(&mut self) {
        for index in 0..self.sequence.len() {
            let node = self.sequence[index];
            let is_last = self.block[node as usize] == node;
            let excluded = is_last.then(|| self.first_descent(node)).flatten();
            let reached = |from: u32| {
                if from == self.talker {
                    return Some(0);
                }
                let is_lower = self.order[from as usize] < self.order[node as usize];
                let (cost, _) = self.ascending[from as usize]?;
                (is_lower && self.same_block(from, node)).then_some(cost)
            };
            self.ascending[node as usize] =
                self.entry(node, reached, excluded.map(|(_, arc)| arc.link()));
        }
    }

    fn descend(&mut self) {
        for index in (0..self.sequence.len()).rev() {
            let node = self.sequence[index];
            let reached = |from: u32| {
                let (cost, _) = self.descending[from as usize]?;
                let is_higher = self.order[from as usize] > self.order[node as usize];
                (is_higher && self.same_block(from, node)).then_some(cost)
            };
            self.descending[node as usize] = match self.block[node as usize] == node {
                true => self.first_descent(node),
                false => self.entry(node, reached, None),
            };
        }
    }

    /// Shortest paths from the anchors to the nodes outside of the talker's blocks.
    fn extend(&mut self) {
        let mut heap = BinaryHeap::new();
        let inside = self.sequence.iter().copied().chain([self.talker]);
        heap.extend(inside.map(|node| Reverse((0, node))));
        while let Some(Reverse((so_far, node))) = heap.pop() {
            if self.beyond[node as usize].is_some_and(|(cost, _)| cost < so_far) {
                continue;
            }
            for index in 0..self.leaving[node as usize].len() {
                let arc = self.leaving[node as usize][index];
                let head = self.head(arc) as usize;
                let is_outside = self.block[head] == NONE
                    && head as u32 != self.talker
                    && self.anchor[head] == self.anchor[node as usize];
                let through = so_far + self.graph.cost(arc);
                let is_shorter = self.beyond[head].is_none_or(|(cost, _)| through < cost);
                if is_outside && is_shorter && self.joins(arc) {
                    self.beyond[head] = Some((through, arc));
                    heap.push(Reverse((through, head as u32)));
                }
            }
        }
    }

    fn paths(&self, listener: u32) -> ListenerTrees {
        if self.block[listener as usize] != NONE {
            let paths = [&self.ascending, &self.descending];
            let found = paths
                .map(|tree| tree[listener as usize].is_some().then(|| self.path(tree, listener)));
            return found.into_iter().flatten().collect();
        }
        self.attach(listener)
    }

    fn path(&self, tree: &[Option<(u64, Arc)>], to: u32) -> Vec<Arc> {
        let mut path = Vec::new();
        let mut node = to;
        while node != self.talker {
            let entry = self.beyond[node as usize].or(tree[node as usize]);
            let Some((_, arc)) = entry else { break };
            path.push(arc);
            node = self.network.ends(arc).0;
        }
        path.reverse();
        path
    }

    /// Attaches a listener that is no relay of the talker's blocks.
    fn attach(&self, listener: u32) -> ListenerTrees {
        let entering = self.leaving[listener as usize].iter().map(|arc| arc.reverse());
        let entering: Vec<Arc> = entering.filter(|arc| self.has_room(*arc)).collect();
        let cost = |tree: &[Option<(u64, Arc)>], arc: Arc| {
            let from = self.network.ends(arc).0;
            let anchor = self.anchor[from as usize];
            let outside = self.beyond[from as usize].map_or(0, |(cost, _)| cost);
            let last = outside + self.graph.cost(arc);
            if anchor == self.talker {
                return Some(last);
            }
            Some(tree.get(anchor as usize).copied().flatten()?.0 + last)
        };
        let mut best: Option<(u64, Arc, Arc)> = None;
        for &up in &entering {
            for &down in entering.iter().filter(|down| down.link() != up.link()) {
                let anchor = |arc| self.anchor[self.network.ends(arc).0 as usize];
                let (a, b) = (anchor(up), anchor(down));
                if a == NONE || b == NONE {
                    continue;
                }
                let is_ordered = a == self.talker
                    || b == self.talker
                    || !self.same_block(a, b)
                    || self.order[a as usize] < self.order[b as usize];
                let costs = (cost(&self.ascending, up), cost(&self.descending, down));
                let (true, (Some(first), Some(second))) = (is_ordered, costs) else { continue };
                if best.is_none_or(|(sum, ..)| first + second < sum) {
                    best = Some((first + second, up, down));
                }
            }
        }
        let extend = |tree: &[Option<(u64, Arc)>], arc: Arc| {
            let mut path = self.path(tree, self.network.ends(arc).0);
            path.push(arc);
            path
        };
        if let Some((_, up, down)) = best {
            return vec![extend(&self.ascending, up), extend(&self.descending, down)];
        }
        Vec::new()
    }
}

//! The order in which the frames of a stream pass its arcs, where copies may change paths.

use crate::network::{Arc, Network};
use crate::route::Route;

const NONE: u32 = u32::MAX;

/// The arcs of a route, each behind all arcs from which frames can come to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Passage {
    arcs: Vec<PassedArc>,
}

#[derive(Debug, Clone, Copy)]
struct PassedArc {
    arc: Arc,
    /// Position of an arc before it.
    before: u32,
    /// Position of a further arc that enters the same node as this one.
    beside: u32,
}

/// A node while its arcs are ordered.
struct PassedNode {
    node: u32,
    /// Arcs that enter it and have no position yet.
    missing: usize,
    leaving: std::ops::Range<usize>,
    /// Position of an arc that enters it.
    entered: u32,
}

impl Passage {
    /// `None`: paths use nodes in different order, so that arcs form a cycle.
    pub(crate) fn new(network: &Network, route: &Route) -> Option<Self> {
        // Each arc as node, node, arc, in the order of the nodes that they leave.
        let mut hops: Vec<(u32, u32, Arc)> = Vec::new();
        for arc in route.paths().flatten() {
            let (from, to) = network.ends(*arc);
            hops.push((from, to, *arc));
        }
        hops.sort_unstable();
        hops.dedup();
        let mut nodes: Vec<PassedNode> = Vec::with_capacity(hops.len() + 1);
        let mut heads: Vec<(u32, usize)> = hops.iter().map(|hop| (hop.1, 1)).collect();
        heads.extend(hops.iter().map(|hop| (hop.0, 0)));
        heads.sort_unstable();
        let mut first = 0;
        for of_node in heads.chunk_by(|a, b| a.0 == b.0) {
            let node = of_node[0].0;
            let missing = of_node.iter().map(|(_, enters)| enters).sum();
            let end = first + (of_node.len() - missing);
            nodes.push(PassedNode { node, missing, leaving: first..end, entered: NONE });
            first = end;
        }
        let mut open: Vec<usize> = (0..nodes.len()).filter(|n| nodes[*n].missing == 0).collect();
        let mut passage = Self { arcs: Vec::with_capacity(hops.len()) };
        while let Some(at) = open.pop() {
            let before = nodes[at].entered;
            for (_, to, arc) in &hops[nodes[at].leaving.clone()] {
                let head = nodes.binary_search_by_key(to, |node| node.node).expect("its node");
                let head_node = &mut nodes[head];
                let position = passage.arcs.len() as u32;
                let beside = std::mem::replace(&mut head_node.entered, position);
                passage.arcs.push(PassedArc { arc: *arc, before, beside });
                head_node.missing -= 1;
                if head_node.missing == 0 {
                    open.push(head);
                }
            }
        }
        (passage.arcs.len() == hops.len()).then_some(passage)
    }

    /// The arcs, in this order.
    pub(crate) fn arcs(&self) -> impl Iterator<Item = Arc> {
        self.arcs.iter().map(|passed| passed.arc)
    }

    /// Positions of the arcs from which frames come to an arc.
    pub(crate) fn before(&self, position: usize) -> impl Iterator<Item = usize> {
        let index = |position: u32| (position != NONE).then_some(position as usize);
        let first = index(self.arcs[position].before);
        std::iter::successors(first, move |before| index(self.arcs[*before].beside))
    }

    /// The earliest and the latest time at the end of each arc, by the shortest and the longest time of an arc.
    pub(crate) fn times(
        &self,
        shortest: impl Fn(Arc) -> u64,
        longest: impl Fn(Arc) -> u64,
    ) -> Vec<(Arc, u64, u64)> {
        let mut times: Vec<(Arc, u64, u64)> = Vec::with_capacity(self.arcs.len());
        for (position, PassedArc { arc, .. }) in self.arcs.iter().enumerate() {
            let before = self.before(position).map(|before| (times[before].1, times[before].2));
            let joined = before.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
            let (early, late) = joined.unwrap_or_default();
            times.push((*arc, early + shortest(*arc), late + longest(*arc)));
        }
        times
    }
}

//! Blocks of a network (Hopcroft and Tarjan 1973): the largest parts that no single node separates. Two nodes have disjoint
//! paths only within a block; all paths between nodes of different blocks share the nodes where blocks meet.

use crate::network::Network;

const NONE: u32 = u32::MAX;

/// The blocks of a network, as a tree.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// The block of each node towards the root of its piece.
    block: Vec<u32>,
    /// Number of blocks up to there.
    depth: Vec<u32>,
    /// The node of each block that is the nearest to the root.
    top: Vec<u32>,
    /// Number of links of each block.
    links: Vec<u32>,
}

/// Two nodes of a block, through which all paths lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockPassage {
    pub from: u32,
    pub to: u32,
    /// The block is a single link.
    pub is_bridge: bool,
}

impl Blocks {
    pub(crate) fn new(network: &Network) -> Self {
        let nodes = network.nodes.len();
        let mut leaving = vec![Vec::new(); nodes];
        for arc in network.arcs() {
            let (from, to) = network.ends(arc);
            leaving[from as usize].push((to, arc.link()));
        }
        let mut blocks = Self {
            block: vec![NONE; nodes],
            depth: vec![0; nodes],
            top: Vec::new(),
            links: Vec::new(),
        };
        let (mut number, mut low) = (vec![NONE; nodes], vec![NONE; nodes]);
        let mut count = 0;
        // Nodes that have no block yet, in the order of the search.
        let mut open = Vec::new();
        for root in 0..nodes as u32 {
            if number[root as usize] != NONE {
                continue;
            }
            // Each with the link by which it was reached, and the next link to try.
            let mut stack = vec![(root, usize::MAX, 0)];
            while let Some((node, by, next)) = stack.pop() {
                let at = node as usize;
                if next == 0 {
                    (number[at], low[at]) = (count, count);
                    count += 1;
                    open.push(node);
                }
                if let Some(&(head, link)) = leaving[at].get(next) {
                    stack.push((node, by, next + 1));
                    if number[head as usize] == NONE {
                        stack.push((head, link, 0));
                    } else if link != by {
                        low[at] = low[at].min(number[head as usize]);
                    }
                    continue;
                }
                let Some(&(parent, ..)) = stack.last() else {
                    open.clear();
                    continue;
                };
                low[parent as usize] = low[parent as usize].min(low[at]);
                if low[at] < number[parent as usize] {
                    continue;
                }
                let block = blocks.top.len() as u32;
                blocks.top.push(parent);
                while let Some(inner) = open.pop() {
                    blocks.block[inner as usize] = block;
                    if inner == node {
                        break;
                    }
                }
            }
        }
        blocks.links = vec![0; blocks.top.len()];
        for link in &network.links {
            let [a, b] = link.ends.map(|end| end.node);
            if let Some(block) = blocks.common(a, b) {
                blocks.links[block as usize] += 1;
            }
        }
        // The node nearer to the root has the lower number.
        let mut order: Vec<usize> = (0..nodes).collect();
        order.sort_unstable_by_key(|node| number[*node]);
        for node in order {
            if let Some(&top) = blocks.top.get(blocks.block[node] as usize) {
                blocks.depth[node] = blocks.depth[top as usize] + 1;
            }
        }
        blocks
    }

    fn top(&self, node: u32) -> Option<u32> {
        self.top.get(self.block[node as usize] as usize).copied()
    }

    /// The block of two nodes.
    fn common(&self, a: u32, b: u32) -> Option<u32> {
        let [of_a, of_b] = [a, b].map(|node| self.block[node as usize]);
        match () {
            () if self.top(b) == Some(a) => Some(of_b),
            () if self.top(a) == Some(b) || of_a == of_b && of_a != NONE => Some(of_a),
            () => None,
        }
    }

    /// The blocks through which all paths between two nodes lead; `None`: no paths exist.
    pub(crate) fn between(&self, from: u32, to: u32) -> Option<Vec<BlockPassage>> {
        let (mut first, mut last) = (vec![from], vec![to]);
        let (mut a, mut b) = (from, to);
        while a != b && self.common(a, b).is_none() {
            let is_first = self.depth[a as usize] >= self.depth[b as usize];
            let (node, side) = if is_first { (&mut a, &mut first) } else { (&mut b, &mut last) };
            *node = self.top(*node)?;
            side.push(*node);
        }
        last.reverse();
        first.extend(last);
        first.dedup();
        let passage = |two: &[u32]| {
            let block = self.common(two[0], two[1])?;
            let is_bridge = self.links[block as usize] == 1;
            Some(BlockPassage { from: two[0], to: two[1], is_bridge })
        };
        first.windows(2).map(passage).collect()
    }

    /// Whether two nodes have disjoint paths, if all nodes and links can be used.
    pub(crate) fn has_pair(&self, from: u32, to: u32) -> bool {
        self.common(from, to).is_some_and(|block| self.links[block as usize] > 1)
    }
}
